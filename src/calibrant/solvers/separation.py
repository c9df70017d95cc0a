"""NA-FIR without a prior: where the optimum lies at infinity, find it exactly.

A direction v (non-decreasing) lowers the objective for ever, or leaves it, if in every row the
label has the largest v of all its cells. Then v may only jump at thresholds that no row has
between its label and its largest cell. Those thresholds cut the segments into levels; in the limit
a row whose label lies in a level gives no probability to cells of lower ones. So each level is a
problem of its own, of the rows whose labels and largest cells lie in it, with a finite minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels import cells
from calibrant.solvers.row_counts import sum_cells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.solvers.row_counts import SegmentedRows

SMALLEST = 1e-300
"""Smallest positive value of g."""


@dataclass(frozen=True, slots=True)
class Level:
    """The problem of one level; its segment 0 stands for all cells of lower levels."""

    segments: slice
    index: NDArray[Any]
    weight: NDArray[np.float64]
    target: NDArray[np.float64]
    exposures: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of segments, from the lowest.

    Attributes
    ----------
    first : ndarray of shape (n_levels + 1,)
        First segment of each level, and the number of segments.
    row_start : ndarray of shape (n_levels + 1,)
        First row of each level, and the number of rows.
    """

    first: NDArray[np.int64]
    row_start: NDArray[np.int64]

    def problems(self, likelihood: NormalizedLikelihood) -> Iterator[Level]:
        """Levels with more than one segment, each as a problem that starts from FIR."""
        for v in np.flatnonzero(np.diff(self.first) > 1):
            low, high = int(self.first[v]), int(self.first[v + 1])
            rows = slice(int(self.row_start[v]), int(self.row_start[v + 1]))
            index = likelihood.rows.index[rows]
            lower = index.dtype.type(max(low - 1, 0))
            index = np.where(index < low, 0, index - lower + (low == 0)).astype(index.dtype)
            weight = likelihood.weight[rows]
            target = np.concatenate([[0.0], likelihood.target[low:high]])
            exposures = sum_cells(index, weight, len(target))
            yield Level(slice(low, high), index, weight, target, exposures)


def split_levels(rows: SegmentedRows) -> Levels:
    """Cut the segments at the thresholds that lie between label and largest cell of no row."""
    highest = np.empty(len(rows.own), dtype=np.int64)
    cells.highest_segments(rows.index, highest)
    # Threshold j is the one below segment j; a row covers those in (own, highest].
    change = np.zeros(rows.n_segments + 1)
    np.add.at(change, rows.own + 1, 1.0)
    np.add.at(change, highest + 1, -1.0)
    covered = np.cumsum(change)[: rows.n_segments]
    first = np.flatnonzero(covered == 0.0)
    first = np.concatenate([first, [rows.n_segments]])
    row_start = np.searchsorted(rows.own, first, side="left")
    return Levels(first, row_start)


def join_levels(
    likelihood: NormalizedLikelihood,
    levels: Levels,
    values: NDArray[np.float64],
    epsilon: float,
) -> tuple[str, ...]:
    """Scale the levels so that each hides those below it up to ``epsilon``, in place."""
    notes: list[str] = []
    if likelihood.target[0] == 0.0:
        values[0] = 0.0
        notes.append("no label lies in the lowest block: its value is 0, the limit")
    n_cut = cells.scale_levels(
        likelihood.rows.index, levels.row_start, levels.first, epsilon, SMALLEST, values
    )
    n_levels = len(levels.first) - 1 - (values[0] == 0.0)
    if n_levels > 1:
        notes.append(
            f"{n_levels} levels of blocks, infinitely far apart at the optimum (whoever scores as "
            f"high as a level is always right): set apart by at least a share of {epsilon:.0e}"
        )
    if n_cut:
        notes.append(
            f"levels were cut off at {SMALLEST:g}: more of them than floats can tell apart"
        )
    return tuple(notes)
