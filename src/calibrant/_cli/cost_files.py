"""Files of costs: a table with a row for each true class, or JSON; numbers, or columns of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from calibrant.decisions._cost_tables import CostTable


def read_cost_file(
    path: Path,
    classes: Any,
    positive: str | None = None,
    *,
    is_single: bool = False,
    rows_of: Callable[[str], Any] | None = None,
) -> CostTable | Any:
    """Return costs as ``calibrant.decisions`` takes them, with the classes as names of rows.

    The last class is positive if there ``is_single`` column of scores. Costs that differ by row
    name columns, whose numbers ``rows_of`` returns.
    """
    import numpy as np

    from calibrant.decisions._cost_tables import read_costs
    from calibrant.errors import ParameterError

    told = _load_costs(path)
    columns, is_pair = _columns_in(told), isinstance(told, dict)
    numbers: list[Any] = [0.0]
    if columns:
        if rows_of is None or classes is None:
            raise ParameterError(
                f"{columns[0]!r} is no number, and costs that name a column are for decide and "
                "evaluate, with known classes"
            )
        # Places among the numbers take the way that costs take; where they end up is known then.
        told = _with_places(told, numbers, rows_of)
    if isinstance(told, list | dict):
        told = _named_costs(told, classes, positive, is_single=is_single)
    elif classes is not None:
        by_text = {str(label): label for label in classes}
        told.index = [by_text.get(str(name), name) for name in told.index]
    if not columns:
        return told
    table = read_costs(told, np.asarray(classes))
    n_rows = max(len(own) for own in numbers if np.ndim(own))
    stacked = np.stack([np.broadcast_to(own, n_rows) for own in numbers], axis=1)
    if is_pair and stacked.min() < 0.0:
        row = int(np.argmin(stacked.min(axis=1)))
        raise ParameterError(
            f"a mistake in row {row} (from 0) costs {stacked[row].min()}; write numbers that are "
            "not negative"
        )
    return table._replace(matrix=stacked[:, table.matrix.astype(np.int64)])


def _load_costs(path: Path) -> Any:
    """Return a list or an object of JSON, or a data frame."""
    import pandas as pd

    from calibrant.errors import PredictionFileError

    try:
        if path.suffix.lower() == ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        return pd.read_csv(path, index_col=0, dtype={0: str})
    except (ValueError, RecursionError) as error:
        raise PredictionFileError(
            f"{path} is neither CSV with a row for each true class and a column for each action, "
            f"nor JSON: {error}"
        ) from error


def _cells_of(told: Any) -> list[Any]:
    """Return what costs are told for each class and action, or for each mistake."""
    if isinstance(told, dict):
        return [*told.values()]
    rows = told if isinstance(told, list) else told.to_numpy().tolist()
    return [cell for row in rows for cell in (row if isinstance(row, list) else [row])]


def _columns_in(told: Any) -> list[str]:
    """Return the names of columns in place of costs; a sign may stand before them."""
    from calibrant._files.tables import is_number

    cells = _cells_of(told) if isinstance(told, list | dict) or hasattr(told, "to_numpy") else []
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    return [text.removeprefix("-") for text in texts if not is_number(text)]


def cost_columns(path: Path | None) -> list[str]:
    """Return the columns that a file of costs names: they hold no scores."""
    return [] if path is None else _columns_in(_load_costs(path))


def _with_places(told: Any, numbers: list[Any], rows_of: Callable[[str], Any]) -> Any:
    """Return costs with places among ``numbers``, to which it adds them; the first is zero."""
    from calibrant._files.tables import is_number

    def place(cell: Any) -> int:
        text = str(cell).strip()
        name = text.removeprefix("-")
        own: Any = float(text) if is_number(text) else rows_of(name)
        numbers.append(-own if name != text and not is_number(text) else own)
        return len(numbers) - 1

    if isinstance(told, dict):
        return {name: place(cell) for name, cell in told.items()}
    if isinstance(told, list):
        return [[place(cell) for cell in row] for row in told]
    return told.map(place)


def row_costs(path: Path, part: str | None) -> Callable[[str], Any]:
    """Return what reads the costs of each row from a column of a file."""

    def read(name: str) -> Any:
        import numpy as np

        from calibrant._files.column import read_column
        from calibrant.errors import PredictionFileError

        remedy = "--costs names it"
        own = read_column(path, name, remedy, part, as_stored=True)
        is_of_numbers = own.dtype.kind in "iufb"
        bad = ~np.isfinite(own.astype(np.float64)) if is_of_numbers else np.ones(len(own), bool)
        if bad.any():
            row = int(np.argmax(bad))
            raise PredictionFileError(
                f"{path}, row {row} (from 0), column {name!r}: {own[row]!r} is not a cost; write a "
                f"finite number ({remedy})"
            )
        return own.astype(np.float64)

    return read


def _named_costs(told: Any, classes: Any, positive: str | None, *, is_single: bool) -> Any:
    """Return costs of a JSON file; those by name as a table, of which the positive class is known.

    In files the classes of columns are always told, which does not tell the positive one.
    """
    import numpy as np
    import pandas as pd

    from calibrant._one_column import tells_positive
    from calibrant.decisions._cost_tables import read_costs
    from calibrant.errors import ParameterError, some_in_words

    if not isinstance(told, dict) or classes is None:
        return told
    known = np.asarray(classes)
    by_text = {str(label): label for label in known.tolist()}
    is_known = is_single or len(known) != 2 or tells_positive(known)
    if (positive is None and not is_known) or (positive is not None and positive not in by_text):
        wrong = "the positive one is not known" if positive is None else f"{positive!r} is not one"
        raise ParameterError(
            "costs are 'false_positive' and 'false_negative', but of the classes "
            f"{some_in_words(known)} {wrong}; name the positive class with --positive, or write "
            "the costs as CSV with a named row for each true class and a column for each action"
        )
    pos_label = None if positive is None else by_text[positive]
    matrix = read_costs(told, known, pos_label=pos_label, is_told=True).matrix
    return pd.DataFrame(matrix, known.tolist(), known.tolist())
