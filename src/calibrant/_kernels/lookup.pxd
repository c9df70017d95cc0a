"""Find the block of every cell, fast: a table over the leading bits of the float.

The bits of non-negative doubles, read as integers, have the order of the doubles. Their leading
bits are the bucket of a table whose width is relative, so tiny probabilities are told apart as
well as large ones; a binary search among the thresholds of one bucket does the rest.
"""

from libc.stdint cimport int32_t, int64_t


cdef inline Py_ssize_t find_block(
    int64_t bits, const int64_t* edges, const int32_t* table, Py_ssize_t n_buckets, int shift,
    int64_t base,
) noexcept nogil:
    """Index of the last threshold at or below the double with these ``bits``; at least 0.

    ``table`` has an entry more than there are buckets.
    """
    cdef int64_t bucket
    cdef int32_t low, high, middle
    cdef bint is_below
    if bits < 0:  # -0.0
        bits = 0
    bucket = (bits >> shift) - base + 1
    if bucket < 0:  # below every threshold but the first
        bucket = 0
    elif bucket > n_buckets - 1:  # above one by rounding
        bucket = n_buckets - 1
    low = table[bucket]
    high = table[bucket + 1]
    while low < high:  # thresholds before ``low`` are <= bits, from ``high`` on they are not
        middle = (low + high) >> 1
        is_below = edges[middle] <= bits
        low = middle + 1 if is_below else low  # as moves: a jump would be guessed wrong
        high = high if is_below else middle
    return max(low - 1, 0)
