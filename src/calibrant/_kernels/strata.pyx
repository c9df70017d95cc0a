"""Strata of rows by the lead of their largest score, and rows of extreme scores."""

from libc.math cimport INFINITY, log, log1p
from libc.stdint cimport uint64_t

from calibrant._kernels.rows cimport row_top, top_column


def row_strata(
    const double[:, ::1] scores,
    bint is_logits,
    const Py_ssize_t[::1] class_index,
    Py_ssize_t n_bins,
    bint by_column,
    Py_ssize_t[::1] out,
):
    """Write the stratum of each row: bin of a lead, whether the label leads, and by which column.

    The lead is that of the largest score, in logarithms, over the label's; where it is the label's,
    over the next one. Bins are finer where it is small; the last has those over an exact zero.
    """
    cdef Py_ssize_t n_rows = scores.shape[0], n_classes = scores.shape[1], i, j, top, rival, place
    cdef double lead, scale = (n_bins - 1) / log1p(1000.0)
    cdef const double* row
    with nogil:
        for i in range(n_rows):
            row = &scores[i, 0]
            top = top_column(row, n_classes)
            rival = class_index[i]
            if rival == top:
                rival = 1 if top == 0 else 0
                for j in range(rival + 1, n_classes):
                    if j != top and row[j] > row[rival]:
                        rival = j
            if is_logits:
                lead = row[top] - row[rival]
            else:
                lead = log(row[top] / row[rival]) if row[rival] > 0.0 else INFINITY
            place = n_bins - 1
            if lead < INFINITY:
                place = <Py_ssize_t> min(scale * log1p(lead), n_bins - 2.0)
            place = 2 * place + (class_index[i] == top)
            out[i] = place * n_classes + top if by_column else place


def extreme_rows(const double[:, ::1] scores, bint is_logits, const uint64_t[::1] hashes):
    """Return the rows of the lowest score above zero, and of an exact zero; -1 where there is none.

    Logits are taken relative to the largest of their row. Of several rows it is the one of the
    smallest hash.
    """
    cdef Py_ssize_t n_rows = scores.shape[0], n_classes = scores.shape[1], i, j, low = -1, zero = -1
    cdef double value, own, lowest = INFINITY, nothing = -INFINITY if is_logits else 0.0
    cdef bint has_zero
    with nogil:
        for i in range(n_rows):
            own, has_zero = INFINITY, False
            for j in range(n_classes):
                value = scores[i, j]
                has_zero = has_zero or value == nothing
                own = min(own, value if value != nothing else INFINITY)
            if is_logits:
                own = own - row_top(&scores[i, 0], n_classes)
            if own < lowest or (own == lowest and low >= 0 and hashes[i] < hashes[low]):
                lowest, low = own, i
            if has_zero and (zero < 0 or hashes[i] < hashes[zero]):
                zero = i
    return low, zero
