"""Structured scaling: softmax(alpha u + (gamma + W) x + c), its gradient and its curvature.

u are the temperature-scaled logits and x the bounded, centred log-probabilities. Rows are worked
on in blocks that fit the first-level cache.
"""

from __future__ import annotations

import math

from calibrant.numba_kernels.exponential import block_scratch, exponentials
from calibrant.numba_kernels.jit import kernel
from calibrant.numba_kernels.rows import exponentiate_row, row_top


@kernel
def bounded_logs(logits, bound, out):
    """Write log(softmax + bound) of each row, less its mean, to ``out``."""
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        top = row_top(logits, i)
        if bound > 0.0:
            total = exponentiate_row(logits, i, top, out)
            for j in range(n_classes):
                out[i, j] = math.log(out[i, j] / total + bound)
        else:
            for j in range(n_classes):
                out[i, j] = logits[i, j] - top
        total = 0.0
        for j in range(n_classes):
            total += out[i, j]
        mean = total / n_classes
        for j in range(n_classes):
            out[i, j] -= mean


@kernel
def map_logits(logits, features, alpha, slope, intercept, mapped):
    """Add alpha u + slope x + c to ``mapped``, which holds the part of the other classes."""
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        for j in range(n_classes):
            mapped[i, j] += alpha * logits[i, j] + slope[j] * features[i, j] + intercept[j]


@kernel
def weighted_softmax(mapped, class_index, share):
    """Turn ``mapped`` in place into share * softmax; returns the NLL."""
    n_rows, n_classes = mapped.shape
    height, gaps, e, bits, powers = block_scratch(n_classes)
    loss = 0.0
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        n_cells = (stop - start) * n_classes
        for i in range(start, stop):
            top = row_top(mapped, i)
            offset = (i - start) * n_classes
            for j in range(n_classes):
                gaps[offset + j] = mapped[i, j] - top
        exponentials(gaps[:n_cells], e, bits, powers)
        for i in range(start, stop):
            offset = (i - start) * n_classes
            total = 0.0
            for c in range(offset, offset + n_classes):
                total += e[c]
            loss += share[i] * (math.log(total) - gaps[offset + class_index[i]])
            factor = share[i] / total
            for j in range(n_classes):
                mapped[i, j] = factor * e[offset + j]
    return loss


@kernel
def curve_rows(weighted, share, mapped):
    """Turn a change of the logits in place into the change of share * softmax.

    With p the softmax of the row: share * p * (t - sum_l p_l t_l).
    """
    n_rows, n_classes = mapped.shape
    for i in range(n_rows):
        total = 0.0
        for j in range(n_classes):
            total += weighted[i, j] * mapped[i, j]
        mean = total / share[i]
        for j in range(n_classes):
            mapped[i, j] = weighted[i, j] * (mapped[i, j] - mean)


@kernel
def spread_rows(weighted, share, out):
    """Write share * p * (1 - p) of each cell to ``out``."""
    n_rows, n_classes = weighted.shape
    for i in range(n_rows):
        for j in range(n_classes):
            out[i, j] = weighted[i, j] * (1.0 - weighted[i, j] / share[i])


@kernel
def add_class_sums(rows, logits, features, by_slope, by_intercept):
    """Add sum_i r_ij x_ij and sum_i r_ij to the sums by class; returns sum_ij r_ij u_ij."""
    n_rows, n_classes = rows.shape
    by_alpha = 0.0
    for i in range(n_rows):
        total = 0.0
        for j in range(n_classes):
            r = rows[i, j]
            total += r * logits[i, j]
            by_slope[j] += r * features[i, j]
            by_intercept[j] += r
        by_alpha += total
    return by_alpha


@kernel
def common_curvature(weighted, share, logits, features, out):
    """Add the Hessian in (alpha, gamma), two by two, to ``out``."""
    n_rows, n_classes = weighted.shape
    for i in range(n_rows):
        u = 0.0
        x = 0.0
        uu = 0.0
        ux = 0.0
        xx = 0.0
        for j in range(n_classes):
            w = weighted[i, j]
            a = logits[i, j]
            b = features[i, j]
            u += w * a
            x += w * b
            uu += w * a * a
            ux += w * a * b
            xx += w * b * b
        out[0, 0] += uu - u * u / share[i]
        out[0, 1] += ux - u * x / share[i]
        out[1, 1] += xx - x * x / share[i]
    out[1, 0] = out[0, 1]


@kernel
def multiply_rows(rows, matrix, out):
    """Write rows @ matrix to ``out``; each row's sums run in one order, whatever the others are.

    A BLAS rounds differently for other numbers of rows, so that chunks would not give the bits of
    the whole.
    """
    n_rows, n_inner = rows.shape
    n_columns = matrix.shape[1]
    for start in range(0, n_rows, 8):
        stop = min(start + 8, n_rows)
        for i in range(start, stop):
            for j in range(n_columns):
                out[i, j] = 0.0
        for inner in range(n_inner):
            for i in range(start, stop):
                factor = rows[i, inner]
                for j in range(n_columns):
                    out[i, j] += factor * matrix[inner, j]
