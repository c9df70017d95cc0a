"""Smooth ECE: calibration error that is smoothed as much as there is error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct, dst
from scipy.optimize import brentq

from calibrant._kernels.metrics import add_residual_moments, add_weights
from calibrant.metrics._counted import measure
from calibrant.metrics._measures import Measure
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._predictions import column_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._chunk import Chunk

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


@inherit_parameters
def smooth_ece(
    y_true: Any,
    y_proba: Any,
    *,
    kind: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Smooth calibration error of the positive one of two classes, of more of the confidence.

    Residuals, probability minus event, are smoothed over the probability by a Gaussian kernel that
    is reflected at 0 and 1, and the absolute value of what is left is integrated. The bandwidth is
    the one that equals this error: small errors are looked for closely, large ones need no detail.
    There is nothing to choose, and a small change of the predictions changes the result little.

    Returns
    -------
    float
        In [0, 1]; the same to the last bit for any order of the rows.

    Notes
    -----
    No grid is visible in the result. Residuals are counted as eight moments in each of 2^13 cells,
    whose cosine series fades with the bandwidth s as the reflected kernel says; the error of this
    is at most (2^-14 / s)^8 / 200, below 1e-12 for results of 0.001 and more. Between its roots
    the smoothed function is integrated exactly. Bandwidths below 2^-12 count as 2^-12, so results
    below 0.00025 may be too small, by less than that.

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
    return measure(
        lambda known: ResidualMoments(column_of(known, kind)),
        y_true,
        y_proba,
        sample_weight,
        classes,
        pos_label,
    )


class ResidualMoments(Measure):
    """Smooth ECE: moments of the residuals in the cells of a grid."""

    name = "residual moments"

    def __init__(self, column: int | None = None) -> None:
        super().__init__(2 * N_CELLS * N_MOMENTS + 1)
        self._column = column

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Add moments of the residuals, and the weight."""
        cells = sums[:-1].reshape(N_CELLS, 2, N_MOMENTS, 2)
        add_residual_moments(*chunk.events(self._column), cells)
        add_weights(chunk.weight, sums[-1:].reshape(1, 1, 2))

    def value(self, sums: Floats, unit: float = 1.0) -> float:  # noqa: ARG002
        """Return the bandwidth that equals the error."""
        misses, hits = sums[:-1].reshape(N_CELLS, 2, N_MOMENTS).transpose(1, 2, 0) / sums[-1]
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
    """Bandwidth that equals the error, which falls as the bandwidth rises.

    The error is between the absolute mean of the residuals and ``most``, the mean of their
    absolute values.
    """
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

    They are the sum of ``coef[k] * cos(pi k t)``. The reflected kernel is that of heat in an
    insulated bar: the cosine of wave number k keeps its shape and fades by
    exp(-(pi k sigma)^2 / 2). So one transform holds the masses at every bandwidth.

    Parameters
    ----------
    moments : ndarray of shape (n_orders, n_cells)
        Of the masses in even cells, about the middle of each: ``moments[m]`` is the sum of
        mass * u^m, with u in [-1, 1] the place in the cell.
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
        integral += _sines(np.append(0.0, coef[1:] / (math.pi * wave[1:])), n_steps)
        taylor = _derivatives(coef, n_steps)
        cell, low, high = _brackets(taylor)
        own = taylor[:, cell]
        root = _bisect(own, low, high)
        inside = _polynomial(own / np.arange(1, N_TAYLOR_TERMS + 1)[:, None], root) * root / n_steps
        at_roots = np.concatenate([[0.0], integral[cell] + inside, integral[-1:]])
        return float(np.abs(np.diff(at_roots)).sum())


def _cosines(coef: Floats, n_steps: int) -> Floats:
    """Sum of coef[k] * cos(pi k t) at the nodes t = 0, 1 / n_steps, ..., 1."""
    padded = np.zeros(n_steps + 1)
    padded[: len(coef)] = coef
    padded[0] *= 2.0
    waves: Floats = dct(padded, type=1) * 0.5
    return waves


def _sines(coef: Floats, n_steps: int) -> Floats:
    """Sum of coef[k] * sin(pi k t) at the nodes."""
    padded = np.zeros(n_steps - 1)
    padded[: len(coef) - 1] = coef[1:]
    waves: Floats = np.concatenate([[0.0], dst(padded, type=1) * 0.5, [0.0]])
    return waves


def _derivatives(coef: Floats, n_steps: int) -> Floats:
    """Taylor series about each node, in steps of the grid: (order, node)."""
    angle = np.arange(len(coef)) * (math.pi / n_steps)
    found = np.empty((N_TAYLOR_TERMS, n_steps + 1))
    for m in range(N_TAYLOR_TERMS):
        waves = _cosines(coef, n_steps) if m % 2 == 0 else _sines(coef, n_steps)
        found[m] = DERIVATIVE_SIGNS[m % 4] * waves
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
    is_double = (_polynomial(taylor[:, dips], lowest) >= 0.0) != above[dips]
    double, middle = dips[is_double], lowest[is_double]
    cells = np.concatenate([cell, double, double])
    low = np.concatenate([np.zeros(len(cell) + len(double)), middle])
    high = np.concatenate([np.ones(len(cell)), middle, np.ones(len(double))])
    order = np.lexsort((low, cells))
    return cells[order], low[order], high[order]


def _polynomial(coef: Sequence[Floats] | Floats, x: Floats) -> Floats:
    """Polynomials with coefficients (order, polynomial), each at its own x."""
    value = coef[-1]
    for own in coef[-2::-1]:
        value = value * x + own
    return value


def _bisect(coef: Floats, low: Floats, high: Floats) -> Floats:
    """Root of each polynomial between ``low`` and ``high``, where its sign changes."""
    if len(low) == 0:
        return low
    above = _polynomial(coef, low) >= 0.0
    for _ in range(N_BISECTIONS):
        middle = 0.5 * (low + high)
        same = (_polynomial(coef, middle) >= 0.0) == above
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return 0.5 * (low + high)
