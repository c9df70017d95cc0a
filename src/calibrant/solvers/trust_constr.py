"""trust-constr of scipy on the blocks of PAVA, one of the paper's alternatives."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import LinearConstraint, minimize
from scipy.sparse import diags_array

from calibrant.solvers.pooled_blocks import pool_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.solvers.report import SolverReport
    from calibrant.step_function import StepFunction


def solve_trust_constr(
    likelihood: NormalizedLikelihood, *, tol: float = 1e-8, max_rounds: int = 500
) -> tuple[StepFunction, SolverReport]:
    """Minimise over theta = log g with the exact Hessian and theta non-decreasing."""
    started = perf_counter()
    blocks = pool_blocks(likelihood)
    theta = np.log(blocks.start / blocks.start[-1])
    rounds = 0
    notes: tuple[str, ...] = ()
    if len(theta) > 1:
        dense = blocks.counts.to_dense(len(theta))

        def hessian(x: NDArray[np.float64]) -> NDArray[np.float64]:
            shares = dense * np.exp(x - np.max(x))
            shares /= np.sum(shares, axis=1, keepdims=True)
            weighted = shares * likelihood.weight[:, None]
            result = np.diag(np.sum(weighted, axis=0)) - weighted.T @ shares
            return np.asarray(result / likelihood.total)

        n = len(theta)
        sides: Any = [-np.ones(n - 1), np.ones(n - 1)]
        differences: Any = diags_array(sides, offsets=[0, 1], shape=(n - 1, n)).tocsr()
        options: Any = {"gtol": tol, "xtol": 1e-10, "barrier_tol": tol, "maxiter": max_rounds}
        found = minimize(
            blocks.loss_and_gradient,
            theta,
            jac=True,
            hess=hessian,
            method="trust-constr",
            constraints=LinearConstraint(differences, 0.0, np.inf),
            options=options,
        )
        theta, rounds = np.maximum.accumulate(found.x), int(found.nit)
        notes = () if found.status in {1, 2} else (str(found.message),)
    return blocks.finish("trust-constr", np.exp(theta - theta[-1]), rounds, started, notes)
