"""Calibration error by kernel density estimates instead of bins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct, idct

from calibrant import _simplex as simplex
from calibrant._kernels.metrics import add_hit_moments, add_to_grid
from calibrant.metrics._counted import measure
from calibrant.metrics._measures import Measure
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._predictions import column_of

if TYPE_CHECKING:
    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._chunk import Chunk

N_STEPS = 1 << 13
"""Steps of the grid over [0, 1] on which densities are computed."""


@inherit_parameters
def kernel_density_ece(
    y_true: Any,
    y_proba: Any,
    *,
    bandwidth: float | None = None,
    kind: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """KDE-ECE, without bins: of the positive one of two classes, of more of the confidence.

    The integral of |z - frequency(z)| density(z) over probabilities z, where density and frequency
    of the event are kernel estimates: triweight kernel, mirrored at 0 and 1.

    Parameters
    ----------
    bandwidth : float, optional
        Standard deviation of the kernel, whose support is three times as far to each side. By
        default s (2 n)^(-1/5), with n the sum of the weights and s the standard deviation of the
        probabilities whose event happened, as the authors' program has it (their text: of all).
    sample_weight : array-like of shape (n_rows,), optional
        Weight 2 is the row twice, weight 0 is no row. The default bandwidth counts rows by
        their weights: scale weights that are no counts to a mean of one.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    Weights are shared between the two nearest of 2^13 + 1 nodes and convolved there by cosine
    transforms, whose symmetry is the mirroring; time is linear in the number of rows. The
    bandwidth is at least one step of that grid.

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
    return measure(
        lambda known: DensityGrid(bandwidth, column_of(known, kind)),
        y_true,
        y_proba,
        sample_weight,
        classes,
        pos_label,
    )


class DensityGrid(Measure):
    """KDE-ECE: masses at the nodes of a grid, and four moments."""

    name = "density grid"

    def __init__(self, bandwidth: float | None = None, column: int | None = None) -> None:
        if bandwidth is not None:
            simplex.check_number("bandwidth", bandwidth, low=0.0, high=1.0)
        self._bandwidth, self._column = bandwidth, column
        super().__init__(2 * (N_STEPS + 1) + 4)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Share weights between nodes; add the weight, and of the hits weight and two moments."""
        events = chunk.events(self._column)
        add_to_grid(*events, sums[:-4].reshape(-1, 2, 2))
        add_hit_moments(*events, sums[-4:].reshape(1, 4, 2))

    def prepare(self, sums: Floats) -> Floats:
        """Transform the masses at the nodes, of all rows and of hits, to cosines."""
        mass = sums[..., :-4].reshape(*sums.shape[:-1], -1, 2).swapaxes(-1, -2).copy()
        # Even about both ends, the sequence has each end node once where its mirror image adds a
        # second: so masses there count double.
        mass[..., [0, -1]] *= 2.0
        waves = dct(mass, type=1, overwrite_x=True).reshape(*sums.shape[:-1], -1)
        return np.concatenate([waves, sums[..., -4:]], axis=-1)

    def value(self, sums: Floats, unit: float = 1.0) -> float:
        """Return the error."""
        bandwidth = self._bandwidth
        if bandwidth is None:
            bandwidth = bandwidth_rule(float(sums[-4]) * unit, *sums[-3:].tolist())
        return density_error(sums[:-4].reshape(2, -1), bandwidth)


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
    return min(_trapezoid(gap) / _trapezoid(density), 1.0)


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
