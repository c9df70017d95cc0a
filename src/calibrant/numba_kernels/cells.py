"""Passes over all cells of NA-FIR's calibration set: segments, prior mass, levels."""

from __future__ import annotations

import numpy as np

from calibrant.numba_kernels.exponential import exponentials
from calibrant.numba_kernels.jit import kernel
from calibrant.numba_kernels.lookup import find_block
from calibrant.numba_kernels.rows import row_top

UNIT = 2.0**44
"""Fixed point of the row sums of the prior: whole numbers add up the same in any order."""

FLOOR_UNITS = 16
"""What every cell gets of the prior, relative to the largest of its row: 2**-40."""


@kernel
def index_cells(rows, bits, order, edges, table, shift, base, out, largest, seen):
    """Segment of every cell; row ``r`` of ``out`` is row ``order[r]`` of the matrix.

    ``largest`` gets the largest cell of each row, ``seen`` is set for segments with a cell.
    """
    n_rows, n_classes = out.shape
    for r in range(n_rows):
        i = order[r]
        top = 0.0
        for j in range(n_classes):
            segment = find_block(bits[i, j], edges, table, shift, base)
            out[r, j] = segment
            seen[segment] = True
            top = max(top, rows[i, j])
        largest[r] = top


@kernel
def relabel_cells(index, new_label):
    """Replace every segment by its new label, in place."""
    n_rows, n_classes = index.shape
    for r in range(n_rows):
        for j in range(n_classes):
            index[r, j] = new_label[index[r, j]]


@kernel
def add_prior(logits, order, beta, share, index, mass, totals):
    """Add each cell's prior probability to its segment.

    The prior of a row is proportional to exp(beta * (logit - largest)) + 2**-40: no segment is
    left without mass. ``share[r, f]`` is the weight of row r in part f of the rows, and
    ``mass[f]`` the sums over that part. ``totals`` gets the row sums, at least 1. What is summed
    over columns are whole numbers, so the order of columns does not matter.
    """
    n_rows, n_classes = index.shape
    gaps = np.empty(n_classes)
    powers = np.empty(n_classes)
    bits = np.empty(n_classes, dtype=np.int64)
    inside = np.zeros(mass.shape[1], dtype=np.int64)
    for r in range(n_rows):
        i = order[r]
        top = row_top(logits, i)
        for j in range(n_classes):
            gaps[j] = beta * (logits[i, j] - top)
        exponentials(gaps, powers, bits, bits.view(np.float64))
        total = np.int64(0)
        for j in range(n_classes):
            units = np.int64(powers[j] * UNIT) + FLOOR_UNITS
            total += units
            inside[index[r, j]] += units
        totals[r] = total / UNIT
        for j in range(n_classes):
            segment = index[r, j]
            if inside[segment] > 0:
                probability = inside[segment] / total
                inside[segment] = 0
                for f in range(share.shape[1]):
                    if share[r, f] > 0.0:
                        mass[f, segment] += share[r, f] * probability


@kernel
def add_exposures(index, factor, out):
    """Add ``factor[r]`` to the segment of each cell of row r: a_j = sum_i C_ij factor_i."""
    n_rows, n_classes = index.shape
    for r in range(n_rows):
        f = factor[r]
        if f > 0.0:
            for j in range(n_classes):
                out[index[r, j]] += f


@kernel
def scale_levels(index, row_start, first, epsilon, smallest, values):
    """Put levels of segments so far apart that each hides those below it, in place.

    Level v has the segments ``first[v]`` to ``first[v + 1]`` and the rows ``row_start[v]`` to
    ``row_start[v + 1]``, whose labels and largest cells lie in it. Each level is scaled up until
    in all its rows the lower levels have a share of at most ``epsilon``, and no further. Returns
    how many levels had to be cut off at ``smallest`` because the range of floats was used up.
    """
    n_cut = 0
    n_classes = index.shape[1]
    for v in range(first.shape[0] - 1):
        low = first[v]
        high = first[v + 1]
        need = 0.0
        for r in range(row_start[v], row_start[v + 1]):
            below = 0.0
            inside = 0.0
            for j in range(n_classes):
                segment = index[r, j]
                if segment < low:
                    below += values[segment]
                elif segment < high:
                    inside += values[segment]
            need = max(need, below / (epsilon * inside))
        if low > 0:
            need = max(need, values[low - 1] / values[low])
        if need > 0.0:
            for j in range(low, high):
                values[j] *= need
                if low > 0:
                    values[j] = max(values[j], values[low - 1])  # up to rounding
        top = values[high - 1]
        if top > 1.0:
            for j in range(high):
                if values[j] > 0.0:
                    values[j] /= top
                    if values[j] < smallest:
                        values[j] = smallest
                        n_cut += 1
    return n_cut
