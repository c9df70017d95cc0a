"""Find the block of a cell."""

from __future__ import annotations

from calibrant.numba_kernels.jit import kernel


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
