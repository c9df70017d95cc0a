"""Tables that kernels read, built once for a fitted function."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
    buckets = np.maximum(edges >> shift, base - 1) - base + 1
    counts = np.bincount(buckets, minlength=((ONE >> shift) - base) + 2)
    table = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Lookup(edges, table, shift, base)
