"""The penalty method on the blocks of PAVA, the last of the paper's alternatives."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression, minimize

from calibrant.solvers.pooled_blocks import pool_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.solvers.report import SolverReport
    from calibrant.step_function import StepFunction

PENALTIES = tuple(10.0**n for n in range(-2, 5))


def solve_penalty(
    likelihood: NormalizedLikelihood, *, tol: float = 1e-8, max_rounds: int = 2000
) -> tuple[StepFunction, SolverReport]:
    """Minimise the loss plus a growing penalty on the squares of decreases of theta = log g.

    Each penalty starts from the minimum of the one before; what is left of the decreases is
    removed by isotonic regression.
    """
    started = perf_counter()
    blocks = pool_blocks(likelihood)
    theta = np.log(blocks.start / blocks.start[-1])

    def penalised(x: NDArray[np.float64], strength: float) -> tuple[float, NDArray[np.float64]]:
        loss, gradient = blocks.loss_and_gradient(x)
        decrease = np.maximum(-np.diff(x), 0.0)
        slope = 2.0 * strength * decrease
        gradient[:-1] += slope
        gradient[1:] -= slope
        return loss + strength * float(decrease @ decrease), gradient

    rounds = 0
    for strength in PENALTIES:
        found = minimize(
            penalised,
            theta,
            args=(strength,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-100.0, 100.0)] * len(theta),
            options={"maxiter": max_rounds, "ftol": 1e-4 * tol, "gtol": 1e-2 * tol},
        )
        theta = found.x
        rounds += int(found.nit)
    theta = isotonic_regression(theta).x
    return blocks.finish("penalty", np.exp(theta - theta[-1]), rounds, started)
