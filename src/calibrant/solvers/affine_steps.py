"""Vector scaling from gradients over all rows, one point a pass: Newton's method, step by step.

The direction comes from all rows, if their Hessian was counted, and the length of the step from a
sample of them: its likelihood along the direction, with the slope and the curvature of all rows.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from calibrant.maps.logits import AffineMap
from calibrant.solvers.affine_whole import prepare
from calibrant.solvers.newton_steps import conjugate_gradients
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.logits import TemperatureMap
    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.affine_whole import Problem, Reference, RidgePenalty

    Array = NDArray[np.float64]

LONGEST = 2.0
"""Length of a step, in those of Newton's."""

MOST_PRODUCTS = 500


class AffineStep(NamedTuple):
    """What all rows say of a point of reference, and a better one."""

    report: SolverReport
    better: AffineMap


def step_affine(
    batch: SimplexBatch,
    temperature: TemperatureMap,
    present: NDArray[np.bool_],
    reference: Reference,
    *,
    penalty: RidgePenalty,
    tol: float,
    damping: float,
) -> AffineStep:
    """Judge a point of reference by all rows, and step from it; a sample of them is the batch.

    ``damping`` is the part of the curvature that is added to it, for steps that went too far.
    """
    started = perf_counter()
    problem, unit = prepare(batch, temperature, present, penalty, full=False)
    x = problem.match(reference, unit)
    violation = problem.violation(x)
    better = reference.map
    if violation > tol:
        hessian = reference.hessian
        if hessian is not None:
            sizes = np.repeat([reference.unit / unit, 1.0], batch.n_classes)
            hessian = hessian * np.outer(sizes, sizes)
        step = _direction(problem, x, hessian, damping)
        length = _length(problem, x, step, hessian)
        slope, intercept = problem.map(x + length * step)
        better = AffineMap(slope / unit, intercept, temperature.zero_logit, batch.kind)
    loss = reference.loss + problem.penalty(x)
    seconds = perf_counter() - started
    return AffineStep(SolverReport("newton", loss, violation, tol, 1, seconds), better)


def _direction(problem: Problem, x: Array, hessian: Array | None, damping: float) -> Array:
    """Newton's step; its Hessian gets a little of its diagonal."""
    gradient = problem.value(x)[1]
    problem.bend(x)
    diagonal = problem.diagonal() if hessian is None else np.diag(hessian) + problem.bends
    ridge = (damping + 1e-9) * diagonal + 1e-12 * float(diagonal.max()) + 1e-300
    if hessian is None:
        scale = diagonal + ridge
        step, _ = conjugate_gradients(
            problem,
            ridge,
            lambda rest: rest / scale,
            gradient,
            lambda one: 1e-8 * one,
            MOST_PRODUCTS,
        )
        return -step
    step = np.zeros_like(x)
    free = problem.free
    part = hessian[np.ix_(free, free)] + np.diag((problem.bends + ridge)[free])
    step[free] = -np.linalg.solve(part, gradient[free])
    return step


def _length(problem: Problem, x: Array, step: Array, hessian: Array | None) -> float:
    """Length of a step by the sample, with the slope and the curvature of all rows."""
    first, gradient = problem.value(x)
    slope, ratio = float(gradient @ step), 1.0
    if hessian is not None:
        curvature = float(step @ (hessian @ step + problem.bends * step))
        ratio = curvature / max(float(step @ problem.product(step)), 1e-9 * curvature + 1e-300)

    def value(length: float) -> float:
        line = length * slope
        return line + ratio * (problem.value(x + length * step)[0] - first - line)

    found = minimize_scalar(value, bounds=(0.0, LONGEST), method="bounded", options={"xatol": 1e-4})
    return float(found.x)
