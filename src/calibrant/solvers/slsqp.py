"""SLSQP of scipy on the blocks of PAVA, one of the paper's alternatives."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from calibrant.solvers.pooled_blocks import pool_blocks

if TYPE_CHECKING:
    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.solvers.report import SolverReport
    from calibrant.step_function import StepFunction


def solve_slsqp(
    likelihood: NormalizedLikelihood, *, tol: float = 1e-8, max_rounds: int = 500
) -> tuple[StepFunction, SolverReport]:
    """Minimise over theta = log g, in which the problem is convex, with theta non-decreasing."""
    started = perf_counter()
    blocks = pool_blocks(likelihood)
    theta = np.log(blocks.start / blocks.start[-1])
    rounds = 0
    notes: tuple[str, ...] = ()
    if len(theta) > 1:
        differences = np.diff(np.eye(len(theta)), axis=0)
        ordered: Any = {"type": "ineq", "fun": np.diff, "jac": lambda _: differences}
        options: Any = {"ftol": 1e-4 * tol, "maxiter": max_rounds}
        found = minimize(
            blocks.loss_and_gradient,
            theta,
            jac=True,
            method="SLSQP",
            bounds=[(-100.0, 100.0)] * len(theta),
            constraints=ordered,
            options=options,
        )
        # Its constraints hold up to rounding only.
        theta, rounds = np.maximum.accumulate(found.x), int(found.nit)
        notes = () if found.success else (str(found.message),)
    return blocks.finish("slsqp", np.exp(theta - theta[-1]), rounds, started, notes)
