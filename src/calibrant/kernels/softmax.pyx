"""Softmax of mapped logits, and the sums that likelihoods of scaling methods are made of."""

import numpy as np

from libc.math cimport exp
from libc.stdint cimport int64_t

from calibrant.kernels.exponential cimport block_height, exponentials
from calibrant.kernels.rows cimport row_top


def row_sums(
    const double[:, ::1] gaps,
    const int64_t[::1] n_zeros,
    double beta,
    double[::1] s0,
    double[::1] s1,
    double[::1] s2,
):
    """Write s_n = sum_j d_j^n exp(beta d_j) over the positive cells of each row, n = 0, 1, 2.

    ``gaps`` d are logits less the largest of their row, in increasing order; the first ``n_zeros``
    are those of exact zeros and are left out. With them the loss of temperature scaling at
    1/T = beta is log s_0 - beta d_y, its slope s_1 / s_0 - d_y and its curvature
    s_2 / s_0 - (s_1 / s_0)^2: convex in beta, where the paper has T. Nothing of the size of the
    matrix is stored.
    """
    cdef Py_ssize_t n_rows = gaps.shape[0], n_classes = gaps.shape[1]
    cdef Py_ssize_t height = block_height(n_classes), block, start, stop, i, j, offset
    cdef double[::1] scaled = np.empty(height * n_classes)
    cdef double[::1] e = np.ones(height * n_classes)
    cdef double term, sum0, sum1, sum2
    with nogil:
        for block in range((n_rows + height - 1) // height):
            start = block * height
            stop = min(start + height, n_rows)
            if beta > 0.0:
                for i in range(start, stop):
                    offset = (i - start) * n_classes
                    for j in range(n_classes):
                        scaled[offset + j] = beta * gaps[i, j]
                exponentials(&scaled[0], &e[0], (stop - start) * n_classes)
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


def scaled_softmax(const double[:, ::1] logits, double beta, double[:, ::1] out):
    """Write softmax(beta * logits) of each row to ``out``, which may be ``logits`` itself."""
    cdef Py_ssize_t n_rows = logits.shape[0], n_classes = logits.shape[1], i, j
    cdef double top, value, term, grown, total, lost
    with nogil:
        for i in range(n_rows):
            top = row_top(&logits[i, 0], n_classes)
            total = 0.0
            lost = 0.0  # what rounding takes (Kahan): one large and many small terms add up
            for j in range(n_classes):
                value = exp(beta * (logits[i, j] - top))
                out[i, j] = value
                term = value - lost
                grown = total + term
                lost = (grown - total) - term
                total = grown
            for j in range(n_classes):
                out[i, j] /= total
