"""Objective of two-class scaling: logistic regression on few features of the log-odds.

From a base, a line u = pivot + slope (z - pivot) of the log-odds z, a map is u + t . F(u) with

    F(u) = u - pivot, 1, even(u), odd(u),    q = sigmoid(u),
    even(u) = 2 log(1/2 + BOUND) - log(q + BOUND) - log(1 - q + BOUND),
    odd(u)  = log(q + BOUND) - log(1 - q + BOUND),

of which a map has some. Even is what makes the two classes differ, odd bends them alike; both are
bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from calibrant._types import Floats

N_FEATURES = 4
"""Slope, intercept, even and odd."""

BOUND = 0.02
"""Added to probabilities before the logarithms of even and odd are taken."""

ROWS_AT_ONCE = 1 << 13
"""Rows whose losses are computed at once: what the second-level cache holds."""


class Base(NamedTuple):
    """A line of the log-odds: pivot + slope (z - pivot)."""

    pivot: float
    slope: float

    def __call__(self, z: Floats) -> Floats:
        """Value at each of the log-odds."""
        return self.pivot + self.slope * (z - self.pivot)

    def features(self, z: Floats) -> tuple[Floats, Floats]:
        """Return u and the features, one row for each of them."""
        u = self(z)
        q, rest = expit(u), expit(-u)
        log_q, log_rest = np.log(q + BOUND), np.log(rest + BOUND)
        result = np.empty((N_FEATURES, len(z)))
        result[0], result[1] = u - self.pivot, 1.0
        result[2] = 2.0 * np.log(0.5 + BOUND) - log_q - log_rest
        result[3] = log_q - log_rest
        return u, result


def sigmoid_and_softplus(x: Floats) -> tuple[Floats, Floats]:
    """Return 1 / (1 + exp(-x)) and log(1 + exp(x)), for one exponential and one logarithm."""
    small = np.exp(-np.abs(x))
    larger = 1.0 / (1.0 + small)  # of the probabilities of the two classes
    return np.where(x >= 0.0, larger, small * larger), np.maximum(x, 0.0) - np.log(larger)


def products(features: Floats) -> Floats:
    """Return products of all pairs of features, one row for each of them."""
    return (features[:, None] * features).reshape(-1, features.shape[1])


class Sums(NamedTuple):
    """Sums over rows, for each map: log(1 + exp(eta)) and its derivatives."""

    softplus: Floats
    gradient: Floats
    hessian: Floats


class Expansion(NamedTuple):
    """Objective of each map with its derivatives, and the sums that it is made of."""

    value: Floats
    gradient: Floats
    hessian: Floats
    sums: Sums


class TwoClassRows:
    """Losses of many maps at once: ``n_maps`` for each base, a row of ``points`` for each of them.

        sum_i w_i loss(eta_i, y_i) + ratio sum_i w_i loss(eta_i, q_i) + 1/2 sum_j ridge_j t_j^2,

    where the second sum is that of pseudo-observations labelled by the base, and a feature with an
    infinite ridge is left out. With ``slopes_only`` there is no feature but the slope.
    """

    def __init__(
        self,
        bases: list[Base],
        n_maps: list[int],
        z: Floats,
        positives: Floats,
        cells: Floats,
        *,
        slopes_only: bool = False,
    ) -> None:
        self._cells, self.total = cells, float(cells.sum())
        if slopes_only:
            self._lines = [(base(z), base.slope * (z - base.pivot)[None]) for base in bases]
        else:
            self._lines = [base.features(z) for base in bases]
        self.largest = np.array([np.abs(features).max(axis=1) for _, features in self._lines])
        self.largest = np.repeat(self.largest, n_maps, axis=0)  # feature, of each map
        ends = np.cumsum(n_maps).tolist()
        self._maps = [slice(end - n, end) for n, end in zip(n_maps, ends, strict=True)]
        self.base_losses = np.empty(len(bases))
        label_sums, base_sums, self._softplus = [], [], np.empty(len(bases))
        for i, (u, features) in enumerate(self._lines):
            q, softplus = sigmoid_and_softplus(u)
            self._softplus[i] = softplus @ cells
            self.base_losses[i] = self._softplus[i] - positives @ u
            label_sums.append(features @ positives)
            base_sums.append(features @ (cells * q))
        self._pairs = [
            products(features) if len(cells) <= ROWS_AT_ONCE else None
            for _, features in self._lines
        ]
        self._of_map = np.repeat(np.arange(len(bases)), n_maps)
        self._label_sums = np.array(label_sums)[self._of_map]
        self._base_sums = np.array(base_sums)[self._of_map]

    def sums(self, points: Floats) -> Sums:
        """Return sums over rows at ``points``, whatever the ridges and pseudo-observations."""
        n_features = points.shape[1]
        total, gradient = np.zeros(len(points)), np.zeros_like(points)
        hessian = np.zeros((len(points), n_features**2))
        for start in range(0, len(self._cells), ROWS_AT_ONCE):
            own = slice(start, start + ROWS_AT_ONCE)
            part = self._cells[own]
            for maps, (u, all_features), known in zip(
                self._maps, self._lines, self._pairs, strict=True
            ):
                features = all_features[:, own]
                pairs = products(features) if known is None else known
                p, softplus = sigmoid_and_softplus(u[own] + points[maps] @ features)
                total[maps] += softplus @ part
                spread = p * part
                gradient[maps] += spread @ features.T
                spread *= 1.0 - p
                hessian[maps] += spread @ pairs.T
        return Sums(total, gradient, hessian.reshape(-1, n_features, n_features))

    def expand(
        self, points: Floats, ridges: Floats, ratio: Floats, sums: Sums | None = None
    ) -> Expansion:
        """Value (less a constant), gradient and Hessian of the objective of each map.

        ``sums`` are those at ``points``, if they are known.
        """
        sums = self.sums(points) if sums is None else sums
        used, more = np.isfinite(ridges), 1.0 + ratio[:, None]
        held = np.where(used, ridges, 0.0)
        drawn = self._label_sums + ratio[:, None] * self._base_sums
        value = more[:, 0] * sums.softplus - np.sum(points * (drawn - 0.5 * held * points), axis=1)
        gradient = np.where(used, more * sums.gradient - drawn + held * points, 0.0)
        hessian = sums.hessian * (more[:, :, None] * used[:, :, None] * used[:, None, :])
        diagonal = np.arange(points.shape[1])
        hessian[:, diagonal, diagonal] += np.where(used, held, 1.0)
        return Expansion(value, gradient, hessian, sums)

    def losses(self, points: Floats, sums: Sums) -> tuple[Floats, Floats]:
        """Return the loss of each map, and its mean divergence from the base."""
        more = sums.softplus - self._softplus[self._of_map]
        loss = self.base_losses[self._of_map] + more - np.sum(points * self._label_sums, axis=1)
        apart = more - np.sum(points * self._base_sums, axis=1)
        return loss, np.maximum(apart / self.total, 0.0)
