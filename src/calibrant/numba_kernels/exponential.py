"""exp of many non-positive numbers at once, four to a vector instruction.

numba calls libm's scalar exp, and numpy is vectorised only where AVX-512 is; this loop compiles
to AVX2. The method is the usual one: x = n ln 2 + r with |r| <= ln(2) / 2, a Taylor polynomial
of degree 13 for exp(r), and 2^n put together from its bits. The error is below 2 ulp.
"""

from __future__ import annotations

import numpy as np

from calibrant.numba_kernels.jit import kernel

BLOCK = 2048  # cells worked on at once: what the first-level cache holds


@kernel
def block_scratch(n_classes):
    """Return how many rows fit a block, and room for its gaps and what ``exponentials`` needs."""
    height = max(1, BLOCK // n_classes)
    bits = np.empty(height * n_classes, dtype=np.int64)
    gaps = np.empty(height * n_classes)
    return height, gaps, np.ones(height * n_classes), bits, bits.view(np.float64)


@kernel
def exponentials(x, out, power_bits, powers):
    """Write exp(x) to ``out`` for x <= 0; below -708 it stays at exp(-708), about 3e-308.

    ``powers`` is ``power_bits`` seen as float64; both are scratch as long as ``x``.
    """
    for j in range(x.shape[0]):
        v = x[j] if x[j] > -708.0 else -708.0  # noqa: FURB136  (max() is not vectorised)
        n = np.floor(v * 1.4426950408889634 + 0.5)
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
        out[j] = p * r + 1.0
        power_bits[j] = np.int64(np.int32(n) + np.int32(1023)) << np.int64(52)
    for j in range(x.shape[0]):
        out[j] *= powers[j]
