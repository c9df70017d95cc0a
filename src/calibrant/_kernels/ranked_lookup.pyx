"""Map rows through a ranked step function: sort, accumulate, look up, difference, mix.

The speed limit is the sort of the rows, so everything else is kept to a few operations a cell.
Rows are sorted as keys, the leading bits of the probability and then the column; the few
neighbours that these bits do not tell apart are put right afterwards. Keys have 32 bits, or 64 with
so many classes that too few bits would be left. The value of (q, rank) comes
from a table over the leading bits of 1 - q, whose width is relative, as most steps are near q = 1.
Powers of probabilities come from a table too, since the exponent is the same for all cells.
"""

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from calibrant._kernels.lock cimport keep_lock

cpdef enum:
    MIXED = 65535  # mark of a bucket with a step inside
    NODE_BITS = 9  # leading bits of the mantissa that choose the node of a power

cdef int64_t LARGEST_BITS = ((<int64_t> 1024) << 52) - 1  # just below two: powers end there

ctypedef fused key_t:
    int32_t
    int64_t


cdef struct Table:
    const double* edges
    const double* values
    const double* levels
    const uint16_t* level
    const uint32_t* begins
    const int64_t* ends
    int64_t n_ranks
    int64_t last_bucket
    int64_t base
    int shift


cdef struct Powers:
    double exponent
    double smallest
    int64_t smallest_bits
    bint is_steep
    const double* scale
    const double* nodes


cdef inline int64_t bits_of(double x) noexcept nogil:
    """The bits of a double, which have its order where it is not negative."""
    cdef int64_t bits
    memcpy(&bits, &x, 8)
    return bits


def rises_with_rank(
    const double[::1] thresholds, const double[::1] values, const int64_t[::1] offsets
):
    """Whether each rank is at least as high as the one below it, wherever that one rises."""
    cdef Py_ssize_t r, block, above
    with nogil:
        for r in range(offsets.shape[0] - 2):
            above = offsets[r + 1]
            for block in range(offsets[r], offsets[r + 1]):
                while above + 1 < offsets[r + 2] and thresholds[above + 1] <= thresholds[block]:
                    above += 1
                if values[above] < values[block]:
                    with gil:
                        return False
    return True


def fill_table(
    const int64_t[::1] rest_bits, const uint16_t[::1] level, const int64_t[::1] offsets, int shift,
    int64_t base, uint16_t[:, ::1] table, uint32_t[:, ::1] begins,
):
    """Write the level of each bucket, or ``MIXED``, and the block at its lower end."""
    cdef Py_ssize_t n_buckets = table.shape[0], n_ranks = table.shape[1], r, bucket, block, begin
    with nogil:
        for r in range(n_ranks):
            block = offsets[r]
            for bucket in range(n_buckets - 1, -1, -1):  # 1 - q falls as q grows
                begin = block
                while (
                    block + 1 < offsets[r + 1]
                    and max((rest_bits[block + 1] >> shift) - base, 0) == bucket
                ):
                    block += 1
                begins[bucket, r] = <uint32_t> (begin + r)
                table[bucket, r] = level[begin] if block == begin else <uint16_t> MIXED


def spread_blocks(
    const double[::1] thresholds, const double[::1] values, const int64_t[::1] offsets,
    double[::1] edges, double[::1] spread,
):
    """Write where each block ends, and its value, with a block of no end behind each rank."""
    cdef Py_ssize_t r, block, stop
    with nogil:
        for r in range(offsets.shape[0] - 1):
            stop = offsets[r + 1]
            for block in range(offsets[r], stop):
                edges[block + r] = thresholds[block + 1] if block + 1 < stop else INFINITY
                spread[block + r] = values[block]
            edges[stop + r] = INFINITY
            spread[stop + r] = 0.0


def pack_rows(const int64_t[:, ::1] bits, int shift, int width, int64_t lowest, key_t[:, ::1] keys):
    """Leading bits of each probability, the largest first, above the number of its column."""
    cdef Py_ssize_t n_rows = bits.shape[0], n_classes = bits.shape[1], i, j
    cdef int64_t one = bits_of(1.0)
    cdef uint64_t distance
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                # What rounding puts above one is at one; the sign of -0.0 puts it beyond 0.0.
                distance = (<uint64_t> one - <uint64_t> min(bits[i, j], one)) >> shift
                keys[i, j] = <key_t> (min(<int64_t> distance, lowest) << width | j)


cdef inline Py_ssize_t unpack_row(key_t* keys, Py_ssize_t n, key_t mask) noexcept nogil:
    """Leave the columns in a row of keys; returns how many pairs need a closer look."""
    cdef Py_ssize_t r
    cdef key_t close = 0
    for r in range(n - 1):
        close += keys[r + 1] <= (keys[r] | mask)  # the same bits, or not sorted
    for r in range(n):
        keys[r] &= mask
    return close


cdef bint insert_columns(
    const double* row, key_t* order, Py_ssize_t n, Py_ssize_t gap, Py_ssize_t most
) noexcept nogil:
    """One pass of Shell's sort, decreasing; returns whether it took at most ``most`` moves."""
    cdef Py_ssize_t moves = 0, r, s
    cdef key_t column
    for r in range(gap, n):
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


cdef void repair_order(const double* row, key_t* order, Py_ssize_t n) noexcept nogil:
    """Sort an order, quickly if it is almost sorted."""
    cdef Py_ssize_t gap = 1
    if not insert_columns(row, order, n, 1, 16 * n):
        while gap < n // 3:
            gap = 3 * gap + 1
        while gap > 0:
            insert_columns(row, order, n, gap, n * n)
            gap //= 3


cdef inline bint has_ties(
    const double* row, const key_t* order, Py_ssize_t n, double part
) noexcept nogil:
    """Whether an entry has at least this part of the one before it."""
    cdef Py_ssize_t r
    cdef bint tied = False
    for r in range(1, n):
        tied |= row[order[r]] >= part * row[order[r - 1]]
    return tied


cdef inline double gather_row(
    const double* row, const int64_t* bits, const key_t* columns, Py_ssize_t n,
    const Powers* powers, double* q, double* prior,
) noexcept nogil:
    """Fill sums of the largest entries, and powers; return the power sum.

    All sums run in the sorted order, so none depends on the order of the columns.
    """
    cdef int low = 52 - NODE_BITS
    cdef int64_t below = (<int64_t> 1 << low) - 1, middle = <int64_t> 1 << (low - 1), z
    cdef double total = 0.0, mass = 0.0, d, power
    cdef const double* node
    cdef Py_ssize_t r, column
    for r in range(n):
        column = columns[r]
        total += row[column]
        q[r] = total
        z = min(max(bits[column], powers.smallest_bits), LARGEST_BITS)
        node = powers.nodes + 4 * ((z >> low) & ((1 << NODE_BITS) - 1))
        d = <double> ((z & below) - middle)
        power = node[1] + d * (node[2] + d * node[3])
        power = powers.scale[z >> 52] * (node[0] + d * power)
        prior[r] = power
        mass += power
    return mass


cdef double steep_prior(
    const double* row, const key_t* order, Py_ssize_t n, const Powers* powers, double* prior
) noexcept nogil:
    """Powers relative to the largest entry, for exponents the table does not hold."""
    cdef double top = log(max(row[order[0]], powers.smallest)), gap, mass = 0.0
    cdef Py_ssize_t r
    for r in range(n):
        gap = log(max(row[order[r]], powers.smallest)) - top
        prior[r] = exp(powers.exponent * gap)
        mass += prior[r]
    return mass


cdef void share_ties(
    const double* row, const key_t* order, Py_ssize_t n, double part, double* out
) noexcept nogil:
    """Give tied classes, each with this part of the one before it, the average of their outputs."""
    cdef Py_ssize_t first = 0, r, s
    cdef double total
    for r in range(1, n + 1):
        if r == n or row[order[r]] < part * row[order[r - 1]]:
            if r - first > 1:
                total = 0.0
                for s in range(first, r):
                    total += out[order[s]]
                for s in range(first, r):
                    out[order[s]] = total / (r - first)
            first = r


cdef inline double walk(
    int64_t block, int64_t last, const double* edges, const double* values, double q
) noexcept nogil:
    """Value at ``q``, from a block at or before it: by steps if it is near, else by halving."""
    cdef int64_t near = min(block + 8, last), middle
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


cdef inline double value_at(const Table* table, double q, int64_t rank) noexcept nogil:
    """Value of the step function at ``q`` and a rank from 0 on, beyond the last as at the last."""
    cdef int64_t here = min(rank, table.n_ranks - 1)
    cdef int64_t bucket = max((bits_of(1.0 - q) >> table.shift) - table.base, 0)
    bucket = min(bucket, table.last_bucket)  # rows that nobody checked stay inside the table
    cdef Py_ssize_t cell = bucket * table.n_ranks + here
    cdef uint16_t level = table.level[cell]
    if level != MIXED:
        return table.levels[level]
    return walk(table.begins[cell], table.ends[here], table.edges, table.values, q)


cdef Table point_to_table(lookup):
    """Addresses of the arrays of a ``RankedLookup``, which outlives them."""
    cdef const double[::1] edges = lookup.edges, values = lookup.values, levels = lookup.levels
    cdef const uint16_t[::1] level = lookup.table
    cdef const uint32_t[::1] begins = lookup.begins
    cdef const int64_t[::1] ends = lookup.ends
    return Table(&edges[0], &values[0], &levels[0], &level[0], &begins[0], &ends[0],
                 lookup.n_ranks, level.shape[0] // lookup.n_ranks - 1, lookup.base, lookup.shift)


cdef Powers point_to_powers(powers):
    """Addresses of the arrays of a ``PowerTable``, which outlives them."""
    cdef const double[::1] scale = powers.scale
    cdef const double[:, ::1] nodes = powers.nodes
    return Powers(powers.exponent, powers.smallest, powers.smallest_bits, powers.is_steep,
                  &scale[0], &nodes[0, 0])


def apply_ranked(
    const double[:, ::1] rows, const int64_t[:, ::1] bits, key_t[:, ::1] keys, key_t mask, lookup,
    double share, powers, double part, double[:, ::1] out,
):
    """Calibrated rows: (1 - share) * differences of the step function + share * prior."""
    cdef Py_ssize_t n_rows = rows.shape[0], n = rows.shape[1], i, r
    cdef Table table = point_to_table(lookup)
    cdef Powers power = point_to_powers(powers)
    cdef double[::1] q = np.empty(n), prior = np.empty(n)
    cdef double keep = 1.0 - share, mass, factor, below, value
    cdef key_t* order
    cdef bint tied
    keep_lock(n_rows * n)
    with nogil:
        for i in range(n_rows):
            order = &keys[i, 0]
            if unpack_row(order, n, mask) > 0:
                repair_order(&rows[i, 0], order, n)
            tied = has_ties(&rows[i, 0], order, n, part)
            mass = gather_row(&rows[i, 0], &bits[i, 0], order, n, &power, &q[0], &prior[0])
            if power.is_steep:
                mass = steep_prior(&rows[i, 0], order, n, &power, &prior[0])
            factor = share / mass
            # "The probabilities are first sorted, g is applied, a difference is taken and then the
            # results are transformed back": g(q_r, r) - g(q_(r-1), r - 1), with g(., 0) = 0 and
            # g(., k) = 1. The paper's example takes the sum q of another rank there, a slip.
            below = 0.0
            for r in range(n - 1):
                value = value_at(&table, q[r], r)
                out[i, order[r]] = keep * (value - below) + factor * prior[r]
                below = value
            out[i, order[n - 1]] = keep * (1.0 - below) + factor * prior[n - 1]
            if tied:
                share_ties(&rows[i, 0], order, n, part, &out[i, 0])
