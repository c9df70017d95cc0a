"""log of many positive numbers at once, four to a vector instruction.

The method is that of fdlibm: x = 2^k m with m between 1/sqrt(2) and sqrt(2), and for f = m - 1 and
s = f / (2 + f) a polynomial in s^2. The error is below 1 ulp. libm's log takes one number at a time.
"""

from libc.float cimport DBL_MIN
from libc.stdint cimport uint64_t
from libc.string cimport memcpy


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
