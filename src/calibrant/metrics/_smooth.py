"""The calibration error without bins: smoothed as much as there is error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dct, dst
from scipy.optimize import brentq

from calibrant._predictions import Statistic, column_of, metric_of, source_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label
    from calibrant.scale import Chunks

N_CELLS, N_MOMENTS = 1 << 13, 8
"""Cells of [0, 1], and moments of each, in which residuals are counted."""

NARROWEST_BANDWIDTH = 2.0**-12  # bandwidth below which the moments say too little
NODES_PER_BANDWIDTH, MOST_NODES = 512, 1 << 18
"""Nodes of the grid on which smoothed residuals are integrated."""

FADED_PHASE = 9.6  # waves with pi k sigma above this have faded by 1e-20


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
    kind : None, "confidence" or a label, default=None
        Whether the largest probability of each row, or the probability of one class, is compared
        with labels. None is the positive (second) class of two, and the confidence for more.

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
        moments = sums[:-2].reshape(N_MOMENTS, N_CELLS) / sums[-1]
        return _fixed_point(cosine_series(moments), float(sums[-2] / sums[-1]))


def _fixed_point(coef: Floats, most: float) -> float:
    """Bandwidth that equals the error, which is at most the mean size of the residuals."""
    low = max(abs(float(coef[0])), NARROWEST_BANDWIDTH)

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
