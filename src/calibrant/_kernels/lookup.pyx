"""Cells by the block of a step function that they lie in."""

from libc.stdint cimport int32_t, int64_t

from calibrant._kernels.rows cimport divide_by_sum


def add_cells(
    const int64_t[:, ::1] bits,
    const double[::1] weight,
    const int64_t[::1] edges,
    const int32_t[::1] table,
    int shift,
    int64_t base,
    double[::1] out,
):
    """Add each cell's weight to its block: ``out[block] += weight[row]``, row after row."""
    cdef Py_ssize_t n_rows = bits.shape[0], n_classes = bits.shape[1], i, j
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                out[find_block(bits[i, j], &edges[0], &table[0], n_buckets, shift, base)] += (
                    weight[i])


def apply_step(
    const double[:, ::1] rows,
    const int64_t[:, ::1] bits,
    const int64_t[::1] edges,
    const int32_t[::1] table,
    int shift,
    int64_t base,
    const double[::1] values,
    double[:, ::1] out,
):
    """Map each cell through the step function and divide each row by its sum."""
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    with nogil:
        for i in range(n_rows):
            for j in range(n_classes):
                out[i, j] = values[
                    find_block(bits[i, j], &edges[0], &table[0], n_buckets, shift, base)]
            divide_by_sum(&out[i, 0], &rows[i, 0], n_classes)
