"""``calibration_segments``: rows, told by their features, whose predictions are wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._gate import check_number, columns_by_name
from calibrant._predictions import Predictions, column_of, name_of, source_of
from calibrant._result import Estimate, Result, data_frame, doc, result
from calibrant._text import p_words
from calibrant.metrics._features import bin_feature
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
    merge_rows,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from calibrant._types import Label
    from calibrant.metrics._intervals import Seed

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
        for name, *numbers in zip(*columns, strict=True):
            aligned = map(str.rjust, numbers, widths[1:])
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
    kind : None, "confidence" or a label, default=None
        Whether the largest probability of each row, or the probability of one class, is compared
        with labels. None is the positive (second) class of two, and the confidence for more.
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
            f"its row here, at most {MOST_REPEATS:g}: divide by their mean if they are not counts"
        )
    by_name = columns_by_name(features, len(used), "y_proba")
    binned = [bin_feature(name, x[used], source.weight, min_rows) for name, x in by_name.items()]
    known = [feature for feature in binned if feature is not None and feature.conditions]
    events, merged = merge_rows(source.events(column), known)
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
