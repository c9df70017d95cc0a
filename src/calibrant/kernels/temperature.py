"""Sums that the likelihood of temperature scaling is made of, row by row; and its softmax."""

from __future__ import annotations

import math

from calibrant.kernels.exponential import block_scratch, exponentials
from calibrant.kernels.jit import kernel
from calibrant.kernels.rows import row_top


@kernel
def row_sums(gaps, n_zeros, beta, s0, s1, s2):
    """Write s_n = sum_j d_j^n exp(beta d_j) over the positive cells of each row, n = 0, 1, 2.

    ``gaps`` d are logits less the largest of their row, in increasing order; the first ``n_zeros``
    are those of exact zeros and are left out. With them the loss of temperature scaling at
    1/T = beta is log s_0 - beta d_y, its slope s_1 / s_0 - d_y and its curvature
    s_2 / s_0 - (s_1 / s_0)^2: convex in beta, where the paper has T. Nothing of the size of the
    matrix is stored.
    """
    n_rows, n_classes = gaps.shape
    height, scaled, e, bits, powers = block_scratch(n_classes)
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        if beta > 0.0:
            for i in range(start, stop):
                offset = (i - start) * n_classes
                for j in range(n_classes):
                    scaled[offset + j] = beta * gaps[i, j]
            exponentials(scaled[: (stop - start) * n_classes], e, bits, powers)
        for i in range(start, stop):
            offset = (i - start) * n_classes
            sum0 = 0.0
            sum1 = 0.0
            sum2 = 0.0
            for j in range(n_zeros[i], n_classes):
                term = e[offset + j]
                sum0 += term
                term *= gaps[i, j]
                sum1 += term
                sum2 += term * gaps[i, j]
            s0[i] = sum0
            s1[i] = sum1
            s2[i] = sum2


@kernel
def scaled_softmax(logits, beta, out):
    """Write softmax(beta * logits) of each row to ``out``, which may be ``logits`` itself."""
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        top = row_top(logits, i)
        total = 0.0
        lost = 0.0  # what rounding takes (Kahan): one large and many small terms add up
        for j in range(n_classes):
            value = math.exp(beta * (logits[i, j] - top))
            out[i, j] = value
            term = value - lost
            grown = total + term
            lost = (grown - total) - term
            total = grown
        for j in range(n_classes):
            out[i, j] /= total
