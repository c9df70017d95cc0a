"""exp of many non-positive numbers at once, four to a vector instruction.

libm's exp takes one number at a time, and numpy's is vectorised only where AVX-512 is; this loop
compiles to AVX2. The method is the usual one: x = n ln 2 + r with |r| <= ln(2) / 2, a Taylor
polynomial of degree 13 for exp(r), and 2^n put together from its bits. The error is below 2 ulp.
"""

from libc.math cimport floor
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy


cdef enum:
    BLOCK = 2048  # cells worked on at once: what the first-level cache holds


cdef inline Py_ssize_t block_height(Py_ssize_t n_classes) noexcept nogil:
    """How many rows fit a block."""
    return max(<Py_ssize_t> 1, BLOCK // n_classes)


cdef inline double power_of_two(double n) noexcept nogil:
    """2^n of a whole number from -1022 to 1023, put together from its bits."""
    cdef int64_t bits = <int64_t> (<int32_t> n + 1023) << 52
    cdef double power
    memcpy(&power, &bits, 8)
    return power


cdef inline void exponentials(const double* x, double* out, Py_ssize_t n_cells) noexcept nogil:
    """Write exp(x) to ``out`` for x <= 0; below -708 it stays at exp(-708), about 3e-308."""
    cdef Py_ssize_t j
    cdef double v, n, r, p
    for j in range(n_cells):
        v = x[j] if x[j] > -708.0 else -708.0
        n = floor(v * 1.4426950408889634 + 0.5)
        # ln 2 in two parts: the products with n are exact in the first.
        r = v - n * 0.6931471803691238
        r = r - n * 1.9082149292705877e-10
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        out[j] = (p * r + 1.0) * power_of_two(n)
