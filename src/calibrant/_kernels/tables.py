"""Tables that kernels read, built once for a fitted function."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._kernels.ranked_lookup import MIXED, NODE_BITS, fill_table, spread_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._types import Floats, Wholes

MOST_BUCKET_BITS = 20
"""Of a table of many thresholds: larger ones miss the cache more often than they save a step."""

ONE = int(np.array(1.0).view(np.int64))

TABLE_BYTES = 1 << 20
"""A ranked function's table has finer buckets than it needs while it is no larger than this."""

MOST_CELLS = 1 << 22
"""Cells of a table of many ranks, unless the function has more steps than that."""

SAME_SCORE, SAME_SUM = 2.0**-40, 2.0**-50
"""Scores p that differ by this part of p (1 - p) are one: some hundred numbers, added up in another
order, give 0.30000000000000004 instead of 0.3. Near 1 every bit counts, since there are saturated
classifiers; sums over classes of one row differ by ``SAME_SUM`` even there."""

TIED = 1.0 - 2.0**-16
"""Part of a score from which on another one of the same row is tied with it. Runtimes add up the
trees of a forest in float32, and so put classes with as many votes into any order."""

LARGEST_POWER = 4.0
"""Beyond this exponent the table of powers is not accurate to rounding."""


class Lookup(NamedTuple):
    """Thresholds as bits, with the table that leads into them."""

    edges: Wholes
    table: NDArray[np.int32]
    shift: int
    base: int


class RankedLookup(NamedTuple):
    """Ranked step function with the table that leads into it."""

    edges: Floats
    values: Floats
    levels: Floats
    table: NDArray[np.uint16]
    begins: NDArray[np.uint32]
    ends: Wholes
    n_ranks: int
    shift: int
    base: int


class PowerTable(NamedTuple):
    """Coefficients of x**exponent for x in (0, 1]."""

    exponent: float
    is_steep: bool  # too large for the table
    smallest: float
    smallest_bits: int
    scale: Floats
    nodes: Floats


def build_lookup(thresholds: Floats, spare_bits: int = 4) -> Lookup:
    """Table for strictly increasing ``thresholds`` in [0, 1] that start at 0.

    It has 2^spare_bits buckets for a threshold, but not too many: few where there are many tables.
    """
    edges = np.ascontiguousarray(thresholds).view(np.int64)
    lowest = int(edges[1]) if len(edges) > 1 else ONE
    bits = int(np.ceil(np.log2(len(edges))))
    n_buckets = 1 << min(max(bits, 4) + spare_bits, max(16, min(bits + 1, MOST_BUCKET_BITS)))
    shift = max(0, int(ONE - lowest).bit_length() - n_buckets.bit_length() + 1)
    base = lowest >> shift
    buckets = np.maximum(edges >> shift, base - 1) - base + 1
    counts = np.bincount(buckets.astype(np.intp, copy=False), minlength=((ONE >> shift) - base) + 2)
    table = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Lookup(edges, table, shift, base)


def build_ranked_lookup(thresholds: Floats, values: Floats, offsets: Wholes) -> RankedLookup:
    """Table for a ranked step function; see ``RankedStepFunction`` for the arrays."""
    n_ranks = len(offsets) - 1
    rest = 1.0 - thresholds
    closest = max(float(np.min(rest[rest > 0.0])), 2.0**-40)
    most = max(MOST_CELLS, len(values) // 2)
    for bits in range(6, -7, -1):  # 2**bits buckets per octave of 1 - q
        shift = 52 - bits
        base = int(np.array(closest).view(np.int64)) >> shift
        n_buckets = (ONE >> shift) - base + 1
        if n_ranks * n_buckets <= (TABLE_BYTES // 2 if bits > 3 else most):
            break
    levels = np.sort(values)
    levels = levels[np.append(True, levels[1:] > levels[:-1])]
    level = np.minimum(np.searchsorted(levels, values), MIXED).astype(np.uint16)
    table = np.empty((n_buckets, n_ranks), dtype=np.uint16)
    begins = np.empty((n_buckets, n_ranks), dtype=np.uint32)
    fill_table(rest.view(np.int64), level, offsets, shift, base, table, begins)
    del rest, level  # a function may be as large as memory allows
    edges, spread = np.empty((2, len(values) + n_ranks))
    spread_blocks(thresholds, values, offsets, edges, spread)
    ends = offsets[1:] + np.arange(n_ranks) - 1  # the last block of each rank
    return RankedLookup(
        edges, spread, levels, table.ravel(), begins.ravel(), ends, n_ranks, shift, base
    )


def build_powers(exponent: float, smallest: float) -> PowerTable:
    """Taylor coefficients of x**exponent in the middle of 512 intervals of the mantissa.

    ``smallest`` is what a probability of zero is read as.
    """
    held = min(exponent, LARGEST_POWER)
    scale = np.exp2((np.arange(1024) - 1023.0) * held)
    middle = 1.0 + (np.arange(1 << NODE_BITS) + 0.5) / (1 << NODE_BITS)
    nodes = np.empty((1 << NODE_BITS, 4))
    binomial = 1.0
    for n in range(4):  # in units of the last bit of the mantissa
        nodes[:, n] = binomial * middle ** (held - n) * 2.0 ** (-52 * n)
        binomial *= (held - n) / (n + 1)
    smallest = max(smallest, 2.0**-1022)
    smallest_bits = int(np.array(smallest).view(np.int64))
    return PowerTable(exponent, exponent > held, smallest, smallest_bits, scale, nodes)
