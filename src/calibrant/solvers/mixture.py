"""Weights of a mixture by maximum likelihood: a convex problem on the simplex."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray


def solve_mixture(
    own: NDArray[np.float64],
    weight: NDArray[np.float64],
    *,
    tol: float = 1e-8,
    max_rounds: int = 10_000,
) -> tuple[NDArray[np.float64], SolverReport]:
    """Mixture weights w >= 0, sum w = 1, of least mean -log(own @ w).

    ``own[i, c]`` is the probability that component c gives to row i's label. Expectation
    maximisation never leaves the simplex and never increases the loss; each round multiplies w_c
    by its gradient g_c = mean(own_c / (own @ w)). Optimal iff g_c <= 1 everywhere, with equality
    where w_c > 0: the violation is max g - 1, which also bounds the gap to the optimum.
    """
    started = perf_counter()
    share = weight / weight.sum()
    weights = np.full(own.shape[1], 1.0 / own.shape[1])
    own = np.maximum(own, 1e-300)
    rounds, gradient = 0, share @ (own / (own @ weights)[:, None])
    while gradient.max() - 1.0 > tol and rounds < max_rounds:
        step = weights * gradient
        # Over-relaxed: twice the step in the logarithm, where that is no worse.
        bold = weights * gradient**2
        bold /= bold.sum()
        better = share @ np.log(own @ bold) >= share @ np.log(own @ step)
        weights = bold if better else step / step.sum()
        gradient = share @ (own / (own @ weights)[:, None])
        rounds += 1
    objective = float(-share @ np.log(own @ weights))
    violation = max(float(gradient.max()) - 1.0, 0.0)
    return weights, SolverReport(
        "expectation-maximisation", objective, violation, tol, rounds, perf_counter() - started
    )
