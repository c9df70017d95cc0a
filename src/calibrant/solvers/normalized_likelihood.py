"""NA-FIR's objective, on segments: what every solver of it minimises, and the proof of a minimum.

With theta = log g, T_i = sum_j C_ij g_j, row weights w and targets b (sum b = sum w),

    F(theta) = sum_i w_i log T_i - sum_j b_j theta_j,    theta_1 <= ... <= theta_J,

log-sum-exp minus a linear term: convex, where the paper has a non-convex problem in g. A prior of
s pseudo-observations only changes the numbers: w_i (1 + s / W) for w_i, and its mass on each
segment is added to b.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from calibrant.solvers.row_counts import count_cells
from calibrant.step_function import StepFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.row_counts import SegmentedRows


LOWEST = 1e-250
"""Bound on the smallest positive value of g, relative to the largest. A prior keeps the optimum
finite, but a staircase of blocks, each far below the next, may lead out of the range of floats."""


@dataclass(frozen=True, slots=True)
class NormalizedLikelihood:
    """NA-FIR's objective for one calibration set.

    Attributes
    ----------
    rows : SegmentedRows
    weight : ndarray of shape (n_rows,)
        w, with the share of the pseudo-observations.
    target : ndarray of shape (n_segments,)
        b, the weight of labels and pseudo-labels in each segment.
    exposures : ndarray of shape (n_segments,)
        a = C' (w / T) at the point to start from. With T = 1 the first round is FIR.
    prior_strength : float
        Number of pseudo-observations in ``weight`` and ``target``.
    prior_beta : float
        Inverse temperature of their labels.
    notes : tuple of str
        How the objective was chosen.
    """

    rows: SegmentedRows
    weight: NDArray[np.float64]
    target: NDArray[np.float64]
    exposures: NDArray[np.float64]
    prior_strength: float = 0.0
    prior_beta: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def total(self) -> float:
        """Total weight, pseudo-observations included."""
        return float(np.sum(self.weight))

    def totals(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """T of every row."""
        first = block_starts(values)
        counts = count_cells(self.rows.index, block_of_segment(first, len(values)), len(first))
        return counts.totals(values[first])

    def evaluate(self, values: NDArray[np.float64]) -> tuple[float, float]:
        """Objective per unit of weight, and the certificate: from all segments."""
        totals = self.totals(values)
        exposures = self.rows.exposures(self.weight / totals)
        violation = certificate(values, exposures, self.target, self.total)
        return objective(totals, values, self.weight, self.target) / self.total, violation

    def step_function(self, values: NDArray[np.float64]) -> StepFunction:
        """Step function with the largest value 1; neighbours of equal value are one block.

        With a prior, octaves without a cell get what it makes of their neighbours.
        """
        values = values / values[-1]
        starts, sizes = self.rows.starts, self.rows.exposures(self.rows.weight)
        if self.prior_strength > 0.0:
            empty = self._follow_prior(values)
            starts = np.concatenate([starts, self.rows.empty])
            values = np.concatenate([values, empty])
            sizes = np.concatenate([sizes, np.zeros_like(empty)])
            order = np.argsort(starts, kind="stable")
            starts, values, sizes = starts[order], values[order], sizes[order]
        first = block_starts(values)
        thresholds = starts[first]
        thresholds[0] = 0.0
        return StepFunction(thresholds, values[first], np.add.reduceat(sizes, first))

    def _follow_prior(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values where octaves without a cell start: from the segment below, p ** beta on."""
        starts = self.rows.starts
        last = len(starts) - 1
        below = np.searchsorted(starts, self.rows.empty, side="right") - 1
        above = np.minimum(below + 1, last)
        hangs = (below < 0) | (starts[below] == 0.0)  # nothing to go on from but what is above
        anchor = np.where(hangs, above, below)
        # An empty octave starts above its anchor, or below it; never at 0, which only hangs.
        log_ratio = np.log(self.rows.empty) - np.log(
            np.where(starts[anchor] > 0, starts[anchor], 1)
        )
        followed = values[anchor] * np.exp(np.clip(self.prior_beta * log_ratio, -700.0, 700.0))
        floor = np.where(below < 0, 0.0, values[np.maximum(below, 0)])
        clipped: NDArray[np.float64] = np.clip(followed, floor, values[above])
        return clipped


def objective(
    totals: NDArray[np.float64],
    values: NDArray[np.float64],
    weight: NDArray[np.float64],
    target: NDArray[np.float64],
) -> float:
    """Weighted NLL: sum_i w_i log T_i - sum_j b_j log g_j, where 0 log 0 = 0."""
    used = target > 0.0
    return float(weight @ np.log(totals) - target[used] @ np.log(values[used]))


def certificate(
    values: NDArray[np.float64],
    exposures: NDArray[np.float64],
    target: NDArray[np.float64],
    total: float,
) -> float:
    """Largest violation of the optimality conditions, relative to the total weight.

    r_j = g_j a_j - b_j is the gradient in log g. A non-decreasing g is optimal if and only if no
    tail can be raised with profit (every sum of r from j to the end is >= 0) and none can be
    lowered where g jumps (there the sum is 0). Where g reaches from 1 down to ``LOWEST``, raising
    a tail is bounded, and all these sums may have one amount, not above 0, in common.
    """
    residual = values * exposures - target
    tail = np.cumsum(residual[::-1])[::-1][1:]
    jumps = values[1:] > values[:-1]
    if is_bounded(values) and jumps.any():
        tail = tail - min(0.5 * (tail[jumps].max() + tail[jumps].min()), 0.0)
    violation = np.where(jumps, np.abs(tail), -tail)
    return float(max(violation.max(initial=0.0), 0.0)) / total


def is_bounded(values: NDArray[np.float64]) -> bool:
    """Whether the lowest positive value is ``LOWEST`` of the largest."""
    return bool(values[np.argmax(values > 0.0)] <= (1.0 + 1e-9) * LOWEST * values[-1])


def block_starts(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """First segment of each block of equal values."""
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


def block_of_segment(first: NDArray[np.int64], n_segments: int) -> NDArray[np.int32]:
    """Block of every segment, for blocks that start at ``first``; -1 before the first block."""
    block = np.full(n_segments, -1, dtype=np.int32)
    block[first] = 1
    if len(first):
        block[first[0] :] = np.cumsum(np.maximum(block[first[0] :], 0)) - 1
    return block
