"""Structured scaling from gradients over all rows, one point a pass.

The Hessian is that of a sample of the rows, scaled to the curvature that all rows have in each
parameter, and bettered by the changes of the gradient between the points so far (L-BFGS).
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from calibrant.solvers.newton_steps import conjugate_gradients
from calibrant.solvers.report import SolverReport
from calibrant.solvers.spline_whole import drop_light_rows
from calibrant.solvers.structured_likelihood import Likelihood, Point, Preconditioner
from calibrant.solvers.structured_whole import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.structured_whole import Frame

    Array = NDArray[np.float64]

LARGEST_RATIO = 16.0
"""How far the curvature of all rows may be from that of a sample; more would be an accident."""

LONGEST = 2.0
"""Length of a step, in those of Newton's."""

SHORTER = 0.3
"""Factor on steps from a point that others did not better."""

ROUNDING = 1e-9
"""Part of the loss that two points may differ by and be as good."""

MOST_PRODUCTS = 200


class Reference(NamedTuple):
    """Parameters with the mean NLL of all rows, its gradient and its curvature.

    The curvature is the Hessian of the first two, and the diagonal of it for the rest.
    """

    theta: Array
    loss: float
    gradient: Array
    common: Array
    rest: Array


class StructuredStep(NamedTuple):
    """Which point of reference is the best, what all rows say of it, and a better one."""

    best: int
    report: SolverReport
    better: Array
    is_flat: bool


class _Scaled:
    """Hessian of a sample, scaled to the curvature of all rows."""

    def __init__(self, likelihood: Likelihood, reference: Reference, *, is_flat: bool) -> None:
        likelihood.value(reference.theta)
        common, rest = likelihood.curvature()
        ratio = np.concatenate(
            [
                np.diag(reference.common) / np.maximum(np.diag(common), 1e-300),
                reference.rest / np.maximum(rest, 1e-300),
            ]
        )
        self._likelihood = likelihood
        self._scale = np.sqrt(np.clip(ratio, 1.0 / LARGEST_RATIO, LARGEST_RATIO))
        if is_flat:
            self._scale[0] = 0.0
        self.common = common * np.outer(self._scale[:2], self._scale[:2])
        self.rest = rest * self._scale[2:] ** 2

    def product(self, direction: Array) -> Array:
        """Hessian times ``direction``."""
        found: Array = self._scale * self._likelihood.product(self._scale * direction)
        return found


def step_structured(
    batch: SimplexBatch,
    frame: Frame,
    references: Sequence[Reference],
    weight: float,
    tol: float,
    *,
    full: bool,
) -> StructuredStep:
    """Judge the best of some points by all rows, and better it; a sample of them is the batch."""
    started = perf_counter()
    temperature = frame.temperature(batch.kind)
    batch = drop_light_rows(batch).merged()
    likelihood, *_ = prepare(batch, temperature, frame.bound, frame.scale, full=full)
    penalty = frame.penalties[likelihood.kinds()] / weight
    pull = np.zeros_like(penalty)
    pull[: len(frame.pull)] = frame.pull
    points = [Point(one.theta, one.loss, one.gradient) for one in references]
    values, gradients = zip(*(one.penalised(penalty, pull) for one in points), strict=True)
    best = len(values) - 1
    for place, value in enumerate(values):
        best = place if value < values[best] - ROUNDING * abs(values[best]) else best
    found, gradient = references[best], gradients[best]
    is_flat = frame.is_flat and gradient[0] >= 0.0  # else alpha would rather be positive
    unit = Preconditioner(found.common + np.diag(penalty[:2]), found.rest + penalty[2:]).unit
    sizes = np.abs(gradient) * unit
    violation = float(np.max(sizes[1:] if is_flat else sizes))
    better = found.theta
    if violation > tol:
        line = _Line(likelihood, found, penalty, pull, gradient)
        pairs = _pairs(references, gradients, is_flat=is_flat)
        step = line.direction(pairs, is_flat=is_flat)
        if found.theta[0] + step[0] < 0.0:  # by convexity the best of alpha >= 0 is at 0
            is_flat = True
            pairs = _pairs(references, gradients, is_flat=True) if found.theta[0] == 0.0 else []
            step = line.direction(pairs, is_flat=True)
        length = line.length(step, is_flat=is_flat)
        if pairs:  # they know the length better
            length = 0.5 * (1.0 + length)
        better = better + length * SHORTER ** (len(values) - 1 - best) * step
        better[0] = max(better[0], 0.0)
        is_flat = bool(better[0] == 0.0)
    seconds = perf_counter() - started
    report = SolverReport("newton-cg", values[best], violation, tol, 1, seconds)
    return StructuredStep(best, report, better, is_flat)


def _pairs(
    references: Sequence[Reference], gradients: Sequence[Array], *, is_flat: bool
) -> list[tuple[Array, Array]]:
    """Return steps so far with changes of the gradient, where these tell of curvature."""
    found = []
    for place in range(1, len(references)):
        step = references[place].theta - references[place - 1].theta
        change = gradients[place] - gradients[place - 1]
        if is_flat:
            if step[0] != 0.0:  # the others had to follow
                continue
            change[0] = 0.0
        if step @ change > 1e-12 * np.sqrt(float(step @ step) * float(change @ change)):
            found.append((step, change))
    return found


class _Line:
    """Steps from a point of reference: their direction and their length."""

    def __init__(
        self,
        likelihood: Likelihood,
        found: Reference,
        penalty: Array,
        pull: Array,
        gradient: Array,
    ) -> None:
        self._likelihood, self._found, self._gradient = likelihood, found, gradient
        self._penalty, self._pull = penalty, pull

    def direction(self, pairs: list[tuple[Array, Array]], *, is_flat: bool) -> Array:
        """Newton's step with the scaled Hessian, bettered by the pairs (L-BFGS's two loops).

        ``is_flat`` if it has to end at alpha = 0.
        """
        penalty, rest, shift = self._penalty, self._gradient.copy(), np.zeros_like(self._penalty)
        if is_flat and self._found.theta[0] > 0.0:
            shift[0] = -self._found.theta[0]
            whole = _Scaled(self._likelihood, self._found, is_flat=False)
            rest += whole.product(shift) + penalty * shift
        hessian = _Scaled(self._likelihood, self._found, is_flat=is_flat)
        rest[0] = 0.0 if is_flat else rest[0]
        shares = []
        for step, change in reversed(pairs):
            shares.append(float(step @ rest) / float(step @ change))
            rest = rest - shares[-1] * change
        preconditioner = Preconditioner(
            hessian.common + np.diag(penalty[:2]), hessian.rest + penalty[2:]
        )
        downhill, _ = conjugate_gradients(
            hessian, penalty, preconditioner.solve, rest, lambda first: 1e-8 * first, MOST_PRODUCTS
        )
        for (step, change), share in zip(pairs, reversed(shares), strict=True):
            downhill = downhill + (share - float(change @ downhill) / float(step @ change)) * step
        downhill[0] = 0.0 if is_flat else downhill[0]
        found: Array = shift - downhill
        return found

    def length(self, step: Array, *, is_flat: bool) -> float:
        """Length of a step by the sample, with the slope of all rows and about their curvature."""
        hessian = _Scaled(self._likelihood, self._found, is_flat=is_flat and step[0] == 0.0)
        likelihood, theta, penalty = self._likelihood, self._found.theta, self._penalty
        bent = float(step @ (penalty * step))
        of_sample = float(step @ likelihood.product(step)) + bent
        ratio = (float(step @ hessian.product(step)) + bent) / max(of_sample, 1e-300)
        first, own = likelihood.value(theta).penalised(penalty, self._pull)
        slope, own_slope = float(self._gradient @ step), float(own @ step)

        def value(length: float) -> float:
            there = likelihood.value(theta + length * step).penalised(penalty, self._pull)[0]
            return length * slope + ratio * (there - first - length * own_slope)

        longest = 1.0 if is_flat else LONGEST
        result = minimize_scalar(
            value, bounds=(0.0, longest), method="bounded", options={"xatol": 1e-3}
        )
        return float(result.x)
