"""Log-likelihood of temperature scaling and its two derivatives, row by row."""

from __future__ import annotations

import math

from calibrant.kernels.jit import kernel


@kernel
def row_likelihoods(logits, class_index, beta, loss, slope, curvature):
    """NLL of each row at inverse temperature ``beta``, and its derivatives in beta.

    With d_j = z_j - max z and s_n = sum_j d_j^n exp(beta d_j): the loss is
    log s_0 - beta d_y, its slope s_1 / s_0 - d_y, its curvature s_2 / s_0 - (s_1 / s_0)^2
    (the paper's equation of temperature scaling with 1/T = beta, in which it is convex). Nothing
    of the size of the matrix is stored.
    """
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        top = logits[i, 0]
        for j in range(1, n_classes):
            top = max(top, logits[i, j])
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        for j in range(n_classes):
            d = logits[i, j] - top
            x = beta * d
            if x > -745.0:  # below, exp is zero
                e = math.exp(x)
                s0 += e
                s1 += e * d
                s2 += e * d * d
        own = logits[i, class_index[i]] - top
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
        for j in range(n_classes):
            value = math.exp(beta * (logits[i, j] - top))
            out[i, j] = value
            total += value
        for j in range(n_classes):
            out[i, j] /= total
