"""Sums that do not depend on the order of their terms, and the bin of a value.

Floating-point addition is not associative, integer addition is. A term in [-1, 1] is added as two
integers, the whole part of ``term * 2**31`` and that of what is left times 2**31: fewer than 2**32
terms cannot overflow, and a mean is off by less than 2**-61. So metrics depend neither on the
order of the rows nor on how they are cut into chunks, to the last bit.
"""

from libc.stdint cimport int64_t


cpdef enum:
    BITS = 31

# Columns of the sums over a bin.
cpdef enum:
    WEIGHT = 0
    HIT = 1
    VALUE = 2


cdef inline void add_term(int64_t* pair, double term) noexcept nogil:
    """Add a term in [-1, 1] to the two integers of a sum."""
    cdef double unit = <double> (<int64_t> 1 << BITS), scaled = term * unit
    cdef int64_t whole = <int64_t> scaled
    pair[0] += whole
    pair[1] += <int64_t> ((scaled - whole) * unit)


cdef inline Py_ssize_t uniform_bin(
    double value, const double* edges, Py_ssize_t n_bins
) noexcept nogil:
    """Index of the bin (edges[b], edges[b + 1]] of a value in [0, 1]; 0 is in the first.

    The same as ``searchsorted(edges[1:-1], value)``: the product finds the bin up to rounding, so
    the search starts one above it, and the edges themselves decide.
    """
    cdef Py_ssize_t b = min(<Py_ssize_t> (value * n_bins) + 1, n_bins - 1)
    while b > 0 and value <= edges[b]:
        b -= 1
    return b
