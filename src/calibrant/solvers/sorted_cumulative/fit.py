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
from scipy.special import xlogy

from calibrant.kernels import sorted_cumulative as kernels
from calibrant.kernels.maximal_upper_set import (
    empty_set,
    largest_excess,
    split_real,
    split_whole,
)
from calibrant.kernels.ranked_lookup import ONE
from calibrant.maps.steps import RankedStepFunction
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

LARGEST_WHOLE = 2**31 - 1
"""Total weight up to which products of two sums fit 64 bits, so that the fit is exact."""

TOLERANCE = 1e-12
"""Violation of the optimality conditions that rounding may leave."""

RANGE = 1 << 19
"""Points sorted at once: what the last-level cache holds."""

SAMPLE = 256
"""Rows that the ranges are chosen by."""


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
    """Points of the rows, but for those whose value is sure, sorted and merged.

    Sorts one range of q after the other, each of a size that the cache holds.
    """
    cumulative, first, last = rows.cumulative, rows.first, rows.last
    n_rows, n_classes = cumulative.shape
    bits = cumulative.view(np.int64)
    trims = kernels.find_trims(cumulative, first, last, n_ranks)
    begin, end, cut = (np.empty(n_rows, dtype=np.int64) for _ in range(3))
    sure, n_points, n_zeros = kernels.trim_rows(cumulative, *trims, n_ranks, begin, end)
    units, is_whole = whole_units(rows)
    row_bits = max(n_rows - 1, 1).bit_length()
    dtype = np.uint32 if row_bits + n_classes.bit_length() <= 32 else np.int64
    slots = np.empty(n_points, dtype=np.int32), *np.empty((3, n_points), dtype=np.int64)
    opened = np.full((2, n_ranks + 1), -1, dtype=np.int64)
    gathered = np.zeros_like(opened)
    sets = empty_set(n_ranks), empty_set(n_ranks)
    n = 0
    for bound in range_bounds(bits, begin, end, n_points):
        n_here = kernels.cut_rows(bits, begin, end, bound, cut)
        keys, origin = np.empty((2, n_here), dtype=np.int64), np.empty((2, n_here), dtype=dtype)
        kernels.list_points(bits, begin, cut, row_bits, keys[0], origin[0])
        begin[:] = cut
        if n_here:
            points = kernels.sort_points(
                keys[0], origin[0], keys[1], origin[1], row_bits, n_classes
            )
            n = kernels.merge_points(
                *points, row_bits, first, last, units, slots, n, opened, gathered, sets
            )
    kernels.close_slots(*slots[1:3], opened, gathered)
    rank, labels, weight, where = (array[:n].copy() for array in slots)
    total = int(units.sum()) * (n_classes - 1)
    return Slots(rank, labels, weight, where.view(np.float64), sure, n_zeros > 0, total, is_whole)


def range_bounds(
    bits: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64], n_points: int
) -> list[int]:
    """Bounds that cut the points into ranges of about ``RANGE``, by a sample of the rows.

    Equal q share a range. The last bound lies above all.
    """
    n_ranges = n_points // RANGE + 1
    step = max(1, len(bits) // SAMPLE)
    sample = [bits[i, begin[i] - 1 : end[i] - 1] for i in range(0, len(bits), step)]
    points = np.sort(np.concatenate(sample))
    places = np.arange(1, n_ranges) * len(points) // n_ranges
    return [*np.unique(points[places]).tolist(), ONE + 1] if len(points) else [ONE + 1]


def fit_rows(
    rows: CumulativeRows, max_rank: int | None = None
) -> tuple[RankedStepFunction, SolverReport]:
    """Solve for rows in sorted cumulative form.

    The objective reported is the paper's: mean log loss over the points. The rounds are visits to
    a slot.
    """
    started = perf_counter()
    n_ranks = rows.cumulative.shape[1] - 1
    n_ranks = n_ranks if max_rank is None else min(max_rank, n_ranks)
    slots = merge(rows, n_ranks)
    blocks = split_slots(slots, n_ranks)
    lowest = 0.0 if slots.has_zeros else float(blocks.values.min(initial=1.0))
    function = RankedStepFunction(
        *kernels.rank_fronts(slots.rank, slots.where, blocks.fitted, slots.sure, lowest, n_ranks)
    )
    # From both sums: a value that rounds to 1 may still have labels outside.
    weight = blocks.inside + blocks.outside
    inside = xlogy(blocks.inside, blocks.inside / weight)
    outside = xlogy(blocks.outside, blocks.outside / weight)
    report = SolverReport(
        "maximal upper sets",
        -math.fsum(inside + outside) / slots.total,
        blocks.excess / slots.total,
        TOLERANCE,
        blocks.visits,
        perf_counter() - started,
        n_blocks=len(blocks.values) + slots.has_zeros + bool(np.any(slots.sure < kernels.NEVER)),
    )
    return function, report


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of slots with one value.

    Attributes
    ----------
    fitted : ndarray of shape (n_slots,)
        Value of each slot.
    values, inside, outside : ndarray of shape (n_blocks,)
        Value of each block, increasing, and the sums of labels 1 and of labels 0 over its slots.
    excess : float
        Largest excess of an upper set inside a block over its value.
    visits : int
        How often a slot was looked at.
    """

    fitted: NDArray[np.float64]
    values: NDArray[np.float64]
    inside: NDArray[np.float64]
    outside: NDArray[np.float64]
    excess: float
    visits: int


def split_slots(slots: Slots, n_ranks: int) -> Blocks:
    """Isotonic regression of the slots, by maximal upper sets."""
    n_slots = len(slots.rank)
    fitted = np.empty(n_slots)
    if n_slots == 0:
        return Blocks(fitted, fitted, fitted, fitted, 0.0, 0)
    dtype = np.int32 if slots.is_whole else np.float64
    rank = slots.rank.copy()
    labels, weight = slots.labels.astype(dtype), slots.weight.astype(dtype)
    place = np.arange(n_slots, dtype=np.int32 if n_slots < 2**31 else np.int64)
    split = split_whole if slots.is_whole else split_real
    head, visits = split(rank, labels, weight, place, n_ranks, fitted)
    starts = np.append(np.flatnonzero(head), n_slots)
    values = fitted[place[starts[:-1]]]
    sums = labels.astype(np.float64), weight.astype(np.float64)
    excess = largest_excess(rank, *sums, starts, values, n_ranks)
    inside, outside = (
        np.add.reduceat(array, starts[:-1]) for array in (sums[0], sums[1] - sums[0])
    )
    return Blocks(fitted, values, inside, outside, excess, int(visits))
