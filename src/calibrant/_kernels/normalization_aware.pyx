"""NA-FIR: passes over all cells of the calibration set, and its likelihood on blocks.

The paper minimises the sum of -(y_i)_l log(g(p_il) / sum_j g(p_ij)) over rows i and classes l. Its
C_ij, how many cells of row i lie in block j, is kept sparse: ``pointers[i]`` to ``pointers[i + 1]``
are the entries of row i in ``blocks`` (increasing) and ``counts``. A row has the total
T_i = sum_j C_ij g_j. Sums over a row run over its blocks and not over its columns, so they do not
depend on the order of the classes.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint16_t, uint8_t

from calibrant._kernels.elementary cimport exponentials
from calibrant._kernels.lookup cimport find_block
from calibrant._kernels.rows cimport row_top

ctypedef fused Segment:  # of a cell; the short one where it suffices
    uint16_t
    int32_t

cdef double UNIT = 2.0**44  # fixed point of the row sums of the prior: adds up in any order

cdef enum:
    FLOOR_UNITS = 16  # what every cell gets of the prior, relative to its row's largest: 2**-40


def index_cells(
    const double[:, ::1] rows, const int64_t[:, ::1] bits, const Py_ssize_t[::1] order,
    const int64_t[::1] edges, const int32_t[::1] table, int shift, int64_t base,
    Segment[:, ::1] out, double[::1] largest, double[:, ::1] bounds,
):
    """Segment of every cell; row ``r`` of ``out`` is row ``order[r]`` of the matrix.

    ``largest`` gets the largest cell of each row, ``bounds`` the least and the largest cell of each
    segment that has any.
    """
    cdef Py_ssize_t n_rows = out.shape[0], n_classes = out.shape[1], r, i, j, segment
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    cdef double top, cell
    with nogil:
        for r in range(n_rows):
            i = order[r]
            top = 0.0
            for j in range(n_classes):
                segment = find_block(bits[i, j], &edges[0], &table[0], n_buckets, shift, base)
                out[r, j] = <Segment> segment
                cell = rows[i, j]
                bounds[0, segment] = min(bounds[0, segment], cell)
                bounds[1, segment] = max(bounds[1, segment], cell)
                top = max(top, cell)
            largest[r] = top


def add_prior(
    const double[:, ::1] logits, const Py_ssize_t[::1] order, double beta,
    const double[:, ::1] share, const Segment[:, ::1] index, double[:, ::1] mass,
    double[::1] totals,
):
    """Add each cell's prior probability to its segment.

    The prior of a row is proportional to exp(beta * (logit - largest)) + 2**-40: no segment is
    left without mass. ``share[r, f]`` is the weight of row r in part f of the rows, and
    ``mass[f]`` the sums over that part. ``totals`` gets the row sums, at least 1. What is summed
    over columns are whole numbers, so the order of columns does not matter.
    """
    cdef Py_ssize_t n_rows = index.shape[0], n_classes = index.shape[1], r, i, j, f, segment
    cdef double[::1] gaps = np.empty(n_classes)
    cdef double[::1] powers = np.empty(n_classes)
    cdef int64_t[::1] inside = np.zeros(mass.shape[1], dtype=np.int64)
    cdef int64_t units, total
    cdef double top, probability
    with nogil:
        for r in range(n_rows):
            i = order[r]
            top = row_top(&logits[i, 0], n_classes)
            for j in range(n_classes):
                gaps[j] = beta * (logits[i, j] - top)
            exponentials(&gaps[0], &powers[0], n_classes)
            total = 0
            for j in range(n_classes):
                units = <int64_t> (powers[j] * UNIT) + FLOOR_UNITS
                total += units
                inside[index[r, j]] += units
            totals[r] = total / UNIT
            for j in range(n_classes):
                segment = index[r, j]
                if inside[segment] > 0:
                    probability = inside[segment] / <double> total
                    inside[segment] = 0
                    for f in range(share.shape[1]):
                        if share[r, f] > 0.0:
                            mass[f, segment] += share[r, f] * probability


def add_exposures(const Segment[:, ::1] index, const double[::1] factor, double[::1] out):
    """Add ``factor[r]`` to the segment of each cell of row r: a_j = sum_i C_ij factor_i."""
    cdef Py_ssize_t n_rows = index.shape[0], n_classes = index.shape[1], r, j
    cdef double f
    with nogil:
        for r in range(n_rows):
            f = factor[r]
            if f > 0.0:
                for j in range(n_classes):
                    out[index[r, j]] += f


def collapse_rows(
    const Segment[:, ::1] index, const int32_t[::1] block_of, Py_ssize_t n_blocks,
    int64_t[::1] pointers, int32_t[::1] blocks, float[::1] counts,
):
    """Count the cells of every row by block; returns the number of entries.

    Cells of segments with a negative block are left out.
    """
    cdef Py_ssize_t n_rows = index.shape[0], n_classes = index.shape[1], entry = 0, r, j, n, at
    cdef int32_t[::1] tally = np.zeros(n_blocks, dtype=np.int32)
    cdef int32_t[::1] met = np.empty(n_classes, dtype=np.int32)
    cdef int32_t block, low, high
    pointers[0] = 0
    with nogil:
        for r in range(n_rows):
            n = 0
            low = <int32_t> n_blocks
            high = -1
            for j in range(n_classes):
                block = block_of[index[r, j]]
                if block >= 0:
                    if tally[block] == 0:
                        met[n] = block
                        n += 1
                    tally[block] += 1
                    low = min(low, block)
                    high = max(high, block)
            if n * n < 4 * (high - low):  # sorting a few blocks is less than a walk past all
                for j in range(1, n):
                    block = met[j]
                    at = j
                    while at > 0 and met[at - 1] > block:
                        met[at] = met[at - 1]
                        at -= 1
                    met[at] = block
            else:
                n = 0
                for block in range(low, high + 1):
                    if tally[block] > 0:
                        met[n] = block
                        n += 1
            for j in range(n):
                block = met[j]
                if tally[block] > 0:
                    blocks[entry] = block
                    counts[entry] = <float> tally[block]
                    tally[block] = 0
                    entry += 1
            pointers[r + 1] = entry
    return entry


def merge_entries(
    int64_t[::1] pointers, int32_t[::1] blocks, float[::1] counts, const int32_t[::1] group_of
):
    """Replace blocks by groups of neighbouring blocks, in place; returns the number of entries."""
    cdef Py_ssize_t entry = 0, first = 0, i, e
    cdef int32_t group, last
    with nogil:
        for i in range(pointers.shape[0] - 1):
            last = -1
            for e in range(first, pointers[i + 1]):
                group = group_of[blocks[e]]
                if group == last:
                    counts[entry - 1] += counts[e]
                else:
                    blocks[entry] = group
                    counts[entry] = counts[e]
                    entry += 1
                    last = group
            first = pointers[i + 1]
            pointers[i + 1] = entry
    return entry


def row_totals(
    const int64_t[::1] pointers, const int32_t[::1] blocks, const float[::1] counts,
    const double[::1] values, double[::1] out,
):
    """T = C g; 1 for rows without entries."""
    cdef Py_ssize_t i, e
    cdef double total
    with nogil:
        for i in range(out.shape[0]):
            total = 0.0
            for e in range(pointers[i], pointers[i + 1]):
                total += counts[e] * values[blocks[e]]
            out[i] = total if total > 0.0 else 1.0


def add_gradient(
    const int64_t[::1] pointers, const int32_t[::1] blocks, const float[::1] counts,
    const double[::1] weight, const double[::1] values, const double[::1] totals,
    double[::1] shares, double[::1] gradient, double[::1] diagonal,
):
    """Gradient of sum_i w_i log T_i in log g, and the diagonal of its Hessian.

    ``shares`` gets S_ij = C_ij g_j / T_i, the share of block j in row i. Gradient: sum_i w_i S_ij;
    diagonal: sum_i w_i S_ij (1 - S_ij).
    """
    cdef Py_ssize_t i, e
    cdef int32_t block
    cdef double w, inverse, share
    with nogil:
        for i in range(totals.shape[0]):
            w = weight[i]
            if w > 0.0:
                inverse = 1.0 / totals[i]
                for e in range(pointers[i], pointers[i + 1]):
                    block = blocks[e]
                    share = counts[e] * values[block] * inverse
                    shares[e] = share
                    gradient[block] += w * share
                    diagonal[block] += w * share * (1.0 - share)


def add_hessian_product(
    const int64_t[::1] pointers, const int32_t[::1] blocks, const double[::1] shares,
    const double[::1] weight, const double[::1] vector, double[::1] out,
):
    """Add the Hessian of sum_i w_i log T_i in log g, times a vector.

    sum_i w_i (diag(S_i) - S_i S_i') is the Laplacian of a graph in which every row joins its
    blocks; the constant vector is its null space, since the scale of g is free. Every row joins
    its large cell with its small ones, so the graph is well connected: scaled by its own diagonal,
    its other eigenvalues are between about 0.3 and 1.9 on real data.
    """
    cdef Py_ssize_t i, e
    cdef double w, mean
    with nogil:
        for i in range(weight.shape[0]):
            w = weight[i]
            if w > 0.0:
                mean = 0.0
                for e in range(pointers[i], pointers[i + 1]):
                    mean += shares[e] * vector[blocks[e]]
                for e in range(pointers[i], pointers[i + 1]):
                    out[blocks[e]] += w * shares[e] * (vector[blocks[e]] - mean)


def add_hessian(
    const int64_t[::1] pointers, const int32_t[::1] blocks, const double[::1] shares,
    const double[::1] weight, double[:, ::1] hessian,
):
    """Add the Hessian of sum_i w_i log T_i in log g, its lower triangle."""
    cdef Py_ssize_t i, e, f
    cdef double share
    cdef double* row
    with nogil:
        for i in range(weight.shape[0]):
            for e in range(pointers[i], pointers[i + 1]):
                share = weight[i] * shares[e]
                row = &hessian[blocks[e], 0]
                row[blocks[e]] += share
                for f in range(pointers[i], e + 1):  # blocks of a row increase
                    row[blocks[f]] -= share * shares[f]
