"""SCIR: bivariate isotonic regression of the sorted cumulative probabilities, exactly.

Every row gives a point (sum of its r largest probabilities, r) for r = 1 .. k - 1, with label 1
if the true class is among them (the paper's sorted cumulative problem). ``kernels`` says how the
points shrink to slots before they are split by maximal upper sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels import sorted_cumulative as kernels
from calibrant.kernels.maximal_upper_set import largest_excess, split_real, split_whole
from calibrant.solvers.report import SolverReport
from calibrant.step_function import RankedStepFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

LARGEST_WHOLE = 2**31 - 1
"""Total weight up to which products of two sums fit 64 bits, so that the fit is exact."""

TOLERANCE = 1e-12
"""Violation of the optimality conditions that rounding may leave."""


@dataclass(frozen=True, slots=True)
class CumulativeRows:
    """Rows in sorted cumulative form.

    Attributes
    ----------
    cumulative : ndarray of shape (n_rows, n_classes)
        Sum of the r largest probabilities of each row, r = 1 .. k.
    first, last : ndarray of shape (n_rows,)
        Ranks of the label; more than one if its probability is tied with others.
    weight : ndarray of shape (n_rows,)
    """

    cumulative: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    weight: NDArray[np.float64]

    def take(self, rows: NDArray[Any]) -> CumulativeRows:
        """Return some of the rows, by index or mask."""
        return CumulativeRows(
            self.cumulative[rows], self.first[rows], self.last[rows], self.weight[rows]
        )


@dataclass(frozen=True, slots=True)
class Slots:
    """Merged points, sorted by q and then rank.

    Attributes
    ----------
    rank, labels, weight, where : ndarray of shape (n_slots,)
        Rank, weighted number of labels inside, weight, and leftmost q.
    sure : ndarray of shape (n_ranks + 1,)
        Where the value is 1 because nothing of label 0 lies above, per rank.
    has_zeros : bool
        Whether points were left out because nothing of label 1 lies below: their value is 0.
    total : int
        Weight of all points.
    is_whole : bool
        Whether all sums are exact.
    """

    rank: NDArray[np.int32]
    labels: NDArray[np.int64]
    weight: NDArray[np.int64]
    where: NDArray[np.float64]
    sure: NDArray[np.float64]
    has_zeros: bool
    total: int
    is_whole: bool


def accumulate(batch: SimplexBatch) -> CumulativeRows:
    """Sort the rows of a batch and add them up; no entry depends on the order of the columns."""
    probabilities = batch.probabilities()
    own = probabilities[np.arange(batch.n_rows), batch.class_index]
    rows = np.sort(probabilities, axis=1)
    first = np.empty(batch.n_rows, dtype=np.int64)
    last = np.empty(batch.n_rows, dtype=np.int64)
    kernels.accumulate_rows(rows, own, first, last)
    return CumulativeRows(rows, first, last, batch.weight)


def whole_units(rows: CumulativeRows) -> tuple[NDArray[np.int64], bool]:
    """Weights as whole numbers that also hold the shares of tied labels, and whether exactly.

    Whole weights are scaled by the least common multiple of the numbers of tied classes. Where
    that is too large, or weights are not whole, they are rounded at 2**-61 of the total; sums
    of whole numbers do not depend on the order of the rows in either case.
    """
    n_points = max(rows.cumulative.shape[1] - 1, 1)
    total = math.fsum(rows.weight) * n_points
    ties = np.unique(rows.last - rows.first + 1).tolist()
    scale = math.lcm(*ties)
    if bool(np.all(rows.weight == np.floor(rows.weight))) and scale * total <= LARGEST_WHOLE:
        return rows.weight.astype(np.int64) * scale, True
    unit = math.ldexp(1.0, math.frexp(total)[1] - 61)
    return np.maximum(np.rint(rows.weight / unit), 1.0).astype(np.int64), False


def merge(rows: CumulativeRows, n_ranks: int) -> Slots:
    """Points of the rows, but for those whose value is sure, sorted and merged."""
    cumulative, first, last = rows.cumulative, rows.first, rows.last
    n_rows, n_classes = cumulative.shape
    trims = kernels.find_trims(cumulative, first, last, n_ranks)
    begin, end = np.empty_like(first), np.empty_like(first)
    sure, n_points, n_zeros = kernels.trim_rows(cumulative, *trims, n_ranks, begin, end)
    row_bits = max(n_rows - 1, 1).bit_length()
    narrow = row_bits + n_classes.bit_length() <= 32
    keys = np.empty((2, n_points), dtype=np.int64)
    origin = np.empty((2, n_points), dtype=np.uint32 if narrow else np.int64)
    kernels.list_points(cumulative.view(np.int64), begin, end, row_bits, keys[0], origin[0])
    if n_points:
        points = kernels.sort_points(keys[0], origin[0], keys[1], origin[1])
    else:
        points = keys[0], origin[0]
    del keys, origin
    units, is_whole = whole_units(rows)
    rank = np.empty(n_points, dtype=np.int32)
    labels, weight, where = np.empty((3, n_points), dtype=np.int64)
    slots = (rank, labels, weight, where)
    n = kernels.merge_points(*points, row_bits, n_ranks, first, last, units, slots)
    total = int(units.sum()) * (n_classes - 1)
    return Slots(
        *(array[:n].copy() for array in slots[:3]),
        where[:n].view(np.float64).copy(),
        sure,
        n_zeros > 0,
        total,
        is_whole,
    )


def solve_sorted_cumulative(
    batch: SimplexBatch, max_rank: int | None = None
) -> tuple[RankedStepFunction, SolverReport]:
    """Sorted cumulative isotonic regression (SCIR) of a batch.

    ``max_rank`` pools all ranks from it on: the fit there depends on q alone.
    """
    return fit_rows(accumulate(batch), max_rank)


def fit_rows(
    rows: CumulativeRows, max_rank: int | None = None
) -> tuple[RankedStepFunction, SolverReport]:
    """Solve for rows in sorted cumulative form; see ``solve_sorted_cumulative``.

    The objective reported is the paper's: mean log loss over the points.
    """
    started = perf_counter()
    n_ranks = rows.cumulative.shape[1] - 1
    n_ranks = n_ranks if max_rank is None else min(max_rank, n_ranks)
    slots = merge(rows, n_ranks)
    n_slots = len(slots.rank)
    value = np.empty(n_slots)
    place = np.arange(n_slots, dtype=np.int32)
    dtype = np.int32 if slots.is_whole else np.float64
    parts = slots.rank.copy(), slots.labels.astype(dtype), slots.weight.astype(dtype), place
    split = split_whole if slots.is_whole else split_real
    head, visits = split(*parts, n_ranks, value) if n_slots else (np.zeros(0, dtype=bool), 0)
    starts = np.append(np.flatnonzero(head), n_slots)
    blocks = value[place[starts[:-1]]]
    violation = (
        largest_excess(
            parts[0], parts[1].astype(np.float64), parts[2].astype(np.float64), starts, blocks, n_ranks
        )
        / slots.total
    )
    labels, weight = (np.add.reduceat(a.astype(np.float64), starts[:-1]) for a in parts[1:3])
    lowest = 0.0 if slots.has_zeros else float(blocks.min(initial=1.0))
    function = RankedStepFunction(
        *kernels.rank_fronts(slots.rank, slots.where, value, slots.sure, lowest, n_ranks)
    )
    losses = labels * np.log(blocks) + (weight - labels) * np.log1p(-blocks)
    report = SolverReport(
        "maximal upper sets",
        -float(losses.sum()) / slots.total,
        violation,
        TOLERANCE,
        int(visits),
        perf_counter() - started,
        n_blocks=len(blocks) + slots.has_zeros + bool(np.any(slots.sure < kernels.NEVER)),
    )
    return function, report
