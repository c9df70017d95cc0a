"""Cells by the block of a step function that they lie in."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

from calibrant._kernels.lock cimport keep_lock
from calibrant._kernels.rows cimport divide_by_sum


def add_cells(
    const double[:, ::1] cells, const int64_t[:, ::1] bits, const double[::1] weight,
    const int64_t[::1] edges, const int32_t[::1] table, int shift, int64_t base, double[:, ::1] out,
):
    """Add each cell's weight to ``out[block, 0]``; ``out[block, 1]`` is the largest cell of it.

    The flattening of the paper's FIR, whose sum runs over all rows i and classes l, without the
    list of the m k cells: FIR needs how many lie in each segment, and no more.
    Both stand side by side: with many blocks, the time is that of fetching them.
    """
    cdef Py_ssize_t n_rows = bits.shape[0], n_classes = bits.shape[1], i, j, block
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                block = find_block(bits[i, j], &edges[0], &table[0], n_buckets, shift, base)
                out[block, 0] += weight[i]
                out[block, 1] = max(out[block, 1], cells[i, j])


def bound_cells(
    const int64_t[:, :] bits, const int64_t[::1] edges, const int32_t[::1] table, int shift,
    int64_t base, int64_t[::1] least, int64_t[::1] largest,
):
    """Write the bits of the least and the largest cell of each block that has any."""
    cdef Py_ssize_t n_rows = bits.shape[0], n_classes = bits.shape[1], i, j, block
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    cdef int64_t cell
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                cell = max(bits[i, j], 0)  # not -0.0
                block = find_block(cell, &edges[0], &table[0], n_buckets, shift, base)
                least[block] = min(least[block], cell)
                largest[block] = max(largest[block], cell)


def first_of_scores(const double[::1] values, const double[::1] rounding):
    """Mark values, increasing, that exceed the last one marked by more than rounding."""
    cdef Py_ssize_t n = values.shape[0], i
    marks = np.zeros(n, dtype=bool)
    cdef uint8_t[::1] marked = marks
    cdef double last = -1.0
    with nogil:
        for i in range(n):
            if values[i] - last > rounding[i]:
                marked[i] = True
                last = values[i]
    return marks


def apply_step(
    const double[:, ::1] rows, const int64_t[:, ::1] bits, const int64_t[::1] edges,
    const int32_t[::1] table, int shift, int64_t base, const double[::1] values, double[:, ::1] out,
):
    """Map each cell through the step function and divide each row by its sum."""
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                out[i, j] = values[
                    find_block(bits[i, j], &edges[0], &table[0], n_buckets, shift, base)]
            divide_by_sum(&out[i, 0], &rows[i, 0], n_classes)
