"""The problem that the paper's own solvers work on: NA-FIR's objective on the blocks of PAVA."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels import monotone_softmax
from calibrant.kernels.pava import pool_adjacent_violators
from calibrant.solvers.normalized_likelihood import block_of_segment
from calibrant.solvers.report import SolverReport
from calibrant.solvers.row_counts import RowCounts, count_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.step_function import StepFunction


@dataclass(frozen=True, slots=True)
class PooledBlocks:
    """NA-FIR's objective on fixed blocks.

    Attributes
    ----------
    likelihood : NormalizedLikelihood
        The objective on all segments.
    first : ndarray of shape (n_blocks,)
        First segment of each block. A lowest block without labels is left out: its value is 0,
        where PAVA puts it and where it is best.
    counts : RowCounts
        C.
    target : ndarray of shape (n_blocks,)
        b.
    start : ndarray of shape (n_blocks,)
        Values of PAVA, positive and non-decreasing.
    """

    likelihood: NormalizedLikelihood
    first: NDArray[np.int64]
    counts: RowCounts
    target: NDArray[np.float64]
    start: NDArray[np.float64]

    def loss(self, theta: NDArray[np.float64]) -> float:
        """Objective per unit of weight at theta = log g."""
        return self.loss_and_gradient(theta)[0]

    def loss_and_gradient(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Objective per unit of weight at theta = log g, and its gradient in theta."""
        weight, total = self.likelihood.weight, self.likelihood.total
        relative = theta - np.max(theta)
        values = np.exp(relative)
        totals = self.counts.totals(values)
        gradient, _, _ = self.derivatives(values, totals)
        loss = float(weight @ np.log(totals) - self.target @ relative) / total
        return loss, (gradient - self.target) / total

    def derivatives(
        self, values: NDArray[np.float64], totals: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """g_j a_j, the diagonal of the Hessian in log g, and the shares of blocks in rows."""
        gradient, diagonal = np.zeros((2, len(self.target)))
        shares = np.zeros(len(self.counts.blocks))
        monotone_softmax.add_gradient(
            self.counts.pointers,
            self.counts.blocks,
            self.counts.counts,
            self.likelihood.weight,
            values,
            totals,
            shares,
            gradient,
            diagonal,
        )
        return gradient, diagonal, shares

    def finish(
        self,
        solver: str,
        values: NDArray[np.float64],
        rounds: int,
        started: float,
        notes: tuple[str, ...] = (),
    ) -> tuple[StepFunction, SolverReport]:
        """Step function and report of values on the blocks; the certificate is of all segments.

        None of these solvers is asked for a tolerance on all segments, so none is reported.
        """
        block_of = block_of_segment(self.first, self.likelihood.rows.n_segments)
        on_segments = np.where(block_of >= 0, values[block_of], 0.0)
        loss, violation = self.likelihood.evaluate(on_segments)
        step = self.likelihood.step_function(on_segments)
        seconds = perf_counter() - started
        return step, SolverReport(
            solver,
            loss,
            violation,
            np.inf,
            rounds,
            seconds,
            n_blocks=step.n_blocks,
            notes=(*self.likelihood.notes, *notes, f"on {len(values)} blocks of PAVA"),
        )


def pool_blocks(
    likelihood: NormalizedLikelihood,
    *,
    min_blocks: int | None = None,
    split_size_threshold: int = 1,
) -> PooledBlocks:
    """Take the blocks of FIR (of labels and pseudo-labels), split if there are too few."""
    rows, target = likelihood.rows, likelihood.target
    cells = rows.exposures(likelihood.weight)
    first, tops, bottoms = pool_adjacent_violators(target, cells)
    if min_blocks is not None:
        first = split_blocks(first, rows.exposures(rows.weight), min_blocks, split_size_threshold)
        tops, bottoms = np.add.reduceat(target, first), np.add.reduceat(cells, first)
        _, start = _pool(first, target, cells)
    else:
        start = tops / bottoms
    alive = start > 0.0
    first, tops, start = first[alive], tops[alive], start[alive]
    counts = count_cells(rows.index, block_of_segment(first, len(target)), len(first))
    return PooledBlocks(likelihood, first, counts, tops, start)


def _pool(
    first: NDArray[np.int64], target: NDArray[np.float64], cells: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Value of PAVA in each of the blocks that start at ``first``, which refine its own."""
    pooled, tops, bottoms = pool_adjacent_violators(target, cells)
    return pooled, (tops / bottoms)[np.searchsorted(pooled, first, side="right") - 1]


def split_blocks(
    first: NDArray[np.int64],
    sizes: NDArray[np.float64],
    min_blocks: int,
    split_size_threshold: int,
) -> NDArray[np.int64]:
    """Split blocks into parts of equal size until there are ``min_blocks`` (the paper's appendix).

    ``sizes`` are the weights of the cells of each segment. Every block is cut into as many parts
    as the size asked for fits into it; that size is the largest that gives enough blocks, but not
    below ``split_size_threshold``. Parts end where segments do.
    """
    ends = np.cumsum(sizes)
    edges = np.concatenate([[0.0], ends])
    bounds = np.append(first, len(sizes))
    masses = edges[bounds[1:]] - edges[bounds[:-1]]
    # Sizes at which one more part fits into some block, the largest first.
    options = np.unique(masses[:, None] / np.arange(1, min_blocks + 1))[::-1]
    options = options[options >= split_size_threshold]
    parts = np.ones(len(first), dtype=np.int64)
    for size in options:
        parts = np.maximum(np.floor(masses / size * (1.0 + 1e-12)), 1.0).astype(np.int64)
        if np.sum(parts) >= min_blocks:
            break
    starts = [
        np.searchsorted(ends, edges[low] + mass * np.arange(n) / n, side="right")
        for low, mass, n in zip(first, masses, parts, strict=True)
    ]
    return np.unique(np.concatenate(starts))
