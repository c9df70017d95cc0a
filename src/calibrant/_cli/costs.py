"""Files of costs: a table with a row for each true class, or JSON; numbers, or columns of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.reading import path_argument

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

costs_option = click.option(
    "--costs",
    type=path_argument,
    help="Costs of decisions: CSV with a row for each true class and a column for each action, or "
    'JSON {"false_positive": 1, "false_negative": 20}. A name in place of a number is a column of '
    "FILE, for costs that differ by row.",
)


class CostFile:
    """Costs of decisions: a list or an object of JSON, or a data frame; names are columns."""

    def __init__(self, path: Path) -> None:
        import pandas as pd

        from calibrant.errors import PredictionFileError

        self.path = path
        self._costs: Any
        try:
            if path.suffix.lower() == ".json":
                self._costs = json.loads(path.read_text(encoding="utf-8"))
            else:
                self._costs = pd.read_csv(path, index_col=0, dtype={0: str})
        except (ValueError, RecursionError) as error:
            raise PredictionFileError(
                f"{path} is neither CSV with a row for each true class and a column for each "
                f"action, nor JSON: {error}"
            ) from error

    @property
    def beside(self) -> dict[str, str]:
        """Columns of the rows that hold costs; a sign may stand before their names."""
        from calibrant._files.columns import is_number

        texts = [cell.strip() for cell in self._cells() if isinstance(cell, str)]
        return {text.removeprefix("-"): "--costs" for text in texts if not is_number(text)}

    def _cells(self) -> list[Any]:
        """Return the costs of each class and action, or of each mistake."""
        costs = self._costs
        if isinstance(costs, dict):
            return [*costs.values()]
        rows = costs.to_numpy().tolist() if hasattr(costs, "to_numpy") else costs
        rows = rows if isinstance(rows, list) else []
        return [cell for row in rows for cell in (row if isinstance(row, list) else [row])]

    def read(
        self,
        classes: list[Any] | None,
        positive: str | None,
        *,
        is_single: bool,
        beside: Mapping[str, Any] | None = None,
        rows: Path | None = None,
    ) -> Any:
        """Return a ``CostTable`` for these classes, or costs as they are if nobody knows them.

        The last class is positive if there ``is_single`` column of scores. ``beside`` are the
        columns of the file of ``rows`` that are decided.
        """
        import numpy as np

        from calibrant.decisions import read_costs
        from calibrant.errors import ParameterError

        if self.beside and (beside is None or classes is None):
            raise ParameterError(
                f"{next(iter(self.beside))!r} is no number, and costs that name a column are for "
                "decide and evaluate, with known classes"
            )
        if classes is None:
            return self._costs
        known = np.asarray(classes)
        by_text = {str(label): label for label in classes}
        if isinstance(self._costs, dict):
            pos_label = _positive_of(known, positive, is_single=is_single)
            costs = {name: _cost_of(cell, beside, rows) for name, cell in self._costs.items()}
            return read_costs(costs, known, pos_label=pos_label, is_ordered=True)
        if not self.beside:
            if hasattr(self._costs, "index"):
                self._costs.index = [by_text.get(str(own), own) for own in self._costs.index]
            return read_costs(self._costs, known)
        # Places among the numbers take the way that costs take; where they end up is known then.
        numbers = [_cost_of(cell, beside, rows) for cell in self._cells()]
        places = np.arange(len(numbers)).reshape(len(self._costs), -1)
        if hasattr(self._costs, "index"):
            places = self._costs.astype(object).assign(
                **dict(zip(self._costs.columns, places.T, strict=True))
            )
            places.index = [by_text.get(str(own), own) for own in places.index]
        table = read_costs(places, known)
        n_rows = max(len(own) for own in numbers if np.ndim(own))
        stacked = np.stack([np.broadcast_to(own, n_rows) for own in numbers], axis=1)
        return table._replace(matrix=stacked[:, table.matrix.astype(np.int64)])


def _cost_of(cell: Any, beside: Mapping[str, Any] | None, rows: Path | None) -> Any:
    """Return a number, or the numbers of a column of the rows."""
    from calibrant._files.columns import is_number
    from calibrant._files.values import costs_of

    if beside is None or not isinstance(cell, str):
        return cell
    text = cell.strip()
    if is_number(text):
        return float(text)
    name = text.removeprefix("-")
    column = costs_of(beside[name], rows, name)
    return column if name == text else -column


def _positive_of(classes: Any, positive: str | None, *, is_single: bool) -> Any:
    """Return the positive class of named costs.

    In files the classes of columns are always told, which does not tell the positive one.
    """
    from calibrant._gate import tells_positive
    from calibrant.errors import ParameterError, some_in_words

    by_text = {str(label): label for label in classes.tolist()}
    is_known = is_single or len(classes) != 2 or tells_positive(classes)
    if (positive is None and not is_known) or (positive is not None and positive not in by_text):
        wrong = "the positive one is not known" if positive is None else f"{positive!r} is not one"
        raise ParameterError(
            "costs are 'false_positive' and 'false_negative', but of the classes "
            f"{some_in_words(classes)} {wrong}; name the positive class with --positive, or write "
            "the costs as CSV with a named row for each true class and a column for each action"
        )
    return None if positive is None else by_text[positive]
