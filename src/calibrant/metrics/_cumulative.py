"""Tests without resamples: cumulative differences of rows in order, and shares of classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammainc

from calibrant._kernels.metrics import HIT, VALUE, WEIGHT, add_binned_classes
from calibrant.metrics._calibration_error import ClassBins
from calibrant.metrics._cells import CellMeasure
from calibrant.metrics._measures import RowSums
from calibrant.metrics._predictions import Predictions, column_of, exact_sum, name_of
from calibrant.metrics._reading import metric, of_arrays, of_predictions
from calibrant.metrics._result import Result, doc, result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._cells import SortedCells
    from calibrant.metrics._measures import Body, Chunk, SummedState
    from calibrant.metrics._reading import Source

CUMULATIVE_STATISTICS = ("kuiper", "kolmogorov_smirnov")

N_TERMS = 12
"""Of the series of both distributions: at the seam, the first one left out is below 1e-30."""

SHORTEST_RANGE = 0.05
"""Brownian motion gets farther than this, but for a probability below 1e-200."""


@result(eq=False)
class CumulativeDifferences(Result):
    """Result of :func:`cumulative_differences`; arrays are read-only."""

    kind: Any = doc("Label of the class, or 'confidence'.")
    probability: Floats = doc("Distinct predictions in increasing order.")
    difference: Floats = doc("Cumulative sum of hit - prediction, divided by the total weight.")
    kuiper: float = doc("Largest minus smallest difference, 0 included.")
    kolmogorov_smirnov: float = doc("Largest absolute difference.")
    scale: float = doc("Standard deviation of the last difference under calibration.")
    kuiper_p_value: float = doc("P-value of the Kuiper statistic under calibration.")
    kolmogorov_smirnov_p_value: float = doc("P-value of the Kolmogorov-Smirnov statistic.")


@metric
def kuiper_error(classes: Any, *, kind: Any = None) -> Body:
    """Compute Kuiper's calibration error, the range of the cumulative differences.

    Rows are sorted by the probability of the positive class or, for more than two classes, by the
    confidence, and event minus probability is summed. The error is the largest partial sum minus
    the smallest, divided by the number of rows: the largest sum over rows in any interval of
    probabilities. There are no bins and no bandwidth to choose.

    Returns
    -------
    float
        In [0, 1]; equal probabilities are added as one.

    References
    ----------
    .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu, "Metrics of Calibration for
       Probabilistic Predictions", JMLR 23, 2022.

    Examples
    --------
    >>> from calibrant.metrics import kuiper_error
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> round(kuiper_error([0, 0, 0, 1], y_proba), 4)
    0.3
    """
    return CumulativeCells("kuiper", column_of(classes, kind))


@metric
def kolmogorov_smirnov_error(classes: Any, *, kind: Any = None) -> Body:
    """Compute the Kolmogorov-Smirnov calibration error, the largest cumulative difference.

    As :func:`kuiper_error`, but only for intervals of probabilities that begin at 0.

    Returns
    -------
    float
        In [0, 1], between half of Kuiper's error and Kuiper's error.

    References
    ----------
    .. [1] K. Gupta et al., "Calibration of Neural Networks using Splines", ICLR 2021.

    Examples
    --------
    >>> from calibrant.metrics import kolmogorov_smirnov_error
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> round(kolmogorov_smirnov_error([0, 0, 0, 1], y_proba), 4)
    0.3
    """
    return CumulativeCells("kolmogorov_smirnov", column_of(classes, kind))


@of_arrays
def cumulative_differences(predictions: Predictions, *, kind: Any = None) -> CumulativeDifferences:
    """Compute cumulative differences between hits and predictions, with two tests.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A row of weight 2 is one event that counts double in ``scale`` and the
        p-values; elsewhere it counts as two rows.

    Notes
    -----
    If each event happens with the probability that was predicted, the curve is a sum of
    independent terms, whose last value has the standard deviation ``scale``; divided by it, the
    curve of many rows is Brownian motion. The p-values are those of its range and of its largest
    absolute value, and a little too large where there are few rows (docs/evidence/intervals.md).

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
    column = column_of(predictions.classes, kind)
    events = predictions.events(column)
    cells, distinct = predictions.sort_events(events)
    difference = cumulate(cells)
    values, _, weight = events
    scale = math.sqrt(exact_sum(weight**2 * values * (1.0 - values))) / exact_sum(weight)
    found = {name: statistic(name, difference) for name in CUMULATIVE_STATISTICS}
    chances = {
        "kuiper_p_value": _chance(range_exceeds, found["kuiper"], scale),
        "kolmogorov_smirnov_p_value": _chance(peak_exceeds, found["kolmogorov_smirnov"], scale),
    }
    kind = name_of(predictions.classes, column)
    return CumulativeDifferences(kind, distinct, difference, scale=scale, **found, **chances)


def cumulate(cells: SortedCells) -> Floats:
    """Cumulative differences at each distinct value of one problem."""
    weight, hits, values = cells.sums
    found: Floats = np.cumsum(hits - values) / weight.sum()
    return found


def statistic(name: str, difference: Floats) -> float:
    """Range of the differences and zero, or the largest absolute one."""
    high, low = max(float(difference.max()), 0.0), min(float(difference.min()), 0.0)
    return min(high - low if name == "kuiper" else max(high, -low), 1.0)


def _chance(exceeds: Any, found: float, scale: float) -> float:
    """P-value of a statistic; predictions that leave nothing to chance are right or are not."""
    if scale == 0.0:
        return 1.0 if found == 0.0 else 0.0
    return float(exceeds(found / scale))


class CumulativeCells(CellMeasure):
    """A statistic of the differences: exact while all distinct values fit, then at some."""

    name = "cumulative cells"

    def __init__(self, statistic: str, column: int | None = None) -> None:
        super().__init__(column=column)
        self._statistic = statistic

    def value(self, parts: Iterable[SortedCells]) -> float:
        (cells,) = parts
        return statistic(self._statistic, cumulate(cells))


def range_exceeds(x: float) -> float:
    """Probability that the range of Brownian motion in unit time exceeds ``x`` (Feller 1951).

    Of two series one converges quickly where the other does not, and only one of them keeps its
    digits where the probability is small.
    """
    if x < SHORTEST_RANGE:
        return 1.0
    if x < 2.0:
        below = math.fsum(
            8.0 * (1.0 / (n * math.pi) ** 2 + 1.0 / x**2) * math.exp(-0.5 * (n * math.pi / x) ** 2)
            for n in range(1, 2 * N_TERMS, 2)
        )
        return min(max(1.0 - below, 0.0), 1.0)
    return math.fsum(
        4.0 * (-1.0) ** (k - 1) * k * math.erfc(k * x / math.sqrt(2.0))
        for k in range(1, N_TERMS + 1)
    )


def peak_exceeds(x: float) -> float:
    """Probability that the largest absolute value of Brownian motion exceeds ``x``."""
    if x < SHORTEST_RANGE:
        return 1.0
    if x < 1.2:
        below = math.fsum(
            4.0 / math.pi * (-1.0) ** k / n * math.exp(-((n * math.pi / x) ** 2) / 8.0)
            for k, n in enumerate(range(1, 2 * N_TERMS, 2))
        )
        return min(max(1.0 - below, 0.0), 1.0)
    return math.fsum(
        2.0 * (-1.0) ** k * math.erfc((2 * k + 1) * x / math.sqrt(2.0)) for k in range(N_TERMS)
    )


GAP_OF_ROUNDING = 1e-9
"""Gaps of less than this share of the weight are of rounding."""


@result(eq=False)
class ClassShares(Result):
    """Result of :func:`class_shares`; arrays have one number per class."""

    classes: NDArray[Any] = doc("Label of each column.")
    predicted: Floats = doc("Mean probability of each class.")
    observed: Floats = doc("Share of rows that are of each class.")
    p_value: Floats = doc("P-value of each class: how often calibrated predictions differ as much.")
    p_holm: Floats = doc("P-values after Holm's correction for the number of classes.")


@of_predictions
def class_shares(predictions: Source) -> ClassShares:
    """Compare the mean probability of every class with its share of the labels.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice in shares; p-values have one event of weight 2.

    Notes
    -----
    If the predictions are right, the rows of a class are a sum of independent events, and its
    variance is known: the sum of p (1 - p). No such sum is more skewed than a Poisson variable of
    the same variance, so the p-value is twice the chance that one exceeds its mean by as much.
    Weights are counted in units of their mean over the rows that would be of the class. Of two
    classes one test is made; of more Holm's correction is for all.

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
    >>> found = class_shares(rng.random(2000) < positive / 2, positive)
    >>> f"{found.predicted[1]:.3f} predicted, {found.observed[1]:.3f} observed"
    '0.200 predicted, 0.101 observed'
    >>> bool(found.p_holm[1] < 1e-9)
    True
    """
    n_classes = len(predictions.classes)
    bodies = {"bins": ClassBins(n_classes, 1), "moments": ClassMoments(n_classes)}
    return judge_shares(predictions.classes, **predictions.add_up(bodies))


class ClassMoments(RowSums):
    """Sums of squared weights, with the probability of each class and with its square."""

    name = "class moments"
    power = 2
    is_drawn = False

    def __init__(self, n_classes: int) -> None:
        super().__init__(2, n_classes, 3)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        rows, square = chunk.rows, chunk.weight * chunk.weight
        cells = np.zeros(rows.shape, dtype=np.int32)
        add_binned_classes(rows, chunk.class_index, square, cells, 1, sums[0])
        add_binned_classes(rows * rows, chunk.class_index, square, cells, 1, sums[1])


def judge_shares(classes: NDArray[Any], bins: SummedState, moments: SummedState) -> ClassShares:
    """Compare the shares of all classes from sums over rows."""
    by_class = bins.total.sum(axis=1)
    weight, happened, said = (by_class[:, column] for column in (WEIGHT, HIT, VALUE))
    first, second = moments.total[:, :, VALUE]
    p_value = chances(said - happened, first, second, said, weight)
    # The probabilities of two classes add up to one, so that both tests are the same.
    corrected = np.full(2, p_value.min()) if len(classes) == 2 else holm(p_value)
    return ClassShares(classes.copy(), said / weight, happened / weight, p_value, corrected)


def chances(gap: Floats, first: Floats, second: Floats, said: Floats, weight: Floats) -> Floats:
    """P-values of gaps between events and probabilities, from sums of w^2 p, w^2 p^2 and w p."""
    # The square of a weight may be too small to be counted where the weight itself is not.
    size = np.divide(first, said, out=np.ones_like(said), where=(said > 0) & (first > 0))
    variance = np.maximum(first - second, 0.0) / size**2
    found: Floats = np.minimum(2.0 * gammainc(variance + np.abs(gap) / size, variance), 1.0)
    return np.where(np.abs(gap) <= GAP_OF_ROUNDING * weight, 1.0, found)


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjust p-values so that the chance of any false alarm is kept (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted
