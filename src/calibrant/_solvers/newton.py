"""Newton's method for smooth convex functions, also between bounds: the minimiser of all solvers.

A step solves (Hessian + ridge) step = gradient, by elimination where the Hessian is a small matrix
and by conjugate gradients where only products with it are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from calibrant._objectives import projected_gradient

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._objectives import Objective, RowLoss
    from calibrant._types import Bools, Floats

MOST_DAMPING = 1e6
"""Part of the curvature that is added to it where steps fail."""

UNSEEN_GAIN = 1e-12
"""Gain that the rounding of a mean over many rows may hide; the gradient, whose own rounding is as
small, still tells which of two points is better."""

ROUNDING = 1e-10
"""What is left to gain where a fit ends at the limit of rounding."""


class NewtonFunction(Protocol):
    """A smooth convex function that Newton's method can take steps on."""

    def value(self, x: Floats) -> tuple[float, Floats]:
        """Value and gradient; the Hessian is that of this point from now on."""

    def newton_step(
        self, gradient: Floats, free: Bools, ridge: Floats, most: int
    ) -> tuple[Floats, int]:
        """Solve (Hessian + ridge) step = gradient for the free parameters.

        Also returns the number of products with the Hessian, which is at most ``most``.
        """


class NewtonMinimum(NamedTuple):
    """Where the method ended, how, and what its last undamped step was predicted to gain."""

    x: Floats
    value: float
    violation: float
    rounds: int
    predicted_gain: float
    notes: tuple[str, ...]


def minimise_newton(
    function: NewtonFunction,
    x: Floats,
    unit: Floats,
    *,
    tol: float,
    max_rounds: int,
    bounds: tuple[Floats | float, Floats | float] = (-np.inf, np.inf),
    max_products: int = 1 << 62,
) -> NewtonMinimum:
    """Minimise until no gradient, each times its ``unit``, exceeds ``tol``: x of least f(x).

    Steps are projected to the bounds (Bertsekas, 1982) and halved until the value decreases enough
    (Armijo); where none is short enough, curvature / unit^2 is added to the Hessian.
    """
    value, gradient = function.value(x)
    rounds, damping, predicted_gain = 0, 0.0, np.inf
    notes: tuple[str, ...] = ()
    violation = projected_gradient(x, gradient, unit, bounds)
    products_left = max_products
    while violation > tol and rounds < max_rounds:
        if products_left <= 0:
            notes = (f"stopped at its limit of {max_products} products with the Hessian",)
            break
        rounds += 1
        # Those next to a bound that they are drawn to go there, and not along with the others.
        nearest = np.where(gradient > 0, *bounds)
        free = ~(np.abs(x - nearest) <= 0.01 * np.abs(nearest)) | np.isinf(nearest)
        step, products = function.newton_step(gradient, free, damping / unit**2, products_left)
        step = np.where(free, step, x - nearest)
        products_left -= products
        predicted_gain = 0.5 * float(gradient @ step) if damping == 0.0 else predicted_gain
        size = 1.0
        while True:
            other = np.clip(x - size * step, *bounds)
            new_value, new_gradient = function.value(other)
            gain = 1e-4 * float(gradient @ (x - other)) - 1e-15 * abs(value)
            new_violation = projected_gradient(other, new_gradient, unit, bounds)
            is_better = new_value <= value - gain
            if not is_better and gain < UNSEEN_GAIN * abs(value):
                is_unseen = abs(new_value - value) <= UNSEEN_GAIN
                is_better = is_unseen and 2.0 * new_violation < violation
            if is_better or size < 1e-6:
                break
            size *= 0.5
        if is_better:
            x, value, gradient, violation = other, new_value, new_gradient, new_violation
            damping = 0.1 * damping if damping > 1e-12 else 0.0
            continue
        # Too far, where the curvature is that of a few rows; or nothing is left to gain.
        damping = max(10.0 * damping, 1e-6)
        if damping > MOST_DAMPING:
            break
        function.value(x)
    if violation > tol and predicted_gain <= ROUNDING:
        left = f"the objective could still fall by {predicted_gain:.0e}"
        notes += (f"at the limit of rounding: {left}",)
    return NewtonMinimum(x, value, violation, rounds, predicted_gain, notes)


class PenalisedLoss:
    """Mean loss of rows + penalty(t): what a solver minimises."""

    def __init__(self, rows: RowLoss, objective: Objective) -> None:
        self.rows, self.objective = rows, objective
        self._last: tuple[Floats, float, Floats] = np.empty(0), 0.0, np.empty(0)

    def loss(self, x: Floats) -> tuple[float, Floats]:
        """Value and gradient without the penalty."""
        if x is not self._last[0]:  # where the rows' Hessian is, too
            self._last = x, *self.rows.value(x)
        return self._last[1:]

    def value(self, x: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        value, gradient = self.loss(x)
        penalty, slope = self.objective.penalty(x)
        return value + penalty, gradient + slope


def conjugate_gradients(
    product: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    gradient: Floats,
    goal: Callable[[float], float],
    most: int,
) -> tuple[Floats, int]:
    """Solve Hessian step = gradient until the squared size of what is left is down to its goal.

    Returns the step, which goes downhill wherever it stops, and the number of products.
    """
    step, rest = np.zeros_like(gradient), gradient.copy()
    direction = precondition(rest)
    size = float(rest @ direction)
    enough = goal(size)
    for products in range(1, most + 1):
        change = product(direction)
        curvature = float(direction @ change)
        if curvature <= 0.0:  # flat to rounding: nothing is known of how far to go
            return step, products
        length = size / curvature
        step += length * direction
        rest -= length * change
        scaled = precondition(rest)
        size, before = float(rest @ scaled), size
        if size <= enough:
            return step, products
        direction = scaled + size / before * direction
    return step, most
