"""Values of rows beside their scores: labels, groups, times and costs, as files store them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files.columns import MISSING
from calibrant._gate import are_whole, key
from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from calibrant._files.source import Source
    from calibrant._files.tables import Place
    from calibrant._gate import FeatureColumn

LABEL_TYPES = {str, bytes, bool, int, float, type(None)}
IS_MISSING = "is missing; fill it, or drop the row"
LONGEST_LABEL = 1024
"""Characters of a label: every row of an array of text is as wide as the longest."""


def read_labels(raw: NDArray[Any], place: Place, *, as_text: bool = False) -> NDArray[Any]:
    """Labels as whole numbers where all of them are, else as they stand.

    In text, and where a label was missing in a table, whole numbers are written ``3.0``.
    """
    if raw.dtype.kind == "f" and np.all(np.isfinite(raw) & (raw == np.floor(raw))):
        raw = raw.astype(np.int64)
    if raw.dtype.kind in "iub":
        return raw.astype(str) if as_text else raw
    kinds = {type(own) for own in raw.tolist()}
    if raw.dtype.kind not in "OUSf" or not kinds <= LABEL_TYPES:
        raise PredictionFileError(
            f"{place.source} has labels of type {raw.dtype.name}, which are neither text nor whole "
            "numbers; name another column (--label-column)"
        )
    texts = _texts(raw.tolist())
    distinct = dict.fromkeys(texts)
    are_numbers = not as_text and (
        raw.dtype.kind == "f" or all(are_whole([t]) or MISSING.fullmatch(t) for t in distinct)
    )
    for text in distinct:
        fault = _fault_of(text)
        if are_numbers and not are_whole([text]):
            is_missing = MISSING.fullmatch(text)
            fault = IS_MISSING if is_missing else f"{text} is not a class; write whole numbers"
        if fault:
            where = place.place("y", texts.index(text))
            raise PredictionFileError(f"{where} {fault} (--label-column)")
    if not are_numbers:
        return np.array(texts, dtype=str)
    whole = {text: int(key(text)) for text in distinct}
    return np.array([whole[text] for text in texts], dtype=np.int64)


def _fault_of(text: str) -> str:
    """Return what is wrong with a label or a group, if anything."""
    if not text.strip():
        return IS_MISSING
    has = f"has {len(text):,} characters; at most {LONGEST_LABEL:,} are allowed"
    return has if len(text) > LONGEST_LABEL else ""


def _texts(values: list[Any]) -> list[str]:
    """Return values as text; what is missing is empty."""
    return [
        "" if own is None or own != own else own.decode() if isinstance(own, bytes) else str(own)  # noqa: PLR0124  (NaN)
        for own in values
    ]


def refuse_unknown(y: NDArray[Any], known: list[Any], place: Place) -> None:
    """Refuse the first label that is not among the classes."""
    classes, labels = np.array(known), y
    if y.dtype.kind == "U" or classes.dtype.kind == "U":
        classes, labels = classes.astype(str), y.astype(str)
    bad = ~np.isin(labels, classes)
    if bad.any():
        i = int(np.argmax(bad))
        raise PredictionFileError(
            f"{place.place('y', i)} {y[i].item()!r} is not among the classes {some(known)}"
        )


def typed(classes: Sequence[str], y: NDArray[Any]) -> list[Any]:
    """Classes as the labels are: whole numbers or text."""
    if y.dtype.kind in "iu" and are_whole(classes):
        return [int(key(c)) for c in classes]
    return list(classes)


def labels_of_archive(y: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Labels of an npz file: whole numbers beside classes of text are places of these.

    So what a label means does not depend on which others are there.
    """
    if y.dtype.kind == "f" and np.all(y == np.floor(y)):
        y = y.astype(np.int64)
    if y.dtype.kind == "b":  # as the classes, whose names are text
        return y.astype(str)
    if y.dtype.kind not in "iu" or are_whole(names):
        return y
    # A place of no class stays a number, which is refused by its row.
    return np.array([names[j] if 0 <= j < len(names) else str(j) for j in y.tolist()], dtype=str)


def labels_of_model(
    raw: NDArray[Any] | None, source: Source, classes: NDArray[Any]
) -> NDArray[Any] | None:
    """Labels as a model has them."""
    if raw is None:
        return None
    return read_labels(raw, source.place, as_text=classes.dtype.kind in "OTU")


def groups_of(column: Any, place: Place, option: str = "--groups") -> NDArray[Any]:
    """Return the group of each row, always as text: no name depends on what else is there."""
    texts = _texts(plain_values(column))
    for text in dict.fromkeys(texts):
        if fault := _fault_of(text):
            where = place.rows([texts.index(text)])
            raise PredictionFileError(f"{where}: the group {fault} ({option})")
    return np.array(texts, dtype=str)


def groups_like(groups: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    """Return groups of a file as those of a model are: numbers, if it was fitted to such."""
    if known.dtype.kind not in "iufb":
        return groups
    by_text = {key(name).casefold(): name for name in known.tolist()}
    other = int(known.max()) + 1  # a group that is not there
    return np.array([by_text.get(key(name).casefold(), other) for name in groups.tolist()])


def values_of(column: Any) -> NDArray[Any]:
    """Return numbers, times or texts; texts of a table are read as the first of these they are."""
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(column, np.ndarray | list):
        return np.asarray(column)
    if pa.types.is_string(column.type):
        missing = [text for text in column.unique().to_pylist() if MISSING.fullmatch(text)]
        known = compute.if_else(compute.is_in(column, pa.array(missing, pa.string())), None, column)
        for kind in (pa.int64(), pa.float64(), pa.timestamp("ns")):
            with suppress(pa.ArrowInvalid):
                return np.asarray(known.cast(kind))
        has_comma = compute.match_substring_regex(known.drop_null(), r"^\s*[+-]?\d*,\d+\s*$")
        if compute.all(has_comma).as_py() and len(has_comma):
            raise PredictionFileError(
                f"the column of {known.drop_null()[0].as_py()!r} has decimal commas; write points"
            )
    return np.asarray(column)


def features_of(
    beside: Mapping[str, Any], names: Iterable[str], known: Sequence[FeatureColumn] = ()
) -> pd.DataFrame:
    """Return columns that stand beside the scores; text where a model was fitted to text."""
    import pandas as pd

    is_text = {column.name for column in known if not column.is_number}
    result: dict[str, Any] = {}
    for name in names:
        result[name] = values_of(beside[name])
        if name in is_text:
            texts = _texts(plain_values(beside[name]))
            result[name] = [text if text.strip() else None for text in texts]
    return pd.DataFrame(result)


def costs_of(column: Any, path: Path | None, name: str) -> NDArray[np.float64]:
    """Return the cost of each row, from a column that a file of costs names."""
    values = values_of(column)
    is_of_numbers = values.dtype.kind in "iufb"
    bad = ~np.isfinite(values.astype(np.float64)) if is_of_numbers else np.ones(len(values), bool)
    if bad.any():
        row = int(np.argmax(bad))
        raise PredictionFileError(
            f"{path}, row {row} (from 0), column {name!r}: {values[row]!r} is not a cost; write a "
            "finite number (--costs names it)"
        )
    return values.astype(np.float64)


def plain_values(column: Any) -> list[Any]:
    """Return the values of a column as Python's."""
    if isinstance(column, list):
        return column
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return values
