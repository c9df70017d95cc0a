"""SCIR: bivariate isotonic regression of the sorted cumulative probabilities, and its prior.

Every row gives a point (sum of its r largest probabilities, r) for r = 1 .. k - 1, with label 1
if the true class is among them (the paper's sorted cumulative problem). ``kernels`` says how the
points shrink to slots before they are split by maximal upper sets.

SCIR gives exact zeros inside plateaus. The paper adds a small constant to every output; we mix
with the temperature-scaled row, which knows which of the zeros are likely, and let held-out rows
decide how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

import calibrant._kernels.sorted_cumulative as kernels
from calibrant import _threads as threads
from calibrant._kernels.tables import SAME_SCORE, SAME_SUM, TIED
from calibrant._maps.steps import RankedStepFunction, RankedSteps
from calibrant._row_order import (
    bound_blocks,
    lay_thresholds,
    sample_rows,
    score_rounding,
    start_segments,
)
from calibrant._solvers.bivariate_isotonic import split_points
from calibrant._solvers.report import SolverReport
from calibrant._solvers.rows import choice_rows, price
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._types import Array, Floats, Wholes

LARGEST_WHOLE = 2**31 - 1
"""Total weight up to which products of two sums fit 64 bits, so that the fit is exact."""

TOLERANCE = 1e-12
"""Violation of the optimality conditions that rounding may leave."""

N_FOLDS = 5

SHARES = np.array([0.001, 0.002, 0.005, 0.01, 0.02, *np.arange(1, 21) / 20])
"""Shares to choose from; never 0, so that no zero survives unless it is asked for."""

SLACK = 0.01
"""The smallest share is taken whose held-out NLL is within this fraction of the least.

NLL asks for more of the prior than calibration does, and is flat around its least.
"""

WITHOUT_CHOICE = 0.5
"""Share where there is one row only, so that none can be held out."""

MOST_CELLS = 1 << 20
"""Cells from which the expected loss is taken: more do not change its first digits."""

SMALLEST_HELD_OUT = 1e-12
"""Held-out probabilities below it count as this much."""


@dataclass(frozen=True, slots=True)
class CumulativeRows:
    """Rows in sorted cumulative form; a label has several ranks if others are tied with it."""

    cumulative: Floats  # sum of the r largest probabilities of each row, r = 1 .. k
    first: Wholes  # ranks of the label
    last: Wholes
    weight: Floats

    def take(self, rows: Array) -> CumulativeRows:
        """Return some of the rows, by index or mask."""
        return CumulativeRows(
            self.cumulative[rows], self.first[rows], self.last[rows], self.weight[rows]
        )


@dataclass(frozen=True, slots=True)
class Slots:
    """Merged points, sorted by q and then rank."""

    rank: NDArray[np.int32]
    labels: Array  # weighted number of labels inside
    weight: Array
    where: Floats  # leftmost q
    sure: Floats  # per rank, from where nothing of label 0 lies above: 1
    has_zeros: bool  # whether points were left out since nothing of label 1 lies below: 0
    total: float  # weight of all points
    is_whole: bool  # whether all sums are exact


def accumulate(batch: SimplexBatch) -> CumulativeRows:
    """Sort the rows of a batch and add them up; no entry depends on the order of the columns."""
    probabilities = batch.probabilities()
    own = probabilities[np.arange(batch.n_rows), batch.class_index]
    rows = np.array(probabilities, order="C")
    rows.sort(axis=1)
    first = np.empty(batch.n_rows, dtype=np.int64)
    last = np.empty(batch.n_rows, dtype=np.int64)
    kernels.accumulate_rows(rows, own, TIED, first, last)
    return CumulativeRows(rows, first, last, batch.weight)


def whole_units(rows: CumulativeRows) -> tuple[Wholes, bool]:
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
    # Along a row both coordinates grow and the label only rises: one point of each kind is enough.
    outer, inner = np.flatnonzero(last > 1), np.flatnonzero(first < n_classes)
    zeros = np.minimum(last[outer] - 1, n_ranks), cumulative[outer, last[outer] - 2]
    ones = np.minimum(first[inner], n_ranks), cumulative[inner, first[inner] - 1]
    # Per rank, the largest q with label 0 at or above it, and the least with 1 at or below: beyond
    # them the value is surely 1, or 0.
    largest_zero = np.full(n_ranks + 1, -kernels.NEVER)
    least_one = np.full(n_ranks + 1, kernels.NEVER)
    np.maximum.at(largest_zero, *zeros)
    np.minimum.at(least_one, *ones)
    largest_zero = np.maximum.accumulate(largest_zero[::-1])[::-1].copy()
    least_one = np.minimum.accumulate(least_one)
    # What differs by rounding only from a point of the other label is not sure.
    trims = (
        largest_zero + score_rounding(largest_zero, SAME_SUM),
        least_one - score_rounding(least_one, SAME_SUM),
    )
    begin, end = np.empty((2, n_rows), dtype=np.int64)
    sure, n_points, n_zeros = kernels.trim_rows(cumulative, *trims, n_ranks, begin, end)
    row_bits = max(n_rows - 1, 1).bit_length()
    dtype = np.uint32 if row_bits + n_classes.bit_length() <= 32 else np.int64
    keys, origin = np.empty((2, n_points), dtype=np.int64), np.empty((2, n_points), dtype=dtype)
    kernels.list_points(cumulative.view(np.int64), begin, end, row_bits, keys[0], origin[0])
    points = kernels.sort_points(keys, origin, row_bits, n_classes, SAME_SCORE, SAME_SUM)
    units, is_whole = whole_units(rows)
    slots = kernels.merge_points(*points, row_bits, first, last, units, n_ranks)
    rank, labels, weight, where = slots[0], slots[1], slots[2], slots[3].view(np.float64)
    total = int(units.sum()) * (n_classes - 1)
    return Slots(rank, labels, weight, where, sure, n_zeros > 0, total, is_whole)


def fit_rows(
    rows: CumulativeRows, max_rank: int | None = None, *, raise_to_even: bool = False
) -> tuple[RankedStepFunction, SolverReport]:
    """Isotonic regression of rows in sorted cumulative form.

    ``max_rank`` pools all ranks from it on: the fit there depends on q alone. To
    ``raise_to_even``, see ``raise_below_even``. The objective reported is the paper's: mean log
    loss over the points. The rounds are visits to a slot.
    """
    started = perf_counter()
    n_classes = rows.cumulative.shape[1]
    n_ranks = n_classes - 1 if max_rank is None else min(max_rank, n_classes - 1)
    slots = merge(rows, n_ranks)
    dtype = np.int32 if slots.is_whole else np.float64
    labels, mass = slots.labels.astype(dtype), slots.weight.astype(dtype)
    split = split_points(slots.rank.copy(), labels, mass, n_ranks)
    lowest = 0.0 if slots.has_zeros else float(split.values.min(initial=1.0))
    rank = slots.rank.astype(np.min_scalar_type(n_ranks))  # short numbers are sorted by counting
    by_rank = np.argsort(rank, kind="stable")
    starts = np.searchsorted(rank[by_rank], np.arange(n_ranks + 2))
    by_slot = slots.where[by_rank], split.fitted[by_rank], starts
    function = RankedStepFunction(*kernels.rank_fronts(*by_slot, slots.sure, lowest, n_ranks))
    # Log loss from both sums of a block: a value that rounds to 1 may still have labels outside.
    inside, outside = (
        np.add.reduceat(array, split.starts[:-1]) if len(array) else array
        for array in (split.labels, split.weight - split.labels)
    )
    weight = inside + outside
    loss = -math.fsum(xlogy(inside, inside / weight) + xlogy(outside, outside / weight))
    report = SolverReport(
        "maximal upper sets",
        loss / slots.total,
        split.excess / slots.total,
        TOLERANCE,
        split.visits,
        perf_counter() - started,
        n_blocks=len(split.values) + slots.has_zeros + bool(np.any(slots.sure < kernels.NEVER)),
    )
    function = lay_half_way(function, rows.cumulative[:, :-1])
    return raise_below_even(function, report, n_classes) if raise_to_even else (function, report)


def lay_half_way(function: RankedStepFunction, sums: Floats) -> RankedStepFunction:
    """Lay the steps about half-way between a sum and the largest of all ranks below it.

    All ranks have the same sums, and what a step is moved by depends on its sum alone: the function
    still rises from rank to rank.
    """
    scores = np.unique(function.thresholds)
    starts, _ = start_segments(scores, SAME_SUM)
    least, largest = bound_blocks(sums, starts)
    laid = lay_thresholds(np.append(0.0, np.maximum.accumulate(largest[:-1])), least)
    laid[0] = 0.0
    block = np.searchsorted(starts, function.thresholds, side="right") - 1
    thresholds = laid[block]
    # Of sums that are one, in one rank, the last has the largest value.
    kept = np.append(np.diff(thresholds) != 0.0, True)
    kept[function.offsets[1:] - 1] = True
    offsets = np.append(0, np.cumsum(kept)[function.offsets[1:] - 1])
    return RankedStepFunction(thresholds[kept], function.values[kept], offsets)


def raise_below_even(
    function: RankedStepFunction, report: SolverReport, n_classes: int
) -> tuple[RankedStepFunction, SolverReport]:
    """Raise a fit that gives the top r classes less than r / k to that.

    It is what they have in an even row, where all tie: q is r / k there and more everywhere else,
    so a map that rises in q cannot give less. Isotonic regression does not see that point: with
    fewer labels at the top than chance has, two classes would change places across the tie. The
    larger of two functions that rise is one. Of pooled ranks the lowest sets the bound.
    """
    sizes = np.diff(function.offsets).astype(np.intp, copy=False)
    even = np.repeat(np.arange(1, function.n_ranks + 1), sizes) / n_classes
    n_raised = int(np.count_nonzero(function.values < even))
    if n_raised == 0:
        return function, report
    values = np.maximum(function.values, even)
    kept = np.append(True, np.diff(values) != 0.0)
    kept[function.offsets[:-1]] = True
    offsets = np.append(0, np.cumsum(kept)[function.offsets[1:] - 1])
    raised = RankedStepFunction(function.thresholds[kept], values[kept], offsets)
    note = f"{n_raised} of {len(values)} blocks raised to r / {n_classes} after the regression"
    return raised, replace(report, notes=(*report.notes, note))


def choose_prior_share(
    batch: SimplexBatch,
    rows: CumulativeRows,
    max_rank: int | None = None,
    zero_probability: float | None = None,
    *,
    raise_to_even: bool = True,
) -> tuple[float, SolverReport]:
    """Share of the temperature-scaled row, by cross-validation in folds.

    ``rows`` is the batch in sorted cumulative form. The objective reported is the held-out NLL
    per unit of weight at the share that was chosen, with the price of leaving the
    temperature-scaled rows (see ``rows``).
    """
    started = perf_counter()
    row, folds, weight = batch.deal(N_FOLDS)
    batch = replace(batch.take(row), weight=weight)
    rows = replace(rows.take(row), weight=weight)
    own, prior, distances = held_out(
        batch, rows, folds, max_rank, zero_probability, raise_to_even=raise_to_even
    )
    if len(own) == 0:
        note = "there is one row only: the prior share was not chosen by cross-validation"
        return WITHOUT_CHOICE, SolverReport(
            "cross-validation", math.nan, 0.0, 0.0, 0, perf_counter() - started, notes=(note,)
        )
    mixed = (np.maximum((1.0 - s) * own + s * prior, SMALLEST_HELD_OUT) for s in SHARES)
    total = float(batch.weight.sum())
    losses = np.array([-float(batch.weight @ np.log(row)) / total for row in mixed])
    losses += price(distances) / math.fsum(batch.weight)
    chosen = int(np.argmax(losses <= losses.min() * (1.0 + SLACK)))
    report = SolverReport(
        "cross-validation", float(losses[chosen]), 0.0, 0.0, N_FOLDS, perf_counter() - started
    )
    return float(SHARES[chosen]), report


def held_out(
    batch: SimplexBatch,
    rows: CumulativeRows,
    folds: Wholes,
    max_rank: int | None,
    zero_probability: float | None = None,
    *,
    raise_to_even: bool = True,
) -> tuple[Floats, Floats, Floats]:
    """Probability of each row's label, by SCIR and by temperature scaling without its fold.

    And the expected NLL of every share if temperature scaling were right, from a bounded number
    of rows.
    """
    names = np.unique(folds)
    if len(names) < 2:
        return np.empty(0), np.empty(0), np.empty(0)
    own, prior = np.empty(batch.n_rows), np.empty(batch.n_rows)
    expected = np.zeros(len(SHARES))
    looked_at = sample_rows(batch.scores, batch.kind, max(1, MOST_CELLS // batch.n_classes))

    def judge(fold: int) -> Floats:
        out, rest = folds == fold, folds != fold
        function, _ = fit_rows(rows.take(rest), max_rank, raise_to_even=raise_to_even)
        held, row = batch.take(out), np.arange(np.count_nonzero(out))
        plain = RankedSteps(function, 0.0, 1.0, 0.0, batch.kind)(held.scores)
        temperature = solve_temperature(batch.take(rest), zero_probability=zero_probability).map
        scaled = temperature(held.scores)
        own[out], prior[out] = plain[row, held.class_index], scaled[row, held.class_index]
        part = looked_at[out]
        plain, scaled, mass = plain[part], scaled[part], held.weight[part]
        # NLL of every share for labels drawn from the scaled rows.
        mixed = (np.maximum((1.0 - s) * plain + s * scaled, SMALLEST_HELD_OUT) for s in SHARES)
        return np.array([-np.sum(mass @ (scaled * np.log(rows))) for rows in mixed])

    for result in threads.each(judge, names.tolist()):
        expected += result
    return own, prior, expected / math.fsum(batch.weight[looked_at])


def solve_sorted_cumulative(
    batch: SimplexBatch,
    *,
    prior_share: float | None,
    max_rank: int | None = None,
    raise_to_even: bool = True,
    zero_probability: float | None = None,
    temperature: TemperatureMap | None = None,
) -> tuple[RankedSteps, SolverReport, SolverReport | None]:
    """Fit SCIR with a share of temperature scaling, or the one that cross-validation chooses.

    With q_ir, the sum of the r largest probabilities of row i, and z_ir, whether its label is among
    them, g minimises sum_i w_i sum_r (g(q_ir, r) - z_ir)^2 over functions that rise in q and in r.

    The second report is that of the choice. ``max_rank`` pools all ranks from it on: the fit there
    depends on q alone. ``raise_to_even`` bounds g by r / k from below. The ``temperature`` of all
    rows may be known.
    """
    rows, choice = accumulate(batch), None
    if prior_share is None:
        chosen = choice_rows(batch)
        some = (batch, rows) if chosen is None else (batch.take(chosen), rows.take(chosen))
        prior_share, choice = choose_prior_share(
            *some, max_rank, zero_probability, raise_to_even=raise_to_even
        )
    function, report = fit_rows(rows, max_rank, raise_to_even=raise_to_even)
    if temperature is None:
        temperature = solve_temperature(batch, zero_probability=zero_probability).map
    scale, zero_logit = temperature.inverse_temperature, temperature.zero_logit
    return RankedSteps(function, prior_share, scale, zero_logit, batch.kind), report, choice
