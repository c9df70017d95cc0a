"""``Objective``: a penalised mean loss whose settings are fixed, of rows wherever they are.

A method minimises F(t) = mean_i loss_i(t) + penalty(t) over the rows i of a calibration set. What
is settled before (units, reading of zeros, strength of penalties) is in a small frozen object. The
rows may be all that there are, or a sample of those kept from a longer run over chunks: then

    minimise  mean_kept loss(t) + penalty(t) - <linear_term, t>,
    linear_term = mean_kept gradient(t0) - mean_all gradient(t0),

has the gradient of all rows at t0 (the surrogate likelihood of Jordan, Lee and Yang, 2019). The
mean gradient over all rows at the solution is both its certificate and the next linear term.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import numpy as np

from calibrant._simplex import small_chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch

    Array = NDArray[np.float64]


class RowLoss(Protocol):
    """The weighted loss of some rows as a function of the parameters."""

    def value(self, point: Array) -> tuple[float, Array]:
        """Weighted sum of the losses, and of their gradients."""


class Objective(ABC):
    """Settings of a fit; with them, sums over rows at a point and the optimality conditions."""

    __slots__ = ()

    @property
    def bounds(self) -> tuple[Array | float, Array | float]:
        """Least and largest value of each parameter."""
        return -np.inf, np.inf

    @abstractmethod
    def row_loss(self, batch: SimplexBatch, total: float = 1.0) -> RowLoss:
        """Return the loss of some rows, whose weights are divided by ``total``."""

    @abstractmethod
    def penalty(self, point: Array) -> tuple[float, Array]:
        """Value and gradient of what is added to the mean loss."""

    @abstractmethod
    def violation(self, point: Array, mean_gradient: Array) -> float:
        """Violation of the optimality conditions if that is the rows' mean gradient.

        The penalty is added here. In the units of the solver.
        """

    def curvature_sums(self, batch: SimplexBatch, point: Array) -> Array | None:  # noqa: ARG002
        """Sum over rows what second derivatives ``adapt`` needs to know of all rows, if any."""
        return None

    def sums(self, batch: SimplexBatch, point: Array) -> tuple[float, Array]:
        """Return sums over rows of weight * loss and of weight * gradient, without the penalty."""
        loss, gradient = 0.0, np.zeros_like(point)
        for own in small_chunks(batch.n_rows, batch.n_classes):
            value, slope = self.row_loss(batch.take(own)).value(point)
            loss += value
            gradient += slope
        return loss, gradient


def held_by_bounds(
    x: Array, gradient: Array, bounds: tuple[Array | float, Array | float]
) -> NDArray[np.bool_]:
    """Return which parameters are at a bound that the gradient draws them over."""
    return ((x <= bounds[0]) & (gradient > 0)) | ((x >= bounds[1]) & (gradient < 0))


def projected_gradient(
    x: Array, gradient: Array, unit: Array, bounds: tuple[Array | float, Array | float]
) -> float:
    """Return the largest gradient, each times its unit, that no bound forbids to follow."""
    held = held_by_bounds(x, gradient, bounds)
    return float(np.max(np.where(held, 0.0, np.abs(gradient) * unit)))
