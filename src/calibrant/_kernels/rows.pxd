"""What kernels do with one row: ``row`` points to its first cell, ``n`` is the number of cells."""

from libc.float cimport DBL_EPSILON
from libc.math cimport exp, frexp, ldexp
from libc.stdint cimport int64_t


cdef inline double row_top(const double* row, Py_ssize_t n) noexcept nogil:
    """Largest cell of a row; of four parts of it at a time, which do not wait for each other."""
    cdef Py_ssize_t j, rest = n % 4
    cdef double top = row[0]
    for j in range(1, rest):
        top = max(top, row[j])
    cdef double a = top, b = top, c = top
    for j in range(rest, n, 4):
        top = max(top, row[j])
        a = max(a, row[j + 1])
        b = max(b, row[j + 2])
        c = max(c, row[j + 3])
    return max(max(top, a), max(b, c))


cdef inline bint is_positive(const double* row, Py_ssize_t n, double* total) noexcept nogil:
    """Whether all cells are in (0, 1]; ``total`` gets their sum then. Eight cells at a time."""
    cdef double[8] sums, low, high
    cdef Py_ssize_t j, whole = n - n % 8
    cdef int c
    cdef bint fine = True
    for c in range(8):
        sums[c] = 0.0
        low[c] = 1.0
        high[c] = 1.0
    for j in range(0, whole, 8):
        for c in range(8):
            sums[c] += row[j + c]
            low[c] = row[j + c] if row[j + c] < low[c] else low[c]
            high[c] = row[j + c] if row[j + c] > high[c] else high[c]
    for j in range(whole, n):
        sums[0] += row[j]
        low[0] = min(low[0], row[j])
        high[0] = max(high[0], row[j])
    total[0] = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + (
        (sums[4] + sums[5]) + (sums[6] + sums[7]))
    for c in range(8):
        fine = fine and low[c] > 0.0 and high[c] <= 1.0
    return fine and total[0] == total[0]  # what is no number is neither below nor above


cdef inline double reproducible_sum(const double* row, Py_ssize_t n) noexcept nogil:
    """Sum of numbers in [-1, 1] that does not depend on their order, to the last digit.

    Each is split into multiples of two units, of which ``n`` at most add up without rounding
    (Demmel and Nguyen, 2013): (x + big) - big rounds x to a multiple of the last digit of ``big``.
    """
    cdef double[8] sums, rests
    cdef double coarse, fine, big, small, power = 2.0
    cdef Py_ssize_t j, whole = n - n % 8
    cdef int c
    while power <= n:
        power *= 2.0
    big = 3.0 * power
    small = 1.5 * DBL_EPSILON * 2.0 * power * power
    for c in range(8):
        sums[c] = 0.0
        rests[c] = 0.0
    for j in range(0, whole, 8):
        for c in range(8):
            coarse = (row[j + c] + big) - big
            fine = ((row[j + c] - coarse) + small) - small
            sums[c] += coarse
            rests[c] += fine
    for j in range(whole, n):
        coarse = (row[j] + big) - big
        sums[0] += coarse
        rests[0] += ((row[j] - coarse) + small) - small
    for c in range(1, 8):
        sums[0] += sums[c]
        rests[0] += rests[c]
    return sums[0] + rests[0]


cdef inline Py_ssize_t top_column(const double* row, Py_ssize_t n) noexcept nogil:
    """Column of the largest cell of a row, the first of equal ones."""
    cdef Py_ssize_t j = 0
    cdef double top = row_top(row, n)
    while j < n - 1 and row[j] != top:
        j += 1
    return j


cdef inline double exponentiate_row(
    const double* row, Py_ssize_t n, double top, double* out
) noexcept nogil:
    """Write exp(cell - ``top``) to ``out``, maybe ``row`` itself; return their sum."""
    cdef Py_ssize_t j
    cdef double value, total = 0.0
    for j in range(n):
        value = exp(row[j] - top)
        out[j] = value
        total += value
    return total


cdef inline double invariant_sum(const double* row, Py_ssize_t n, double total) noexcept nogil:
    """Sum of non-negative numbers that does not depend on their order.

    Integer addition is associative: the terms are added as 61-bit fixed-point numbers, scaled by
    ``total``, any estimate of the sum. The error is below ``n * 2**-60`` of it.
    """
    cdef Py_ssize_t j
    cdef int exponent
    cdef int64_t fixed = 0
    frexp(0.75 * total, &exponent)  # 1.5 times the largest double would be infinite
    cdef int shift = 60 - exponent
    cdef double scale = ldexp(1.0, min(shift, 1000))
    cdef double rest = ldexp(1.0, shift - min(shift, 1000))  # for sums of subnormals
    for j in range(n):
        fixed += <int64_t> (row[j] * scale * rest)
    return fixed / scale / rest


cdef inline void divide_by_sum(double* mapped, const double* row, Py_ssize_t n) noexcept nogil:
    """Divide a mapped row by its sum; one of zeros becomes the row that it came from.

    All of a row lies below what was ever seen then, so nothing is known of it.
    """
    cdef Py_ssize_t j
    cdef double total = 0.0
    for j in range(n):
        total += mapped[j]
    if total > 0.0:
        total = invariant_sum(mapped, n, total)
        for j in range(n):
            mapped[j] /= total
    else:
        for j in range(n):
            mapped[j] = row[j]
