"""Files of costs: a table with a row for each true class, or JSON with two mistakes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from calibrant._gate import tells_positive
from calibrant.decisions._cost_tables import CostTable, read_costs
from calibrant.errors import LabelError, ParameterError, some_in_words

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._types import Labels


def read_cost_file(
    path: Path, classes: Labels, positive: str | None, *, is_single: bool
) -> CostTable:
    """Return the costs of a file for these classes.

    The last class is positive if there ``is_single`` column of scores. In files the classes of
    columns are always known, which does not tell the positive one.
    """
    costs, pos_label = _read(path), None
    if isinstance(costs, dict):
        by_text = {str(label): label for label in classes.tolist()}
        is_told = is_single or len(classes) != 2 or tells_positive(classes)
        if positive not in by_text and (positive is not None or not is_told):
            wrong = "which of them is positive" if positive is None else f"their class {positive!r}"
            raise ParameterError(
                f"{path}: costs are 'false_positive' and 'false_negative', but the classes "
                f"{some_in_words(classes)} do not tell {wrong}; name the positive class with "
                "--positive, or write the costs as CSV with a named row for each true class"
            )
        pos_label = by_text.get(str(positive), classes[-1] if is_single else None)
    try:
        return read_costs(costs, classes, pos_label=pos_label)
    except (LabelError, ParameterError) as error:
        raise type(error)(f"{path}: {error}") from error


def _read(path: Path) -> Any:
    """Return a data frame of costs, or an object of JSON; all costs are numbers."""
    import pandas as pd

    try:
        if path.suffix.lower() == ".json":
            costs = json.loads(path.read_text(encoding="utf-8"))
            cells = [*costs.values()]
        else:
            costs = pd.read_csv(path, index_col=0, dtype={0: str})
            cells = costs.to_numpy().ravel().tolist()
    except (ValueError, RecursionError, AttributeError) as error:
        raise ParameterError(
            f"{path} is neither CSV with a row for each true class and a column for each "
            f'action, nor JSON {{"false_positive": 1, "false_negative": 20}}: {error}'
        ) from error
    for cell in cells:
        if not isinstance(cell, int | float):
            raise ParameterError(
                f"{path}: {cell!r} is not a number; costs that differ by row are for "
                "calibrant.decisions in Python"
            )
    return costs
