"""Two classes are points on a line: many rows become few weighted points, in one sort.

A row of two probabilities is one number, its odds p_1 / p_0. Rows of equal odds are one point with
the weights of both labels. Where there are more distinct odds than points, neighbours share a
point, whose score is their weighted mean: a method fits 20,000 points instead of a million rows.

What this costs is of second order. Rows of a cell differ by at most W in their log-odds z, and a
map of slope s in z takes them to log-odds f that differ by at most s W. About the mean of f the
log-loss of a row changes by (sigma(f) - y) (f_i - f) + r with r at most (s W)^2 / 32, as its second
derivative is at most 1/4. The linear term vanishes on average over a cell but for the covariance of
y with z, which is of the size of W^2, too. A cell has 1 / 20,000 of the weight, and W is near 1e-3
where most rows are; in the tails it is at most 1/16. ``tests/solvers/test_points.py`` judges fits
on new rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant._row_order import starts_of_runs

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._types import Floats, Wholes

MOST_POINTS = 20_000
"""Distinct odds beyond which neighbours share a point."""

SMOOTH_POINTS = 2048
"""Points for a map of a few parameters. What it loses by them is of second order: the mean of a
cell of width W moves the parameters by some W ** 2 / 12, and the loss by the square of that."""

BITS = 48
"""Low bits of the odds in which rows of one cell may differ: above them are four of the mantissa,
so that a cell is at most 1/16 of its odds wide."""


def to_points(batch: SimplexBatch, most: int = MOST_POINTS) -> SimplexBatch:
    """Return the rows of two classes as weighted points, at most about ``most`` for each label.

    Rows are left as they are if they are few, of more classes, or of two logits, of which methods
    may read each by itself; and if they have groups, which a point has not.
    """
    if batch.n_classes != 2 or batch.kind != "probabilities" or batch.n_rows <= 2 * most:
        return batch
    if batch.group is not None:
        return batch
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        odds = batch.scores[:, 1] / batch.scores[:, 0]
    order = np.argsort(odds)
    odds, weight = odds[order], batch.weight[order]
    starts = starts_of_runs(odds)
    if len(starts) > most:
        starts = starts[_starts_of_cells(odds[starts], np.add.reduceat(weight, starts), most)]
    is_one = batch.class_index[order] == 1
    weights, n_rows = [], []
    for is_own in (~is_one, is_one):
        weights.append(np.add.reduceat(weight * is_own, starts))
        n_rows.append(np.add.reduceat(is_own, starts, dtype=np.int64))
    points = np.column_stack(
        [np.add.reduceat(column[order] * weight, starts) for column in batch.scores.T]
    )
    points /= points.sum(axis=1, keepdims=True)
    place = np.flatnonzero(np.concatenate(n_rows))  # of a label that has rows at the point
    index = np.repeat([0, 1], len(starts))[place]
    units = None
    if batch.unit is not None:
        # The weight of one repetition is that of the rows together, by their number.
        repeats = weight / batch.unit[order]
        counts = [np.add.reduceat(repeats * is_own, starts) for is_own in (~is_one, is_one)]
        units = np.concatenate(weights)[place] / np.concatenate(counts)[place]
    return replace(
        batch,
        scores=np.concatenate([points, points])[place],
        class_index=index,
        weight=np.concatenate(weights)[place],
        unit=units,
    )


def _starts_of_cells(odds: Floats, weight: Floats, most: int) -> Wholes:
    """First of the distinct odds in each cell: of equal weight, and nowhere wide.

    A value that has the weight of several cells is a cell of its own, as the middle of its weight
    is in another cell than those of its neighbours.
    """
    total = np.cumsum(weight)
    by_weight = ((total - 0.5 * weight) * (most / total[-1])).astype(np.int64)
    by_value = odds.view(np.int64) >> BITS
    is_first = np.append(True, (np.diff(by_weight) != 0) | (np.diff(by_value) != 0))
    return np.flatnonzero(is_first)
