"""Sums over resampled rows; the draws come in as arguments."""

from __future__ import annotations

import numpy as np

from calibrant.numba_kernels.bins import find_mass_bins
from calibrant.numba_kernels.jit import kernel


@kernel
def add_null_bins(values, weight, bins, rows, uniforms, sums):
    """Bin the drawn ``rows``, with hits drawn from the values themselves.

    Columns of ``sums``: weight, weighted hits, weighted values.
    """
    for t in range(rows.shape[0]):
        i = rows[t]
        b = bins[i]
        sums[b, 0] += weight[i]
        if uniforms[t] < values[i]:
            sums[b, 1] += weight[i]
        sums[b, 2] += weight[i] * values[i]


@kernel
def add_class_gaps(cells, bins, mass, gaps):
    """Add mass times probability to the bin of every cell of the rows that have mass."""
    n_rows, n_classes = cells.shape
    for i in range(n_rows):
        if mass[i] > 0.0:
            for j in range(n_classes):
                gaps[j, bins[i, j]] += mass[i] * cells[i, j]


@kernel
def subtract_labels(class_index, bins, mass, gaps):
    """Subtract each row's mass from the bin of its label's cell."""
    for i in range(class_index.shape[0]):
        j = class_index[i]
        gaps[j, bins[i, j]] -= mass[i]


@kernel
def subtract_null_labels(cumulative, bins, weight, rows, uniforms, gaps):
    """As ``subtract_labels`` for the drawn ``rows``, with labels drawn from their probabilities.

    ``cumulative`` holds the running sums of each row's probabilities.
    """
    n_classes = cumulative.shape[1]
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


@kernel
def add_row_draws(mass, confidence, hits, losses, squares, bins, row_sums, gaps, grid):
    """Add resampled rows to the sums of every metric that looks at one number of a row.

    ``row_sums``: mass, hits, losses, squares, and of the hits confidence and its square.
    ``gaps``: confidence less hits of each bin. ``grid``: as in ``add_to_grid``.
    """
    n_steps = grid.shape[0] - 1
    for i in range(mass.shape[0]):
        m = mass[i]
        if m > 0.0:
            value = confidence[i]
            row_sums[0] += m
            row_sums[2] += m * losses[i]
            row_sums[3] += m * squares[i]
            gaps[bins[i]] += m * value
            position = value * n_steps
            node = min(int(position), n_steps - 1)
            above = m * (position - node)
            grid[node, 0] += m - above
            grid[node + 1, 0] += above
            if hits[i]:
                row_sums[1] += m
                row_sums[4] += m * value
                row_sums[5] += m * value * value
                gaps[bins[i]] -= m
                grid[node, 1] += m - above
                grid[node + 1, 1] += above


@kernel
def resampled_mass_errors(values, row_of, hits, starts, mass, n_bins, errors):
    """Calibration error over bins of equal mass, of each class, for whole masses of the rows.

    The sorted cells of the c-th class are ``starts[c]`` to ``starts[c + 1]``; -1 where no mass is
    left.
    """
    for c in range(starts.shape[0] - 1):
        part = values[starts[c] : starts[c + 1]]
        own = mass[row_of[starts[c] : starts[c + 1]]]
        bins = np.empty(part.shape[0], dtype=np.int64)
        find_mass_bins(part, own, n_bins, bins)
        gaps = np.zeros(n_bins)
        total = 0.0
        for i in range(part.shape[0]):
            total += own[i]
            gaps[bins[i]] += own[i] * part[i]
            if hits[starts[c] + i]:
                gaps[bins[i]] -= own[i]
        errors[c] = np.sum(np.abs(gaps)) / total if total > 0.0 else -1.0
