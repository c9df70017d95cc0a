"""NA-FIR: temperature scaling as a prior, the exact minimum, and the limit where there is none.

``solve_normalization_aware`` is the way in; ``build_likelihood`` chooses how strongly the fit is
drawn towards temperature scaling, and ``minimise`` is the method:

Linearise the logarithm of the row totals: with T_i = sum_j C_ij g_j and a_j = sum_i w_i C_ij / T_i
the surrogate sum_j (b_j log g_j - a_j g_j) is maximised by PAVA of b / a with weights a. The first
round, with T = 1, is FIR; every round lowers the objective; a fixed point is the minimum. Rounds
alone are slow near the end, so between two of them the blocks that PAVA found are taken as given
and their values improved by Newton's method; the next PAVA, over all segments, splits them again
where the optimality conditions inside a block ask for it.

Without a prior the minimum usually lies at infinity. A direction v (non-decreasing) lowers the
objective for ever, or leaves it, if in every row the label has the largest v of all its cells. Then
v may only jump at thresholds that no row has between its label and its largest cell. Those
thresholds cut the segments into levels; in the limit a row whose label lies in a level gives no
probability to cells of lower ones. So each level is a problem of its own, of the rows whose labels
and largest cells lie in it, with a finite minimum (``solve_by_levels``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from calibrant import _threads as threads
from calibrant._gate import to_logits
from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._kernels.normalization_aware import add_hessian, add_hessian_product, add_prior
from calibrant._maps.steps import SharedSteps
from calibrant._objectives.normalization_aware import (
    LOWEST,
    Found,
    NormalizedLikelihood,
    RowCounts,
    block_of_segment,
    certificate,
    count_cells,
    is_bounded,
    segment_rows,
    sum_cells,
)
from calibrant._row_order import deal_shares
from calibrant._solvers.newton import conjugate_gradients
from calibrant._solvers.report import SolverReport
from calibrant._solvers.rows import choice_rows, price
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._maps.steps import StepFunction
    from calibrant._objectives.normalization_aware import SegmentedRows
    from calibrant._types import Floats, Wholes

N_FOLDS = 5
STRENGTHS = (10.0, 100.0, 1000.0, 10000.0)
"""What cross-validation tries; it chooses from all numbers between the first and the last."""

STEEPEST_START = 8.0
"""Inverse temperature up to which the prior is the point to start from."""

FOLD_TOLERANCE = 3e-5
"""Certificate asked for in the folds: far below the noise of a held-out likelihood."""

SMALLEST_HELD_OUT = 1e-12
"""Held-out probabilities and values below it count as this much."""

EQUAL_LOSSES = 1e-9
"""Held-out NLLs this close are equal, and the weaker prior is taken. Where no strength changes a
held-out row, rounding would choose: rows of weight 2 and rows given twice round differently."""

LONGEST_STEP = 6.0
"""Bound on how far a Newton step moves two neighbours apart, in units of log g."""

RIDGE = 1e-9
"""Curvature added to the Hessian, relative to the weight of a block: where there is less of its
own, as between blocks that are nearly at infinity, the gradient is below the tolerance anyway."""

DEPTH = -math.log(LOWEST)

FROZEN_CURVATURE = 1e30
"""Curvature of a block at the bound that would go below it, relative to the total weight."""

NEWTON_STEPS = 12
"""Newton steps between two rounds of PAVA."""

MOST_FACTORED, MOST_ENTRIES = 320, 16
"""Blocks, and blocks that a row has, up to which the Hessian is summed and factored: it costs as
much as a few products with it."""

MAX_PRODUCTS = 200
"""Products with the Hessian for one Newton step; about ten are usual."""

BOUNDED = f"the lowest blocks are at their bound, {LOWEST:g} times the highest"

SMALLEST = 1e-300
"""Smallest positive value of g in the limit at infinity."""

Minimise = Callable[[NormalizedLikelihood, float, int | None], Found]
"""Minimises an objective to a tolerance, in at most ``max_rounds`` rounds if they are given."""


def minimise_exactly(
    likelihood: NormalizedLikelihood, tol: float = 1e-8, max_rounds: int | None = None
) -> Found:
    """Reach the optimum over all non-decreasing maps."""
    if likelihood.prior_strength == 0.0:
        return solve_by_levels(likelihood, tol, max_rounds or 100)
    # A prior keeps the minimum finite.
    index, weight, target = likelihood.rows.index, likelihood.weight, likelihood.target
    start = likelihood.exposures
    result = minimise(index, weight, target, start, tol=tol, max_rounds=max_rounds or 100)
    proof = likelihood.objective(result.totals, result.values), result.violation
    return Found(result.values, result.rounds, (BOUNDED,) * is_bounded(result.values), proof)


def solve_normalization_aware(
    batch: SimplexBatch,
    *,
    prior_strength: float | None,
    tol: float = 1e-8,
    max_rounds: int | None = None,
    temperature: TemperatureMap | None = None,
    minimise: Minimise = minimise_exactly,
    name: str = "exact",
) -> tuple[SharedSteps, SolverReport, PriorChoice | None]:
    """Fit NA-FIR with ``prior_strength`` pseudo-observations; None lets cross-validation choose.

    The ``temperature`` that they are drawn from may be known. ``name`` is that of ``minimise``.
    """
    likelihood, choice = build_likelihood(batch, prior_strength, temperature)
    step, report = minimise_likelihood(likelihood, tol, max_rounds, minimise=minimise, name=name)
    return SharedSteps(step, batch.kind), report, choice


def minimise_likelihood(
    likelihood: NormalizedLikelihood,
    tol: float = 1e-8,
    max_rounds: int | None = None,
    *,
    minimise: Minimise = minimise_exactly,
    name: str = "exact",
) -> tuple[StepFunction, SolverReport]:
    """Minimise NA-FIR's objective; the certificate is of all segments, whoever found the values."""
    started = perf_counter()
    result = minimise(likelihood, tol, max_rounds)
    loss, violation = result.proof or likelihood.evaluate(result.values)
    step = likelihood.step_function(result.values)
    report = SolverReport(
        name,
        loss,
        violation,
        tol,
        result.rounds,
        perf_counter() - started,
        n_blocks=step.n_blocks,
        notes=likelihood.notes + result.notes,
    )
    return step, report


@dataclass(frozen=True, slots=True)
class PriorChoice:
    """Held-out NLL of each strength that was tried."""

    strengths: Floats
    losses: Floats

    @property
    def results(self) -> dict[str, Floats]:
        """Both, by their names among scikit-learn's results of cross-validation."""
        return {"prior_strength": self.strengths, "negative_log_likelihood": self.losses}

    @property
    def best(self) -> float:
        """Lowest point of the parabola, in log strength, through the best and its neighbours.

        The strengths are a geometric sequence. It has two digits, as losses tell no more.
        """
        least = float(self.losses.min())
        i = int(np.argmax(self.losses <= least + EQUAL_LOSSES * max(least, 1.0)))
        if i in (0, len(self.losses) - 1):
            return float(self.strengths[i])
        before, lowest, after = self.losses[i - 1 : i + 2]
        curvature = before - 2.0 * lowest + after
        shift = 0.5 * (before - after) / curvature if curvature > 0.0 else 0.0
        ratio = self.strengths[i + 1] / self.strengths[i]
        return float(f"{self.strengths[i] * ratio**shift:.2g}")


@dataclass(frozen=True, slots=True)
class TemperaturePrior:
    """Temperature-scaled predictions of the calibration set, summed by segment.

    ``mass`` is the prior probability of the cells of each segment, by part of the rows. ``totals``
    are the row sums of p ** beta: T of the prior, to start from; 1, as in FIR, where beta is so
    large that they would span too many orders of magnitude.
    """

    beta: float
    mass: Floats
    totals: Floats

    @classmethod
    def of(
        cls, batch: SimplexBatch, rows: SegmentedRows, share: Floats, temperature: TemperatureMap
    ) -> TemperaturePrior:
        """Sum the predictions over the segments, for parts of the rows with these weights."""
        beta = temperature.inverse_temperature
        logits = to_logits(batch.scores, batch.kind, temperature.zero_logit)
        mass, totals = np.zeros((share.shape[1], rows.n_segments)), np.empty(batch.n_rows)
        # The row sums come relative to the largest cell, which no beta sends out of range.
        add_prior(logits, rows.order, beta, share, rows.index, mass, totals)
        totals = totals * rows.largest**beta if beta <= STEEPEST_START else np.ones_like(totals)
        return cls(beta, mass, totals)


def build_likelihood(
    batch: SimplexBatch, prior_strength: float | None, temperature: TemperatureMap | None = None
) -> tuple[NormalizedLikelihood, PriorChoice | None]:
    """Return NA-FIR's objective with ``prior_strength`` pseudo-observations; None: cross-validated.

    Without a prior the start is T = 1, whose first round is FIR; with one it is the prior.
    """
    if prior_strength == 0.0:
        rows = segment_rows(batch, fill_gaps=False)
        target = rows.positives(rows.weight)
        return NormalizedLikelihood(rows, rows.weight, target, rows.exposures(rows.weight)), None
    if temperature is None:
        temperature = solve_temperature(batch).map
    choice = None
    chosen = choice_rows(batch) if prior_strength is None else None
    if chosen is not None:
        some = batch.take(chosen)
        rows = segment_rows(some, fill_gaps=True)
        share = deal_segments(some, rows)
        choice = cross_validate(rows, TemperaturePrior.of(some, rows, share, temperature), share)
    rows = segment_rows(batch, fill_gaps=True)
    is_dealt = prior_strength is None and choice is None
    share = deal_segments(batch, rows) if is_dealt else np.ascontiguousarray(rows.weight[:, None])
    prior = TemperaturePrior.of(batch, rows, share, temperature)
    if prior_strength is None:
        choice = choice or cross_validate(rows, prior, share)
        prior_strength = choice.best
    weight, target = add_pseudo_observations(rows, prior, rows.weight, prior_strength)
    note = f"prior of {prior_strength:g} pseudo-observations, 1/T = {prior.beta:.4g}"
    if choice is not None:
        note += f", the strength by {N_FOLDS}-fold cross-validation"
    exposures = rows.exposures(weight / prior.totals)
    likelihood = NormalizedLikelihood(
        rows, weight, target, exposures, prior_strength, prior.beta, (note,)
    )
    return likelihood, choice


def deal_segments(batch: SimplexBatch, rows: SegmentedRows) -> Floats:
    """Weight of each row in each fold.

    Rows that differ in the order of their cells at most have no order here: each has its part of
    what they have together in a fold, so that no sum depends on which of them came first.
    """
    share, group = deal_shares(batch, N_FOLDS)
    if batch.group is not None:  # each row is in the fold of its group
        return np.ascontiguousarray(share[rows.order])
    if np.count_nonzero(share) == 1:  # one row, which cannot be held out
        share[:] = batch.weight[:, None] / N_FOLDS
    order = np.lexsort((*share.T, group))
    starts = np.flatnonzero(np.append(True, np.diff(group[order]) != 0))
    together = np.add.reduceat(share[order], starts)
    together /= together.sum(axis=1, keepdims=True)
    shares: Floats = (batch.weight[:, None] * together[group])[rows.order]
    return shares


def add_pseudo_observations(
    rows: SegmentedRows,
    prior: TemperaturePrior,
    weight: Floats,
    strength: float,
    without: int | None = None,
) -> tuple[Floats, Floats]:
    """Weights and targets with ``strength`` pseudo-observations, spread like the weight of rows."""
    parts = prior.mass if without is None else np.delete(prior.mass, without, axis=0)
    mass = np.sum(parts, axis=0)
    ratio = strength / float(np.sum(weight))
    return weight * (1.0 + ratio), rows.positives(weight) + ratio * mass


def cross_validate(rows: SegmentedRows, prior: TemperaturePrior, share: Floats) -> PriorChoice:
    """Held-out NLL of each strength; folds share segments, and each strength starts the next.

    It includes the price of leaving temperature scaling: on few rows, or without an error among
    them, a held-out fold knows too little of what could go wrong.
    """
    losses, distances = np.zeros((2, len(STRENGTHS)))
    total = float(np.sum(rows.weight))

    def judge(fold: int) -> tuple[Floats, Floats]:
        gains, gaps = np.empty((2, len(STRENGTHS)))
        held_out = share[:, fold]
        weight = np.maximum(rows.weight - held_out, 0.0)
        exposures = None
        for i in reversed(range(len(STRENGTHS))):
            w, target = add_pseudo_observations(rows, prior, weight, STRENGTHS[i], fold)
            if exposures is None:
                exposures = rows.exposures(w / prior.totals)
            minimum = minimise(rows.index, w, target, exposures, tol=FOLD_TOLERANCE, max_rounds=10)
            exposures = minimum.exposures
            # F of the held-out rows and pseudo-rows at the fit without them.
            own = minimum.values[rows.own] / minimum.totals
            gains[i] = held_out @ np.log(np.maximum(own, SMALLEST_HELD_OUT))
            logs = np.log(np.maximum(minimum.values, SMALLEST_HELD_OUT))
            gaps[i] = held_out @ np.log(minimum.totals) - prior.mass[fold] @ logs
        return gains, gaps

    for gains, gaps in threads.each(judge, range(N_FOLDS)):
        losses -= gains
        distances += gaps
    losses += price(distances / total)
    return PriorChoice(np.array(STRENGTHS), losses / total)


@dataclass(frozen=True, slots=True)
class Minimum:
    """Where ``minimise`` stopped: g (the largest is 1), T, and the certificate of all segments.

    The exposures are a start for a problem nearby.
    """

    values: Floats
    totals: Floats
    exposures: Floats
    violation: float
    rounds: int


def minimise(
    index: NDArray[np.integer],
    weight: Floats,
    target: Floats,
    exposures: Floats,
    *,
    tol: float,
    max_rounds: int,
) -> Minimum:
    """Minimise F over non-decreasing g, from the exposures of any starting point.

    Leading segments without target get the value 0 if they have exposure, which is their limit,
    and else that of their neighbour.
    """
    total = float(np.sum(weight))
    n_segments = len(target)
    # No label lies in the leading segments: the lower their values, the better.
    dead = int(np.argmax(target > 0.0))
    violation = 1.0
    rounds = 0
    while True:
        rounds += 1
        first, tops, bottoms = pool_adjacent_violators(target[dead:], exposures[dead:])
        block_of = block_of_segment(first + dead, n_segments)
        counts = count_cells(index, block_of, len(first))
        theta = np.log(tops / bottoms)  # the surrogate's maximum: the mean of b / a in each block
        if theta[-1] - theta[0] > DEPTH:  # isotonic regression within bounds, the highest value 1
            theta = np.clip(theta, -DEPTH, 0.0)
        pooled = _Pooled(counts, weight, tops, theta, total)
        # Blocks are not final yet: more digits than the last certificate deserves are lost work.
        group = pooled.descend(max(0.05 * tol, min(1e-4, 0.03 * violation)))
        values = np.empty(n_segments)
        values[dead:] = pooled.values[group[block_of[dead:]]]
        values[:dead] = np.where(exposures[:dead] > 0.0, 0.0, values[dead])
        exposures = sum_cells(index, weight / pooled.totals, n_segments)
        violation = certificate(values, exposures, target, total)
        if violation <= tol or rounds >= max_rounds:
            return Minimum(values, pooled.totals, exposures, violation, rounds)


class _Pooled:
    """The problem on given blocks, and a point of it that Newton's method improves."""

    def __init__(
        self, counts: RowCounts, weight: Floats, target: Floats, theta: Floats, total: float
    ) -> None:
        self.counts, self.weight, self.target, self.total = counts, weight, target, total
        self.theta = theta
        self.values, self.totals, self.loss, _ = self._at(theta)

    def _at(self, theta: Floats) -> tuple[Floats, Floats, float, float]:
        """Values, totals, loss, and how much of the loss is rounding."""
        # The scale of g is free, so the highest value is 1; floats hold what is DEPTH below it.
        relative = np.maximum(theta - theta[-1], -DEPTH)
        values = np.exp(relative)
        totals = self.counts.totals(values)
        rows = float(self.weight @ np.log(totals))
        labels = float(self.target @ relative)
        return values, totals, rows - labels, 1e-14 * (abs(rows) + abs(labels))

    def descend(self, tol: float) -> Wholes:
        """Newton steps until the blocks are optimal to ``tol``; returns the group of each block.

        Blocks that would cross are merged into groups.
        """
        group = np.arange(len(self.target))
        for _ in range(NEWTON_STEPS):
            if len(self.target) == 1:
                break
            residual, diagonal, ridge, shares = self._gradient()
            # Those of the certificate but for their sign, as all residuals add up to 0.
            violation = np.max(np.abs(np.cumsum(residual))) / self.total
            if violation <= tol:
                break
            step = self._newton_step(residual, diagonal, ridge, shares, violation)
            merged = self._move(_bounded(step, residual), diagonal)
            if merged is None:
                break
            group = merged[group]
        return group

    def _gradient(self) -> tuple[Floats, ...]:
        """Gradient in log g, diagonal of the Hessian, ridge to add to it, shares of blocks."""
        gradient, diagonal, shares = self.counts.derivatives(self.weight, self.values, self.totals)
        ridge = RIDGE * gradient + 1e-300  # never zero, for blocks that no row uses
        residual = gradient - self.target
        frozen = (self.theta - self.theta[-1] < 1e-10 - DEPTH) & (residual > 0.0)
        if frozen.any():
            frozen[-1] = True  # what is lowest and what is highest are bound to each other
            ridge[frozen], residual[frozen] = FROZEN_CURVATURE * self.total, 0.0
        return residual, diagonal + ridge, ridge, shares

    def _newton_step(
        self, residual: Floats, diagonal: Floats, ridge: Floats, shares: Floats, violation: float
    ) -> Floats:
        """Solve with the Hessian: factored where it is small and rows have few blocks."""
        counts, n = self.counts, len(residual)
        step: Floats
        if n <= MOST_FACTORED and len(shares) <= MOST_ENTRIES * len(self.weight):
            hessian = np.zeros((n, n))
            add_hessian(counts.pointers, counts.blocks, shares, self.weight, hessian)
            scale = 1.0 / np.sqrt(diagonal / self.total)  # twice the weights: the same bits
            hessian.flat[:: n + 1] += ridge
            hessian *= (scale / self.total)[:, None] * scale
            factor, failed = dpotrf(hessian, lower=1, overwrite_a=1)
            if not failed:
                step = -scale * dpotrs(factor, scale * residual / self.total, lower=1)[0]
                return step

        def product(direction: Floats) -> Floats:
            out = ridge * direction
            about = counts.pointers, counts.blocks, shares, self.weight
            add_hessian_product(*about, direction, out)
            return out

        # Far from the optimum the model is wrong anyway: an inexact step is as good there.
        accuracy = min(1e-2, max(1e-5, 100.0 * violation))
        step, _ = conjugate_gradients(
            product,
            lambda rest: rest / diagonal,
            -residual,
            lambda size: accuracy**2 * size,
            MAX_PRODUCTS,
        )
        return step

    def _move(self, step: Floats, diagonal: Floats) -> Wholes | None:
        """Backtrack until the loss falls; returns the group of each block, None if it never does.

        The trial point is made non-decreasing by isotonic regression, weighted by the diagonal of
        the Hessian.
        """
        n = len(step)
        length = 1.0
        while length > 1e-6:  # Newton's step may leave the cone, or be too long where F is flat
            trial = self.theta + length * step
            trial = np.maximum(trial, trial[-1] - DEPTH)
            base = trial.min() - 1.0  # PAVA's sums are positive, and log g is not
            first, tops, bottoms = pool_adjacent_violators(diagonal * (trial - base), diagonal)
            group = block_of_segment(first, n)
            if len(first) < n:
                trial = (tops / bottoms + base)[group]
            # What falls by a last bit may pass the comparison of products, which round.
            trial = np.maximum.accumulate(trial)
            values, totals, loss, rounding = self._at(trial)
            if loss <= self.loss + rounding:
                self.theta, self.values = trial[first], values[first]
                self.totals, self.loss = totals, loss
                if len(first) < n:
                    self.target = np.add.reduceat(self.target, first)
                    self.counts = self.counts.merge(group)
                return group.astype(np.intp)
            length *= 0.5
        return None


def _bounded(step: Floats, residual: Floats) -> Floats:
    """Bound how far neighbours move apart: pair by pair, or all alike if that goes uphill."""
    apart = np.diff(step)
    longest = float(np.max(np.abs(apart)))
    if longest <= LONGEST_STEP:
        return step
    clipped = np.clip(apart, -LONGEST_STEP, LONGEST_STEP)
    bounded = np.append(-np.cumsum(clipped[::-1])[::-1], 0.0)
    if residual @ bounded < 0.0:
        return bounded
    return step * (LONGEST_STEP / longest)


def solve_by_levels(likelihood: NormalizedLikelihood, tol: float, max_rounds: int) -> Found:
    """Solve each level by itself, from FIR, then scale each to hide those below it.

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
    epsilon = 1e-3 * tol
    notes: tuple[str, ...] = ()
    if likelihood.target[0] == 0.0:
        values[0] = 0.0
        notes += ("no label lies in the lowest block: its value is 0, the limit",)
    n_cut = scale_levels(likelihood.rows.index, row_start, first, epsilon, values)
    n_levels = len(first) - 1 - (values[0] == 0.0)
    if n_levels > 1:
        words = f"{n_levels} levels of blocks are infinitely far apart at the optimum (rows that "
        words += (
            f"reach a level are always right): they are kept apart by a factor of {epsilon:.0e}"
        )
        notes += (words,)
    if n_cut:
        words = f"levels were cut off at {SMALLEST:g}: there are more than floats can distinguish"
        notes += (words,)
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


def scale_levels(
    index: NDArray[np.integer], row_start: Wholes, first: Wholes, epsilon: float, values: Floats
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
