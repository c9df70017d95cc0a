"""A piecewise linear function of log p through the softmax: likelihood, gradient, Hessian.

theta(v) = sum_b s_b f_b(v), with f_0(v) = min(v - t_0, 0) below the first knot t_0 and, above it,
f_b(v) = min(max(v - t_{b-1}, 0), t_b - t_{b-1}) between two neighbouring knots (the last has no
end). A cell above t_0 has f = length in every segment between t_0 and its own, its offset in its
own, and 0 beyond; so three sums over the cells of each segment are enough for all first and second
moments, and a row costs O(k + segments^2).

Rows come sorted: the cells of segment b of row i are ``bounds[i, b]`` to ``bounds[i, b + 1]``, and
the last cell has the largest theta.
"""

import numpy as np

from libc.math cimport log
from libc.stdint cimport int32_t

from calibrant._kernels.elementary cimport block_height, exponentials
from calibrant._kernels.lock cimport keep_lock
from calibrant._kernels.rows cimport exponentiate_row, invariant_sum, row_top


cdef void fill_table(
    const double[::1] knots, const double[::1] slopes, double[::1] origin, double[::1] base
) noexcept nogil:
    """Find origin and base: theta(v) = base[b] + slopes[b] * (v - origin[b]) in segment b."""
    cdef Py_ssize_t b
    origin[0] = knots[0]
    base[0] = 0.0
    for b in range(1, slopes.shape[0]):
        origin[b] = knots[b - 1]
        base[b] = 0.0
        if b > 1:
            base[b] = base[b - 1] + slopes[b - 1] * (knots[b - 1] - knots[b - 2])


def find_bounds(const double[:, ::1] values, const double[::1] knots, int32_t[:, ::1] bounds):
    """Count the cells of each sorted row below each knot, between 0 and all of them."""
    cdef Py_ssize_t n_rows = values.shape[0], n_classes = values.shape[1]
    cdef Py_ssize_t n_knots = knots.shape[0], i, b
    cdef int32_t j
    with nogil:
        for i in range(n_rows):
            j = 0
            bounds[i, 0] = 0
            for b in range(n_knots):
                while j < n_classes and values[i, j] < knots[b]:
                    j += 1
                bounds[i, b + 1] = j
            bounds[i, n_knots + 1] = <int32_t> n_classes


cdef void row_gaps(
    const double* values, Py_ssize_t n_classes, const int32_t* bounds, const double[::1] origin,
    const double[::1] base, const double[::1] slopes, double* gaps,
) noexcept nogil:
    """Write theta - largest theta of a row."""
    cdef Py_ssize_t last = slopes.shape[0] - 1, b = last, j
    while bounds[b] == n_classes:
        b -= 1
    cdef double top = base[b] + slopes[b] * (values[n_classes - 1] - origin[b])
    cdef double shift, slope, start
    for b in range(last + 1):
        shift = base[b] - top
        slope = slopes[b]
        start = origin[b]
        for j in range(bounds[b], bounds[b + 1]):
            gaps[j] = slope * (values[j] - start) + shift


def spline_likelihood(
    const double[:, ::1] values, const int32_t[:, ::1] bounds, const Py_ssize_t[::1] place,
    const double[::1] share, const double[::1] knots, const double[::1] slopes, double[::1] losses,
    double[::1] gradient, double[:, ::1] hessian,
):
    """Write the NLL of each row, and the weighted gradient and Hessian in the slopes.

    The label's part of the gradient, -sum_i share_i f(v_iy), is left out: it is the same for all
    slopes.
    """
    cdef Py_ssize_t n_rows = values.shape[0], n_classes = values.shape[1]
    cdef Py_ssize_t height = block_height(n_classes), block, start, stop, i, offset
    cdef double[::1] origin = np.empty_like(slopes)
    cdef double[::1] base = np.empty_like(slopes)
    cdef double[::1] gaps = np.empty(height * n_classes)
    cdef double[::1] e = np.empty(height * n_classes)
    cdef double[:, ::1] sums = np.empty((slopes.shape[0], 3))
    cdef double[::1] mean = np.empty_like(slopes)
    cdef double[::1] squares = np.zeros_like(slopes)
    cdef double total
    gradient[:] = 0.0
    hessian[:, :] = 0.0
    with nogil:
        fill_table(knots, slopes, origin, base)
        for block in range((n_rows + height - 1) // height):
            start = block * height
            stop = min(start + height, n_rows)
            for i in range(start, stop):
                offset = (i - start) * n_classes
                row_gaps(
                    &values[i, 0], n_classes, &bounds[i, 0], origin, base, slopes, &gaps[offset]
                )
            exponentials(&gaps[0], &e[0], (stop - start) * n_classes)
            for i in range(start, stop):
                offset = (i - start) * n_classes
                total = segment_sums(&values[i, 0], &e[offset], &bounds[i, 0], origin, sums)
                losses[i] = log(total) - gaps[offset + place[i]]
                add_row(sums, total, share[i], knots, mean, squares, gradient, hessian)
        add_second_moments(knots, squares, gradient, hessian)


cdef double segment_sums(
    const double* values, const double* e, const int32_t* bounds, const double[::1] origin,
    double[:, ::1] sums,
) noexcept nogil:
    """Sums of e, e f and e f^2 over a row's cells of each segment; returns that of all e."""
    cdef Py_ssize_t b, j
    cdef double start, gap, s0, s1, s2, total = 0.0
    for b in range(origin.shape[0]):
        start = origin[b]
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        for j in range(bounds[b], bounds[b + 1]):
            gap = values[j] - start
            s0 += e[j]
            s1 += e[j] * gap
            s2 += e[j] * gap * gap
        sums[b, 0] = s0
        sums[b, 1] = s1
        sums[b, 2] = s2
        total += s0
    return total


cdef void add_row(
    const double[:, ::1] sums, double total, double share, const double[::1] knots,
    double[::1] mean, double[::1] squares, double[::1] gradient, double[:, ::1] hessian,
) noexcept nogil:
    """Add one row's mean features, their squares, and minus the products of the means."""
    cdef Py_ssize_t n_segments = mean.shape[0], a, b
    cdef double length, factor, above = 0.0
    for b in range(n_segments - 1, -1, -1):
        length = knots[b] - knots[b - 1] if 0 < b < n_segments - 1 else 0.0
        mean[b] = (sums[b, 1] + length * above) / total
        squares[b] += share * (sums[b, 2] + length * length * above) / total
        gradient[b] += share * mean[b]
        above += sums[b, 0]
    for a in range(n_segments):
        factor = share * mean[a]
        for b in range(a + 1):
            hessian[a, b] -= factor * mean[b]


cdef void add_second_moments(
    const double[::1] knots, const double[::1] squares, const double[::1] gradient,
    double[:, ::1] hessian,
) noexcept nogil:
    """Add E[f f'] to the lower triangle of the Hessian, and fill the upper one."""
    cdef Py_ssize_t a, b
    for a in range(squares.shape[0]):
        hessian[a, a] += squares[a]
        for b in range(1, a):  # f_b is full wherever f_a is not 0, and f_0 is 0 there
            hessian[a, b] += (knots[b] - knots[b - 1]) * gradient[a]
        for b in range(a):
            hessian[b, a] = hessian[a, b]


def spline_softmax(
    const double[:, ::1] values, const double[::1] knots, const double[::1] slopes,
    double[:, ::1] out,
):
    """Write softmax(theta(values)) of each row, in any order, to ``out`` (or ``values`` itself)."""
    cdef Py_ssize_t n_rows = values.shape[0], n_classes = values.shape[1]
    cdef Py_ssize_t n_knots = knots.shape[0], i, j, b, c
    cdef double[::1] origin = np.empty_like(slopes)
    cdef double[::1] base = np.empty_like(slopes)
    cdef double value, theta, top, total
    keep_lock(n_rows * n_classes)
    with nogil:
        fill_table(knots, slopes, origin, base)
        for i in range(n_rows):
            for j in range(n_classes):
                value = values[i, j]
                b = 0
                for c in range(n_knots):
                    b += value >= knots[c]
                theta = base[b] + slopes[b] * (value - origin[b])
                if b < n_knots:  # rounding must not pass the start of the next segment
                    theta = min(theta, base[b + 1])
                out[i, j] = theta
            top = row_top(&out[i, 0], n_classes)
            total = exponentiate_row(&out[i, 0], n_classes, top, &out[i, 0])
            total = invariant_sum(&out[i, 0], n_classes, total)
            for j in range(n_classes):
                out[i, j] /= total
