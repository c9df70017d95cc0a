"""How many cells of each row lie in each segment or block: the paper's matrix C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels import cells, monotone_softmax
from calibrant.kernels.lookup import build_lookup
from calibrant.kernels.rows import smallest_positive
from calibrant.row_order import order_by_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch


BELOW = 60
"""Octaves below the smallest cell in which a map with a prior goes on as the prior does."""


@dataclass(frozen=True, slots=True)
class SegmentedRows:
    """A calibration set as the segment of every cell, rows in an order of their own.

    Rows are sorted by the probability of their label and then by their other cells in any order
    of columns, so nothing computed from here on depends on the order of rows.

    Attributes
    ----------
    starts : ndarray of shape (n_segments,)
        Where each segment starts. No cell lies below the first.
    empty : ndarray
        Where octaves start in which there is no cell.
    index : ndarray of shape (n_rows, n_classes)
        Segment of each cell.
    own : ndarray of shape (n_rows,)
        Segment of each row's label.
    largest : ndarray of shape (n_rows,)
        Largest probability of each row.
    weight : ndarray of shape (n_rows,)
    order : ndarray of shape (n_rows,)
        Where each row stands in the batch.
    """

    starts: NDArray[np.float64]
    empty: NDArray[np.float64]
    index: NDArray[Any]
    own: NDArray[np.int64]
    largest: NDArray[np.float64]
    weight: NDArray[np.float64]
    order: NDArray[np.int64]

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return len(self.starts)

    def positives(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """b: weight of the labels in each segment."""
        return np.bincount(self.own, weights=weight, minlength=self.n_segments).astype(np.float64)

    def exposures(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum a factor over cells: a = C' factor; with the weights, the weight of the cells."""
        return sum_cells(self.index, factor, self.n_segments)


def sum_cells(
    index: NDArray[Any], factor: NDArray[np.float64], n_segments: int
) -> NDArray[np.float64]:
    """Sum of ``factor`` over the cells of each segment."""
    out = np.zeros(n_segments)
    cells.add_exposures(index, factor, out)
    return out


def segment_rows(
    batch: SimplexBatch, probabilities: NDArray[np.float64], *, fill_gaps: bool
) -> SegmentedRows:
    """Find the segment of every cell.

    Segments start at the distinct probabilities of labels: without a prior an exact reduction,
    since cells without a label between two of them belong to the lower one. A prior puts mass on
    every cell; ``fill_gaps`` then starts a segment at each power of two as well, so that a map
    close to the prior can follow it where there are no labels.
    """
    bits = probabilities.view(np.int64)
    own = probabilities[np.arange(batch.n_rows), batch.class_index]
    order, _ = order_by_cells(probabilities, batch.class_index, batch.weight)
    starts = np.unique(own)
    if fill_gaps:
        n_octaves = BELOW - int(np.floor(np.log2(smallest_positive(probabilities))))
        starts = np.union1d(starts, np.exp2(-np.arange(1.0, min(n_octaves, 1022) + 1.0)))
    if starts[0] > 0.0:
        starts = np.concatenate([[0.0], starts])
    starts[0] = 0.0  # not -0.0
    index = np.empty(probabilities.shape, np.uint16 if len(starts) <= 1 << 16 else np.int32)
    largest = np.empty(batch.n_rows)
    seen = np.zeros(len(starts), dtype=np.bool_)
    cells.index_cells(probabilities, bits, order, *build_lookup(starts), index, largest, seen)
    empty, starts = starts[~seen], starts[seen]
    if len(empty):  # a segment without cells is part of its neighbour
        cells.relabel_cells(index, np.maximum(np.cumsum(seen) - 1, 0))
    own_segment = index[np.arange(batch.n_rows), batch.class_index[order]].astype(np.int64)
    return SegmentedRows(
        starts, empty[empty > 0.0], index, own_segment, largest, batch.weight[order], order
    )


@dataclass(frozen=True, slots=True)
class RowCounts:
    """C, sparse: blocks of each row, increasing, with the number of cells in each."""

    pointers: NDArray[np.int64]
    blocks: NDArray[np.int32]
    counts: NDArray[np.float32]

    def totals(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """T = C g."""
        out = np.empty(len(self.pointers) - 1)
        monotone_softmax.row_totals(self.pointers, self.blocks, self.counts, values, out)
        return out

    def merge(self, group_of: NDArray[np.int32]) -> RowCounts:
        """Merge groups of neighbouring blocks; the arrays of this object are reused."""
        n = monotone_softmax.merge_entries(self.pointers, self.blocks, self.counts, group_of)
        return RowCounts(self.pointers, self.blocks[:n], self.counts[:n])

    def to_dense(self, n_blocks: int) -> NDArray[np.float64]:
        """C as a matrix."""
        out = np.zeros((len(self.pointers) - 1, n_blocks))
        row = np.repeat(np.arange(len(out)), np.diff(self.pointers))
        out[row, self.blocks] = self.counts
        return out


def count_cells(index: NDArray[Any], block_of: NDArray[np.int32], n_blocks: int) -> RowCounts:
    """Count the cells of each row by block; segments with a negative block are left out."""
    n_rows, n_classes = index.shape
    most = n_rows * min(n_classes, n_blocks)
    pointers = np.empty(n_rows + 1, dtype=np.int64)
    blocks = np.empty(most, dtype=np.int32)
    counts = np.empty(most, dtype=np.float32)
    n = monotone_softmax.collapse_rows(index, block_of, n_blocks, pointers, blocks, counts)
    return RowCounts(pointers, blocks[:n], counts[:n])
