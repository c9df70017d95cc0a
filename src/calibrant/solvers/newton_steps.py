"""Newton's method for a smooth convex function of many parameters, by products with its Hessian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_PRODUCTS = 500
"""Products with the Hessian for one step."""


class Curved(Protocol):
    """A convex function with its derivatives."""

    def value(self, x: Array) -> tuple[float, Array]:
        """Value and gradient."""

    def bend(self, x: Array) -> None:
        """Take the Hessian at ``x`` from now on."""

    def diagonal(self) -> Array:
        """Diagonal of the Hessian."""

    def product(self, direction: Array) -> Array:
        """Hessian times ``direction``."""


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
        step, products = _solve(problem, gradient, diagonal + ridge, ridge, max_products)
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


def _solve(
    problem: Curved, gradient: Array, diagonal: Array, ridge: Array, max_products: int
) -> tuple[Array, int]:
    """Solve (Hessian + ridge) step = gradient by conjugate gradients, scaled by the diagonal.

    Returns the step, which goes downhill wherever it stops, and the number of products.
    """
    step, rest = np.zeros_like(gradient), gradient.copy()
    scaled = rest / diagonal
    direction = scaled.copy()
    size = first = float(rest @ scaled)
    products = 0
    while products < min(MOST_PRODUCTS, max_products):
        products += 1
        bent = problem.product(direction) + ridge * direction
        length = size / float(direction @ bent)
        step += length * direction
        rest -= length * bent
        scaled = rest / diagonal
        size, before = float(rest @ scaled), size
        if size <= 1e-8 * first:
            break
        direction = scaled + size / before * direction
    return step, products
