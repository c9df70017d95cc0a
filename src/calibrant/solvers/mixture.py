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
    prior: NDArray[np.float64] | None = None,
    tol: float = 1e-8,
    max_rounds: int = 10_000,
) -> tuple[NDArray[np.float64], SolverReport]:
    """Mixture weights w >= 0, sum w = 1, of least -sum_i weight_i log(own_i w) - prior log w.

    ``own[i, c]`` is the probability that component c gives to row i's label; ``prior[c]`` is a
    number of rows that only c explains. Expectation maximisation never leaves the simplex and
    never increases the loss; each round multiplies w_c by its gradient g_c, the mean of
    own_ic / (own_i w) and prior_c / w_c. Optimal iff g_c <= 1 everywhere, with equality where
    w_c > 0: the violation is max g - 1, which also bounds the gap to the optimum.
    """
    started = perf_counter()
    prior = np.zeros(own.shape[1]) if prior is None else prior
    total = weight.sum() + prior.sum()
    share, extra = weight / total, prior / total
    held = extra > 0
    own = np.maximum(own, 1e-300)
    weights = np.full(own.shape[1], 1.0 / own.shape[1])

    def gain(w: NDArray[np.float64]) -> float:
        return float(share @ np.log(own @ w) + extra[held] @ np.log(w[held]))

    def slope(w: NDArray[np.float64]) -> NDArray[np.float64]:
        pull = np.divide(extra, w, out=np.zeros_like(w), where=held)
        found: NDArray[np.float64] = share @ (own / (own @ w)[:, None]) + pull
        return found

    rounds, gradient = 0, slope(weights)
    while gradient.max() - 1.0 > tol and rounds < max_rounds:
        step = weights * gradient
        bold = weights * gradient**2  # twice the step in the logarithm, where that is no worse
        bold /= bold.sum()
        weights = bold if gain(bold) >= gain(step) else step / step.sum()
        gradient = slope(weights)
        rounds += 1
    objective = -gain(weights)
    violation = max(float(gradient.max()) - 1.0, 0.0)
    return weights, SolverReport(
        "expectation-maximisation", objective, violation, tol, rounds, perf_counter() - started
    )
