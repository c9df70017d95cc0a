"""Features of rows in bins: intervals of numbers and dates, categories, and what is missing."""

from __future__ import annotations

import datetime as dt
import numbers
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import errors
from calibrant._text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._types import Array, Bools, Floats, Wholes

LEVELS = (0.05, 0.08, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.92, 0.95)
SLACK = 0.015
"""Quantiles of a number that are thresholds, more of them at its ends; share of rows by which a
threshold may miss its quantile to have few digits."""

MOST_VALUES = 8
"""Distinct numbers that have a bin each, and no quantiles."""

LONGEST_NAME, DAY = 40, 86_400e6
"""Letters of a name or value in a condition; microseconds, in which dates are counted."""

IF_OTHER = "pass numbers, text, truth values or dates, one in each cell"


class Condition(NamedTuple):
    """A condition on one feature: ``=``, ``<`` or ``>=`` a value, or ``is missing``."""

    feature: str
    operator: str
    value: object = None

    def __str__(self) -> str:
        value = f"{self.value:.15g}" if isinstance(self.value, float) else self.value
        words = [printable(self.feature, LONGEST_NAME), self.operator]
        return " ".join(words if value is None else [*words, printable(value, LONGEST_NAME)])


class BinnedFeature(NamedTuple):
    """Bin of each row, and conditions with the bins where each holds; None is for all rows."""

    codes: Wholes
    n_bins: int
    conditions: list[tuple[Condition | None, Bools]]


def bin_feature(name: str, values: Array, weight: Floats, min_rows: float) -> BinnedFeature | None:
    """Return the bins of a feature; None if it is missing throughout."""
    if values.dtype.kind in "cV":
        raise errors.ContainerError(
            f"column {name!r} of features has dtype {values.dtype}; {IF_OTHER}"
        )
    if values.dtype.kind in "OUST":
        values = _from_objects(name, values.astype(object))
    if values.dtype.kind in "Ob":
        return _bin_categories(name, values.tolist(), weight, min_rows)
    if is_date := values.dtype.kind == "M":
        microseconds = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        values = np.where(np.isnat(values), np.nan, microseconds)
    elif values.dtype.kind == "m":
        values = np.divide(values, np.timedelta64(1, "s"))
    return _bin_numbers(name, values.astype(np.float64), weight, is_date=is_date)


def _from_objects(name: str, values: NDArray[np.object_]) -> Array:
    """Return objects as numbers or dates if all that are not missing are; None is missing."""
    for i, value in enumerate(values):
        try:
            hash(value)
        except TypeError as error:
            raise errors.ContainerError(
                f"row {i} of column {name!r} of features is {errors.in_words(value)}; {IF_OTHER}"
            ) from error
        if type(value).__name__ in {"NAType", "NaTType"} or value != value:  # noqa: PLR0124
            values[i] = None
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, dt.date | np.datetime64) for value in there):
        for i, value in enumerate(values):
            if isinstance(value, dt.datetime) and value.tzinfo is not None:
                values[i] = value.astimezone(dt.UTC).replace(tzinfo=None)
        return values.astype("datetime64[us]")
    if all(isinstance(v, numbers.Number) and not isinstance(v, bool | np.bool_) for v in there):
        return values.astype(np.float64)
    return values


def _bin_categories(
    name: str, values: list[object], weight: Floats, min_rows: float
) -> BinnedFeature | None:
    """Return a bin for each value with enough rows, and a last one for all others."""
    distinct = sorted({*values} - {None}, key=lambda value: (type(value).__name__, str(value)))
    place = {value: i for i, value in enumerate([*distinct, None])}
    every = np.fromiter(map(place.__getitem__, values), np.intp, len(values))
    common = np.flatnonzero(np.bincount(every, weight, len(place)) >= min_rows)
    bins = np.full(len(place), len(common))
    bins[common] = np.arange(len(common))
    told = [("=", distinct[i]) if i < len(distinct) else ("is missing",) for i in common]
    holds = np.eye(len(common) + 1, dtype=bool)
    found = [(Condition(name, *own), held) for own, held in zip(told, holds, strict=False)]
    return BinnedFeature(bins[every], len(holds), [*found]) if distinct else None


def _bin_numbers(
    name: str, x: Floats, weight: Floats, *, is_date: bool = False
) -> BinnedFeature | None:
    """Return bins between quantiles, or of single values, and a last one of what is missing."""
    known = ~np.isnan(x)
    values, place = np.unique(x[known], return_inverse=True)
    if len(values) == 0:
        return None
    cuts = values[1:].tolist()
    if len(values) > MOST_VALUES:
        share = np.cumsum(np.bincount(place, weight[known])) / weight[known].sum()
        cuts = sorted({_round_cut(values, share[:-1], level, is_date) for level in LEVELS})
    n_known = len(cuts) + 1
    codes = np.where(known, np.searchsorted(cuts, x, side="right"), n_known)
    bins, held = np.arange(n_known + 1), []
    if len(values) <= MOST_VALUES:
        held += [(("=", value), bins == i) for i, value in enumerate(values.tolist())]
    if len(values) > 2:
        held += [(("<", cut), bins <= i) for i, cut in enumerate(cuts)]
        held += [((">=", cut), (bins > i) & (bins < n_known)) for i, cut in enumerate(cuts)]
    found = []
    for (how, at), own in held:
        value: object = at
        if is_date:  # as ISO 8601 writes it, with a time if that is not midnight
            unit = "s" if at % DAY else "D"
            value = str(np.datetime64(int(at), "us").astype(f"datetime64[{unit}]"))
        found.append((Condition(name, how, value), own))
    if not known.all():
        found.append((Condition(name, "is missing"), bins == n_known))
    return BinnedFeature(codes, n_known + 1, [*found])


def _round_cut(values: Floats, below: Floats, level: float, is_date: bool) -> float:
    """Return a threshold near a quantile; ``below`` is the share of rows up to each value."""
    best = int(np.argmin(np.abs(below - level)))
    near = np.append(np.flatnonzero(np.abs(below - level) <= SLACK), best)
    low, high, cut = values[near.min()], values[near.max() + 1], float(values[best + 1])
    tried = (cut - cut % DAY,) if is_date else (float(f"{cut:.{n}g}") for n in range(1, 18))
    return next((own for own in tried if low < own <= high), cut)
