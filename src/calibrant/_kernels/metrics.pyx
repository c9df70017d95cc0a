"""What metrics sum over rows and over bins; draws of labels come in as arguments."""

from libc.stdint cimport int32_t, uint8_t

from calibrant._kernels.rows cimport top_column

# Columns of the sums over a bin.
cdef enum:
    WEIGHT = 0
    HIT = 1
    VALUE = 2


def top_labels(
    const double[:, ::1] rows, const Py_ssize_t[::1] class_index, double[::1] confidence,
    uint8_t[::1] hits,
):
    """Write the largest probability of each row, and whether it is the label's.

    The first of equal classes is the prediction.
    """
    cdef Py_ssize_t i, top
    with nogil:
        for i in range(rows.shape[0]):
            top = top_column(&rows[i, 0], rows.shape[1])
            confidence[i] = rows[i, top]
            hits[i] = top == class_index[i]


def row_squares(const double[:, ::1] rows, const Py_ssize_t[::1] class_index, double[::1] squares):
    """Write the mean over classes of (probability - label)^2."""
    cdef Py_ssize_t n_classes = rows.shape[1], i, j
    cdef double total, gap
    with nogil:
        for i in range(rows.shape[0]):
            total = 0.0
            for j in range(n_classes):
                gap = rows[i, j] - 1.0 if j == class_index[i] else rows[i, j]
                total += gap * gap
            squares[i] = total / n_classes


def find_bins(const double[::1] values, const double[::1] edges, int32_t[::1] bins):
    """Write the bin (edges[b], edges[b + 1]] of every value in [0, 1]; 0 is in the first.

    The same as ``searchsorted(edges[1:-1], value)``: the product finds the bin up to rounding, so
    the search starts one above it, and the edges themselves decide.
    """
    cdef Py_ssize_t n_bins = edges.shape[0] - 1, i, b
    with nogil:
        for i in range(values.shape[0]):
            b = min(<Py_ssize_t> (values[i] * n_bins) + 1, n_bins - 1)
            while b > 0 and values[i] <= edges[b]:
                b -= 1
            bins[i] = <int32_t> b


def add_pairs(const int32_t[:, ::1] codes, const double[:, ::1] terms, double[:, :, ::1] sums):
    """Add to ``sums[a, b]`` the terms of the rows that have the codes a <= b, of two columns or one.

    Codes increase from column to column.
    """
    cdef Py_ssize_t i, j, k, t
    cdef double* cell
    with nogil:
        for i in range(codes.shape[0]):
            for j in range(codes.shape[1]):
                for k in range(j, codes.shape[1]):
                    cell = &sums[codes[i, j], codes[i, k], 0]
                    for t in range(terms.shape[1]):
                        cell[t] += terms[i, t]


def add_binned_classes(
    const double[:, ::1] rows, const Py_ssize_t[::1] class_index, const double[::1] weight,
    const int32_t[:, ::1] bins, double[:, :, ::1] sums,
):
    """Add weight, weighted labels and weighted probabilities to (class, bin)."""
    cdef Py_ssize_t i, j
    cdef double own
    with nogil:
        for i in range(rows.shape[0]):
            own = weight[i]
            for j in range(rows.shape[1]):
                sums[j, bins[i, j], WEIGHT] += own
                sums[j, bins[i, j], VALUE] += own * rows[i, j]
            j = class_index[i]
            sums[j, bins[i, j], HIT] += own


def add_cell_products(
    const double[:, ::1] rows, const int32_t[:, ::1] bins, const double[::1] weight,
    Py_ssize_t n_bins, double[:, ::1] sums,
):
    """Add weight * p_j * p_l to (cell of j, cell of l) of every row, for j <= l."""
    cdef Py_ssize_t i, j, l, cell
    cdef double own
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(rows.shape[1]):
                cell = j * n_bins + bins[i, j]
                own = weight[i] * rows[i, j]
                if own > 0.0:
                    for l in range(j, rows.shape[1]):
                        sums[cell, l * n_bins + bins[i, l]] += own * rows[i, l]


def add_null_bins(
    const double[::1] values, const double[::1] weight, const int32_t[::1] bins,
    const Py_ssize_t[::1] rows, const double[::1] uniforms, double[:, ::1] sums,
):
    """Add weight, hits and values of the drawn ``rows``, with hits drawn from the values."""
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
    const double[:, ::1] cells, const int32_t[:, ::1] bins, const double[::1] mass,
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
    const double[:, ::1] cumulative, const int32_t[:, ::1] bins, const double[::1] weight,
    const Py_ssize_t[::1] rows, const double[::1] uniforms, double[:, ::1] gaps,
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
