"""exp and log of many numbers at once, four to a vector instruction.

libm's take one number at a time, and numpy's exp is vectorised only where AVX-512 is; these loops
compile to AVX2. exp is the usual method: x = n ln 2 + r with |r| <= ln(2) / 2, a Taylor polynomial
of degree 13 for exp(r), and 2^n put together from its bits; the error is below 2 ulp. log is that
of fdlibm: x = 2^k m with m between 1/sqrt(2) and sqrt(2), and for f = m - 1 and s = f / (2 + f) a
polynomial in s^2; the error is below 1 ulp.
"""

from libc.float cimport DBL_MIN
from libc.math cimport floor
from libc.stdint cimport int32_t, int64_t, uint64_t
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


cdef inline double logarithm(double x) noexcept nogil:
    """log x of a finite x > 0, subnormal ones included."""
    cdef double scaled = x * 18014398509481984.0 if x < DBL_MIN else x  # 2^54
    return normal_logarithm(scaled, 1077.0 if x < DBL_MIN else 1023.0)


cdef inline double normal_logarithm(double x, double bias=1023.0) noexcept nogil:
    """log x of an x that is not subnormal; ``bias`` is what its exponent is to be lowered by."""
    cdef uint64_t bits, mantissa, exponent
    cdef double m, k, f, s, z, w, half
    memcpy(&bits, &x, 8)
    bits += <uint64_t> 0x3FF0000000000000 - <uint64_t> 0x3FE6A09E00000000
    mantissa = (bits & <uint64_t> 0x000FFFFFFFFFFFFF) + <uint64_t> 0x3FE6A09E00000000
    memcpy(&m, &mantissa, 8)
    # The exponent as the last bits of 2^52, since vectors of whole numbers convert slowly.
    exponent = (bits >> 52) | <uint64_t> 0x4330000000000000
    memcpy(&k, &exponent, 8)
    k = (k - 4503599627370496.0) - bias
    f = m - 1.0
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    m = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
    m += z * (0.6666666666666735130 + w * (0.2857142874366239149
        + w * (0.1818357216161805012 + w * 0.1479819860511658591)))
    return s * (half + m) + k * 1.90821492927058770002e-10 - half + f + k * 0.69314718036912381649
