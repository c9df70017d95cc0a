"""SCIR from a table of counts, and what the table may have cost.

All points of a cell get one value, that of the cell; a function that is constant on cells and rises
from cell to cell rises from point to point. So the fit to the cells is one to the points, if not
always the best. How far from it is bounded by the most optimistic reading of the counts: in every
cell of several q, all labels 1 to the right of all labels 0. Only fewer pairs of a label 1 below a
label 0 can be left then, and only such pairs bind.
"""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._kernels.isotonic import largest_excess
from calibrant._kernels.sorted_cumulative import NEVER
from calibrant._kernels.tables import LARGEST_KEY, score_of_key
from calibrant._solvers.bivariate_isotonic import split_points
from calibrant._solvers.report import Binning
from calibrant._solvers.sorted_cumulative.fit import (
    LARGEST_WHOLE,
    Slots,
    find_trims,
    fit_slots,
    log_loss,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.steps import RankedStepFunction
    from calibrant._solvers.report import SolverReport


class RankCells(NamedTuple):
    """Cells of sorted cumulative points, in the order of ranks and then of keys."""

    rank: NDArray[np.int32]
    key: NDArray[np.int64]  # of the least q in the cell; see ``_kernels.score_table``
    labels: NDArray[np.float64]
    weight: NDArray[np.float64]
    is_single: NDArray[np.bool_]  # whether all points of the cell have one q

    def take(self, cells: NDArray[Any]) -> RankCells:
        """Return some of the cells."""
        return RankCells(*(array[cells] for array in self))

    @property
    def are_whole(self) -> bool:
        """Whether sums are whole numbers whose products fit 64 bits."""
        labels, weight = self.labels, self.weight
        whole = bool(np.all(labels == np.floor(labels)) and np.all(weight == np.floor(weight)))
        return whole and math.fsum(weight) <= LARGEST_WHOLE


def fit_cells(
    cells: RankCells, shift: int, n_ranks: int
) -> tuple[RankedStepFunction, SolverReport]:
    """Isotonic regression of points in cells, of keys that agree but for their last ``shift`` bits.

    The report says what that may have cost.
    """
    started = perf_counter()
    key, total, n_cells = cells.key >> shift, math.fsum(cells.weight), len(cells.key)
    sides = cells.labels < cells.weight, cells.labels > 0
    points = ((cells.rank[side], key[side]) for side in sides)
    largest_zero, least_one = find_trims(*points, n_ranks, LARGEST_KEY + 1)
    is_one, is_zero = key > largest_zero[cells.rank], key < least_one[cells.rank]
    sure = np.full(n_ranks + 1, NEVER)
    np.minimum.at(sure, cells.rank[is_one], score_of_key(cells.key[is_one]))
    inner = np.flatnonzero(~(is_one | is_zero))
    cells = cells.take(inner[np.argsort(key[inner], kind="stable")])
    sums = cells.rank, cells.labels, cells.weight, score_of_key(cells.key)
    slots = Slots(*sums, sure, bool(is_zero.any()), total, cells.are_whole)
    function, report, split = fit_slots(slots, n_ranks, started)
    if shift == 0:
        return function, report
    excess = violation = 0.0
    if len(inner):
        points, origin = _read_optimistically(cells, shift)
        excess = max(report.objective - _least_loss(points, n_ranks) / total, 0.0)
        violation = _cut_excess(points, split.fitted[origin], n_ranks) / total
    binning = Binning(n_cells, violation, excess)
    return function, replace(report, seconds=perf_counter() - started, binning=binning)


def _read_optimistically(cells: RankCells, shift: int) -> tuple[RankCells, NDArray[np.int64]]:
    """Points of cells whose labels are as easy to fit as the counts allow, and their cells.

    In a cell of several q the label 0 is where its least q is, and the label 1 where it ends.
    """
    spread = ~cells.is_single & (cells.labels > 0)
    both = np.flatnonzero(spread & (cells.labels < cells.weight))
    zeros = cells.take(both)
    zeros = zeros._replace(weight=zeros.weight - zeros.labels, labels=np.zeros(len(both)))
    ones = cells._replace(
        key=np.where(spread, cells.key | ((1 << shift) - 1), cells.key),
        weight=np.where(spread, cells.labels, cells.weight),
    )
    pairs: Any = zip(ones, zeros, strict=True)
    points = RankCells(*(np.append(one, zero) for one, zero in pairs))
    return points, np.append(np.arange(len(cells.key)), both)


def _least_loss(points: RankCells, n_ranks: int) -> float:
    """Log loss of the best fit to points: no fit to what they were read from has less."""
    points = points.take(np.lexsort((points.rank, points.key)))
    dtype = np.int32 if points.are_whole else np.float64
    sums = points.labels.astype(dtype), points.weight.astype(dtype)
    return log_loss(split_points(points.rank, *sums, n_ranks))


def _cut_excess(points: RankCells, fitted: NDArray[np.float64], n_ranks: int) -> float:
    """Largest excess of an upper set of points inside a block of the fit to their cells.

    An upper set of what they were read from has no larger one: the points from the same q on, at
    every rank, have all of its labels 1, and none of label 0 but its own.
    """
    values, block = np.unique(fitted, return_inverse=True)
    order = np.lexsort((points.rank, points.key, block))
    starts = np.searchsorted(block[order], np.arange(len(values) + 1))
    rank, _, labels, weight, _ = points.take(order)
    return float(largest_excess(rank, labels, weight, starts, values, n_ranks))
