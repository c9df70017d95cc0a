"""SCIR from counts on a grid, and what the grid may have cost.

All points of a cell get one value, that of the cell; a function that is constant on cells and rises
from cell to cell rises from point to point. So the fit to the cells is one to the points, if not
always the best. How far from it is bounded by the most optimistic reading of the counts: in every
cell of several q, all labels 1 to the right of all labels 0. Only fewer pairs of a label 1 below a
label 0 can be left then, and only such pairs bind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant.kernels.isotonic import largest_excess
from calibrant.kernels.sorted_cumulative import NEVER
from calibrant.kernels.tables import LARGEST_KEY, score_of_key
from calibrant.solvers.bivariate_isotonic import split_points
from calibrant.solvers.report import Binning
from calibrant.solvers.sorted_cumulative.fit import LARGEST_WHOLE, Slots, fit_slots, log_loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.steps import RankedStepFunction
    from calibrant.solvers.report import SolverReport


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of sorted cumulative points, in the order of ranks and then of codes.

    Attributes
    ----------
    rank : ndarray of int32
    code : ndarray of int64
        Code of the least q in the cell.
    labels, weight : ndarray of float64
        Sums over the points of the cell.
    is_single : ndarray of bool
        Whether all points of the cell have one q.
    shift : int
        Last bits of a code that make no difference to the cell; 0 if every q has its own.
    n_ranks : int
    """

    rank: NDArray[np.int32]
    code: NDArray[np.int64]
    labels: NDArray[np.float64]
    weight: NDArray[np.float64]
    is_single: NDArray[np.bool_]
    shift: int
    n_ranks: int

    def take(self, cells: NDArray[np.bool_] | NDArray[np.int64]) -> Grid:
        """Return some of the cells."""
        return replace(
            self,
            rank=self.rank[cells],
            code=self.code[cells],
            labels=self.labels[cells],
            weight=self.weight[cells],
            is_single=self.is_single[cells],
        )


class GridPoints(NamedTuple):
    """Cells read in the most optimistic way, in no order."""

    rank: NDArray[np.int32]
    code: NDArray[np.int64]
    labels: NDArray[np.float64]
    weight: NDArray[np.float64]
    cell: NDArray[np.int64]  # where each comes from


def fit_grid(grid: Grid) -> tuple[RankedStepFunction, SolverReport]:
    """Isotonic regression of the points of a grid; the report says what binning may have cost."""
    started = perf_counter()
    key, total = grid.code >> grid.shift, math.fsum(grid.weight)
    largest_zero, least_one = find_trims(grid, key)
    is_one, is_zero = key > largest_zero[grid.rank], key < least_one[grid.rank]
    sure = np.full(grid.n_ranks + 1, NEVER)
    np.minimum.at(sure, grid.rank[is_one], score_of_key(grid.code[is_one]))
    inner = np.flatnonzero(~(is_one | is_zero))
    cells = grid.take(inner[np.argsort(key[inner], kind="stable")])
    slots = Slots(
        cells.rank,
        cells.labels,
        cells.weight,
        score_of_key(cells.code),
        sure,
        bool(is_zero.any()),
        total,
        is_whole(cells.labels, cells.weight),
    )
    function, report, split = fit_slots(slots, grid.n_ranks, started)
    if grid.shift == 0:
        return function, report
    binning = Binning(len(grid.code), 0.0, 0.0)
    if len(inner):
        points = read_optimistically(cells)
        excess = report.objective - least_loss(points, grid.n_ranks) / total
        violation = cut_excess(points, split.fitted, grid.n_ranks) / total
        binning = replace(binning, violation=violation, excess=max(excess, 0.0))
    return function, replace(report, seconds=perf_counter() - started, binning=binning)


def is_whole(labels: NDArray[np.float64], weight: NDArray[np.float64]) -> bool:
    """Whether sums are whole numbers whose products fit 64 bits."""
    whole = bool(np.all(labels == np.floor(labels)) and np.all(weight == np.floor(weight)))
    return whole and math.fsum(weight) <= LARGEST_WHOLE


def find_trims(grid: Grid, key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per rank, the largest key with label 0 at or above it, and the least with 1 at or below.

    Beyond them the value is surely 1, or 0.
    """
    largest = np.full(grid.n_ranks + 1, -1, dtype=np.int64)
    least = np.full(grid.n_ranks + 1, LARGEST_KEY + 1, dtype=np.int64)
    zeros, ones = grid.labels < grid.weight, grid.labels > 0
    np.maximum.at(largest, grid.rank[zeros], key[zeros])
    np.minimum.at(least, grid.rank[ones], key[ones])
    return np.maximum.accumulate(largest[::-1])[::-1], np.minimum.accumulate(least)


def read_optimistically(cells: Grid) -> GridPoints:
    """Points of cells whose labels are as easy to fit as the counts allow.

    In a cell of several q the label 0 is where its least q is, and the label 1 where it ends.
    """
    spread = ~cells.is_single & (cells.labels > 0)
    both = np.flatnonzero(spread & (cells.labels < cells.weight))
    last = cells.code | ((1 << cells.shift) - 1)
    return GridPoints(
        np.append(cells.rank, cells.rank[both]),
        np.append(np.where(spread, last, cells.code), cells.code[both]),
        np.append(cells.labels, np.zeros(len(both))),
        np.append(
            np.where(spread, cells.labels, cells.weight), (cells.weight - cells.labels)[both]
        ),
        np.append(np.arange(len(cells.rank)), both),
    )


def least_loss(points: GridPoints, n_ranks: int) -> float:
    """Log loss of the best fit to points: no fit to what they were read from has less."""
    order = np.lexsort((points.rank, points.code))
    dtype = np.int32 if is_whole(points.labels, points.weight) else np.float64
    labels, weight = (array[order].astype(dtype) for array in (points.labels, points.weight))
    return log_loss(split_points(points.rank[order], labels, weight, n_ranks))


def cut_excess(points: GridPoints, fitted: NDArray[np.float64], n_ranks: int) -> float:
    """Largest excess of an upper set of points inside a block of the fit to their cells.

    An upper set of what they were read from has no larger one: the points from the same q on, at
    every rank, have all of its labels 1, and none of label 0 but its own.
    """
    values, block = np.unique(fitted, return_inverse=True)
    block = block[points.cell]
    order = np.lexsort((points.rank, points.code, block))
    starts = np.searchsorted(block[order], np.arange(len(values) + 1))
    rank, labels, weight = (a[order] for a in (points.rank, points.labels, points.weight))
    return float(largest_excess(rank, labels, weight, starts, values, n_ranks))
