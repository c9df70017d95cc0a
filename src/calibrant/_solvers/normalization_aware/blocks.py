"""The problem that the paper's own ways work on: NA-FIR's objective on the blocks of PAVA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._objectives.normalization_aware import RowCounts, block_of_segment, count_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._objectives.normalization_aware import NormalizedLikelihood

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PooledBlocks:
    """NA-FIR's objective on fixed blocks.

    ``first`` is the first segment of each block; a lowest block without labels is left out: its
    value is 0, where PAVA puts it and where it is best. ``counts`` and ``target`` are C and b, and
    ``start`` the values of PAVA, positive and non-decreasing.
    """

    likelihood: NormalizedLikelihood
    first: NDArray[np.int64]
    counts: RowCounts
    target: Array
    start: Array

    def loss_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Objective per unit of weight at theta = log g, and its gradient in theta."""
        weight, total = self.likelihood.weight, self.likelihood.total
        relative = theta - np.max(theta)
        values = np.exp(relative)
        totals = self.counts.totals(values)
        gradient, _, _ = self.counts.derivatives(weight, values, totals)
        loss = float(weight @ np.log(totals) - self.target @ relative) / total
        return loss, (gradient - self.target) / total

    def on_segments(self, values: Array) -> Array:
        """Values of all segments from those of the blocks."""
        block_of = block_of_segment(self.first, self.likelihood.rows.n_segments)
        return np.where(block_of >= 0, values[block_of], 0.0)


def pool_blocks(
    likelihood: NormalizedLikelihood, min_blocks: int | None = None, split_size_threshold: int = 1
) -> PooledBlocks:
    """Take the blocks of FIR (of labels and pseudo-labels), split if there are too few."""
    rows, target = likelihood.rows, likelihood.target
    cells = rows.exposures(likelihood.weight)
    first, tops, bottoms = pool_adjacent_violators(target, cells)
    start = tops / bottoms
    if min_blocks is not None:
        pooled = first
        first = split_blocks(first, rows.exposures(rows.weight), min_blocks, split_size_threshold)
        tops = np.add.reduceat(target, first)
        start = start[np.searchsorted(pooled, first, side="right") - 1]
    alive = start > 0.0
    first, tops, start = first[alive], tops[alive], start[alive]
    counts = count_cells(rows.index, block_of_segment(first, len(target)), len(first))
    return PooledBlocks(likelihood, first, counts, tops, start)


def split_blocks(
    first: NDArray[np.int64], sizes: Array, min_blocks: int, split_size_threshold: int
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
