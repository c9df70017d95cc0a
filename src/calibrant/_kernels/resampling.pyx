"""Sums over resampled rows; the draws come in as arguments."""

from libc.stdint cimport int32_t

from calibrant._kernels.metrics cimport HIT, VALUE, WEIGHT


def add_null_bins(
    const double[::1] values,
    const double[::1] weight,
    const int32_t[::1] bins,
    const Py_ssize_t[::1] rows,
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


def subtract_null_labels(
    const double[:, ::1] cumulative,
    const int32_t[:, ::1] bins,
    const double[::1] weight,
    const Py_ssize_t[::1] rows,
    const double[::1] uniforms,
    double[:, ::1] gaps,
):
    """Subtract the weight of drawn ``rows`` from the bins of labels drawn from their probabilities.

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
