"""Cumulative differences between hits and predictions: Kuiper's and Kolmogorov-Smirnov's errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.fixed_point import totals
from calibrant.kernels.metrics import add_weights
from calibrant.metrics.brownian import peak_exceeds, range_exceeds
from calibrant.metrics.counted import measure
from calibrant.metrics.mass_cells import ProblemCells, sums_of
from calibrant.metrics.predictions import read_predictions
from calibrant.metrics.reliability import column_of, name_of
from calibrant.metrics.result import Result

if TYPE_CHECKING:
    from calibrant.maps.base import Floats
    from calibrant.metrics.chunk import BinaryProblem
    from calibrant.metrics.predictions import Predictions

STATISTICS = ("kuiper", "kolmogorov_smirnov")


@dataclass(frozen=True, slots=True, eq=False)
class CumulativeDifferences(Result):
    """Result of :func:`cumulative_differences`; arrays are read-only.

    Attributes
    ----------
    kind : object
        "confidence", or the label of the class.
    probability : ndarray of shape (n_distinct,)
        Distinct predictions, increasing.
    difference : ndarray of shape (n_distinct,)
        Sum of hit - prediction over all rows up to each, over the sum of all weights. Where the
        curve rises, the event happens more often than predicted, by its slope over the rows.
    kuiper : float
        Largest minus smallest difference, with 0 among them.
    kolmogorov_smirnov : float
        Largest absolute difference.
    scale : float
        Standard deviation of the last difference if the predictions were honest.
    kuiper_p_value, kolmogorov_smirnov_p_value : float
        How often honest predictions have a statistic as large.
    """

    kind: Any
    probability: Floats
    difference: Floats
    kuiper: float
    kolmogorov_smirnov: float
    scale: float
    kuiper_p_value: float
    kolmogorov_smirnov_p_value: float


def kuiper_error(
    y_true: Any,
    y_proba: Any,
    *,
    kind: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Kuiper's calibration error: the range of the cumulative differences.

    Rows are put in the order of their probability, of the positive class or, of more than two, of
    the confidence, and event minus probability is added up. The error is the largest of these
    partial sums minus the smallest, over the number of rows. So it is the largest sum, events minus
    probabilities, over the rows in any interval of probabilities. There are no bins and no
    bandwidth to choose.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`accuracy`.
    kind : None, "confidence" or a label, default=None
        As in :func:`reliability_curve`.

    Returns
    -------
    float
        In [0, 1]; equal probabilities are added as one.

    See Also
    --------
    cumulative_differences : Its p-value, the curve, and the same for a class.

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
    told = {"classes": classes, "pos_label": pos_label}
    return _error("kuiper", y_true, y_proba, kind, sample_weight, told)


def kolmogorov_smirnov_error(
    y_true: Any,
    y_proba: Any,
    *,
    kind: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Kolmogorov-Smirnov calibration error: the largest cumulative difference.

    As :func:`kuiper_error`, but over intervals of probabilities that begin at 0 alone.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`accuracy`.
    kind : None, "confidence" or a label, default=None
        As in :func:`reliability_curve`.

    Returns
    -------
    float
        In [0, 1], not below the half of Kuiper's nor above it.

    See Also
    --------
    cumulative_differences : Its p-value, the curve, and the same for a class.

    References
    ----------
    .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu, "Metrics of Calibration for
       Probabilistic Predictions", JMLR 23, 2022.
    .. [2] K. Gupta et al., "Calibration of Neural Networks using Splines", ICLR 2021.

    Examples
    --------
    >>> from calibrant.metrics import kolmogorov_smirnov_error
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> round(kolmogorov_smirnov_error([0, 0, 0, 1], y_proba), 4)
    0.3
    """
    told = {"classes": classes, "pos_label": pos_label}
    return _error("kolmogorov_smirnov", y_true, y_proba, kind, sample_weight, told)


def cumulative_differences(
    y_true: Any,
    y_proba: Any,
    *,
    kind: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> CumulativeDifferences:
    """Cumulative differences between hits and predictions, with two tests of calibration.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label
        As in :func:`accuracy`.
    kind : None, "confidence" or a label, default=None
        As in :func:`reliability_curve`.
    sample_weight : array-like of shape (n_rows,), optional
        A row of weight 2 is one event that counts double in ``scale`` and the p-values, not two
        events; all else has it twice.

    Returns
    -------
    CumulativeDifferences
        The curve, both statistics and their p-values.

    Notes
    -----
    If each event happens with the probability that was predicted, the curve is a sum of
    independent terms, whose last value has the standard deviation ``scale``; divided by it, the
    curve of many rows is Brownian motion. The p-values are those of its range and of its largest
    absolute value: no resamples, and any number of digits. They are a little too large where there
    are few rows, since a curve of few steps misses some of the range: in simulations with honest
    predictions of five classes, 3.7 % of Kuiper's and 4.3 % of Kolmogorov-Smirnov's were below 0.05
    with 100 rows, and 5.0 % and 5.2 % with 1,000.

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
    predictions = read_predictions(y_true, y_proba, sample_weight, classes, pos_label=pos_label)
    column = column_of(predictions.classes, kind)
    problem = predictions.problem(column)
    values, difference = walk(problem)
    spread = problem.weight**2 * problem.values * (1.0 - problem.values)
    scale = math.sqrt(_sum(spread)) / _sum(problem.weight)
    found = {name: statistic(name, difference) for name in STATISTICS}
    return CumulativeDifferences(
        kind=name_of(predictions.classes, column),
        probability=values,
        difference=difference,
        **found,
        scale=scale,
        kuiper_p_value=_chance(range_exceeds, found["kuiper"], scale),
        kolmogorov_smirnov_p_value=_chance(peak_exceeds, found["kolmogorov_smirnov"], scale),
    )


def _error(
    name: str, y_true: Any, y_proba: Any, kind: Any, sample_weight: Any, told: dict[str, Any]
) -> float:
    def in_memory(predictions: Predictions) -> float:
        column = column_of(predictions.classes, kind)
        return statistic(name, walk(predictions.problem(column))[1])

    return measure(
        lambda known: CumulativeCells(name, column_of(known, kind)),
        y_true,
        y_proba,
        sample_weight,
        **told,
        in_memory=in_memory,
    )


def _sum(terms: Floats) -> float:
    """Sum of terms in [0, 1], whatever their order."""
    sums = np.zeros((1, 1, 2), dtype=np.int64)
    add_weights(terms, sums)
    return float(totals(sums)[0, 0])


def walk(problem: BinaryProblem) -> tuple[Floats, Floats]:
    """Distinct values, and the cumulative differences at each.

    Terms are rounded to whole numbers whose sums cannot overflow: equal values may come in any
    order, and n rows are off by less than n 2^-61.
    """
    order = np.argsort(problem.values)
    values = problem.values[order]
    unit = math.ldexp(1.0, 61 - len(values).bit_length())
    steps = np.rint((problem.hits - problem.values) * problem.weight * unit)
    last = np.append(values[1:] != values[:-1], True)
    sums = np.cumsum(steps[order].astype(np.int64))[last]
    return values[last], sums / unit / _sum(problem.weight)


def statistic(name: str, difference: Floats) -> float:
    """Range of the differences and zero, or the largest absolute one."""
    high, low = max(float(difference.max()), 0.0), min(float(difference.min()), 0.0)
    return min(high - low if name == "kuiper" else max(high, -low), 1.0)


def _chance(exceeds: Any, found: float, scale: float) -> float:
    """P-value of a statistic; predictions that leave nothing to chance are right or are not."""
    if scale == 0.0:
        return 1.0 if found == 0.0 else 0.0
    return float(exceeds(found / scale))


class CumulativeCells(ProblemCells):
    """A statistic of rows in chunks: exact while all distinct values fit, then at some."""

    name = "cumulative cells"

    def __init__(self, statistic: str, column: int | None = None) -> None:
        super().__init__(n_bins=1, column=column)
        self._statistic = statistic

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"statistic": self._statistic, "column": self._column}

    def value(self) -> float:
        """Return the statistic of all rows counted."""
        weight, hits, values = sums_of(self._table.cells)
        return statistic(self._statistic, np.cumsum(hits - values) / math.fsum(weight))
