"""What is minimised: loss and derivatives of some rows at a point.

A method minimises F(t) = mean_i loss_i(t) + penalty(t) over the rows i of a calibration set. What
is settled before (units, reading of zeros, strength of penalties) is in a small frozen object, an
``Objective``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._types import Floats


class RowLoss(Protocol):
    """The weighted loss of some rows as a function of the parameters."""

    def value(self, point: Floats) -> tuple[float, Floats]:
        """Weighted sum of the losses, and of their gradients."""


class Objective(ABC):
    """Settings of a fit: the loss of rows, a penalty, and bounds of the parameters."""

    __slots__ = ()

    @property
    def bounds(self) -> tuple[Floats | float, Floats | float]:
        """Least and largest value of each parameter."""
        return -np.inf, np.inf

    @abstractmethod
    def row_loss(self, batch: SimplexBatch, total: float = 1.0) -> RowLoss:
        """Return the loss of some rows, whose weights are divided by ``total``."""

    @abstractmethod
    def penalty(self, point: Floats) -> tuple[float, Floats]:
        """Value and gradient of what is added to the mean loss."""


def projected_gradient(
    x: Floats, gradient: Floats, unit: Floats, bounds: tuple[Floats | float, Floats | float]
) -> float:
    """Return the largest gradient, each times its unit, that no bound forbids to follow."""
    held = ((x <= bounds[0]) & (gradient > 0)) | ((x >= bounds[1]) & (gradient < 0))
    return float(np.max(np.where(held, 0.0, np.abs(gradient) * unit)))
