"""``calibration_segments``: rows, told by their features, whose predictions are wrong.

Features are binned: intervals of numbers and dates, categories, and what is missing.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._gate import check_number, columns_by_name
from calibrant._predictions import Predictions, check_beside, column_of, name_of, source_of
from calibrant._result import Estimate, Result, data_frame, doc, result
from calibrant._text import p_words, printable
from calibrant.metrics._intervals import generator
from calibrant.metrics._segment_search import (
    COLUMNS,
    ROUNDING,
    SENTENCE,
    RowErrors,
    Segment,
    draw_largest,
    find_segments,
    largest_error,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from calibrant._predictions import EventRows
    from calibrant._types import Array, Bools, Floats, Label, Wholes
    from calibrant.metrics._intervals import Seed

LEVELS = (0.05, 0.08, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.92, 0.95)
SLACK = 0.015
"""Quantiles of a number that are thresholds, more of them at its ends; share of rows by which a
threshold may miss its quantile to have few digits."""

MOST_VALUES = 8
"""Distinct numbers that have a bin each, and no quantiles."""

LONGEST_NAME, DAY = 40, 86_400e6
"""Letters of a name or value in a condition; microseconds, in which dates are counted."""

IF_OTHER = "pass numbers, text, truth values or dates, one in each cell"

MOST_REPEATS = 1e9  # largest weight of a row
SHARE_SEEN = 0.1  # share of the rows in a segment whose detectable error is told
SIZE_SEEN = 6.0  # its error in standard deviations: so large a one was found four of five times


@result()
class SegmentTable(Result):
    """Result of :func:`calibration_segments`, the worst segment first; ``print`` shows a table."""

    segments: tuple[Segment, ...] = doc("Segments whose predictions are wrong.")
    kind: Label = doc("Label of the class, or 'confidence'.")
    n_rows: float = doc("Weight of all rows.")
    n_tested: int = doc("Number of segments that were tested.")
    alpha: float = doc("Largest chance that any segment is reported whose predictions are right.")
    detectable: float = doc("Error in a tenth of the rows that is found four of five times.")
    error: float = doc("Largest error of a bin of a feature, in its standard deviations.")
    error_null: Estimate = doc("The same of right predictions: its mean, and 5 and 95 % quantile.")
    error_p_value: float = doc("P-value of the error: whether it is more than chance.")

    def to_dict(self) -> dict[str, object]:
        """Return the fields as plain numbers and lists."""
        rows = [
            g.row() | {"conditions": [c._asdict() for c in g.conditions]} for g in self.segments
        ]
        return Result.to_dict(self) | {"segments": rows}

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each segment."""
        return data_frame((own.row() for own in self.segments), ["segment", *COLUMNS])

    def describe(self) -> list[str]:
        """Say how many segments were found, how small an error would be, and the largest error."""
        n, (mean, _, high) = len(self.segments), self.error_null
        counted = (
            f"{n or 'No'} segment{'s' * (n != 1)} of {self.n_tested} tested, "
            f"{self.n_rows:,.7g} rows. An error of {100 * self.detectable:.2g} points in a tenth "
            "of the rows is found four of five times."
        )
        largest = (
            f"Largest error of a bin: {self.error:.1f} standard deviations, {mean:.1f} by chance "
            f"(95 %: {high:.1f}), {p_words(self.error_p_value)}."
        )
        return [counted, largest]

    def __str__(self) -> str:
        columns = [list(column) for column in zip(*(g.cells() for g in self.segments), strict=True)]
        widths = [max(map(len, column)) for column in columns]
        lines = []
        for name, *cells in zip(*columns, strict=True):
            aligned = map(str.rjust, cells, widths[1:])
            lines.append(SENTENCE.format(name.ljust(widths[0]), *aligned))
        return "\n".join([*lines, *self.describe()])


def calibration_segments(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    features: object = None,
    *,
    kind: object = None,
    alpha: float = 0.05,
    min_rows: float = 50,
    random_state: Seed = 0,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> SegmentTable:
    """Find segments of rows, told by their features, whose predictions are wrong.

    A segment is all rows, or those that meet one or two conditions, such as ``plan = prepaid and
    age < 25``. All are looked at, and those are reported whose error is larger than the largest of
    all if labels are drawn from the predictions.

    Parameters
    ----------
    y_true, y_proba : array-like of shape (n_rows,) and of shape (n_rows, n_classes)
        Labels and predicted probabilities, as in :func:`evaluate`.
    features : array-like or data frame of shape (n_rows, n_features)
        Numbers, text, categories, truth values or dates. What is missing (NaN, None) is a value of
        its own; a column that is missing throughout is ignored.
    kind
        As in :func:`reliability_curve`.
    alpha : float, default=0.05
        Largest chance that any segment is reported whose predictions are right.
    min_rows : float, default=50
        Weight of a segment at least.
    random_state : None, int, SeedSequence or Generator, default=0
        Seed of the labels that are drawn; the order of rows changes nothing.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A weight is a repetition: weight 2 counts a row twice, also in tests.
    classes, pos_label : array-like of shape (n_classes,) and object, optional
        Label of each column, and of a single column, as in :func:`evaluate`.

    Returns
    -------
    SegmentTable
        With the fields segments, kind, n_rows, n_tested, alpha, detectable, error, error_null and
        error_p_value. A segment has conditions, predicted, observed, n_rows and p_value.

    Notes
    -----
    The statistic of a segment S is the sum of y - p over its rows, in standard deviations, as the
    normal score of a gamma variable of its skewness; or that of (y - p) / sqrt(p (1 - p)), by which
    errors of small predictions stand out, if it is larger. Its standard deviation is that of
    segments that are right on average, also where high predictions in it are too high and low ones
    too low. Its p-value is the chance that the largest statistic of drawn labels is as large
    (Westfall and Young). Intervals of the observed shares hold for all segments at once.

    ``error`` is the largest ``|sum (y - p)| / sqrt(sum p (1 - p))`` of all bins of single features:
    intervals between quantiles, and categories. It is compared with that of drawn labels.

    References
    ----------
    .. [1] P. H. Westfall and S. S. Young, "Resampling-Based Multiple Testing", Wiley, 1993.
    .. [2] U. Hébert-Johnson, M. P. Kim, O. Reingold and G. N. Rothblum, "Multicalibration:
       Calibration for the (Computationally-Identifiable) Masses", ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_segments
    >>> rng = np.random.default_rng(0)
    >>> age, plan = rng.integers(18, 80, 8000), rng.choice(["prepaid", "contract"], 8000)
    >>> p = rng.uniform(0.05, 0.2, 8000)
    >>> y = rng.random(8000) < p + 0.15 * ((plan == "prepaid") & (age < 30))
    >>> result = calibration_segments(y, p, list(zip(age.tolist(), plan.tolist())))
    >>> result.segments[0].condition
    'x0 < 30 and x1 = prepaid'
    """
    check_number("alpha", alpha, low=1e-4, high=1.0)
    check_number("min_rows", min_rows, low=1.0)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    if not isinstance(source, Predictions):
        raise errors.ContainerError("y_proba is in chunks, which have no features; compute it")
    column, used = column_of(source.classes, kind), np.ones(source.n_rows, dtype=bool)
    if sample_weight is not None:  # rows without a weight are not there
        used = np.asarray(sample_weight) > 0
    if source.weight.max() > MOST_REPEATS:
        raise errors.WeightError(
            f"the largest of sample_weight is {source.weight.max():g}; a weight is a repetition of "
            f"its row here, at most {MOST_REPEATS:g}: divide by their mean if they are not counts",
            argument="sample_weight",
        )
    check_beside(y_true, y_proba, features, "features")
    by_name = columns_by_name(features, len(used), "y_proba")
    binned = [bin_feature(name, x[used], source.weight, min_rows) for name, x in by_name.items()]
    known = [feature for feature in binned if feature is not None and feature.conditions]
    events, merged = merge_equal_rows(source.events(column), known)
    p, _, weight = events
    known_errors = RowErrors.of(events)
    with threads.few_blas_threads(0):  # whose number would change the last bits
        largest, null = draw_largest(events, merged, min_rows, generator(random_state))
        found, n_tested = find_segments(events, merged, largest, float(alpha), min_rows)
        error = largest_error(merged, known_errors, weight, min_rows)
    low, high = np.quantile(null, [0.05, 0.95]).tolist()
    total = float(weight.sum())
    variance = float(weight @ (p * (1.0 - p))) / total
    return SegmentTable(
        segments=tuple(found),
        kind=name_of(source.classes, column),
        n_rows=total,
        n_tested=n_tested,
        alpha=float(alpha),
        detectable=min(SIZE_SEEN * math.sqrt(variance / (SHARE_SEEN * total)), 1.0),
        error=error,
        error_null=Estimate(float(null.mean()), low, high),
        error_p_value=float(1 + np.count_nonzero(null >= error - ROUNDING)) / (1 + len(null)),
    )


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


def merge_equal_rows(
    events: EventRows, features: list[BinnedFeature]
) -> tuple[EventRows, list[BinnedFeature]]:
    """Return rows in the order of their content; those of equal content are one."""
    p, hits, _ = events
    keys = [hits, p, *(own.codes for own in features)]
    order = np.lexsort(keys)
    is_new = np.append(True, np.any([np.diff(key[order]) != 0 for key in keys], axis=0))
    rows = order[is_new]
    weight = np.add.reduceat(events.weight[order], np.flatnonzero(is_new))
    # All rows are a feature of one bin, so that a single condition is a pair of conditions.
    every = BinnedFeature(np.zeros(len(rows), np.intp), 1, [(None, np.ones(1, dtype=bool))])
    kept = [own._replace(codes=own.codes[rows]) for own in features]
    return events.take(rows)._replace(weight=weight), [every, *kept]
