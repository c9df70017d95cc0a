"""Read what is known of rows besides their scores: columns of numbers, and of categories.

A column of numbers stays as it is, NaN where it is missing. One of text becomes a 0/1 column for
each of its categories that has rows enough to learn from; rows of all others, and those without a
value, have zeros in all of these.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import errors
from calibrant._gate._columns import column_names, library, refuse_masked

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from calibrant._types import Array, Floats

MOST_CATEGORIES = 30
LEAST_ROWS = 10
"""The most frequent categories of a column have columns of their own, if these many rows have
them."""

LARGEST = 1e100
"""Magnitude of numbers: their squares stay finite."""


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """A column of the features, as the fit has seen it."""

    name: str  # x0, x1, ... where columns have none
    place: int  # which counts where columns have no names
    is_number: bool
    categories: list[str]  # values that have a 0/1 column each; empty for numbers

    @property
    def width(self) -> int:
        """Number of columns that it is read as."""
        return 1 if self.is_number else len(self.categories)


def columns_by_name(features: Any, n_rows: int, scores: str = "scores") -> dict[str, Array]:
    """Return the columns of a matrix or data frame by name, as they are; x0, x1, ... without names.

    ``scores`` is how the caller calls what has a row for each of theirs.
    """
    if features is None:
        raise errors.ShapeError(
            "features are not given; pass features=, an array or a data frame with one row for "
            f"each row of {scores}"
        )
    home, names = library(features), column_names(features)
    if isinstance(features, dict):
        names, home = [*features], "dict"
    is_read = isinstance(features, list | tuple | dict) or hasattr(features, "__array__")
    if home in {"scipy", "dask"} or not is_read:
        raise errors.ContainerError(
            f"features is a {type(features).__name__}; pass an array, a list of rows or a data "
            "frame in memory, as toarray(), compute() or collect() return it"
        )
    refuse_masked(features, "features")
    if names is None:
        matrix = _to_table(features)
        names, columns = [f"x{j}" for j in range(matrix.shape[1])], list(matrix.T)
    elif home == "pandas":
        columns = [_of_pandas(features.iloc[:, place]) for place in range(len(names))]
    else:
        columns = [np.atleast_1d(features[name]) for name in names]
    found = {str(name): column for name, column in zip(names, columns, strict=True)}
    if len(found) < len(names):
        raise errors.ColumnNameError(
            f"two columns of features have one name, among {errors.some_in_words(names)}; rename "
            "one of them"
        )
    lengths = {len(column) for column in columns} or {0}
    if not columns or lengths != {n_rows}:
        raise errors.ShapeError(
            f"features has {errors.number_of(max(lengths), 'row')} and "
            f"{errors.number_of(len(columns), 'column')}, but {scores} has "
            f"{errors.number_of(n_rows, 'row')}; pass a row of features for each of them"
        )
    return found


def _to_table(features: ArrayLike) -> Array:
    """Return an array with two dimensions; numbers in lists stay numbers beside text."""
    try:
        array = np.asarray(features, dtype=object if isinstance(features, list | tuple) else None)
    except ValueError as error:
        raise errors.ShapeError(f"features has rows of different lengths: {error}") from error
    if array.ndim not in (1, 2):
        raise errors.ShapeError(
            f"features has shape {array.shape}; pass a matrix, or a vector that is a single feature"
        )
    return array if array.ndim == 2 else array[:, None]


def _of_pandas(column: pd.Series) -> Array:
    """Return a column of pandas, of whatever type; times in UTC, and NA as None or NaN."""
    if getattr(column.dtype, "tz", None) is not None:
        return np.asarray(column, dtype="datetime64[us]")
    if column.dtype.kind == "M" or not column.isna().any():
        return np.asarray(column)
    if column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    return np.asarray(column.astype(object).where(column.notna(), None))


def read_columns(features: object, n_rows: int) -> dict[str, Array]:
    """Return the columns by name: float64, or objects that are text or None."""
    given = columns_by_name(features, n_rows)
    return {name: _values(name, column) for name, column in given.items()}


def _values(name: str, column: Array) -> Array:
    """Return numbers as float64, anything else as text, or None where it is missing."""
    if column.dtype.kind == "M":  # seconds since 1970
        seconds = column.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(column), np.nan, seconds)
    if column.dtype.kind in "OUT":
        values = column.tolist()
        missing = np.array([value is None or value != value for value in values])  # noqa: PLR0124
        known = [value for value, gone in zip(values, missing, strict=True) if not gone]
        if not all(isinstance(value, int | float | np.number) for value in known):
            texts = np.array([str(value) for value in values], dtype=object)
            texts[missing] = None
            return texts
        column = np.where(missing, np.nan, column)
    elif column.dtype.kind not in "biuf":
        raise errors.ContainerError(
            f"features[{name!r}] has dtype {column.dtype}; pass numbers, booleans, text or times"
        )
    try:
        numbers = column.astype(np.float64)
    except OverflowError:  # whole numbers of Python have no bound
        numbers = np.full(len(column), np.inf)
    large = np.flatnonzero(np.abs(numbers) > LARGEST)
    if len(large):
        raise errors.NonFiniteError(
            f"features[{name!r}] is {column[large[0]]} in row {large[0]}, beyond {LARGEST:g}; "
            "use NaN, which is read as missing, or a smaller number"
        )
    return numbers


def learn_columns(columns: dict[str, Array]) -> list[FeatureColumn]:
    """Return what is read of the columns: nothing of those without a value, with a warning."""
    found, empty = [], []
    for place, (name, values) in enumerate(columns.items()):
        is_number = values.dtype.kind == "f" and not np.isnan(values).all()
        counts: Counter[str] = Counter()
        if values.dtype.kind == "O":
            counts.update(value for value in values.tolist() if value is not None)
        if not (is_number or counts):
            empty.append(name)
        # Sorted first, so that the order of rows does not matter where categories tie.
        frequent = sorted(sorted(counts), key=counts.__getitem__, reverse=True)[:MOST_CATEGORIES]
        kept = sorted(value for value in frequent if counts[value] >= LEAST_ROWS)
        found.append(FeatureColumn(name, place, is_number, kept))
    if empty:
        notices.warn(
            errors.CalibrantWarning(
                f"features has no value in {errors.some_in_words(empty)}, which is not read"
            )
        )
    return found


def encode_columns(given: dict[str, Array], known: list[FeatureColumn]) -> Floats:
    """Return the matrix that learners read: columns by name, or by place where they have none."""
    names = [column.name for column in known]
    if any(own == [f"x{place}" for place in range(len(own))] for own in (names, [*given])):
        if len(given) != len(known):
            raise errors.ShapeError(
                f"features has {errors.number_of(len(given), 'column')}, but the fit had "
                f"{len(known)}: {errors.some_in_words(names)}; pass the same"
            )
        given = dict(zip(names, given.values(), strict=True))
    n_rows = len(next(iter(given.values())))
    out = np.zeros((n_rows, sum(column.width for column in known)))
    start = 0
    for column in known:
        if column.width and column.name not in given:
            raise errors.ColumnNameError(
                f"features has no column {column.name!r}, which the fit had; pass the columns "
                f"{errors.some_in_words(names)}"
            )
        if column.is_number:
            out[:, start] = _as_kind(column, given[column.name])
        elif column.width:
            values = _as_kind(column, given[column.name])
            for i, category in enumerate(column.categories):
                out[:, start + i] = values == category
        start += column.width
    return out


def _as_kind(column: FeatureColumn, values: Array) -> Array:
    """Return numbers or text as the fit had them; refuse the other kind, unless it is missing."""
    if (values.dtype.kind == "f") is column.is_number:
        return values
    for row, value in enumerate(values.tolist()):
        if value is not None and value == value:  # noqa: PLR0124  (NaN)
            raise errors.ContainerError(
                f"features[{column.name!r}] is {errors.in_words(value)} in row {row}, but was "
                f"{'a number' if column.is_number else 'text'} at fit; pass the same kind"
            )
    return np.full(len(values), np.nan if column.is_number else None)
