"""Newton's method for a smooth convex function of many parameters, by products with its Hessian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_PRODUCTS = 500
"""Products with the Hessian for one step."""


class Bent(Protocol):
    """A convex function whose Hessian is that of one point."""

    def product(self, direction: Array) -> Array:
        """Hessian times ``direction``."""


class Curved(Bent, Protocol):
    """A convex function with its derivatives."""

    def value(self, x: Array) -> tuple[float, Array]:
        """Value and gradient."""

    def bend(self, x: Array) -> None:
        """Take the Hessian at ``x`` from now on."""

    def diagonal(self) -> Array:
        """Diagonal of the Hessian."""


def newton_steps(
    problem: Curved, x: Array, unit: Array, tol: float, max_rounds: int, max_products: int
) -> tuple[Array, int, float]:
    """Improve ``x`` until no gradient, each times its unit, exceeds ``tol``.

    Returns it with the number of steps and what the last of them was to gain. Stops after about
    ``max_products`` products with the Hessian in all.

    The Hessian gets a little of its own diagonal, in proportion to the gradient: enough where the
    minimum lies at infinity, and too little to slow the last steps.
    """
    value, gradient = problem.value(x)
    slope = np.inf
    for rounds in range(max_rounds):
        size = float(np.max(np.abs(gradient * unit)))
        if size <= tol or max_products <= 0:
            return x, rounds, 0.5 * slope
        problem.bend(x)
        diagonal = problem.diagonal()
        ridge = min(1e-2, 1e-2 * size) * diagonal + 1e-12 * float(diagonal.max()) + 1e-300
        most = min(MOST_PRODUCTS, max_products)
        step, products = conjugate_gradients(
            problem, ridge, _divide_by(diagonal + ridge), gradient, lambda first: 1e-8 * first, most
        )
        max_products -= products
        slope = float(gradient @ step)
        if slope <= 1e-15 * abs(value):  # rounding
            return x, rounds, 0.5 * slope
        length = 1.0
        while length > 1e-10:
            other = x - length * step
            new_value, new_gradient = problem.value(other)
            if new_value <= value - 1e-4 * length * slope + 1e-15 * abs(value):
                break
            length *= 0.5
        else:
            return x, rounds, 0.5 * slope  # nothing is left to gain
        x, value, gradient = other, new_value, new_gradient
    return x, max_rounds, 0.5 * slope


def _divide_by(scale: Array) -> Callable[[Array], Array]:
    return lambda rest: rest / scale


def conjugate_gradients(
    problem: Bent,
    ridge: Array,
    precondition: Callable[[Array], Array],
    gradient: Array,
    goal: Callable[[float], float],
    most: int,
) -> tuple[Array, int]:
    """Solve (Hessian + ridge) step = gradient until what is left is down to its ``goal``.

    Returns the step, which goes downhill wherever it stops, and the number of products.
    """
    step, rest = np.zeros_like(gradient), gradient.copy()
    direction = precondition(rest)
    size = float(rest @ direction)
    enough = goal(size)
    for products in range(1, most + 1):
        bent = problem.product(direction) + ridge * direction
        curvature = float(direction @ bent)
        if curvature <= 0.0:  # flat to rounding: nothing is known of how far to go
            return step, products
        length = size / curvature
        step += length * direction
        rest -= length * bent
        scaled = precondition(rest)
        size, before = float(rest @ scaled), size
        if size <= enough:
            return step, products
        direction = scaled + size / before * direction
    return step, most
