"""Files of costs: a table with a row for each true class, or JSON with two mistakes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from calibrant._cli.showing import naming

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant.decisions._cost_tables import CostTable


def read_cost_file(
    path: Path, classes: list[Any] | None, positive: str | None, *, is_single: bool
) -> CostTable:
    """Return the costs of a file for these classes.

    The last class is positive if there ``is_single`` column of scores.
    """
    import numpy as np

    from calibrant.decisions import read_costs
    from calibrant.errors import ParameterError

    costs = _read(path)
    with naming(path):
        if classes is None:
            raise ParameterError("the classes are not known; name them with --classes")
        known = np.asarray(classes)
        by_text = {str(label): label for label in classes}
        if isinstance(costs, dict):
            _check_positive(known, positive, is_single=is_single)
            pos_label = None if positive is None else by_text[positive]
            return read_costs(costs, known, pos_label=pos_label, is_ordered=True)
        costs.index = [by_text.get(str(name), name) for name in costs.index]
        return read_costs(costs, known)


def _read(path: Path) -> Any:
    """Return a data frame of costs, or an object of JSON; all costs are numbers."""
    import pandas as pd

    from calibrant.errors import PredictionFileError

    try:
        if path.suffix.lower() == ".json":
            costs = json.loads(path.read_text(encoding="utf-8"))
            cells = [*costs.values()]
        else:
            costs = pd.read_csv(path, index_col=0, dtype={0: str})
            cells = costs.to_numpy().ravel().tolist()
    except (ValueError, RecursionError, AttributeError) as error:
        raise PredictionFileError(
            f"{path} is neither CSV with a row for each true class and a column for each "
            f'action, nor JSON {{"false_positive": 1, "false_negative": 20}}: {error}'
        ) from error
    for cell in cells:
        if not isinstance(cell, int | float):
            raise PredictionFileError(
                f"{path}: {cell!r} is not a number; costs that differ by row are for "
                "calibrant.decisions in Python"
            )
    return costs


def _check_positive(classes: NDArray[Any], positive: str | None, *, is_single: bool) -> None:
    """Refuse named costs if their positive class is not known.

    In files the classes of columns are always known, which does not tell the positive one.
    """
    from calibrant._gate import tells_positive
    from calibrant.errors import ParameterError, some_in_words

    is_known = is_single or len(classes) != 2 or tells_positive(classes)
    texts = [*map(str, classes.tolist())]
    if (positive is None and not is_known) or (positive is not None and positive not in texts):
        wrong = "the positive one is not known" if positive is None else f"{positive!r} is not one"
        raise ParameterError(
            "costs are 'false_positive' and 'false_negative', but of the classes "
            f"{some_in_words(classes)} {wrong}; name the positive class with --positive, or write "
            "the costs as CSV with a named row for each true class and a column for each action"
        )
