"""NA-FIR's objective: a calibration set by segments of the score, the paper's matrix C.

With theta = log g, T_i = sum_j C_ij g_j, row weights w and targets b (sum b = sum w),

    F(theta) = sum_i w_i log T_i - sum_j b_j theta_j,    theta_1 <= ... <= theta_J,

log-sum-exp minus a linear term: convex, where the paper has a non-convex problem in g. A prior of
s pseudo-observations only changes the numbers: w_i (1 + s / W) for w_i, and its mass on each
segment, times s / W, is added to b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from calibrant._kernels import normalization_aware as kernels
from calibrant._kernels.rows import lowest_score
from calibrant._kernels.tables import build_lookup
from calibrant._maps.steps import StepFunction
from calibrant._row_order import lay_thresholds, start_segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._gate import SimplexBatch
    from calibrant._types import Floats, Wholes

OCTAVES_BELOW = 60
"""Octaves below the smallest cell in which a map with a prior goes on as the prior does."""

LOWEST = 1e-250
"""Bound on the smallest positive value of g, relative to the largest. A prior keeps the optimum
finite, but a staircase of blocks, each far below the next, may lead out of the range of floats."""


@dataclass(frozen=True, slots=True)
class SegmentedRows:
    """A calibration set as the segment of every cell, rows sorted by the label's probability."""

    starts: Floats  # of the segments; no cell lies below the first
    empty: Floats  # starts of octaves without a cell
    index: NDArray[np.integer]  # segment of each cell
    own: Wholes  # segment of each row's label
    largest: Floats  # probability of each row
    weight: Floats
    order: Wholes  # where each row stands in the batch
    bounds: Floats  # least and largest cell of each segment

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return len(self.starts)

    def positives(self, weight: Floats) -> Floats:
        """b: weight of the labels in each segment."""
        return np.bincount(self.own, weights=weight, minlength=self.n_segments).astype(np.float64)

    def exposures(self, factor: Floats) -> Floats:
        """Sum a factor over cells: a = C' factor; with the weights, the weight of the cells."""
        return sum_cells(self.index, factor, self.n_segments)


def sum_cells(index: NDArray[np.integer], factor: Floats, n_segments: int) -> Floats:
    """Sum of ``factor`` over the cells of each segment."""
    out = np.zeros(n_segments)
    kernels.add_exposures(index, factor, out)
    return out


def segment_rows(batch: SimplexBatch, *, fill_gaps: bool) -> SegmentedRows:
    """Find the segment of every cell, where segments start at the probabilities of labels.

    Without a prior that is an exact reduction, since cells without a label between two of them
    belong to the lower one. A prior puts mass on every cell: to ``fill_gaps``, a segment starts at
    each power of two as well, so that a map close to the prior can follow it where there are no
    labels. Rows are sorted by the probability of their label.
    """
    probabilities = batch.probabilities()
    own = probabilities[np.arange(batch.n_rows), batch.class_index]
    scores = np.unique(own)
    if fill_gaps:
        n_octaves = OCTAVES_BELOW - int(np.floor(np.log2(lowest_score(probabilities, False))))
        scores = np.union1d(scores, np.exp2(-np.arange(1.0, min(n_octaves, 1022) + 1.0)))
    starts, order = start_segments(scores)[0], np.argsort(own)
    index = np.empty(probabilities.shape, np.uint16 if len(starts) <= 1 << 16 else np.int32)
    largest = np.empty(batch.n_rows)
    bounds = np.repeat([[np.inf], [-1.0]], len(starts), axis=1)
    bits = probabilities.view(np.int64)
    kernels.index_cells(probabilities, bits, order, *build_lookup(starts), index, largest, bounds)
    own_segment = index[np.arange(batch.n_rows), batch.class_index[order]].astype(np.intp)
    empty, seen = np.empty(0), bounds[1] >= 0.0
    if not seen.all():  # a segment without cells is part of its neighbour
        place = np.maximum(np.cumsum(seen) - 1, 0).astype(index.dtype)
        index, own_segment = place[index], place[own_segment].astype(np.intp)
        empty = starts[~seen]
        starts, bounds, empty = starts[seen], bounds[:, seen], empty[empty > 0.0]
    return SegmentedRows(
        starts, empty, index, own_segment, largest, batch.weight[order], order, bounds
    )


@dataclass(frozen=True, slots=True)
class RowCounts:
    """C, sparse: blocks of each row, increasing, with the number of cells in each."""

    pointers: Wholes
    blocks: NDArray[np.int32]
    counts: NDArray[np.float32]

    def totals(self, values: Floats) -> Floats:
        """T = C g."""
        out = np.empty(len(self.pointers) - 1)
        kernels.row_totals(self.pointers, self.blocks, self.counts, values, out)
        return out

    def derivatives(self, weight: Floats, values: Floats, totals: Floats) -> tuple[Floats, ...]:
        """g_j a_j, the diagonal of the Hessian in log g, and the shares of blocks in rows."""
        gradient, diagonal = np.zeros((2, len(values)))
        shares = np.zeros(len(self.blocks))
        entries = self.pointers, self.blocks, self.counts
        kernels.add_gradient(*entries, weight, values, totals, shares, gradient, diagonal)
        return gradient, diagonal, shares

    def merge(self, group_of: NDArray[np.int32]) -> RowCounts:
        """Merge groups of neighbouring blocks; the arrays of this object are reused."""
        n = kernels.merge_entries(self.pointers, self.blocks, self.counts, group_of)
        return RowCounts(self.pointers, self.blocks[:n], self.counts[:n])

    def matrix(self, n_blocks: int) -> csr_array:
        """C as scipy has it."""
        shape = len(self.pointers) - 1, n_blocks
        return csr_array((self.counts, self.blocks, self.pointers), shape)


def count_cells(
    index: NDArray[np.integer], block_of: NDArray[np.int32], n_blocks: int
) -> RowCounts:
    """Count the cells of each row by block; segments with a negative block are left out."""
    n_rows, n_classes = index.shape
    most = n_rows * min(n_classes, n_blocks)
    pointers = np.empty(n_rows + 1, dtype=np.int64)
    blocks = np.empty(most, dtype=np.int32)
    counts = np.empty(most, dtype=np.float32)
    n = kernels.collapse_rows(index, block_of, n_blocks, pointers, blocks, counts)
    return RowCounts(pointers, blocks[:n], counts[:n])


@dataclass(frozen=True, slots=True)
class Found:
    """Where a solver stopped: g on all segments, and its loss and certificate if it has them."""

    values: Floats
    rounds: int
    notes: tuple[str, ...] = ()
    proof: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class NormalizedLikelihood:
    """NA-FIR's objective for one calibration set; weights and targets include the prior's."""

    rows: SegmentedRows
    weight: Floats  # w
    target: Floats  # b, of labels and pseudo-labels in each segment
    exposures: Floats  # a = C' (w / T) at the point to start from; with T = 1 it is FIR's
    prior_strength: float = 0.0
    prior_beta: float = 0.0
    notes: tuple[str, ...] = ()  # how the objective was chosen

    @property
    def total(self) -> float:
        """Total weight, pseudo-observations included."""
        return float(np.sum(self.weight))

    def evaluate(self, values: Floats) -> tuple[float, float]:
        """Objective per unit of weight, and the certificate: from all segments."""
        totals, exposures = self.at(values)
        violation = certificate(values, exposures, self.target, self.total)
        return self.objective(totals, values), violation

    def at(self, values: Floats) -> tuple[Floats, Floats]:
        """T of each row, and the exposures of each segment."""
        first = block_starts(values)
        block_of = block_of_segment(first, len(values))
        counts = count_cells(self.rows.index, block_of, len(first))
        totals = counts.totals(values[first])
        return totals, self.rows.exposures(self.weight / totals)

    def objective(self, totals: Floats, values: Floats) -> float:
        """Mean NLL: sum_i w_i log T_i - sum_j b_j log g_j per unit of weight, where 0 log 0 = 0."""
        used = self.target != 0.0
        loss = self.weight @ np.log(totals) - self.target[used] @ np.log(values[used])
        return float(loss) / self.total

    def step_function(self, values: Floats) -> StepFunction:
        """Step function with the largest value 1; neighbours of equal value are one block.

        With a prior, octaves without a cell get what it makes of their neighbours. Steps lie about
        half-way between two blocks.
        """
        rows = self.rows
        values, sizes = values / values[-1], rows.exposures(rows.weight)
        least, largest = rows.bounds
        if self.prior_strength > 0.0:
            empty = rows.empty
            if largest[0] == 0.0 and len(least) > 1:
                # Below half the least score but 0, a score is 0, as a forest's is but for rounding.
                empty = empty[empty >= least[1]]
            followed = _follow_prior(rows.starts, values, empty, self.prior_beta)
            order = np.argsort(np.concatenate([rows.starts, empty]), kind="stable")
            least, largest = (np.concatenate([part, empty])[order] for part in (least, largest))
            values = np.concatenate([values, followed])[order]
            sizes = np.concatenate([sizes, np.zeros_like(followed)])[order]
        first = block_starts(values)
        thresholds = lay_thresholds(largest[first - 1], least[first])
        thresholds[0] = 0.0
        return StepFunction(thresholds, values[first], np.add.reduceat(sizes, first))


def _follow_prior(starts: Floats, values: Floats, empty: Floats, beta: float) -> Floats:
    """Values where octaves without a cell start: from the segment below, p ** beta on."""
    below = np.searchsorted(starts, empty, side="right") - 1
    above = np.minimum(below + 1, len(starts) - 1)
    hangs = (below < 0) | (starts[below] == 0.0)  # nothing to go on from but what is above
    anchor = np.where(hangs, above, below)
    # An empty octave starts above its anchor, or below it; never at 0, which only hangs.
    log_ratio = np.log(empty) - np.log(np.where(starts[anchor] > 0, starts[anchor], 1))
    followed = values[anchor] * np.exp(np.clip(beta * log_ratio, -700.0, 700.0))
    floor = np.where(below < 0, 0.0, values[np.maximum(below, 0)])
    clipped: Floats = np.clip(followed, floor, values[above])
    return clipped


def certificate(values: Floats, exposures: Floats, target: Floats, total: float) -> float:
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


def is_bounded(values: Floats) -> bool:
    """Whether the lowest positive value is ``LOWEST`` of the largest."""
    return bool(values[np.argmax(values > 0.0)] <= (1.0 + 1e-9) * LOWEST * values[-1])


def block_starts(values: Floats) -> Wholes:
    """First segment of each block of equal values."""
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


def block_of_segment(first: Wholes, n_segments: int) -> NDArray[np.int32]:
    """Block of every segment, for blocks that start at ``first``; -1 before the first block."""
    sizes = np.diff(first, prepend=0, append=n_segments)
    return np.repeat(np.arange(-1, len(first), dtype=np.int32), sizes)
