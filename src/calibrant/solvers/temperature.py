"""Temperature scaling: a convex problem in one number, solved by a safeguarded Newton method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels.temperature import row_likelihoods
from calibrant.simplex import to_logits
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

LARGEST = 1e6
"""Bound on the inverse temperature, reached when every prediction is right."""


@dataclass(frozen=True, slots=True)
class _Point:
    """Mean NLL at an inverse temperature, with its derivatives."""

    beta: float
    loss: float
    slope: float
    curvature: float


def solve_temperature(
    batch: SimplexBatch, zero_logit: float, *, tol: float = 1e-10, max_rounds: int = 200
) -> tuple[float, SolverReport]:
    """Inverse temperature of least NLL in [0, 1e6], to a slope of at most ``tol``.

    The slope is measured in units of the typical logit gap, so that it does not depend on the
    scale of the logits.
    """
    logits = to_logits(batch.scores, batch.kind, zero_logit)
    return minimise_temperature(
        logits, batch.class_index, batch.weight, tol=tol, max_rounds=max_rounds
    )


def minimise_temperature(
    logits: NDArray[np.float64],
    class_index: NDArray[np.int64],
    weight: NDArray[np.float64],
    *,
    tol: float = 1e-10,
    max_rounds: int = 200,
) -> tuple[float, SolverReport]:
    """Solve for finite ``logits``; see ``solve_temperature``."""
    started = perf_counter()
    buffers = np.empty((3, len(logits)))

    def evaluate(beta: float) -> _Point:
        row_likelihoods(logits, class_index, beta, *buffers)
        return _Point(beta, *(weighted_mean(row, weight) for row in buffers))

    flat = evaluate(0.0)
    scale = max(math.sqrt(flat.curvature), np.finfo(float).tiny)
    tolerance = tol * scale
    rounds, point = 1, flat
    low, high = 0.0, math.inf
    notes: tuple[str, ...] = ()
    if flat.slope >= 0.0:  # no temperature beats the uniform distribution
        notes = ("the scores carry no information: inverse temperature 0",)
    else:
        point = evaluate(1.0)
        rounds += 1
    while not notes and abs(point.slope) > tolerance and rounds < max_rounds:
        if point.slope < 0.0:
            low = point.beta
        else:
            high = point.beta
        if low >= LARGEST:
            notes = (f"every prediction is right: inverse temperature at its bound {LARGEST:g}",)
            break
        beta = _next(point, low, high)
        if beta in (low, high):  # two neighbouring floats: nothing is left to gain
            break
        point = evaluate(beta)
        rounds += 1
    violation = 0.0 if notes else abs(point.slope) / scale
    report = SolverReport(
        "newton", point.loss, violation, tol, rounds, perf_counter() - started, notes=notes
    )
    return point.beta, report


def _next(point: _Point, low: float, high: float) -> float:
    """Newton's step where it stays inside the bracket, else its middle (or its double)."""
    beta = point.beta - point.slope / point.curvature if point.curvature > 0.0 else math.inf
    if high == math.inf:
        return min(beta if low < beta <= 4.0 * low else 4.0 * low, LARGEST)
    if low < beta < high:
        return beta
    return 0.5 * (low + high)


def weighted_mean(values: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Mean by exactly rounded sums, so that it does not depend on the order of the rows."""
    return math.fsum(values * weight) / math.fsum(weight)
