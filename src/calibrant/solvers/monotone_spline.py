"""Monotone spline: a piecewise linear, increasing function of log p, shrunk to a straight line.

The smooth sibling of NA-FIR. The mean NLL of softmax(theta(log p)) is convex in the slopes of
theta; a straight line is temperature scaling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels.monotone_spline import find_segments, spline_likelihood, spline_losses
from calibrant.kernels.rows import symmetric_hashes
from calibrant.simplex import to_logits
from calibrant.solvers.report import SolverReport
from calibrant.solvers.temperature import minimise_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

STEEPEST = 1e3
FLATTEST = 1e-3
"""Bounds on the slopes, relative to temperature scaling's."""

STRENGTHS = tuple(4.0**e for e in range(9, -2, -1))
"""What cross-validation chooses from, in rows; the first is a straight line to three digits."""

N_FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class MonotoneSplineMap:
    """theta(log p): ``slopes[0]`` below the first knot, ``slopes[-1]`` above the last."""

    knots: Array
    slopes: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Scaled log-probabilities of some rows, with their segments."""

    values: Array
    segments: NDArray[np.uint8]
    class_index: NDArray[np.int64]

    def take(self, rows: NDArray[np.bool_]) -> _Cells:
        return _Cells(self.values[rows], self.segments[rows], self.class_index[rows])

    def label_features(self, knots: Array, share: Array) -> Array:
        """sum_i share_i f(v_iy)."""
        own = self.values[np.arange(len(self.values)), self.class_index]
        edges = np.append(knots, np.inf)
        inner = np.clip(own[:, None] - knots, 0.0, np.diff(edges))
        return share @ np.column_stack([np.minimum(own - knots[0], 0.0), inner])


def log_probabilities(scores: Array, kind: str, zero_logit: float) -> Array:
    """Finite logarithms of rows on the simplex."""
    logits = to_logits(scores, kind, zero_logit)
    if kind == "logits":
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits


def count_rows(batch): return float(batch.n_rows)


def place_knots(values: Array, share: Array, n_knots: int) -> Array:
    """Distinct weighted quantiles of ``values``, at 1 / (n + 1), ..., n / (n + 1)."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(share[order])
    goals = np.arange(1, n_knots + 1) / (n_knots + 1) * cumulative[-1]
    place = np.searchsorted(cumulative, goals * (1.0 - 1e-9))
    return np.unique(values[order][np.minimum(place, len(values) - 1)])


def _minimise(cells: _Cells, share: Array, knots: Array, strength: float, start: Array, tol: float, max_rounds: int = 100):
    """Projected Newton method of Bertsekas on the slopes between their bounds."""
    n = len(start)
    differences = np.diff(np.eye(n), axis=0)
    penalty = strength * differences.T @ differences
    labels = cells.label_features(knots, share)
    hessian = np.empty((n, n)); gradient = np.empty(n)

    def evaluate(slopes):
        loss = spline_likelihood(cells.values, cells.segments, cells.class_index, share, knots, slopes, gradient, hessian)
        bend = penalty @ slopes
        return loss + 0.5 * slopes @ bend, gradient - labels + bend, hessian + penalty

    slopes = start
    value, g, h = evaluate(slopes)
    rounds = 1
    while True:
        scale = np.sqrt(np.maximum(np.diag(h), 1e-12 * np.diag(h).max() + 1e-300))
        held = ((slopes <= FLATTEST) & (g > 0)) | ((slopes >= STEEPEST) & (g < 0))
        violation = float(np.max(np.where(held, 0.0, np.abs(g) / scale)))
        if violation <= tol or rounds >= max_rounds:
            break
        free = ~held
        step = np.zeros(n)
        part = h[np.ix_(free, free)] + 1e-12 * np.diag(scale[free] ** 2)
        step[free] = np.linalg.solve(part, g[free])
        size = 1.0
        while True:
            other = np.clip(slopes - size * step, FLATTEST, STEEPEST)
            nv, ng, nh = evaluate(other)
            rounds += 1
            if nv <= value - 1e-4 * float(g @ (slopes - other)) or size < 1e-6:
                break
            size *= 0.5
        if nv >= value:
            break
        slopes, value, g, h = other, nv, ng, nh
    return slopes, value, violation, rounds
