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

from calibrant.simplex import small_chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]


class RowLoss(Protocol):
    """The weighted loss of some rows as a function of the parameters."""

    def value(self, point: Array) -> tuple[float, Array]:
        """Weighted sum of the losses, and of their gradients."""


class Objective(ABC):
    """Settings of a fit; with them, sums over rows at a point and the optimality conditions."""

    __slots__ = ()

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

    def sums(self, batch: SimplexBatch, point: Array) -> tuple[float, Array]:
        """Sums over rows of weight * loss and of weight * gradient, without the penalty."""
        loss, gradient = 0.0, np.zeros_like(point)
        for own in small_chunks(batch.n_rows, batch.n_classes):
            value, slope = self.row_loss(batch.take(own)).value(point)
            loss += value
            gradient += slope
        return loss, gradient
