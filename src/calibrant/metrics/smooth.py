"""Smooth ECE: calibration error that is smoothed as much as there is error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from calibrant.kernels.metrics import add_residual_moments, add_weights
from calibrant.metrics.counted import measure
from calibrant.metrics.heat_series import HeatSeries
from calibrant.metrics.measures import SummedMeasure
from calibrant.metrics.reliability import column_of

if TYPE_CHECKING:
    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import Chunk

N_CELLS = 1 << 13
"""Cells of [0, 1] in which moments are counted."""

N_MOMENTS = 8
"""Moments of each cell."""

NARROWEST = 2.0**-12
"""Bandwidth below which the moments say too little."""


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

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`accuracy`.
    kind : None, "confidence" or a label, default=None
        As in :func:`reliability_curve`.

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
        classes=classes,
        pos_label=pos_label,
    )


class ResidualMoments(SummedMeasure):
    """Smooth ECE, added up chunk by chunk: moments of the residuals in the cells of a grid."""

    name = "residual moments"

    def __init__(self, column: int | None = None) -> None:
        super().__init__(2 * N_CELLS * N_MOMENTS + 1)
        self._column = column

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"column": self._column}

    def _count(self, chunk: Chunk, pairs: Wholes) -> None:
        cells = pairs[:-1].reshape(N_CELLS, 2, N_MOMENTS, 2)
        add_residual_moments(*chunk.problem(self._column), cells)
        add_weights(chunk.weight, pairs[-1:].reshape(1, 1, 2))

    def value_of(self, sums: Floats) -> float:
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
    low = max(abs(float(series.coef[0])), NARROWEST)
    if most <= low:
        return min(series.total_variation(low), 1.0)

    def excess(sigma: float) -> float:
        return series.total_variation(sigma) - sigma

    if excess(low) <= 0.0:
        return min(series.total_variation(low), 1.0)
    if excess(most) >= 0.0:  # residuals of one sign, but for rounding
        return min(most, 1.0)
    return float(brentq(excess, low, most, xtol=1e-15, rtol=1e-15))
