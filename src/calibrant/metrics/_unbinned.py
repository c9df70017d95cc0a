"""Errors without bins: smoothed, cumulative, and of the shares of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dct, dst
from scipy.optimize import brentq
from scipy.special import erfc, gammainc

from calibrant._predictions import (
    EventCells,
    Statistic,
    column_of,
    metric_of,
    name_of,
    source_of,
)
from calibrant._result import Result, doc, result

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label, Labels
    from calibrant.scale import Chunks

N_CELLS, N_MOMENTS = 1 << 13, 8
"""Cells of [0, 1], and moments of each, in which residuals are counted."""

NARROWEST_BANDWIDTH = 2.0**-12  # bandwidth below which the moments say too little
NODES_PER_BANDWIDTH, MOST_NODES = 512, 1 << 18
"""Nodes of the grid on which smoothed residuals are integrated."""

FADED_PHASE = 9.6  # waves with pi k sigma above this have faded by 1e-20

SHORTEST = 0.05  # Brownian motion gets farther than this, but for a probability below 1e-200
TERMS = np.arange(1.0, 251.0)
"""Terms of the series of both distributions: from ``SHORTEST`` on, others are below 1e-30."""

GAP_OF_ROUNDING = 1e-9  # gaps of less than this share of the weight are of rounding


def smooth_ece(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    kind: object = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the smooth calibration error, without bins or a bandwidth to choose.

    Residuals, probability minus event, are smoothed over the probability by a Gaussian kernel that
    is reflected at 0 and 1, and the absolute value is integrated. The bandwidth is the one that
    equals the error. Small changes of the predictions change the result little.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.
    kind
        As in :func:`reliability_curve`.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    Bandwidths below 2^-12 count as 2^-12: results below that may be too small, by less than that.

    References
    ----------
    .. [1] J. Błasiok and P. Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing", ICLR 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import smooth_ece
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.uniform(0.1, 0.9, 10_000)
    >>> y = rng.random(10_000) < positive - 0.1  # ten points too high
    >>> round(smooth_ece(y, positive), 2)
    0.11
    """
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    return metric_of(source, ResidualMoments(column_of(source.classes, kind)))


@dataclass(frozen=True)
class ResidualMoments(Statistic):
    """Smooth ECE: moments of value - hit in the cells of a grid, their size, and the weight.

    Eight moments of 2^13 cells leave an error of at most (2^-14 / s)^8 / 200 at bandwidth s.
    """

    column: int | None = None

    def sums(self, rows: Predictions) -> Floats:
        """Return weight * (value - hit) * u^m by (m, cell), u in [-1, 1] the place in the cell."""
        values, hits, weight = rows.events(self.column)
        cell = np.minimum((values * N_CELLS).astype(np.int64), N_CELLS - 1)
        place = 2.0 * (values * N_CELLS - cell) - 1.0
        terms = weight * (values - hits)
        sizes = [np.abs(terms).sum(), weight.sum()]
        moments = []
        for _ in range(N_MOMENTS):
            moments.append(np.bincount(cell, terms, N_CELLS))
            terms = terms * place
        return np.concatenate([*moments, sizes])

    def value(self, sums: Floats) -> float:
        """Return the bandwidth that equals the error."""
        coef = cosine_series(sums[:-2].reshape(N_MOMENTS, N_CELLS) / sums[-1])
        # The error is at most the mean size of the residuals.
        low, most = max(abs(float(coef[0])), NARROWEST_BANDWIDTH), float(sums[-2] / sums[-1])

        def excess(sigma: float) -> float:
            return smoothed_size(coef, sigma) - sigma

        if most <= low or excess(low) <= 0.0:
            return min(smoothed_size(coef, low), 1.0)
        if excess(most) >= 0.0:  # residuals of one sign, but for rounding
            return min(most, 1.0)
        return float(brentq(excess, low, most, xtol=1e-15, rtol=1e-15))


def cosine_series(moments: Floats) -> Floats:
    """Coefficients of cos(pi k t) of masses on [0, 1], from their moments in even cells.

    A mass at u about the middle of its cell has the wave there, developed into a Taylor series.
    """
    n_orders, n_cells = moments.shape
    angle = np.arange(n_cells) * (math.pi / (2 * n_cells))
    coef, factor = np.zeros(n_cells), np.ones(n_cells)
    for m in range(n_orders):
        if m % 2 == 0:
            waves = dct(moments[m], type=2)
        else:
            waves = np.append(0.0, dst(moments[m], type=2)[:-1])
        # The derivatives of a cosine are -sin, -cos, sin, cos.
        coef += (1.0, -1.0, -1.0, 1.0)[m % 4] * factor * waves
        factor *= angle / (m + 1)
    coef[0] *= 0.5
    return coef


def smoothed_size(coef: Floats, sigma: float) -> float:
    """Integrate |f|, f the masses smoothed by a Gaussian kernel that 0 and 1 reflect.

    The wave k fades by exp(-(pi k sigma)^2 / 2), as heat in an insulated bar does. The result falls
    as ``sigma`` rises.
    """
    n_waves = min(len(coef), int(FADED_PHASE / (math.pi * sigma)) + 2)
    n_steps = min(1 << max(10, math.ceil(math.log2(NODES_PER_BANDWIDTH / sigma))), MOST_NODES)
    wave = math.pi * np.arange(n_waves)
    coef = coef[:n_waves] * np.exp(-0.5 * (sigma * wave) ** 2)
    padded = np.zeros((2, n_steps + 1))
    padded[0, :n_waves] = coef
    padded[1, 1:n_waves] = coef[1:] / wave[1:]
    padded[:, 1:] *= 0.5  # as the transforms count them
    f = dct(padded[0], type=1)
    integral = np.linspace(0.0, 1.0, n_steps + 1) * coef[0]
    integral[1:-1] += dst(padded[1, 1:-1], type=1)
    # In a step with a root, by the cubic through both integrals with the slopes f: the root of the
    # chord is near enough, since the integral is flat there.
    step = np.flatnonzero((f[1:] >= 0.0) != (f[:-1] >= 0.0))
    first, last, start, end = f[step], f[step + 1], integral[step], integral[step + 1]
    x = first / (first - last)
    at_root = start + x * x * (3.0 - 2.0 * x) * (end - start)
    at_root += x * (1.0 - x) * ((1.0 - x) * first - x * last) / n_steps
    return float(np.abs(np.diff(np.concatenate([[0.0], at_root, integral[-1:]]))).sum())


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
    kind
        As in :func:`reliability_curve`.
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


def _tail(x: float, factors: Floats, places: Floats) -> float:
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
