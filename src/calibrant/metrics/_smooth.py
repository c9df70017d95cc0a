"""Calibration errors without bins: by kernel densities, and smoothed as much as there is error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct, dst, idct
from scipy.optimize import brentq

from calibrant._simplex import check_number
from calibrant.metrics._predictions import column_of, read
from calibrant.metrics._statistic import Statistic, measure

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._predictions import Predictions
    from calibrant.scale import Chunks

N_STEPS = 1 << 13
"""Steps of the grid over [0, 1] on which densities are computed."""

N_CELLS = 1 << 13
"""Cells of [0, 1] in which moments are counted."""

N_MOMENTS = 8
"""Moments of each cell."""

NARROWEST_BANDWIDTH = 2.0**-12
"""Bandwidth below which the moments say too little."""

N_TAYLOR_TERMS = 8
"""Terms of the Taylor series of a wave about a node."""

NODES_PER_BANDWIDTH = 16

FADED_PHASE = 9.6
"""Waves with pi k sigma above this have faded by 1e-20."""

N_BISECTIONS = 20
"""Of a step around a root, in which the integral is flat: its error is that of the root squared."""

DERIVATIVE_SIGNS = (1.0, -1.0, -1.0, 1.0)
"""Of the derivatives of a cosine: cos, -sin, -cos, sin."""


def kernel_density_ece(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    bandwidth: float | None = None,
    kind: Any = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Compute the kernel density calibration error (KDE-ECE), without bins.

    The integral of ``|z - frequency(z)| density(z)`` over probabilities z, where density and
    frequency of the event are kernel estimates: triweight kernel, mirrored at 0 and 1.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,), Predictions or Chunks
        True labels, or one-hot rows; or predictions with their labels.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    bandwidth : float, optional
        Standard deviation of the kernel, whose support is three times as far to each side. By
        default s (2 n)^(-1/5), with n the sum of the weights and s the standard deviation of the
        probabilities whose event happened, as the authors' program has it (their text: of all).
    kind : None, "confidence" or a label, default=None
        "confidence" compares the largest probability of each row with whether it is right; a label
        compares the probability of that class with whether it is the label. None is the positive
        (second) class of two, and the confidence for more.
    sample_weight : array-like of shape (n_rows,), optional
        Weight 2 is the row twice, weight 0 is no row. The default bandwidth counts rows by
        their weights: scale weights that are no counts to a mean of one.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y_true`` lacks a class. For a single column: the negative
        and the positive label.
    pos_label : object, optional
        Label of the class of a single column. Not needed for 0 and 1, -1 and 1, or False and True,
        where it is the larger one.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    Weights are shared between the two nearest of 2^13 + 1 nodes and convolved there by cosine
    transforms, whose symmetry is the mirroring. The bandwidth is at least one step of that grid.

    References
    ----------
    .. [1] J. Zhang, B. Kailkhura and T. Han, "Mix-n-Match: Ensemble and Compositional Methods for
       Uncertainty Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import kernel_density_ece
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.uniform(0.1, 0.9, 10_000)
    >>> y = rng.random(10_000) < positive - 0.1  # ten points too high
    >>> round(kernel_density_ece(y, positive), 2)
    0.11
    """
    if bandwidth is not None:
        check_number("bandwidth", bandwidth, low=0.0, high=1.0)
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    return measure(source, DensityGrid(column_of(source.classes, kind), bandwidth))


@dataclass(frozen=True)
class DensityGrid(Statistic):
    """KDE-ECE: masses at the nodes of a grid, of all rows and of hits, and four moments."""

    column: int | None = None
    bandwidth: float | None = None

    def sums(self, rows: Predictions) -> Floats:
        """Return masses of shape (2 (n_steps + 1)), and of all rows weight, of hits three moments.

        Each weight is shared between the two nearest nodes.
        """
        values, hits, weight = rows.events(self.column)
        position = values * N_STEPS
        node = np.minimum(position.astype(np.int64), N_STEPS - 1)
        above = weight * (position - node)
        of_hits = weight * hits
        masses = []
        for factor in (1.0, hits):
            mass = np.bincount(node, (weight - above) * factor, N_STEPS + 1)
            masses.append(mass + np.bincount(node + 1, above * factor, N_STEPS + 1))
        moments = [weight.sum(), of_hits.sum(), of_hits @ values, of_hits @ (values * values)]
        return np.concatenate([*masses, moments])

    def value(self, sums: Floats) -> float:
        """Return the error."""
        mass = sums[:-4].reshape(2, -1).copy()
        # Even about both ends, the sequence has each end node once where its mirror image adds a
        # second: so masses there count double.
        mass[:, [0, -1]] *= 2.0
        bandwidth = self.bandwidth
        if bandwidth is None:
            bandwidth = bandwidth_rule(*sums[-4:].tolist())
        return density_error(dct(mass, type=1), bandwidth)


def bandwidth_rule(count: float, hits: float, first: float, second: float) -> float:
    """Bandwidth s (2 n)^(-1/5), from the sums of weight, value and squared value over the hits."""
    if hits <= 0:
        return 0.0
    variance = second / hits - (first / hits) ** 2
    return math.sqrt(max(variance, 0.0)) * math.pow(2.0 * count, -0.2)


def density_error(waves: Floats, bandwidth: float) -> float:
    """Integrate |z - accuracy(z)| density(z), from cosines of masses, of all rows and of hits."""
    n_steps = waves.shape[1] - 1
    kernel = _mirrored_triweight(n_steps, 3.0 * max(bandwidth * n_steps, 1.0))
    density, hit_density = idct(waves * dct(kernel, type=1), type=1, overwrite_x=True)
    gap = np.abs(np.linspace(0.0, 1.0, n_steps + 1) * density - hit_density)
    total = _trapezoid(density)
    return min(_trapezoid(gap) / total, 1.0) if total > 0.0 else 0.0


def _mirrored_triweight(n_steps: int, reach: float) -> Floats:
    """(1 - (d / reach)^2)^3 at distances of 0 .. n_steps nodes, with its images, of sum one.

    The reach is at most 3 n_steps, so no image beyond the first on each side gets there.
    """
    kernel = np.zeros(n_steps + 1)
    distance = np.arange(min(n_steps, int(reach)) + 1)
    kernel[: len(distance)] = _triweight(distance, reach)
    if reach > n_steps:
        kernel += _triweight(2 * n_steps - distance, reach) + _triweight(
            2 * n_steps + distance, reach
        )
    return kernel / (2.0 * _trapezoid(kernel))


def _triweight(distance: Wholes, reach: float) -> Floats:
    square = distance / reach
    square *= square
    inside = np.maximum(1.0 - square, 0.0)
    cube: Floats = inside * inside * inside
    return cube


def _trapezoid(values: Floats) -> float:
    return float(values.sum() - 0.5 * (values[0] + values[-1]))


def smooth_ece(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    kind: Any = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Compute the smooth calibration error, without bins or a bandwidth to choose.

    Residuals, probability minus event, are smoothed over the probability by a Gaussian kernel that
    is reflected at 0 and 1, and the absolute value is integrated. The bandwidth is the one that
    equals the error, so small errors are resolved finely. Small changes of the predictions change
    the result little. It is computed for the positive class of two, and for the confidence with
    more classes.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,), Predictions or Chunks
        True labels, or one-hot rows; or predictions with their labels.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    kind : None, "confidence" or a label, default=None
        "confidence" compares the largest probability of each row with whether it is right; a label
        compares the probability of that class with whether it is the label. None is the positive
        (second) class of two, and the confidence for more.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y_true`` lacks a class. For a single column: the negative
        and the positive label.
    pos_label : object, optional
        Label of the class of a single column. Not needed for 0 and 1, -1 and 1, or False and True,
        where it is the larger one.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    Residuals are counted as eight moments in each of 2^13 cells, whose cosine series fades with the
    bandwidth s as the reflected kernel says; the error of this is at most (2^-14 / s)^8 / 200.
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
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    return measure(source, ResidualMoments(column_of(source.classes, kind)))


@dataclass(frozen=True)
class ResidualMoments(Statistic):
    """Smooth ECE: moments of |hit - value| in the cells of a grid, of misses and of hits apart."""

    column: int | None = None

    def sums(self, rows: Predictions) -> Floats:
        """Return weight * |hit - value| * u^m by (miss or hit, m, cell), u the place in the cell.

        And the weight of all rows, at the end.
        """
        values, hits, weight = rows.events(self.column)
        position = values * N_CELLS
        cell = np.minimum(position.astype(np.int64), N_CELLS - 1)
        terms = weight * np.where(hits, 1.0 - values, values)
        place = cell + N_CELLS * hits
        found = np.empty((2, N_MOMENTS, N_CELLS))
        for m in range(N_MOMENTS):
            found[:, m] = np.bincount(place, terms, 2 * N_CELLS).reshape(2, N_CELLS)
            terms = terms * (position - cell)
        return np.append(found, weight.sum())

    def value(self, sums: Floats) -> float:
        """Return the bandwidth that equals the error."""
        misses, hits = sums[:-1].reshape(2, N_MOMENTS, N_CELLS) / sums[-1]
        series = HeatSeries(_about_middle(misses - hits))
        return _fixed_point(series, float(misses[0].sum() + hits[0].sum()))


def _about_middle(moments: Floats) -> Floats:
    """Moments of u in [0, 1] as those of 2 u - 1."""
    found = np.zeros_like(moments)
    for m in range(len(moments)):
        for q in range(m + 1):
            found[m] += (-1.0) ** (m - q) * math.comb(m, q) * 2.0**q * moments[q]
    return found


def _fixed_point(series: HeatSeries, most: float) -> float:
    """Bandwidth that equals the error, which is at most the mean size of the residuals."""
    low = max(abs(float(series.coef[0])), NARROWEST_BANDWIDTH)
    if most <= low:
        return min(series.total_variation(low), 1.0)

    def excess(sigma: float) -> float:
        return series.total_variation(sigma) - sigma

    if excess(low) <= 0.0:
        return min(series.total_variation(low), 1.0)
    if excess(most) >= 0.0:  # residuals of one sign, but for rounding
        return min(most, 1.0)
    return float(brentq(excess, low, most, xtol=1e-15, rtol=1e-15))


class HeatSeries:
    """Point masses on [0, 1], smoothed by a Gaussian kernel that both ends reflect.

    They are the sum of ``coef[k] * cos(pi k t)``, and the cosine of wave number k fades by
    exp(-(pi k sigma)^2 / 2), as heat in an insulated bar does. ``moments[m]`` is the sum of mass *
    u^m in each of even cells, with u in [-1, 1] the place in the cell.
    """

    def __init__(self, moments: Floats) -> None:
        n_orders, n_cells = moments.shape
        angle = np.arange(n_cells) * (math.pi / (2 * n_cells))
        coef, factor = np.zeros(n_cells), np.ones(n_cells)
        for m in range(n_orders):
            if m % 2 == 0:
                waves = dct(moments[m], type=2)
            else:
                waves = np.append(0.0, dst(moments[m], type=2)[:-1])
            coef += DERIVATIVE_SIGNS[m % 4] * factor * waves
            factor *= angle / (m + 1)
        coef[0] *= 0.5
        self.coef: Floats = coef

    def total_variation(self, sigma: float) -> float:
        """Return the integral of the absolute value of the masses, smoothed by ``sigma``.

        It falls as ``sigma`` rises. Between its roots the smoothed function is integrated wave by
        wave; the roots are those of its Taylor series about the nodes of a grid.
        """
        n_waves = min(len(self.coef), int(FADED_PHASE / (math.pi * sigma)) + 2)
        n_steps = 1 << max(6, math.ceil(math.log2(NODES_PER_BANDWIDTH / sigma)))
        wave = np.arange(n_waves)
        coef = self.coef[:n_waves] * np.exp(-0.5 * (math.pi * sigma * wave) ** 2)
        integral = np.linspace(0.0, 1.0, n_steps + 1) * coef[0]
        integral += _waves(np.append(0.0, coef[1:] / (math.pi * wave[1:])), n_steps, sines=True)
        taylor = _derivatives(coef, n_steps)
        cell, low, high = _brackets(taylor)
        own = taylor[:, cell]
        root = _bisect(own, low, high)
        inside = _at(own / np.arange(1, N_TAYLOR_TERMS + 1)[:, None], root) * root / n_steps
        at_roots = np.concatenate([[0.0], integral[cell] + inside, integral[-1:]])
        return float(np.abs(np.diff(at_roots)).sum())


def _waves(coef: Floats, n_steps: int, *, sines: bool) -> Floats:
    """Sum of coef[k] * cos(pi k t), or of sines, at the nodes t = 0, 1 / n_steps, ..., 1."""
    padded = np.zeros(n_steps + 1)
    padded[: len(coef)] = 0.5 * coef
    if sines:
        padded[1:-1] = dst(padded[1:-1], type=1)
        padded[0] = 0.0
        return padded
    padded[0] *= 2.0
    waves: Floats = dct(padded, type=1)
    return waves


def _derivatives(coef: Floats, n_steps: int) -> Floats:
    """Taylor series about each node, in steps of the grid: (order, node)."""
    angle = np.arange(len(coef)) * (math.pi / n_steps)
    found = np.empty((N_TAYLOR_TERMS, n_steps + 1))
    for m in range(N_TAYLOR_TERMS):
        found[m] = DERIVATIVE_SIGNS[m % 4] * _waves(coef, n_steps, sines=m % 2 == 1)
        coef = coef * angle / (m + 1)
    return found


def _brackets(taylor: Floats) -> tuple[Wholes, Floats, Floats]:
    """Return steps of the grid with a root, and between which places of them it lies, in order.

    Where the function comes closer to zero and leaves again within a step, it may have two.
    """
    value, slope = taylor[0], taylor[1]
    above = value >= 0.0
    stays = above[1:] == above[:-1]
    cell = np.flatnonzero(~stays)
    dips = np.flatnonzero(stays & (value * slope < 0.0)[:-1] & (value * slope > 0.0)[1:])
    by_order = np.arange(1, N_TAYLOR_TERMS)[:, None] * taylor[1:, dips]
    lowest = _bisect(by_order, np.zeros(len(dips)), np.ones(len(dips)))
    is_double = (_at(taylor[:, dips], lowest) >= 0.0) != above[dips]
    double, middle = dips[is_double], lowest[is_double]
    cells = np.concatenate([cell, double, double])
    low = np.concatenate([np.zeros(len(cell) + len(double)), middle])
    high = np.concatenate([np.ones(len(cell)), middle, np.ones(len(double))])
    order = np.lexsort((low, cells))
    return cells[order], low[order], high[order]


def _at(coef: Floats, x: Floats) -> Floats:
    """Polynomials with coefficients (order, polynomial), each at its own x."""
    value: Floats = coef[-1]
    for own in coef[-2::-1]:
        value = value * x + own
    return value


def _bisect(coef: Floats, low: Floats, high: Floats) -> Floats:
    """Root of each polynomial between ``low`` and ``high``, where its sign changes."""
    if len(low) == 0:
        return low
    above = _at(coef, low) >= 0.0
    for _ in range(N_BISECTIONS):
        middle = 0.5 * (low + high)
        same = (_at(coef, middle) >= 0.0) == above
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return 0.5 * (low + high)
