"""NA-FIR of more rows than there is room for: a sample of them stands for all.

Of all rows it is known, by segment, how many labels and cells lie in it and in how many rows the
largest cell; and at one point of reference also the shares r_j = sum_i w_i C_ij g_j / T_i, which
are the gradient. A sample alone would be wrong by its noise. So it is made to agree with all rows
in what is known of them:

- blocks are pooled by PAVA from the exposures of all rows, never from those of the sample;
- rows are weighted so that their largest cells lie in each block as often as those of all rows;
- cells of each block count as much as it takes for the shares at the reference to be those of all.

What is minimised on the blocks then has the gradient of all rows, and nearly their curvature. The
step is as good as the point of reference is near; one more pass over all rows tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.kernels.isotonic import pool_adjacent_violators
from calibrant.kernels.normalization_aware import newton_direction
from calibrant.solvers.normalization_aware.fit import minimise
from calibrant.solvers.normalization_aware.rows import block_of_segment, count_cells, sum_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.normalization_aware.sample import Reference, Sample, WholeSet

    Array = NDArray[np.float64]

ENOUGH = 1.5
"""Rows with a cell in a block, as a multiple of its shares, without which others stand in."""

MOST_OF_ALL = 0.02
"""Weight of a row that stands in for cells of a block, at most, as a share of that of all rows."""

LARGEST_SIZE = 1e6
NEWTON_STEPS, SCALINGS = 30, 3
MATCHED = 1e-10
"""How much cells may be made larger or smaller, and how near that brings the shares."""

TOLERANCE, MAX_ROUNDS = 3e-8, 8
"""Of the problem on the blocks of the sample."""


class Improved(NamedTuple):
    """Where the sample leads: g on the segments, and its certificate by the sample."""

    values: Array
    violation: float


def minimise_by_sample(
    sample: Sample,
    whole: WholeSet,
    reference: Reference,
    target: Array,
    factor: float,
    rounds: int,
) -> Improved:
    """Minimise F of all rows, with weights times ``factor``, from a point of reference.

    Blocks are pooled anew ``rounds`` times, from the exposures of all rows at the reference, in
    each group changed as those of the sample have. Should the sample be too small to stand for
    all, g is that of PAVA at the reference: a step that never raises F.
    """
    exposures = factor * reference.exposures
    first, tops, bottoms = pool_adjacent_violators(target, exposures)
    values = np.maximum.accumulate(tops / bottoms)[block_of_segment(first, len(target))]
    best = Improved(values / values[-1], 1.0)
    for _ in range(rounds):
        found = _Blocks(sample, whole, reference, target, factor, first).solve(exposures)
        if found is None:
            break
        best, ratio = found
        exposures = factor * reference.exposures * ratio[sample.groups]
        before, (first, _, _) = first, pool_adjacent_violators(target, exposures)
        if np.array_equal(before, first):
            break
    return best


class _Blocks:
    """The problem of the sample on given blocks, made to agree with all rows."""

    def __init__(
        self,
        sample: Sample,
        whole: WholeSet,
        reference: Reference,
        target: Array,
        factor: float,
        first: NDArray[np.int64],
    ) -> None:
        self.sample, self.factor, self.first = sample, factor, first
        self.block_of = block_of_segment(first, len(target))
        self.target, self.shares, self.tops = (
            np.add.reduceat(part, first) for part in (target, reference.shares, whole.tops)
        )
        self.means = self.shares / np.add.reduceat(reference.exposures, first)
        index, tops, weight = self._with_stand_ins(whole, reference)
        self.index = index
        self.top_block = self.block_of[tops]
        self.weight = self._weigh(weight)
        means = self.means[self.block_of]
        inside = np.divide(reference.values, means, out=np.ones_like(means), where=means > 0.0)
        self.counts = count_cells(index, self.block_of, len(first), inside)

    def _with_stand_ins(self, whole: WholeSet, reference: Reference) -> tuple[Any, Any, Array]:
        """Rows of the sample, and some for blocks of which it has no cell, or no largest cell.

        A row that nearly would do stands in, with that cell moved.
        """
        sample, n_blocks = self.sample, len(self.first)
        lacks_top = np.bincount(self.block_of[sample.tops], minlength=n_blocks) == 0
        lacks_top &= self.tops > 0.0
        lacks_cell = self._weight_of_rows() < ENOUGH * self.shares
        lacks_cell &= (self.tops < self.shares) & ~lacks_top & (self.means > 0.0)
        lacking = np.flatnonzero(lacks_top | lacks_cell)
        if len(lacking) == 0:
            return sample.index, sample.tops, sample.weight
        rows = np.empty((len(lacking), sample.index.shape[1]), dtype=sample.index.dtype)
        weight = self.tops[lacking]
        ends = np.append(self.first[1:], len(whole.starts))
        flat = sample.index.ravel()
        by_cell, by_top = _Nearest(flat), _Nearest(sample.tops)
        for i, block in enumerate(lacking):
            low, high = self.first[block], ends[block]
            segment = low + int(np.argmax(reference.shares[low:high]))
            if lacks_top[block]:
                rows[i] = np.minimum(sample.index[by_top(segment)], segment)
                rows[i, np.argmax(rows[i])] = segment
                continue
            place = by_cell(segment)
            rows[i] = sample.index[place // rows.shape[1]]
            rows[i, place % rows.shape[1]] = segment
            values = reference.values[rows[i]]
            needed = self.shares[block] * np.sum(values) / reference.values[segment]
            weight[i] = min(needed, MOST_OF_ALL * whole.weight)
        return (
            np.concatenate([sample.index, rows]),
            np.concatenate([sample.tops, rows.max(axis=1)]),
            np.concatenate([sample.weight, weight]),
        )

    def _weight_of_rows(self) -> Array:
        """Weight of the rows of the sample that have cells in each block."""
        counts = count_cells(self.sample.index, self.block_of, len(self.first))
        weight = np.repeat(self.sample.weight, np.diff(counts.pointers))
        return np.bincount(counts.blocks, weight, minlength=len(self.first)).astype(np.float64)

    def _weigh(self, weight: Array) -> Array:
        """Weigh rows so that their largest cells lie in each block as often as those of all.

        Blocks that hold the largest cell of no row here count with the next one below.
        """
        held = np.bincount(self.top_block, weight, minlength=len(self.first))
        part = np.maximum(np.cumsum(held > 0.0) - 1, 0)
        ratio = np.bincount(part, self.tops) / np.maximum(np.bincount(part, held), 1e-300)
        weighed: Array = weight * ratio[part][self.top_block]
        weighed *= np.sum(self.tops) / np.sum(weighed)
        return weighed

    def solve(self, exposures: Array) -> tuple[Improved, Array] | None:
        """Return where the sample leads, and by how much exposures of each group changed.

        What sizes of cells could not do, because they are bounded, is done to the target.
        """
        sizes, at_reference, shares = self._match()
        goal = self.target + self.factor * (shares - self.shares)
        label = self._keep_finite(goal)
        held = np.bincount(label, self.shares)
        merged = np.where(
            held > 0.0, np.bincount(label, sizes * self.shares) / np.maximum(held, 1e-300), 1.0
        )
        goal = np.bincount(label, goal).astype(np.float64)
        place = label[self.block_of].astype(np.int32)
        weight = self.factor * self.weight
        with np.errstate(all="ignore"):
            found = minimise(
                place[self.index],
                weight,
                goal,
                np.bincount(place, exposures).astype(np.float64),
                tol=TOLERANCE,
                max_rounds=MAX_ROUNDS,
                sizes=merged,
            )
        values = found.values
        if not (np.all(np.isfinite(values)) and values[0] > 0.0 and np.all(np.diff(values) >= 0.0)):
            return None
        best = Improved(values[place] / values[-1], found.violation)
        groups = self.sample.groups.astype(np.int32)[self.index]
        now, then = (
            sum_cells(groups, self.weight / totals, self.sample.n_groups)
            for totals in (found.totals, at_reference)
        )
        ratio = np.divide(now, then, out=np.ones_like(now), where=then > 0.0)
        return best, ratio

    def _keep_finite(self, goal: Array) -> NDArray[np.int64]:
        """Label blocks, alike where a jump between them could grow without bound.

        It could if a tail has no fewer labels than there are rows with a cell in it.
        """
        rows = np.bincount(self.top_block, self.weight, minlength=len(goal))
        reachable = self.factor * np.cumsum(rows[::-1])[::-1]
        tail = np.cumsum(goal[::-1])[::-1]
        is_start = tail < (1.0 - 1e-12) * reachable
        is_start[0] = True
        return np.cumsum(is_start) - 1

    def _match(self) -> tuple[Array, Array, Array]:
        """Sizes of cells that give blocks the shares of all rows at the point of reference.

        Returns them, T there, and the shares that were reached, with sizes within bounds. It is
        the problem itself without order: Newton's method. Blocks that have little of every row
        hardly matter to it, and are scaled by themselves afterwards.
        """
        counts, weight, wanted = self.counts, self.weight, self.shares
        used = (wanted > 0.0) & (self.means > 0.0)
        theta = np.zeros(len(wanted))
        values, totals, loss = self._at(theta, used)
        for _ in range(NEWTON_STEPS):
            gradient, diagonal, shares = counts.derivatives(weight, values, totals)
            residual = np.where(used, gradient - wanted, 0.0)
            if np.sum(np.abs(residual)) <= MATCHED * np.sum(wanted):
                break
            ridge = 1e-9 * gradient + 1e-300
            step = newton_direction(
                counts.pointers,
                counts.blocks,
                shares,
                weight,
                residual,
                diagonal + ridge,
                ridge,
                1e-4,
                200,
            )
            step = np.clip(step - np.average(step, weights=wanted), -2.0, 2.0)
            trial, length = self._at(theta + step, used), 1.0
            while trial[2] > loss + 1e-13 * abs(loss) and length > 1e-4:
                length *= 0.5
                trial = self._at(theta + length * step, used)
            if length <= 1e-4:
                break
            theta, (values, totals, loss) = self._bounded(theta + length * step), trial
        for _ in range(SCALINGS):
            values, totals, _ = self._at(theta, used)
            gradient, diagonal, _ = counts.derivatives(weight, values, totals)
            alone = used & (diagonal > 0.9 * gradient)
            theta[alone] += np.log(wanted[alone] / gradient[alone])
            theta = self._bounded(theta)
        values, totals, _ = self._at(theta, used)
        gradient, _, _ = counts.derivatives(weight, values, totals)
        return np.exp(theta), totals, np.where(used, gradient, wanted)

    def _bounded(self, theta: Array) -> Array:
        """Logarithms of sizes around 0, which all of them may be shifted to."""
        bound = np.log(LARGEST_SIZE)
        return np.clip(theta - np.average(theta, weights=self.shares), -bound, bound)

    def _at(self, theta: Array, used: NDArray[np.bool_]) -> tuple[Array, Array, float]:
        """Values of blocks, totals of rows, and loss, for sizes whose logarithm is ``theta``."""
        values = np.where(used, self.means * np.exp(theta), 0.0)
        totals = self.counts.totals(values)
        loss = self.weight @ np.log(totals) - self.shares[used] @ theta[used]
        return values, totals, float(loss)


class _Nearest:
    """Where a number of a list lies that is the nearest to another one."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        self.order = np.argsort(numbers, kind="stable")
        self.numbers = numbers[self.order].astype(np.int64)

    def __call__(self, number: int) -> int:
        after = int(np.searchsorted(self.numbers, number))
        near = [i for i in (after - 1, after) if 0 <= i < len(self.numbers)]
        return int(self.order[min(near, key=lambda i: abs(int(self.numbers[i]) - number))])
