"""Cells through the curve of their class: pieces of lines, or of steps."""

from libc.stdint cimport int32_t, int64_t

from calibrant._kernels.lock cimport keep_lock
from calibrant._kernels.lookup cimport find_block

cdef enum:
    WIDTH = 8  # columns at once, whose curves the cache holds: a line of it has as many cells


def apply_pieces(
    const double[:, ::1] rows, const int64_t[:, ::1] bits, const int64_t[::1] curve_of,
    const int64_t[:, ::1] places, const int64_t[::1] edges, const int32_t[::1] tables,
    const double[::1] values, const double[::1] slopes, double[:, ::1] out,
):
    """Write value + slope * (cell - start) of the piece that each cell lies in to ``out``.

    ``places`` has, for each curve, where its pieces and its table begin, and shift and base of
    the table; a line more says where the last ones end. ``edges`` are the starts as bits.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], block, first, stop, i, j
    cdef Py_ssize_t piece, n_buckets
    cdef const int64_t* place
    cdef const double* starts = <const double*> &edges[0]
    keep_lock(n_rows * n_classes)
    with nogil:
        for block in range((n_classes + WIDTH - 1) // WIDTH):
            first = block * WIDTH
            stop = min(first + WIDTH, n_classes)
            for i in range(n_rows):
                for j in range(first, stop):
                    place = &places[curve_of[j], 0]
                    n_buckets = place[5] - place[1] - 1  # of the next line, less what it has more
                    piece = place[0] + find_block(
                        bits[i, j], &edges[place[0]], &tables[place[1]], n_buckets,
                        <int> place[2], place[3])
                    out[i, j] = slopes[piece] * (rows[i, j] - starts[piece]) + values[piece]


def share_rest(
    const double[:, ::1] rows, const double[:] tops, double part, bint is_normalised,
    double[:, ::1] values,
):
    """Turn ``values``, those of the top class, into rows: the others share what is left.

    Each of several top classes, with this ``part`` of the largest score or more, has its turn with
    that score, and the results are averaged. Others keep theirs unless rows are to sum to 1.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j, n_tied
    cdef double top, others, left, own, share, score
    cdef bint is_top
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            top = tops[i]
            n_tied = 0
            others = left = 0.0
            for j in range(n_classes):
                if rows[i, j] >= part * top:
                    n_tied += 1
                    left += 1.0 - values[i, j]
                else:
                    others += rows[i, j]
            others += (n_tied - 1) * top
            for j in range(n_classes):
                is_top = rows[i, j] >= part * top
                score = top if is_top else rows[i, j]
                own = values[i, j] if is_top else 0.0
                if not is_normalised:
                    own += (n_tied - 1) * top
                    values[i, j] = own / n_tied if is_top else score
                    continue
                # A lone top class takes no share: no overflow for it.
                share = min(score, others) / others if others > 0.0 else 1.0 / (n_classes - 1)
                own += (left - (1.0 - own if is_top else 0.0)) * share
                values[i, j] = own / n_tied


def floor_rows(double[:, ::1] out, double lowest):
    """Lift rows with a value below ``lowest``: mix in the uniform row, which keeps the order."""
    cdef Py_ssize_t n_rows = out.shape[0], n_classes = out.shape[1], i, j
    cdef double low, slope = 1.0 - n_classes * lowest
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            low = out[i, 0]
            for j in range(1, n_classes):
                low = min(low, out[i, j])
            if low < lowest:
                for j in range(n_classes):
                    out[i, j] = lowest + slope * out[i, j]
