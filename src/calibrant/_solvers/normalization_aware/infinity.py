"""The exact fit without a prior, whose optimum usually lies at infinity.

A direction v (non-decreasing) lowers the objective for ever, or leaves it, if in every row the
label has the largest v of all its cells. Then v may only jump at thresholds that no row has
between its label and its largest cell. Those thresholds cut the segments into levels; in the limit
a row whose label lies in a level gives no probability to cells of lower ones. So each level is a
problem of its own, of the rows whose labels and largest cells lie in it, with a finite minimum.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from calibrant._objectives.normalization_aware import Found, sum_cells
from calibrant._solvers.normalization_aware.fit import minimise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._objectives.normalization_aware import NormalizedLikelihood, SegmentedRows
    from calibrant._types import Floats, Wholes

SMALLEST = 1e-300
"""Smallest positive value of g."""


def solve_by_levels(likelihood: NormalizedLikelihood, tol: float, max_rounds: int) -> Found:
    """Solve each level by itself, from FIR, then put them on one scale.

    Segment 0 of a level's problem holds the cells of all lower levels.
    """
    first, row_start = split_levels(likelihood.rows)
    values = np.ones(likelihood.rows.n_segments)
    rounds = 0
    for v in np.flatnonzero(np.diff(first) > 1):
        low, high = int(first[v]), int(first[v + 1])
        rows = slice(int(row_start[v]), int(row_start[v + 1]))
        index = likelihood.rows.index[rows]
        lower = index.dtype.type(max(low - 1, 0))
        index = np.where(index < low, 0, index - lower + (low == 0)).astype(index.dtype)
        weight = likelihood.weight[rows]
        target = np.concatenate([[0.0], likelihood.target[low:high]])
        exposures = sum_cells(index, weight, len(target))
        result = minimise(index, weight, target, exposures, tol=0.5 * tol, max_rounds=max_rounds)
        values[low:high] = result.values[1:]
        rounds += result.rounds
    notes = _join_levels(likelihood, first, row_start, values, 1e-3 * tol)
    return Found(values, max(rounds, 1), notes)


def split_levels(rows: SegmentedRows) -> tuple[Wholes, Wholes]:
    """Cut the segments at the thresholds that lie between label and largest cell of no row.

    Returns the first segment of each level, from the lowest, and the number of segments; and the
    same of rows.
    """
    highest = rows.index.max(axis=1).astype(np.int64)
    # Threshold j is the one below segment j; a row covers those in (own, highest].
    change = np.zeros(rows.n_segments + 1)
    np.add.at(change, rows.own + 1, 1.0)
    np.add.at(change, highest + 1, -1.0)
    covered = np.cumsum(change)[: rows.n_segments]
    first = np.append(np.flatnonzero(covered == 0.0), rows.n_segments)
    return first, np.searchsorted(rows.own, first, side="left")


def _join_levels(
    likelihood: NormalizedLikelihood,
    first: Wholes,
    row_start: Wholes,
    values: Floats,
    epsilon: float,
) -> tuple[str, ...]:
    """Scale the levels so that each hides those below it up to ``epsilon``, in place."""
    notes: list[str] = []
    if likelihood.target[0] == 0.0:
        values[0] = 0.0
        notes.append("no label lies in the lowest block: its value is 0, the limit")
    n_cut = scale_levels(likelihood.rows.index, row_start, first, epsilon, values)
    n_levels = len(first) - 1 - (values[0] == 0.0)
    if n_levels > 1:
        notes.append(
            f"{n_levels} levels of blocks are infinitely far apart at the optimum (rows that "
            f"reach a level are always right): they are kept apart by a factor of {epsilon:.0e}"
        )
    if n_cut:
        notes.append(
            f"levels were cut off at {SMALLEST:g}: there are more than floats can distinguish"
        )
    return tuple(notes)


def scale_levels(
    index: NDArray[np.generic], row_start: Wholes, first: Wholes, epsilon: float, values: Floats
) -> int:
    """Scale each level up until lower ones have a share of ``epsilon`` in its rows, no further.

    Level v has the segments ``first[v]`` to ``first[v + 1]`` and the rows ``row_start[v]`` to
    ``row_start[v + 1]``, whose labels and largest cells lie in it. Returns how many values had to
    be cut off because the range of floats was used up.
    """
    n_cut = 0
    for v, (low, high) in enumerate(pairwise(first.tolist())):
        if low > 0:
            cells = index[row_start[v] : row_start[v + 1]]
            each = values[cells]
            inside = np.where(cells < low, 0.0, each).sum(axis=1)
            below = np.where(cells < low, each, 0.0).sum(axis=1)
            need = max(np.max(below / inside, initial=0.0) / epsilon, values[low - 1] / values[low])
            if need > 0.0:
                values[low:high] = np.maximum(need * values[low:high], values[low - 1])
        if values[high - 1] > 1.0:
            positive = values[:high] > 0.0
            values[:high] /= values[high - 1]
            deep = np.flatnonzero(positive & (values[:high] < SMALLEST))
            values[deep] = SMALLEST
            n_cut += len(deep)
    return n_cut
