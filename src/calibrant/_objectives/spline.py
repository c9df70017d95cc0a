"""Objective of the monotone spline: a piecewise linear, increasing function of log p.

The smooth sibling of NA-FIR. The mean NLL of softmax(theta(log p)) is convex in the slopes of
theta; a straight line is temperature scaling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant._gate import to_logits
from calibrant._kernels.monotone_spline import find_bounds, spline_likelihood
from calibrant._maps.logits import SplineMap, log_probabilities
from calibrant._objectives import Objective

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._gate import SimplexBatch
    from calibrant._types import Floats, Wholes

SLOPE_BOUNDS = (1e-3, 1e3)
"""Flattest and steepest slope, relative to temperature scaling's."""


def sort_cells(batch: SimplexBatch) -> SimplexBatch:
    """Sort the scores of each row: no order of columns is left.

    A map that is shared by all classes needs no more than the scores and that of the label.
    """
    own = np.take_along_axis(batch.scores, batch.class_index[:, None], axis=1)
    place = np.count_nonzero(batch.scores < own, axis=1)
    return replace(batch, scores=np.sort(batch.scores, axis=1), class_index=place)


def spline_rows(batch: SimplexBatch, zero_logit: float) -> Floats:
    """Return log-probabilities, those of exact zeros bounded."""
    return log_probabilities(to_logits(batch.scores, batch.kind, zero_logit), batch.kind)


@dataclass(frozen=True, slots=True, eq=False)
class SplineObjective(Objective):
    """Penalised mean NLL of softmax(theta(scale log p)) in the slopes s of theta.

        mean_i NLL_i(s) + rate / 2 sum_b (s_{b+1} - s_b)^2 - <prior_gradient, s - start>,

    between the bounds of slopes. theta changes its slope at the ``knots``. ``prior_gradient`` is
    that of pseudo-observations which draw to a straight line of slope ``start``, temperature
    scaling. A
    ``unit`` of a slope changes the gradient by about one.
    """

    kind: str
    zero_logit: float
    scale: float
    knots: Floats
    start: float
    rate: float
    prior_gradient: Floats
    unit: Floats

    @property
    def bounds(self) -> tuple[float, float]:
        """Flattest and steepest slope."""
        return SLOPE_BOUNDS

    def row_loss(self, batch: SimplexBatch, total: float = 1.0) -> SplineRows:
        """Return the loss of some rows."""
        batch = sort_cells(batch)
        values = self.scale * spline_rows(batch, self.zero_logit)
        return SplineRows(values, batch.class_index, batch.weight / total, self.knots)

    def penalty(self, point: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        steps = np.diff(point)  # before they are scaled: exact where they are small
        gradient = self.rate * np.concatenate([[0.0], steps])
        gradient[:-1] -= self.rate * steps
        linear = float(self.prior_gradient @ (point - self.start))
        return 0.5 * self.rate * float(steps @ steps) - linear, gradient - self.prior_gradient

    def penalty_hessian(self) -> Floats:
        """Return the curvature of the penalty."""
        differences = np.diff(np.eye(len(self.prior_gradient)), axis=0)
        hessian: Floats = self.rate * differences.T @ differences
        return hessian

    def map(self, point: Floats) -> SplineMap:
        """Return the map of some slopes."""
        return SplineMap(self.knots / self.scale, point * self.scale, self.zero_logit, self.kind)


class SplineRows:
    """Loss of sorted rows in the slopes; the Hessian is that of the last point asked for."""

    def __init__(self, values: Floats, place: Wholes, share: Floats, knots: Floats) -> None:
        self.share, self.knots = share, knots
        bounds = np.empty((len(values), len(knots) + 2), dtype=np.int32)
        find_bounds(values, knots, bounds)
        self._cells = values, bounds, place
        own = values[np.arange(len(values)), place]
        above = np.clip(own[:, None] - knots, 0.0, np.append(np.diff(knots), np.inf))
        self._label = share @ np.column_stack([np.minimum(own - knots[0], 0.0), above])
        self.hessian, self.losses = np.empty((len(knots) + 1,) * 2), np.empty(len(share))

    def part(self, rows: NDArray[np.generic], weight: Floats | None = None) -> SplineRows:
        """Return some of the rows, with their weights or others."""
        values, _, place = self._cells
        weight = self.share[rows] if weight is None else weight
        return SplineRows(values[rows], place[rows], weight / weight.sum(), self.knots)

    def value(self, point: Floats) -> tuple[float, Floats]:
        """Weighted NLL and its gradient; that of each row is in ``losses`` from now on."""
        gradient, self.hessian = np.empty_like(point), np.empty_like(self.hessian)
        rows = *self._cells, self.share, self.knots, point
        spline_likelihood(*rows, self.losses, gradient, self.hessian)
        return float(self.share @ self.losses), gradient - self._label
