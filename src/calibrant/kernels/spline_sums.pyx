"""Terms of sums over all rows for the monotone spline; and log-probabilities, counted by bins."""

import numpy as np

from libc.math cimport INFINITY, exp, floor, log, rint
from libc.stdint cimport int32_t, int64_t

from calibrant.kernels.rows cimport exponentiate_row, row_top
from calibrant.kernels.spline_table cimport fill_table


def spline_terms(
    const double[:, ::1] values,
    const int64_t[::1] class_index,
    const double[::1] knots,
    const double[::1] slopes,
    double[:, ::1] terms,
):
    """Write what each row, in any order, adds to the NLL and its derivatives in the slopes.

    That is the NLL; mean and mean square of each feature under the softmax of theta; and those of
    the label.
    """
    cdef Py_ssize_t n_rows = values.shape[0], n_classes = values.shape[1]
    cdef Py_ssize_t n_segments = slopes.shape[0], n_knots = knots.shape[0], i, j, b, label
    cdef double[::1] origin = np.empty_like(slopes)
    cdef double[::1] base = np.empty_like(slopes)
    cdef double[::1] theta = np.empty(n_classes)
    cdef double[::1] e = np.empty(n_classes)
    cdef int32_t[::1] segment = np.empty(n_classes, dtype=np.int32)
    cdef double[:, ::1] sums = np.empty((n_segments, 3))
    cdef double gap, total, length, above, own
    cdef double* mean
    with nogil:
        fill_table(knots, slopes, origin, base)
        for i in range(n_rows):
            for j in range(n_classes):
                b = segment_of(values[i, j], &knots[0], n_knots)
                segment[j] = <int32_t> b
                theta[j] = base[b] + slopes[b] * (values[i, j] - origin[b])
            label = class_index[i]
            own = theta[label] - row_top(&theta[0], n_classes)
            total = exponentiate_row(&theta[0], n_classes, row_top(&theta[0], n_classes), &e[0])
            sums[:, :] = 0.0
            for j in range(n_classes):
                b = segment[j]
                gap = values[i, j] - origin[b]
                sums[b, 0] += e[j]
                sums[b, 1] += e[j] * gap
                sums[b, 2] += e[j] * gap * gap
            mean = &terms[i, 1]
            terms[i, 0] = log(total) - own
            above = 0.0
            for b in range(n_segments - 1, -1, -1):
                length = knots[b] - knots[b - 1] if 0 < b < n_segments - 1 else 0.0
                mean[b] = (sums[b, 1] + length * above) / total
                mean[n_segments + b] = (sums[b, 2] + length * length * above) / total
                mean[2 * n_segments + b] = 0.0
                if b == segment[label]:
                    mean[2 * n_segments + b] = values[i, label] - origin[b]
                elif b < segment[label]:
                    mean[2 * n_segments + b] = length
                above += sums[b, 0]


cdef inline Py_ssize_t segment_of(double value, const double* knots, Py_ssize_t n) noexcept nogil:
    """How many knots are at or below a value."""
    cdef Py_ssize_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) // 2
        if value >= knots[middle]:
            low = middle + 1
        else:
            high = middle
    return low


def add_log_cells(
    const double[:, ::1] logs,
    const int64_t[::1] class_index,
    const double[::1] weight,
    double width,
    int64_t[:, ::1] high,
    int64_t[:, ::1] low,
):
    """Count log-probabilities v by bins, as whole numbers of 2^-32; the last has what is deeper.

    The sums of a bin are those of weights of labels, of weights times probabilities and of weights
    of all cells; each plain, and times v. Exact zeros, which are -inf, are no labels.
    """
    cdef Py_ssize_t n_rows = logs.shape[0], n_classes = logs.shape[1], n_bins = high.shape[1]
    cdef Py_ssize_t i, j, b
    cdef double v, w, deepest = -width * n_bins
    with nogil:
        for i in range(n_rows):
            w = weight[i]
            for j in range(n_classes):
                v = max(logs[i, j], deepest)
                b = <Py_ssize_t> min(-v / width, n_bins - 1.0)
                add_pair(w * exp(v), v, b, 2, high, low)
                add_pair(w, v, b, 4, high, low)
                if j == class_index[i] and logs[i, j] > -INFINITY:
                    add_pair(w, v, b, 0, high, low)


cdef inline void add_pair(
    double weight,
    double v,
    Py_ssize_t b,
    Py_ssize_t first,
    int64_t[:, ::1] high,
    int64_t[:, ::1] low,
) noexcept nogil:
    """Add a weight, and the weight times v, to two sums of a bin."""
    cdef double whole = floor(weight)
    high[first, b] += <int64_t> whole
    low[first, b] += <int64_t> rint((weight - whole) * 4294967296.0)
    weight *= v
    whole = floor(weight)
    high[first + 1, b] += <int64_t> whole
    low[first + 1, b] += <int64_t> rint((weight - whole) * 4294967296.0)


def add_information_cells(
    const double[:, ::1] values,
    const double[::1] weight,
    double width,
    int64_t[::1] high,
    int64_t[::1] low,
):
    """Count weight * q (1 - q), q the row's softmax, as ``add_log_cells`` counts."""
    cdef Py_ssize_t n_rows = values.shape[0], n_classes = values.shape[1], n_bins = high.shape[0]
    cdef Py_ssize_t i, j, b
    cdef double[::1] e = np.empty(n_classes)
    cdef double total, q, term, whole
    with nogil:
        for i in range(n_rows):
            total = row_top(&values[i, 0], n_classes)
            total = exponentiate_row(&values[i, 0], n_classes, total, &e[0])
            for j in range(n_classes):
                q = e[j] / total
                term = weight[i] * q * (1.0 - q)
                whole = floor(term)
                b = <Py_ssize_t> min(max(-values[i, j] / width, 0.0), n_bins - 1.0)
                high[b] += <int64_t> whole
                low[b] += <int64_t> rint((term - whole) * 4294967296.0)
