"""Tests without resamples: cumulative differences of rows in order, and shares of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erfc, gammainc

from calibrant._predictions import EventCells, Statistic, column_of, name_of, source_of
from calibrant._result import Result, doc, result

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label, Labels
    from calibrant.scale import Chunks

SHORTEST = 0.05  # Brownian motion gets farther than this, but for a probability below 1e-200
TERMS = np.arange(1, 251)
"""Terms of the series of both distributions: from ``SHORTEST`` on, others are below 1e-30."""

GAP_OF_ROUNDING = 1e-9  # gaps of less than this share of the weight are of rounding


@result(eq=False)
class CumulativeDifferences(Result):
    """Result of :func:`cumulative_differences`; arrays are read-only."""

    kind: Label = doc("Label of the class, or 'confidence'.")
    probability: Floats = doc("Distinct predictions in increasing order.")
    difference: Floats = doc("Cumulative sum of hit - prediction, divided by the total weight.")
    kuiper: float = doc("Largest minus smallest difference, 0 included.")
    kolmogorov_smirnov: float = doc("Largest absolute difference.")
    scale: float = doc("Standard deviation of the last difference under calibration.")
    kuiper_p_value: float = doc("P-value of the Kuiper statistic under calibration.")
    kolmogorov_smirnov_p_value: float = doc("P-value of the Kolmogorov-Smirnov statistic.")


def cumulative_differences(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    kind: object = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> CumulativeDifferences:
    """Compute cumulative differences between hits and predictions, with two tests.

    Rows are sorted by their prediction, and hit - prediction is summed. Kuiper's statistic is the
    largest partial sum less the smallest, per row; that of Kolmogorov and Smirnov the largest
    absolute one.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label
        As in :func:`evaluate`.
    kind : None, "confidence" or a label, default=None
        Whether the largest probability of each row, or the probability of one class, is compared
        with labels. None is the positive (second) class of two, and the confidence for more.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A row of weight 2 is one event that counts double in ``scale`` and the
        p-values; elsewhere it counts as two rows.

    Returns
    -------
    CumulativeDifferences
        The curve, both statistics and their p-values.

    Notes
    -----
    If predictions are calibrated, the curve of many rows, divided by ``scale``, is Brownian motion.
    The p-values are those of its range and of its largest absolute value, and a little too large
    where there are few rows (docs/evidence/intervals.md).

    References
    ----------
    .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu, "Metrics of Calibration for
       Probabilistic Predictions", JMLR 23, 2022.
    .. [2] W. Feller, "The Asymptotic Distribution of the Range of Sums of Independent Random
       Variables", Annals of Mathematical Statistics 22, 1951.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics import cumulative_differences
    >>> honest, y = simulated_scores(500, power=1)
    >>> cumulative_differences(y, honest).kuiper_p_value > 0.05
    True
    >>> bold = honest**2 / (honest**2).sum(axis=1, keepdims=True)
    >>> cumulative_differences(y, bold).kuiper_p_value < 1e-9
    True
    """
    rows = source_of(y_true, y_proba, sample_weight, classes, pos_label).in_memory()
    column = column_of(rows.classes, kind)
    cells = EventCells.of_rows(rows.events(column))
    total = float(cells.weight.sum())
    difference = np.cumsum(cells.hits - cells.weight * cells.values) / total
    scale = math.sqrt(float(cells.squares @ (cells.values * (1.0 - cells.values)))) / total
    high, low = max(float(difference.max()), 0.0), min(float(difference.min()), 0.0)
    kuiper, peak = min(high - low, 1.0), min(max(high, -low), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        in_units = np.divide([kuiper, peak], scale)
    in_units[np.isnan(in_units)] = 0.0  # nothing was left to chance, and all is right
    return CumulativeDifferences(
        kind=name_of(rows.classes, column),
        probability=cells.values,
        difference=difference,
        kuiper=kuiper,
        kolmogorov_smirnov=peak,
        scale=scale,
        kuiper_p_value=range_exceeds(in_units[0]),
        kolmogorov_smirnov_p_value=peak_exceeds(in_units[1]),
    )


def range_exceeds(x: float) -> float:
    """Return the probability that the range of Brownian motion in unit time exceeds ``x``.

    4 sum_k (-1)^(k - 1) k erfc(k x / sqrt(2)), by Feller (1951).
    """
    return _tail(x, np.where(TERMS % 2 == 1, 4.0, -4.0) * TERMS, TERMS)


def peak_exceeds(x: float) -> float:
    """Return the probability that the largest absolute value of Brownian motion exceeds ``x``.

    2 sum_k (-1)^(k - 1) erfc((2 k - 1) x / sqrt(2)).
    """
    return _tail(x, np.where(TERMS % 2 == 1, 2.0, -2.0), 2 * TERMS - 1)


def _tail(x: float, factors: NDArray[Any], places: NDArray[Any]) -> float:
    """Return the sum of factors times erfc(place x / sqrt(2))."""
    if x < SHORTEST:
        return 1.0
    return min(float(factors @ erfc(places * x / math.sqrt(2.0))), 1.0)


@result(eq=False)
class ClassShares(Result):
    """Result of :func:`class_shares`; arrays have one number per class."""

    classes: Labels = doc("Label of each column.")
    predicted: Floats = doc("Mean probability of each class.")
    observed: Floats = doc("Share of rows that are of each class.")
    p_value: Floats = doc("P-value of each class: how often calibrated predictions differ as much.")
    p_holm: Floats = doc("P-values after Holm's correction for the number of classes.")


def class_shares(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> ClassShares:
    """Compare the mean probability of every class with its share of the labels.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label
        As in :func:`evaluate`.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice in shares; p-values have one event of weight 2.

    Returns
    -------
    ClassShares
        Predicted and observed share of each class, and p-values.

    Notes
    -----
    If the predictions are right, the rows of a class are a sum of independent events with the
    variance p (1 - p). No such sum is more skewed than a Poisson variable of the same variance, so
    the p-value is twice the chance that one exceeds its mean by as much. Of two classes one test is
    made; of more Holm's correction is for all.

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
       Journal of Statistics 6, 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import class_shares
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.uniform(0.0, 0.4, 2000)
    >>> result = class_shares(rng.random(2000) < positive / 2, positive)
    >>> f"{result.predicted[1]:.3f} predicted, {result.observed[1]:.3f} observed"
    '0.200 predicted, 0.101 observed'
    >>> bool(result.p_holm[1] < 1e-9)
    True
    """
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    sums = source.add_up({"shares": ClassMoments()})["shares"]
    weight, said, happened, first, second = sums
    p_value = chances(said - happened, first, second, said, weight)
    # The probabilities of two classes add up to one, so that both tests are the same.
    corrected = np.full(2, p_value.min()) if len(p_value) == 2 else holm(p_value)
    shares = said / weight, happened / weight
    return ClassShares(source.classes.copy(), *shares, p_value, corrected)


@dataclass(frozen=True)
class ClassMoments(Statistic):
    """Sums over rows of w, w p, w [y = c], w^2 p and w^2 p^2, of every class: (5, n_classes)."""

    def sums(self, rows: Predictions) -> Floats:
        """Return sums of shape (5, n_classes)."""
        weight, square = rows.weight, rows.weight * rows.weight
        result = np.empty((5, rows.n_classes))
        result[0] = weight.sum()
        result[1] = weight @ rows.rows
        result[2] = np.bincount(rows.class_index, weight, rows.n_classes)
        result[3] = square @ rows.rows
        result[4] = square @ (rows.rows * rows.rows)
        return result


def chances(gap: Floats, first: Floats, second: Floats, said: Floats, weight: Floats) -> Floats:
    """P-values of gaps between events and probabilities, from sums of w^2 p, w^2 p^2 and w p."""
    # The square of a weight may be too small to be counted where the weight itself is not.
    size = np.divide(first, said, out=np.ones_like(said), where=(said > 0) & (first > 0))
    variance = np.maximum(first - second, 0.0) / size**2
    result: Floats = np.minimum(2.0 * gammainc(variance + np.abs(gap) / size, variance), 1.0)
    return np.where(np.abs(gap) <= GAP_OF_ROUNDING * weight, 1.0, result)


def holm(p_values: Floats) -> Floats:
    """Adjust p-values so that the chance of any false alarm is kept (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted
