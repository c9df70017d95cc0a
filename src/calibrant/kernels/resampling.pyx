"""Sums over resampled rows; the draws come in as arguments."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

from calibrant.kernels.metrics cimport HIT, VALUE, WEIGHT, bin_by_mass


ctypedef fused whole:
    int32_t
    int64_t


def add_null_bins(
    const double[::1] values,
    const double[::1] weight,
    const int32_t[::1] bins,
    const int64_t[::1] rows,
    const double[::1] uniforms,
    double[:, ::1] sums,
):
    """Bin the drawn ``rows``, with hits drawn from the values themselves.

    Columns of ``sums``: weight, weighted hits, weighted values.
    """
    cdef Py_ssize_t t, i, b
    with nogil:
        for t in range(rows.shape[0]):
            i = rows[t]
            b = bins[i]
            sums[b, WEIGHT] += weight[i]
            if uniforms[t] < values[i]:
                sums[b, HIT] += weight[i]
            sums[b, VALUE] += weight[i] * values[i]


def add_class_gaps(
    const double[:, ::1] cells,
    const int32_t[:, ::1] bins,
    const double[::1] mass,
    double[:, ::1] gaps,
):
    """Add mass times probability to the bin of every cell of the rows that have mass."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(cells.shape[0]):
            if mass[i] > 0.0:
                for j in range(cells.shape[1]):
                    gaps[j, bins[i, j]] += mass[i] * cells[i, j]


def subtract_labels(
    const int64_t[::1] class_index,
    const int32_t[:, ::1] bins,
    const double[::1] mass,
    double[:, ::1] gaps,
):
    """Subtract each row's mass from the bin of its label's cell."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(class_index.shape[0]):
            j = class_index[i]
            gaps[j, bins[i, j]] -= mass[i]


def subtract_null_labels(
    const double[:, ::1] cumulative,
    const int32_t[:, ::1] bins,
    const double[::1] weight,
    const int64_t[::1] rows,
    const double[::1] uniforms,
    double[:, ::1] gaps,
):
    """As ``subtract_labels`` for the drawn ``rows``, with labels drawn from their probabilities.

    ``cumulative`` holds the running sums of each row's probabilities.
    """
    cdef Py_ssize_t n_classes = cumulative.shape[1], t, i, low, high, middle
    cdef double target
    with nogil:
        for t in range(rows.shape[0]):
            i = rows[t]
            target = uniforms[t] * cumulative[i, n_classes - 1]
            low = 0
            high = n_classes - 1
            while low < high:  # the first class whose running sum exceeds the target
                middle = (low + high) >> 1
                if cumulative[i, middle] > target:
                    high = middle
                else:
                    low = middle + 1
            gaps[low, bins[i, low]] -= weight[i]


def add_row_draws(
    const double[::1] mass,
    const double[::1] confidence,
    const uint8_t[::1] hits,
    const double[::1] losses,
    const double[::1] squares,
    const int32_t[::1] bins,
    double[::1] row_sums,
    double[::1] gaps,
    double[:, ::1] grid,
):
    """Add resampled rows to the sums of every metric that looks at one number of a row.

    ``row_sums``: mass, hits, losses, squares, and of the hits confidence and its square.
    ``gaps``: confidence less hits of each bin. ``grid``: as in ``add_to_grid``.
    """
    cdef Py_ssize_t n_steps = grid.shape[0] - 1, i, node
    cdef double m, value, position, above
    with nogil:
        for i in range(mass.shape[0]):
            m = mass[i]
            if m > 0.0:
                value = confidence[i]
                row_sums[0] += m
                row_sums[2] += m * losses[i]
                row_sums[3] += m * squares[i]
                gaps[bins[i]] += m * value
                position = value * n_steps
                node = min(<Py_ssize_t> position, n_steps - 1)
                above = m * (position - node)
                grid[node, 0] += m - above
                grid[node + 1, 0] += above
                if hits[i]:
                    row_sums[1] += m
                    row_sums[4] += m * value
                    row_sums[5] += m * value * value
                    gaps[bins[i]] -= m
                    grid[node, 1] += m - above
                    grid[node + 1, 1] += above


def resampled_mass_errors(
    const double[::1] values,
    const whole[::1] row_of,
    const uint8_t[::1] hits,
    const int64_t[::1] starts,
    const int64_t[::1] mass,
    Py_ssize_t n_bins,
    double[::1] errors,
):
    """Calibration error over bins of equal mass, of each class, for whole masses of the rows.

    The sorted cells of the c-th class are ``starts[c]`` to ``starts[c + 1]``; -1 where no mass is
    left.
    """
    cdef Py_ssize_t n_most = np.diff(starts).max(initial=0), n, c, i, b, start
    cdef int64_t[::1] own = np.empty(n_most, dtype=np.int64)
    cdef int32_t[::1] bins = np.empty(n_most, dtype=np.int32)
    cdef double[::1] gaps = np.empty(n_bins)
    cdef double total, gap
    with nogil:
        for c in range(starts.shape[0] - 1):
            start = starts[c]
            n = starts[c + 1] - start
            errors[c] = -1.0
            if n == 0:
                continue
            for i in range(n):
                own[i] = mass[row_of[start + i]]
            bin_by_mass(&values[start], &own[0], n, n_bins, &bins[0])
            for b in range(n_bins):
                gaps[b] = 0.0
            total = 0.0
            for i in range(n):
                total += own[i]
                gaps[bins[i]] += own[i] * values[start + i]
                if hits[start + i]:
                    gaps[bins[i]] -= own[i]
            if total > 0.0:
                gap = 0.0
                for b in range(n_bins):
                    gap += abs(gaps[b])
                errors[c] = gap / total
