"""Weights of a logarithmic pool: a product of powers of several predictions.

A learner that reads features beside the scores is right where it departs from the score alone, and
too timid there, as it was shrunk. A mixture of probabilities cannot make it bolder; a product can
(Genest and Zidek, "Combining probability distributions", 1986).
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from calibrant._types import Floats, Wholes


def pool(logs: Floats, weights: Floats) -> Floats:
    """Return p_ic in proportion to exp(sum_j weights_j logs_icj)."""
    z = logs @ weights
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=1, keepdims=True)
    return z


@dataclass(frozen=True, slots=True)
class _PoolObjective:
    """-sum_ic target_ic log p_ic(w) + ridge |w - first|^2, with p the pool and first = (1, 0, ...).

    A convex function: the logarithm of a sum of exponentials, and linear terms.
    """

    logs: Floats
    target: Floats
    ridge: float

    def __call__(self, w: Floats) -> tuple[float, Floats]:
        """Return the value and the gradient."""
        away = w.copy()
        away[0] -= 1.0
        p = pool(self.logs, w)
        total = self.target.sum(axis=1, keepdims=True)
        value = -float((self.target * np.log(np.maximum(p, 1e-300))).sum())
        gradient = np.ravel(total * p - self.target) @ self.logs.reshape(-1, len(w))
        return value + self.ridge * float(away @ away), gradient + 2.0 * self.ridge * away


def solve_log_pool(
    logs: Floats,
    class_index: Wholes,
    weight: Floats,
    *,
    strength: float,
    ridge: float,
    tol: float = 1e-6,
) -> tuple[Floats, SolverReport]:
    """Weights w >= 0 of least -sum_i weight_i log p_i(w) + ridge |w - (1, 0, ...)|^2.

    ``logs[i, c, j]`` is the logarithm of what prediction j gives to class c in row i. ``strength``
    rows more, whose labels are as the first prediction says, keep the pool from boldness that no
    error among few has punished yet. Optimal iff the gradient g is zero where w > 0 and not
    negative elsewhere: the violation is the largest |min(w, g)|, with g per row.
    """
    started = perf_counter()
    target = np.exp(logs[:, :, 0]) * (strength * weight / weight.sum())[:, None]
    target[np.arange(len(weight)), class_index] += weight
    objective = _PoolObjective(logs, target, ridge)
    start = np.zeros(logs.shape[2])
    start[0] = 1.0
    n_rows = float(target.sum())
    result = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(start),
        options={"maxiter": 500, "ftol": 1e-15, "gtol": 1e-9 * n_rows},
    )
    w: Floats = result.x
    value, gradient = objective(w)
    violation = float(np.max(np.abs(np.minimum(w, gradient / n_rows))))
    seconds = perf_counter() - started
    return w, SolverReport("l-bfgs-b", value / n_rows, violation, tol, int(result.nit), seconds)
