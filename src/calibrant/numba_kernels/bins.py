"""Bins of equal width and of equal mass, and what calibration errors sum over them."""

from __future__ import annotations

import math

import numpy as np

from calibrant.numba_kernels.jit import kernel
from calibrant.numba_kernels.metric_sums import add_term

# Columns of the sums over a bin.
WEIGHT = 0
HIT = 1
VALUE = 2


@kernel
def uniform_bin(value, edges):
    """Index of the bin (edges[b], edges[b + 1]] of a value in [0, 1]; 0 is in the first.

    The same as ``searchsorted(edges[1:-1], value)``: the product finds the bin up to rounding, so
    the search starts one above it, and the edges themselves decide.
    """
    last = edges.shape[0] - 2
    b = min(int(value * (last + 1)) + 1, last)
    while b > 0 and value <= edges[b]:
        b -= 1
    return b


@kernel
def find_bins(values, edges, bins):
    """Write the bin of equal width of every value."""
    for i in range(values.shape[0]):
        bins[i] = uniform_bin(values[i], edges)


@kernel
def find_mass_bins(values, mass, n_bins, bins):
    """Write the bin of equal mass of every value; values increase, masses are whole numbers.

    Equal values have no order among them, so they stay together: the bin is that of the midpoint
    of their cumulative mass. ``2 * n_bins * sum(mass)`` must be below 2**63; all is exact then.
    """
    n = values.shape[0]
    total = np.int64(0)
    for i in range(n):
        total += mass[i]
    below = np.int64(0)
    start = 0
    while start < n:
        end = start
        own = np.int64(0)
        while end < n and values[end] == values[start]:
            own += mass[end]
            end += 1
        b = min((n_bins * (2 * below + own)) // max(2 * total, 1), n_bins - 1)
        for i in range(start, end):
            bins[i] = b
        below += own
        start = end


@kernel
def add_binned(values, hits, weight, bins, sums):
    """Add weight, weighted hits and weighted values to the sums of each value's bin."""
    for i in range(values.shape[0]):
        b = bins[i]
        add_term(sums, b, WEIGHT, weight[i])
        if hits[i]:
            add_term(sums, b, HIT, weight[i])
        add_term(sums, b, VALUE, weight[i] * values[i])


@kernel
def add_binned_classes(rows, class_index, weight, bins, n_bins, sums):
    """As ``add_binned`` for the binary problem of every class; class j has ``n_bins`` cells."""
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        for j in range(n_classes):
            cell = j * n_bins + bins[i, j]
            add_term(sums, cell, WEIGHT, weight[i])
            add_term(sums, cell, VALUE, weight[i] * rows[i, j])
        j = class_index[i]
        add_term(sums, j * n_bins + bins[i, j], HIT, weight[i])


@kernel
def add_to_grid(values, hits, weight, sums):
    """Share each weight between the two nearest nodes of an even grid over [0, 1].

    Column 0 holds all rows, column 1 the hits.
    """
    n_steps = sums.shape[0] - 1
    for i in range(values.shape[0]):
        position = values[i] * n_steps
        node = min(int(position), n_steps - 1)
        above = weight[i] * (position - node)
        below = weight[i] - above
        for column in range(2 if hits[i] else 1):
            add_term(sums, node, column, below)
            add_term(sums, node + 1, column, above)


@kernel
def add_hit_moments(values, hits, weight, sums):
    """Add the weight of all rows, and of the hits weight, value and squared value."""
    for i in range(values.shape[0]):
        add_term(sums, 0, 0, weight[i])
        if hits[i]:
            add_term(sums, 0, 1, weight[i])
            add_term(sums, 0, 2, weight[i] * values[i])
            add_term(sums, 0, 3, weight[i] * values[i] * values[i])


@kernel
def count_above(rows, threshold, counts):
    """Count the cells at or above ``threshold`` of each class."""
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        for j in range(n_classes):
            if rows[i, j] >= threshold:
                counts[j] += 1


@kernel
def take_cells(rows, first_row, threshold, first_class, place, values, row_of):
    """Collect the cells at or above ``threshold`` of ``len(place)`` classes.

    ``place[j]`` is where the next cell of class ``first_class + j`` goes; it moves on.
    """
    for i in range(rows.shape[0]):
        for j in range(place.shape[0]):
            value = rows[i, first_class + j]
            if value >= threshold:
                values[place[j]] = value
                row_of[place[j]] = first_row + i
                place[j] += 1


@kernel
def cell_loss(value, positives, negatives, is_log):
    """Loss of one value for the weights of its positive and negative cells."""
    if not is_log:
        return positives * (1.0 - value) * (1.0 - value) + negatives * value * value
    loss = 0.0
    if positives > 0.0:
        loss -= positives * (math.log(value) if value > 0.0 else -np.inf)
    if negatives > 0.0:
        loss -= negatives * (math.log1p(-value) if value < 1.0 else -np.inf)
    return loss


@kernel
def class_segments(values, hits, mass, is_log):
    """Loss of the sorted cells of a class, and their segments for isotonic regression.

    A block of the fit starts at a positive cell (moving others down always helps), so the cells
    from one positive value to the next are one segment. Equal values act as one; masses are whole
    numbers, so nothing depends on the order of the rows. Returns the loss and, of each segment,
    the weights of positive and of all cells.
    """
    n = values.shape[0]
    n_positive = np.count_nonzero(hits)
    positives = np.zeros(n_positive + 1)
    weight = np.zeros(n_positive + 1)
    loss = 0.0
    lost = 0.0  # what rounding took from ``loss`` (Kahan)
    is_infinite = False
    last = 0
    start = 0
    while start < n:
        end = start
        own = np.int64(0)
        own_positives = np.int64(0)
        while end < n and values[end] == values[start]:
            own += mass[end]
            if hits[end]:
                own_positives += mass[end]
            end += 1
        term = cell_loss(values[start], float(own_positives), float(own - own_positives), is_log)
        if term == np.inf:
            is_infinite = True
        else:
            term -= lost
            total = loss + term
            lost = (total - loss) - term
            loss = total
        if own_positives > 0 and weight[last] > 0.0:
            last += 1
        positives[last] += own_positives
        weight[last] += own
        start = end
    if is_infinite:
        loss = np.inf
    return loss, positives[: last + 1].copy(), weight[: last + 1].copy()
