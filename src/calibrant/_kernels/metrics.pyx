"""What metrics sum over rows, over bins of equal width and of equal mass, and over grids."""

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint8_t

from calibrant._kernels.rows cimport top_column


ctypedef fused whole:
    int32_t
    int64_t


def add_weights(const double[::1] weight, int64_t[:, :, ::1] sums):
    """``sums[0, 0] += weight`` of every row."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(weight.shape[0]):
            add_term(&sums[0, 0, 0], weight[i])


def add_terms(const double[::1] terms, const int64_t[::1] cells, int64_t[:, ::1] sums):
    """``sums[cell] += term`` of every row."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(terms.shape[0]):
            add_term(&sums[cells[i], 0], terms[i])


def add_products(weight, values, sums):
    """``sums[0, 0] += weight``, ``sums[0, 1] += weight * value`` of every row."""
    add_weights(weight, sums[:, :1])
    add_weights(weight * values, sums[:, 1:])


def top_labels(
    const double[:, ::1] rows,
    const Py_ssize_t[::1] class_index,
    double[::1] confidence,
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


def row_losses(
    const double[:, ::1] rows,
    const Py_ssize_t[::1] class_index,
    double min_probability,
    double[::1] losses,
):
    """Write -log of the label's probability; infinity for a zero that no floor lifts."""
    cdef Py_ssize_t i
    cdef double own
    with nogil:
        for i in range(rows.shape[0]):
            own = max(rows[i, class_index[i]], min_probability)
            losses[i] = -log(own) if own > 0.0 else INFINITY


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


def add_confusion(
    const double[:, ::1] rows,
    const Py_ssize_t[::1] class_index,
    const double[::1] weight,
    int64_t[:, :, ::1] sums,
):
    """Add each row's weight to (label, prediction)."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            add_term(&sums[class_index[i], top_column(&rows[i, 0], rows.shape[1]), 0], weight[i])


def find_bins(const double[::1] values, const double[::1] edges, int32_t[::1] bins):
    """Write the bin of equal width of every value."""
    cdef Py_ssize_t n_bins = edges.shape[0] - 1, i
    cdef const double* first = &edges[0]
    with nogil:
        for i in range(values.shape[0]):
            bins[i] = <int32_t> uniform_bin(values[i], first, n_bins)


def add_binned(
    const double[::1] values,
    const uint8_t[::1] hits,
    const double[::1] weight,
    const int32_t[::1] bins,
    int64_t[:, :, ::1] sums,
):
    """Add weight, weighted hits and weighted values to the sums of each value's bin."""
    cdef Py_ssize_t i, b
    cdef double own
    with nogil:
        for i in range(values.shape[0]):
            b = bins[i]
            own = weight[i]
            add_term(&sums[b, WEIGHT, 0], own)
            if hits[i]:
                add_term(&sums[b, HIT, 0], own)
            add_term(&sums[b, VALUE, 0], own * values[i])


def add_binned_classes(
    const double[:, ::1] rows,
    const Py_ssize_t[::1] class_index,
    const double[::1] weight,
    const int32_t[:, ::1] bins,
    Py_ssize_t n_bins,
    int64_t[:, :, ::1] sums,
):
    """As ``add_binned`` for the binary problem of every class; class j has ``n_bins`` cells."""
    cdef Py_ssize_t i, j, cell
    cdef double own
    with nogil:
        for i in range(rows.shape[0]):
            own = weight[i]
            for j in range(rows.shape[1]):
                cell = j * n_bins + bins[i, j]
                add_term(&sums[cell, WEIGHT, 0], own)
                add_term(&sums[cell, VALUE, 0], own * rows[i, j])
            j = class_index[i]
            add_term(&sums[j * n_bins + bins[i, j], HIT, 0], own)


def add_cell_products(
    const double[:, ::1] rows,
    const int32_t[:, ::1] bins,
    const double[::1] weight,
    Py_ssize_t n_bins,
    int64_t[:, :, ::1] sums,
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
                        add_term(&sums[cell, l * n_bins + bins[i, l], 0], own * rows[i, l])


def add_to_grid(values, hits, weight, sums):
    """Share each weight between the two nearest nodes of an even grid over [0, 1].

    Column 0 holds all rows, column 1 the hits.
    """
    position, flat = values * (len(sums) - 1), sums.reshape(-1, 2)
    node = np.minimum(position.astype(np.int64), len(sums) - 2)
    above = weight * (position - node)
    for column, rows in ((0, slice(None)), (1, hits.astype(bool))):
        add_terms((weight - above)[rows], 2 * node[rows] + column, flat)
        add_terms(above[rows], 2 * node[rows] + 2 + column, flat)


def add_hit_moments(values, hits, weight, sums):
    """Add the weight of all rows, and of the hits weight, value and squared value."""
    of_hits = weight * hits
    for n, terms in enumerate((weight, of_hits, of_hits * values, of_hits * values * values)):
        add_weights(terms, sums[:, n:n + 1])


def add_residual_moments(values, hits, weight, sums):
    """Add moments of |hit - value| within even cells of [0, 1], of misses and of hits apart.

    ``sums[cell, 0 or 1, m]`` takes weight * |hit - value| * u^m, with u in [0, 1] the place of the
    value in its cell.
    """
    n_cells, _, n_moments, _ = sums.shape
    position = values * n_cells
    cell = np.minimum(position.astype(np.int64), n_cells - 1)
    terms = weight * np.where(hits, 1.0 - values, values)
    first = (2 * cell + hits) * n_moments
    for m in range(n_moments):
        add_terms(terms, first + m, sums.reshape(-1, 2))
        terms = terms * (position - cell)


def count_above(const double[:, ::1] rows, double threshold, int64_t[::1] counts):
    """Count the cells at or above ``threshold`` of each class."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(rows.shape[1]):
                counts[j] += rows[i, j] >= threshold


def take_cells(
    const double[:, ::1] rows,
    Py_ssize_t first_row,
    double threshold,
    Py_ssize_t first_class,
    int64_t[::1] place,
    double[::1] values,
    whole[::1] row_of,
):
    """Collect the cells at or above ``threshold`` of ``len(place)`` classes.

    ``place[j]`` is where the next cell of class ``first_class + j`` goes; it moves on.
    """
    cdef Py_ssize_t i, j
    cdef double value
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(place.shape[0]):
                value = rows[i, first_class + j]
                if value >= threshold:
                    values[place[j]] = value
                    row_of[place[j]] = <whole> (first_row + i)
                    place[j] += 1
