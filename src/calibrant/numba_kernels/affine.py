"""Log-likelihood of affine maps of the logits, with exact gradients."""

from __future__ import annotations

import math

import numpy as np

from calibrant.numba_kernels.jit import kernel
from calibrant.numba_kernels.rows import exponentiate_row, row_top


@kernel
def residuals(logits, class_index, share, loss):
    """Turn ``logits`` in place into share * (softmax - label); write each row's NLL to ``loss``.

    The residuals are the gradient of the weighted NLL in the logits.
    """
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        top = row_top(logits, i)
        own = logits[i, class_index[i]]
        total = exponentiate_row(logits, i, top, logits)
        loss[i] = math.log(total) + top - own
        for j in range(n_classes):
            logits[i, j] *= share[i] / total
        logits[i, class_index[i]] -= share[i]


@kernel
def vector_likelihood(logits, class_index, share, slope, intercept, slope_grad, intercept_grad):
    """NLL of softmax(slope * z + intercept) and its gradient, row by row; no m x k matrix."""
    n_rows, n_classes = logits.shape
    slope_grad[:] = 0.0
    intercept_grad[:] = 0.0
    row = np.empty(n_classes)
    loss = 0.0
    for i in range(n_rows):
        top = -np.inf
        for j in range(n_classes):
            row[j] = slope[j] * logits[i, j] + intercept[j]
            top = max(top, row[j])
        own = row[class_index[i]]
        total = 0.0
        for j in range(n_classes):
            row[j] = math.exp(row[j] - top)
            total += row[j]
        loss += share[i] * (math.log(total) + top - own)
        for j in range(n_classes):
            gap = share[i] * row[j] / total
            if j == class_index[i]:
                gap -= share[i]
            slope_grad[j] += gap * logits[i, j]
            intercept_grad[j] += gap
    return loss


@kernel
def affine_rows(rows, slope_transposed, intercept, out):
    """Write W z + b of each row to ``out``, each sum in the order of the classes.

    BLAS chooses that order by the shape of the matrix, so a row's bits would depend on the chunk
    it came in.
    """
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        for j in range(n_classes):
            out[i, j] = intercept[j]
        for j in range(n_classes):
            value = rows[i, j]
            for c in range(n_classes):
                out[i, c] += value * slope_transposed[j, c]
