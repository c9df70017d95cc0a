"""Find the block of every cell, fast: a table over the leading bits of the float.

The bits of non-negative doubles, read as integers, have the order of the doubles. Their leading
bits are the bucket of a table whose width is relative, so tiny probabilities are told apart as
well as large ones; a binary search among the thresholds of one bucket does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant.numba_kernels.jit import kernel
from calibrant.numba_kernels.rows import divide_by_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = int(np.array(1.0).view(np.int64))


class Lookup(NamedTuple):
    """Thresholds as bits, with the table that leads into them."""

    edges: NDArray[np.int64]
    table: NDArray[np.int32]
    shift: int
    base: int


def build_lookup(thresholds: NDArray[np.float64]) -> Lookup:
    """Table for strictly increasing ``thresholds`` in [0, 1] that start at 0."""
    edges = np.ascontiguousarray(thresholds).view(np.int64)
    lowest = int(edges[1]) if len(edges) > 1 else ONE
    n_buckets = 1 << int(np.clip(int(np.ceil(np.log2(16 * len(edges)))), 8, 16))
    shift = max(0, int(ONE - lowest).bit_length() - n_buckets.bit_length() + 1)
    base = lowest >> shift
    buckets = np.maximum((edges >> shift) - base, -1) + 1
    counts = np.bincount(buckets, minlength=((ONE >> shift) - base) + 2)
    table = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Lookup(edges, table, shift, base)


@kernel
def find_block(bits, edges, table, shift, base):
    """Index of the last threshold at or below the double with these ``bits``; at least 0."""
    bucket = (bits >> shift) - base + 1
    if bucket < 0:  # below every threshold but the first; also -0.0
        bucket = 0
    elif bucket > table.shape[0] - 2:  # above one by rounding
        bucket = table.shape[0] - 2
    low = table[bucket]
    high = table[bucket + 1]
    while low < high:  # thresholds before ``low`` are <= bits, from ``high`` on they are not
        middle = (low + high) >> 1
        if edges[middle] <= bits:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@kernel
def add_cells(bits, weight, edges, table, shift, base, out):
    """Add each cell's weight to its block: ``out[block] += weight[row]``, row after row."""
    n_rows, n_classes = bits.shape
    for i in range(n_rows):
        for j in range(n_classes):
            out[find_block(bits[i, j], edges, table, shift, base)] += weight[i]


@kernel
def apply_step(rows, bits, edges, table, shift, base, values, out):
    """Map each cell through the step function and divide each row by its sum."""
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        for j in range(n_classes):
            out[i, j] = values[find_block(bits[i, j], edges, table, shift, base)]
        divide_by_sums(out[i : i + 1], rows[i : i + 1])
