"""Objective of two-class scaling: logistic regression on few features of the log-odds.

From a base, a line u = pivot + slope (z - pivot) of the log-odds z, a map is u + t . F(u) with

    F(u) = u - pivot, 1, even(u), odd(u), log(q + tiny), log(1 - q + tiny),    q = sigmoid(u),
    even(u) = 2 log(1/2 + BOUND) - log(q + BOUND) - log(1 - q + BOUND),
    odd(u)  = log(q + BOUND) - log(1 - q + BOUND),

of which a map has some. Even is what makes the two classes differ, odd bends them alike; both are
bounded. The last two are those of beta calibration.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_FEATURES = 6
"""Slope, intercept, even, odd, and the two logarithms."""

BOUND = 0.02
"""Added to probabilities before the logarithms of even and odd are taken."""

ROWS_AT_ONCE = 1 << 13
"""Rows whose losses are computed at once: what the second-level cache holds."""


class Base(NamedTuple):
    """A line of the log-odds: pivot + slope (z - pivot)."""

    pivot: float
    slope: float

    def __call__(self, z: Array) -> Array:
        """Value at each of the log-odds."""
        return self.pivot + self.slope * (z - self.pivot)

    def features(self, z: Array, tiny: float) -> tuple[Array, Array]:
        """Return u and the features, one row for each of them."""
        u = self(z)
        q, rest = expit(u), expit(-u)
        log_q, log_rest = np.log(q + BOUND), np.log(rest + BOUND)
        found = np.empty((N_FEATURES, len(z)))
        found[0], found[1] = u - self.pivot, 1.0
        found[2] = 2.0 * np.log(0.5 + BOUND) - log_q - log_rest
        found[3] = log_q - log_rest
        found[4], found[5] = np.log(q + tiny), np.log(rest + tiny)
        return u, found


def sigmoid_and_softplus(x: Array) -> tuple[Array, Array]:
    """Return 1 / (1 + exp(-x)) and log(1 + exp(x)), for one exponential and one logarithm."""
    small = np.exp(-np.abs(x))
    larger = 1.0 / (1.0 + small)  # of the probabilities of the two classes
    return np.where(x >= 0.0, larger, small * larger), np.maximum(x, 0.0) - np.log(larger)


class TwoClassRows:
    """Losses of many maps of one base at once: a row of ``points`` is the t of one of them.

        sum_i w_i loss(eta_i, y_i) + ratio sum_i w_i loss(eta_i, q_i) + 1/2 sum_j ridge_j t_j^2,

    where the second sum is that of pseudo-observations labelled by the base, and a feature with an
    infinite ridge is left out.
    """

    def __init__(self, base: Base, z: Array, positives: Array, cells: Array, tiny: float) -> None:
        self.u, self._features = base.features(z, tiny)
        self._cells, self.total = cells, float(cells.sum())
        self._label_sums = self._features @ positives
        self._base_sums = self._features @ (cells * expit(self.u))
        self._label_offset = float(positives @ self.u)

    @cached_property
    def _softplus_of_base(self) -> float:
        return float(self._cells @ sigmoid_and_softplus(self.u)[1])

    def expand(self, points: Array, ridges: Array, ratio: Array) -> tuple[Array, Array, Array]:
        """Value (less a constant), gradient and Hessian of the objective of each map."""
        used = np.isfinite(ridges)
        held = np.where(used, ridges, 0.0)
        total = np.zeros(len(points))
        gradient = np.zeros_like(points)
        hessian = np.zeros((*points.shape, N_FEATURES))
        for start in range(0, len(self.u), ROWS_AT_ONCE):
            own = slice(start, start + ROWS_AT_ONCE)
            features, cells = self._features[:, own], self._cells[own]
            eta = self.u[own] + points @ features
            p, softplus = sigmoid_and_softplus(eta)
            total += softplus @ cells
            p_cells = p * cells
            gradient += p_cells @ features.T
            spread = p_cells * (1.0 - p)
            hessian += (spread[:, None, :] * features) @ features.T
        more = 1.0 + ratio[:, None]
        drawn = self._label_sums + ratio[:, None] * self._base_sums
        value = more[:, 0] * total - np.sum(points * (drawn - 0.5 * held * points), axis=1)
        gradient = np.where(used, more * gradient - drawn + held * points, 0.0)
        hessian *= more[:, :, None] * used[:, :, None] * used[:, None, :]
        diagonal = np.arange(N_FEATURES)
        hessian[:, diagonal, diagonal] += np.where(used, held, 1.0)
        return value, gradient, hessian

    def losses(self, points: Array) -> tuple[Array, Array]:
        """Return the loss of each map, and its mean divergence from the base."""
        total = np.zeros(len(points))
        for start in range(0, len(self.u), ROWS_AT_ONCE):
            own = slice(start, start + ROWS_AT_ONCE)
            eta = self.u[own] + points @ self._features[:, own]
            total += sigmoid_and_softplus(eta)[1] @ self._cells[own]
        loss = total - self._label_offset - points @ self._label_sums
        apart = total - self._softplus_of_base - points @ self._base_sums
        return loss, np.maximum(apart / self.total, 0.0)
