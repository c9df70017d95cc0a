"""Log-likelihood of temperature scaling and its two derivatives, row by row."""

from __future__ import annotations

import math

import numpy as np

from calibrant.kernels.exponential import exponentials
from calibrant.kernels.jit import kernel

BLOCK = 2048  # cells worked on at once: what the first-level cache holds


@kernel
def row_likelihoods(logits, class_index, beta, loss, slope, curvature):
    """NLL of each row at inverse temperature ``beta``, and its derivatives in beta.

    With d_j = z_j - max z and s_n = sum_j d_j^n exp(beta d_j): the loss is
    log s_0 - beta d_y, its slope s_1 / s_0 - d_y, its curvature s_2 / s_0 - (s_1 / s_0)^2
    (the paper's equation of temperature scaling with 1/T = beta, in which it is convex). Nothing
    of the size of the matrix is stored.
    """
    n_rows, n_classes = logits.shape
    height = max(1, BLOCK // n_classes)
    gaps = np.empty(height * n_classes)
    scaled = np.empty(height * n_classes)
    e = np.ones(height * n_classes)
    bits = np.empty(height * n_classes, dtype=np.int64)
    powers = bits.view(np.float64)
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        n_cells = (stop - start) * n_classes
        for i in range(start, stop):
            top = logits[i, 0]
            for j in range(1, n_classes):
                top = max(top, logits[i, j])
            offset = (i - start) * n_classes
            for j in range(n_classes):
                gaps[offset + j] = logits[i, j] - top
        if beta > 0.0:
            for c in range(n_cells):
                scaled[c] = beta * gaps[c]
            exponentials(scaled[:n_cells], e, bits, powers)
        for i in range(start, stop):
            offset = (i - start) * n_classes
            s0 = 0.0
            s1 = 0.0
            s2 = 0.0
            for c in range(offset, offset + n_classes):
                s0 += e[c]
                s1 += e[c] * gaps[c]
                s2 += e[c] * gaps[c] * gaps[c]
            own = gaps[offset + class_index[i]]
            mean = s1 / s0
            loss[i] = math.log(s0) - beta * own
            slope[i] = mean - own
            curvature[i] = max(s2 / s0 - mean * mean, 0.0)


@kernel
def scaled_softmax(logits, beta, out):
    """Write softmax(beta * logits) of each row to ``out``, which may be ``logits`` itself."""
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        top = logits[i, 0]
        for j in range(1, n_classes):
            top = max(top, logits[i, j])
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
