"""Gradient descent in the values g, projected by PAVA: the second of the paper's alternatives."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

from calibrant.solvers.pooled_blocks import pool_blocks

if TYPE_CHECKING:
    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.solvers.report import SolverReport
    from calibrant.step_function import StepFunction


def solve_projected_gradient(
    likelihood: NormalizedLikelihood, *, tol: float = 1e-8, max_rounds: int = 2000
) -> tuple[StepFunction, SolverReport]:
    """Step against dF/dg = a - b / g, project on non-decreasing values, backtrack.

    The step doubles after every success. Stops when the loss per unit of weight falls by less
    than ``tol`` times 1e-3 in ten rounds.
    """
    started = perf_counter()
    blocks = pool_blocks(likelihood)
    values = blocks.start / blocks.start[-1]
    lowest = 1e-3 * values[0]  # the logarithm of g has to stay finite
    loss, gradient = blocks.loss_and_gradient(np.log(values))
    length, losses, rounds = 1.0, [loss], 0
    while rounds < max_rounds and length > 1e-30:
        rounds += 1
        trial = isotonic_regression(values - length * gradient / values).x
        trial = np.maximum(trial, lowest)
        trial_loss, trial_gradient = blocks.loss_and_gradient(np.log(trial))
        if trial_loss >= loss:
            length *= 0.25
            continue
        values, loss, gradient = trial, trial_loss, trial_gradient
        length *= 2.0
        losses.append(loss)
        if len(losses) > 10 and losses[-11] - loss < 1e-3 * tol:
            break
    return blocks.finish("projected-gradient", values, rounds, started)
