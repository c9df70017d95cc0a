"""Map rows through a ranked step function: sort, accumulate, look up, difference, mix.

The speed limit is the sort of the rows, so everything else is kept to a few operations a cell.
Rows are sorted as keys, the leading bits of the probability and then the column; the few
neighbours that these bits do not tell apart are put right afterwards. Keys have 32 bits, or 64 with
so many classes that too few bits would be left. The value of (q, rank) comes
from a table over the leading bits of 1 - q, whose width is relative, as most steps are near q = 1.
Powers of probabilities come from a table too, since the exponent is the same for all cells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant.numba_kernels.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = int(np.array(1.0).view(np.int64))
TABLE_BYTES = 1 << 20
"""The table has finer buckets than it needs while it is no larger than this."""

MOST_CELLS = 1 << 22
"""Cells of a table of many ranks, unless the function has more steps than that."""

MIXED = 65535
"""Mark of a bucket with a step inside."""

NODE_BITS = 9
LARGEST_POWER = 4.0
"""Beyond this exponent the table of powers is not accurate to rounding."""

INDEX = np.uintp  # an index known not to be negative saves a test at every access


class RankedLookup(NamedTuple):
    """Ranked step function with the table that leads into it."""

    edges: NDArray[np.float64]
    values: NDArray[np.float64]
    levels: NDArray[np.float64]
    table: NDArray[np.uint16]
    begins: NDArray[np.uint32]
    ends: NDArray[np.int64]
    n_ranks: int
    shift: int
    base: int


class PowerTable(NamedTuple):
    """Coefficients of x**exponent for x in (0, 1]."""

    exponent: float
    smallest: float
    smallest_bits: int
    scale: NDArray[np.float64]
    nodes: NDArray[np.float64]


@kernel
def rises_with_rank(thresholds, values, offsets):
    """Whether each rank is at least as high as the one below it, wherever that one rises."""
    for r in range(offsets.shape[0] - 2):
        above = offsets[r + 1]
        for block in range(offsets[r], offsets[r + 1]):
            while above + 1 < offsets[r + 2] and thresholds[above + 1] <= thresholds[block]:
                above += 1
            if values[above] < values[block]:
                return False
    return True


def build_ranked_lookup(
    thresholds: NDArray[np.float64], values: NDArray[np.float64], offsets: NDArray[np.int64]
) -> RankedLookup:
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


@kernel
def fill_table(rest_bits, level, offsets, shift, base, table, begins):
    """Write the level of each bucket, or ``MIXED``, and the block at its lower end."""
    n_buckets, n_ranks = table.shape
    for r in range(n_ranks):
        block = offsets[r]
        for bucket in range(n_buckets - 1, -1, -1):  # 1 - q falls as q grows
            begin = block
            while (
                block + 1 < offsets[r + 1]
                and max((rest_bits[block + 1] >> shift) - base, 0) == bucket
            ):
                block += 1
            begins[bucket, r] = begin + r
            table[bucket, r] = level[begin] if block == begin else MIXED


@kernel
def spread_blocks(thresholds, values, offsets, edges, spread):
    """Write where each block ends, and its value, with a block of no end behind each rank."""
    for r in range(offsets.shape[0] - 1):
        for block in range(offsets[r], offsets[r + 1]):
            edges[block + r] = thresholds[block + 1] if block + 1 < offsets[r + 1] else np.inf
            spread[block + r] = values[block]
        edges[offsets[r + 1] + r] = np.inf
        spread[offsets[r + 1] + r] = 0.0


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
    return PowerTable(exponent, smallest, int(np.array(smallest).view(np.int64)), scale, nodes)


@kernel
def pack_rows(bits, shift, width, lowest, keys):
    """Leading bits of each probability, the largest first, above the number of its column."""
    n_rows, n_classes = bits.shape
    for i in range(n_rows):
        for j in range(n_classes):
            keys[i, j] = (min((ONE - bits[i, j]) >> shift, lowest) << width) | j


@kernel
def unpack_row(keys, i, mask):
    """Leave the columns in row ``i`` of sorted keys; returns how many pairs need a closer look."""
    n = keys.shape[1]
    close = 0
    for r in range(n - 1):
        close += (keys[i, r] ^ keys[i, r + 1]) <= mask
    for r in range(n):
        keys[i, r] &= mask
    return close


@kernel
def insert_columns(row, order, gap, most):
    """One pass of Shell's sort, decreasing; returns whether it took at most ``most`` moves."""
    moves = 0
    for r in range(gap, order.shape[0]):
        column = order[r]
        s = r
        while s >= gap and row[order[s - gap]] < row[column]:
            order[s] = order[s - gap]
            s -= gap
        order[s] = column
        moves += (r - s) // gap
        if moves > most:
            return False
    return True


@kernel
def repair_order(row, order):
    """Sort an order, quickly if it is almost sorted; returns whether there are ties."""
    n = order.shape[0]
    if not insert_columns(row, order, 1, 16 * n):
        gap = 1
        while gap < n // 3:
            gap = 3 * gap + 1
        while gap > 0:
            insert_columns(row, order, gap, n * n)
            gap //= 3
    tied = False
    for r in range(1, n):
        tied |= row[order[r]] == row[order[r - 1]]
    return tied


@kernel
def gather_row(rows, bits, i, columns, smallest, scale, nodes, q, rest, prior):
    """Fill sums of the largest entries, their distance to one, and powers; return the power sum.

    All sums run in the sorted order, so none depends on the order of the columns.
    """
    total = 0.0
    mass = 0.0
    low = 52 - NODE_BITS
    for r in range(columns.shape[1]):
        column = INDEX(columns[i, r])
        total += rows[i, column]
        q[r] = total
        rest[r] = 1.0 - total
        z = max(bits[i, column], smallest)
        node = INDEX((z >> low) & ((1 << NODE_BITS) - 1))
        d = np.float64((z & ((1 << low) - 1)) - (1 << (low - 1)))
        power = nodes[node, 1] + d * (nodes[node, 2] + d * nodes[node, 3])
        power = scale[INDEX(z >> 52)] * (nodes[node, 0] + d * power)
        prior[r] = power
        mass += power
    return mass


@kernel
def steep_prior(rows, i, order, exponent, smallest, prior):
    """Powers relative to the largest entry, for exponents the table does not hold."""
    top = math.log(max(rows[i, order[0]], smallest))
    mass = 0.0
    for r in range(order.shape[0]):
        gap = math.log(max(rows[i, order[r]], smallest)) - top
        prior[r] = math.exp(exponent * gap)
        mass += prior[r]
    return mass


@kernel
def share_ties(row, order, out):
    """Give tied classes the average of their outputs."""
    n = order.shape[0]
    first = 0
    for r in range(1, n + 1):
        if r == n or row[order[r]] != row[order[first]]:
            if r - first > 1:
                total = 0.0
                for s in range(first, r):
                    total += out[order[s]]
                for s in range(first, r):
                    out[order[s]] = total / (r - first)
            first = r


@kernel
def walk(block, last, edges, values, q):
    """Value at ``q``, from a block at or before it: by steps if it is near, else by halving."""
    near = min(block + 8, last)
    while block < near and edges[block] <= q:
        block += 1
    if block == near:
        while block < last:  # edges[last] is never reached
            middle = (block + last) >> 1
            if edges[middle] <= q:
                block = middle + 1
            else:
                last = middle
    return values[block]


@kernel
def apply_ranked(rows, bits, keys, mask, lookup, share, powers, out):
    """Calibrated rows: (1 - share) * differences of the step function + share * prior."""
    edges, values, levels, table, begins, ends, n_ranks, shift, base = lookup
    exponent, smallest, smallest_bits, scale, nodes = powers
    n_rows, n_classes = rows.shape
    q = np.empty(n_classes)
    rest = np.empty(n_classes)
    rest_bits = rest.view(np.int64)
    prior = np.empty(n_classes)
    keep = 1.0 - share
    last = n_classes - 1
    for i in range(n_rows):
        close = unpack_row(keys, i, mask)
        tied = close > 0 and repair_order(rows[i], keys[i])
        mass = gather_row(rows, bits, i, keys, smallest_bits, scale, nodes, q, rest, prior)
        if exponent > LARGEST_POWER:
            mass = steep_prior(rows, i, keys[i], exponent, smallest, prior)
        factor = share / mass
        below = 0.0
        for r in range(last):
            rank = min(r, n_ranks - 1)
            bucket = INDEX(max((rest_bits[r] >> shift) - base, 0) * n_ranks + rank)
            level = table[bucket]
            if level != MIXED:
                value = levels[INDEX(level)]
            else:
                value = walk(np.int64(begins[bucket]), ends[INDEX(rank)], edges, values, q[r])
            out[i, INDEX(keys[i, r])] = keep * (value - below) + factor * prior[r]
            below = value
        out[i, keys[i, last]] = keep * (1.0 - below) + factor * prior[last]
        if tied:
            share_ties(rows[i], keys[i], out[i])
