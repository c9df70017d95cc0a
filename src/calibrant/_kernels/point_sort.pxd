"""Passes that sort points by the bits of q, and those of one q by rank."""

from libc.stdint cimport int64_t, uint32_t

cdef enum:
    DIGIT = 8  # bits a pass of the radix sort looks at
    N_DIGITS = 1 << DIGIT

ctypedef fused origin_t:  # rank and row of a point, packed
    uint32_t
    int64_t


cdef inline void scatter(
    const int64_t* keys,
    const origin_t* origin,
    Py_ssize_t n,
    int64_t low,
    int shift,
    int64_t* new_keys,
    origin_t* new_origin,
) noexcept nogil:
    """Sort by one digit of ``keys - low``, keeping the order where it is equal."""
    cdef int64_t[N_DIGITS] begins
    cdef int64_t total = 0, count, place
    cdef Py_ssize_t i, digit
    for digit in range(N_DIGITS):
        begins[digit] = 0
    for i in range(n):
        begins[((keys[i] - low) >> shift) & (N_DIGITS - 1)] += 1
    for digit in range(N_DIGITS):
        count = begins[digit]
        begins[digit] = total
        total += count
    for i in range(n):
        digit = ((keys[i] - low) >> shift) & (N_DIGITS - 1)
        place = begins[digit]
        new_keys[place] = keys[i]
        new_origin[place] = origin[i]
        begins[digit] = place + 1


cdef inline void sort_run(
    origin_t* origin,
    origin_t* spare,
    Py_ssize_t start,
    Py_ssize_t stop,
    int row_bits,
    int64_t* counts,
    Py_ssize_t n_classes,
) noexcept nogil:
    """Sort points of equal q by rank: a few by insertion, many by counting."""
    cdef Py_ssize_t n = stop - start, i, j, r
    cdef int64_t total = start, count
    cdef origin_t value
    if n * n < 8 * (n + n_classes):
        for i in range(start + 1, stop):
            value = origin[i]
            j = i
            while j > start and origin[j - 1] > value:
                origin[j] = origin[j - 1]
                j -= 1
            origin[j] = value
        return
    for r in range(n_classes):
        counts[r] = 0
    for i in range(start, stop):
        counts[origin[i] >> row_bits] += 1
    for r in range(n_classes):
        count = counts[r]
        counts[r] = total
        total += count
    for i in range(start, stop):
        r = origin[i] >> row_bits
        spare[counts[r]] = origin[i]
        counts[r] += 1
    for i in range(start, stop):
        origin[i] = spare[i]
