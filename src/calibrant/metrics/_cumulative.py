"""Cumulative differences between hits and predictions: Kuiper's and Kolmogorov-Smirnov's errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.metrics._cells import CellMeasure
from calibrant.metrics._predictions import Predictions, column_of, exact_sum, name_of
from calibrant.metrics._reading import metric, of_arrays
from calibrant.metrics._result import Result, doc, result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from calibrant._maps.base import Floats
    from calibrant.metrics._cells import SortedCells
    from calibrant.metrics._measures import Body

CUMULATIVE_STATISTICS = ("kuiper", "kolmogorov_smirnov")

N_TERMS = 12
"""Of the series of both distributions: at the seam, the first one left out is below 1e-30."""

SHORTEST_RANGE = 0.05
"""Brownian motion gets farther than this, but for a probability below 1e-200."""


@result(eq=False)
class CumulativeDifferences(Result):
    """Result of :func:`cumulative_differences`; arrays are read-only."""

    kind: Any = doc("'confidence', or the label of the class.")
    probability: Floats = doc("Distinct predictions, increasing.")
    difference: Floats = doc("Sum of hit - prediction up to each, over the sum of all weights.")
    kuiper: float = doc("Largest minus smallest difference, with 0 among them.")
    kolmogorov_smirnov: float = doc("Largest absolute difference.")
    scale: float = doc("Standard deviation of the last difference if the predictions were honest.")
    kuiper_p_value: float = doc("How often honest predictions have a statistic as large.")
    kolmogorov_smirnov_p_value: float = doc("The same of the other.")


@metric
def kuiper_error(classes: Any, *, kind: Any = None) -> Body:
    """Kuiper's calibration error: the range of the cumulative differences.

    Rows are put in the order of their probability, of the positive class or, of more than two, of
    the confidence, and event minus probability is added up. The error is the largest of these
    partial sums minus the smallest, over the number of rows: the largest sum over the rows in any
    interval of probabilities. There are no bins and no bandwidth to choose.

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
    """Kolmogorov-Smirnov calibration error: the largest cumulative difference.

    As :func:`kuiper_error`, but over intervals of probabilities that begin at 0 alone.

    Returns
    -------
    float
        In [0, 1], not below the half of Kuiper's nor above it.

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
    """Cumulative differences between hits and predictions, with two tests of calibration.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,), optional
        A row of weight 2 is one event that counts double in ``scale`` and the p-values, not two
        events; all else has it twice.

    Notes
    -----
    If each event happens with the probability that was predicted, the curve is a sum of
    independent terms, whose last value has the standard deviation ``scale``; divided by it, the
    curve of many rows is Brownian motion. The p-values are those of its range and of its largest
    absolute value, and a little too large where there are few rows (docs/metrics.md).

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
