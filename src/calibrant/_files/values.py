"""Values of rows beside their scores: labels, groups, times and costs, as files store them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._columns import are_whole, key
from calibrant._files.text import MISSING
from calibrant._simplex import check_memory
from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.text import Place

LONGEST_LABEL = 1024
"""Characters of a label; a model file has no room for longer ones."""


def read_labels(raw: NDArray[Any], place: Place, *, as_text: bool = False) -> NDArray[Any]:
    """Labels as whole numbers where all of them are, else as they stand.

    In text, and where a label was missing in a table, whole numbers are written ``3.0``.
    """
    if raw.dtype.kind == "f":
        _refuse_missing(~np.isfinite(raw), place)
        _refuse_broken(raw != np.floor(raw), place, raw)
        raw = raw.astype(np.int64)
    if raw.dtype.kind not in "OUS":
        return raw.astype(str) if as_text else raw
    found = [t.decode() if isinstance(t, bytes) else str(t) for t in raw.tolist()]
    for i, label in enumerate(found):
        if len(label) > LONGEST_LABEL:  # in an array of text every row would be as wide
            raise PredictionFileError(
                f"{place.label(i)} has {len(label):,} characters; labels have at most "
                f"{LONGEST_LABEL:,} (--label-column)"
            )
    check_memory(4 * len(found) * max(map(len, found), default=0), "the labels")
    text = np.array(found, dtype=str)
    distinct, inverse = np.unique(text, return_inverse=True)
    spoken = [label for label in distinct.tolist() if not MISSING.fullmatch(label)]
    numbers = all(
        re.fullmatch(r"\s*[+-]?[0-9]{1,18}(\.[0-9]*)?\s*", label) is not None for label in spoken
    )
    silent = [MISSING.fullmatch(t) is not None and (numbers or not t.strip()) for t in distinct]
    _refuse_missing(np.array(silent, dtype=bool)[inverse], place)
    if not numbers or as_text:
        return text
    broken = np.array([not are_whole([label]) for label in distinct.tolist()], dtype=bool)
    _refuse_broken(broken[inverse], place, text)
    return np.array([int(key(label)) for label in distinct.tolist()], dtype=np.int64)[inverse]


def _refuse_first(bad: NDArray[Any], place: Place, fault: Callable[[int], str]) -> None:
    """Refuse the first label that is bad."""
    if bad.any():
        i = int(np.argmax(bad))
        raise PredictionFileError(f"{place.label(i)} {fault(i)}")


def _refuse_missing(bad: NDArray[Any], place: Place) -> None:
    _refuse_first(bad, place, lambda _: "is missing; fill it, or drop the row")


def _refuse_broken(bad: NDArray[Any], place: Place, labels: NDArray[Any]) -> None:
    remedy = "labels must be text or whole numbers (--label-column)"
    _refuse_first(bad, place, lambda i: f"{labels[i]} is not a class; {remedy}")


def refuse_unknown(y: NDArray[Any], known: list[Any], place: Place) -> None:
    classes, labels = np.array(known), y
    if y.dtype.kind == "U" or classes.dtype.kind == "U":
        classes, labels = classes.astype(str), y.astype(str)
    among = f"is not among the classes {some(known)}"
    _refuse_first(~np.isin(labels, classes), place, lambda i: f"{y[i].item()!r} {among}")


def typed(classes: Sequence[str], y: NDArray[Any]) -> list[Any]:
    """Classes as the labels are: whole numbers or text."""
    if y.dtype.kind in "iu" and are_whole(classes):
        return [int(key(c)) for c in classes]
    return list(classes)


def labels_of_archive(y: NDArray[Any], names: list[str]) -> tuple[NDArray[Any], list[Any]]:
    """Labels of an npz file, and its ``classes``.

    Labels are among the classes; numbers beside classes of text are places of classes. So what a
    label means does not depend on which others are there.
    """
    if y.dtype.kind == "f" and np.all(y == np.floor(y)):
        y = y.astype(np.int64)
    if y.dtype.kind == "b":  # as the classes, whose names are text
        y = y.astype(str)
    if y.dtype.kind in "iu" and not are_whole(names):
        known = (y >= 0) & (y < len(names))
        text = y.astype(str).astype(object)
        text[known] = np.array(names, dtype=object)[y[known]]
        return text.astype(str), list(names)
    return y, typed(names, y)


def groups_of(column: Any, place: Place, done: int = 0, option: str = "--groups") -> NDArray[Any]:
    """Return the group of each row, always as text: no name depends on what else is there.

    ``done`` rows came before these in the file.
    """
    texts = []
    for i, value in enumerate(plain_values(column)):
        is_missing = value is None or value != value  # noqa: PLR0124  (NaN)
        text = "" if is_missing else value.decode() if isinstance(value, bytes) else str(value)
        if not text.strip() or len(text) > LONGEST_LABEL:
            fault = "is missing; fill it, or drop the row"
            if text.strip():
                fault = f"has {len(text):,} characters; at most {LONGEST_LABEL:,} are allowed"
            raise PredictionFileError(f"{place.rows([done + i])}: the group {fault} ({option})")
        texts.append(text)
    check_memory(4 * len(texts) * max(map(len, texts), default=0), "the groups")
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
        with suppress(pa.ArrowInvalid):  # decimal commas
            return np.asarray(compute.replace_substring(known, ",", ".").cast(pa.float64()))
    return np.asarray(column)


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
