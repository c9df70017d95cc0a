"""Softmax of mapped logits, and the sums that likelihoods of scaling methods are made of."""

import numpy as np

from libc.math cimport exp, log, rint
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from calibrant._kernels.elementary cimport block_height, exponentials
from calibrant._kernels.lock cimport keep_lock
from calibrant._kernels.rows cimport reproducible_sum, row_top

ctypedef fused real:
    float
    double

cdef enum:
    HEIGHT = 16  # rows and columns of sums that fit the first-level cache
    WIDTH = 128


def row_sums(
    const double[:, ::1] gaps, const Py_ssize_t[::1] n_zeros, double beta, double[::1] s0,
    double[::1] s1, double[::1] s2,
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
    cdef Py_ssize_t n_rows = logits.shape[0], n_classes = logits.shape[1]
    cdef Py_ssize_t height = block_height(n_classes), block, start, stop, i, j
    cdef double[::1] room = np.empty(2 * height * n_classes)
    cdef double top
    cdef double* row
    keep_lock(n_rows * n_classes)
    with nogil:
        for block in range((n_rows + height - 1) // height):
            start = block * height
            stop = min(start + height, n_rows)
            for i in range(start, stop):
                row = &room[(i - start) * n_classes]
                top = row_top(&logits[i, 0], n_classes)
                for j in range(n_classes):
                    row[j] = beta * (logits[i, j] - top)
            divide_exponentials(&room[0], n_classes, &out[start, 0], &out[stop - 1, n_classes - 1])


cdef void divide_exponentials(
    double* gaps, Py_ssize_t n_classes, double* out, const double* last
) noexcept nogil:
    """Write exp(gaps) over their sums of rows, ``last`` cell included; behind gaps is room."""
    cdef Py_ssize_t j, n_deep, n_cells = last - out + 1
    cdef double* e = gaps + n_cells
    cdef double total
    exponentials(gaps, e, n_cells)
    while out <= last:
        total = reproducible_sum(e, n_classes)
        n_deep = 0
        for j in range(n_classes):
            n_deep += gaps[j] < -708.0  # where ``exponentials`` ends
            out[j] = e[j] / total
        if n_deep > 0:
            for j in range(n_classes):
                out[j] = exp(gaps[j]) / total if gaps[j] < -708.0 else out[j]
        gaps += n_classes
        e += n_classes
        out += n_classes


def affine_rows(
    const double[:, ::1] rows, const double[:, ::1] slope_transposed, const double[::1] intercept,
    double[:, ::1] out,
):
    """Write W z + b of each row to ``out``, each sum in the order of the classes.

    BLAS chooses that order by the shape of the matrix, so a row's bits would depend on the chunk
    it came in. Sums of a few rows and columns are worked on at once, in the first-level cache.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1]
    cdef Py_ssize_t row_block, column_block, row, column, height, width, i
    cdef double[HEIGHT][WIDTH] sums
    keep_lock(n_rows * n_classes)
    with nogil:
        for column_block in range((n_classes + WIDTH - 1) // WIDTH):
            column = column_block * WIDTH
            width = min(<Py_ssize_t> WIDTH, n_classes - column)
            for row_block in range((n_rows + HEIGHT - 1) // HEIGHT):
                row = row_block * HEIGHT
                height = min(<Py_ssize_t> HEIGHT, n_rows - row)
                for i in range(height):
                    memcpy(sums[i], &intercept[column], width * sizeof(double))
                add_products(
                    &rows[row, 0], &slope_transposed[0, column], n_classes, height, width, sums
                )
                for i in range(height):
                    memcpy(&out[row + i, column], sums[i], width * sizeof(double))


cdef inline void add_products(
    const double* rows, const double* slopes, Py_ssize_t n_classes, Py_ssize_t height,
    Py_ssize_t width, double[HEIGHT][WIDTH] sums,
) noexcept nogil:
    """Add the products of a few rows with a few columns, one class after the other.

    Four classes at a time, so that a sum is read and written once for four products.
    """
    cdef Py_ssize_t k = n_classes, i, j, c
    cdef double z0, z1, z2, z3
    cdef const double* z
    cdef const double* w
    for j in range(0, k - 3, 4):
        w = slopes + j * k
        for i in range(height):
            z = rows + i * k + j
            z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
            for c in range(width):
                sums[i][c] = (
                    sums[i][c] + z0 * w[c] + z1 * w[k + c] + z2 * w[2 * k + c] + z3 * w[3 * k + c]
                )
    for j in range(k - k % 4, k):
        w = slopes + j * k
        for i in range(height):
            z0 = rows[i * k + j]
            for c in range(width):
                sums[i][c] += z0 * w[c]


# Structured scaling: softmax(alpha u + (gamma + W) x + c), its gradient and its curvature. u are
# the temperature-scaled logits and x the bounded, centred log-probabilities.


def map_logits(
    const double[:, ::1] logits, const double[:, ::1] features, double alpha,
    const double[::1] slope, const double[::1] intercept, real[:, ::1] mapped,
):
    """Add alpha u + slope x + c to ``mapped``, which holds the part of the other classes."""
    cdef Py_ssize_t n_rows = logits.shape[0], n_classes = logits.shape[1], i, j
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                mapped[i, j] += alpha * logits[i, j] + slope[j] * features[i, j] + intercept[j]


def weighted_softmax(
    double[:, ::1] mapped, const Py_ssize_t[::1] class_index, const double[::1] share
):
    """Turn ``mapped`` in place into share * softmax; returns the NLL."""
    cdef Py_ssize_t n_rows = mapped.shape[0], n_classes = mapped.shape[1]
    cdef Py_ssize_t height = block_height(n_classes), block, start, stop, i, j, offset
    cdef double[::1] gaps = np.empty(height * n_classes)
    cdef double[::1] e = np.empty(height * n_classes)
    cdef double top, total, factor, loss = 0.0
    with nogil:
        for block in range((n_rows + height - 1) // height):
            start = block * height
            stop = min(start + height, n_rows)
            for i in range(start, stop):
                top = row_top(&mapped[i, 0], n_classes)
                offset = (i - start) * n_classes
                for j in range(n_classes):
                    gaps[offset + j] = mapped[i, j] - top
            exponentials(&gaps[0], &e[0], (stop - start) * n_classes)
            for i in range(start, stop):
                offset = (i - start) * n_classes
                total = 0.0
                for j in range(n_classes):
                    total += e[offset + j]
                loss += share[i] * (log(total) - gaps[offset + class_index[i]])
                factor = share[i] / total
                for j in range(n_classes):
                    mapped[i, j] = factor * e[offset + j]
    return loss


def curve_rows(const double[:, ::1] weighted, const double[::1] share, real[:, ::1] mapped):
    """Turn a change of the logits in place into the change of share * softmax.

    With p the softmax of the row: share * p * (t - sum_l p_l t_l).
    """
    cdef Py_ssize_t n_rows = mapped.shape[0], n_classes = mapped.shape[1], i, j
    cdef double total, mean
    with nogil:
        for i in range(n_rows):
            total = 0.0
            for j in range(n_classes):
                total += weighted[i, j] * mapped[i, j]
            mean = total / share[i]
            for j in range(n_classes):
                mapped[i, j] = weighted[i, j] * (mapped[i, j] - mean)


def spread_rows(const double[:, ::1] weighted, const double[::1] share, real[:, ::1] out):
    """Write share * p * (1 - p) of each cell to ``out``."""
    cdef Py_ssize_t n_rows = weighted.shape[0], n_classes = weighted.shape[1], i, j
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                out[i, j] = weighted[i, j] * (1.0 - weighted[i, j] / share[i])


def add_class_sums(
    const real[:, ::1] rows, const double[:, ::1] logits, const double[:, ::1] features,
    double[::1] by_slope, double[::1] by_intercept,
):
    """Add sum_i r_ij x_ij and sum_i r_ij to the sums by class; returns sum_ij r_ij u_ij."""
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j
    cdef double r, total, by_alpha = 0.0
    with nogil:
        for i in range(n_rows):
            total = 0.0
            for j in range(n_classes):
                r = rows[i, j]
                total += r * logits[i, j]
                by_slope[j] += r * features[i, j]
                by_intercept[j] += r
            by_alpha += total
    return by_alpha


def common_curvature(
    const double[:, ::1] weighted, const double[::1] share, const double[:, ::1] logits,
    const double[:, ::1] features, double[:, ::1] out,
):
    """Add the Hessian in (alpha, gamma), two by two, to ``out``."""
    cdef Py_ssize_t n_rows = weighted.shape[0], n_classes = weighted.shape[1], i, j
    cdef double w, a, b, u, x, uu, ux, xx
    with nogil:
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
