"""NA-FIR, exactly: iterated PAVA, with Newton's method on the pooled blocks in between.

Linearise the logarithm of the row totals: with T_i = sum_j C_ij g_j and a_j = sum_i w_i C_ij / T_i
the surrogate sum_j (b_j log g_j - a_j g_j) is maximised by PAVA of b / a with weights a. The first
round, with T = 1, is FIR; every round lowers the objective; a fixed point is the minimum. Rounds
alone are slow near the end, so between two of them the blocks that PAVA found are taken as given
and their values improved by Newton's method; the next PAVA, over all segments, splits them again
where the optimality conditions inside a block ask for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._kernels.normalization_aware import add_hessian, add_hessian_product
from calibrant._objectives.normalization_aware import (
    LOWEST,
    Found,
    RowCounts,
    block_of_segment,
    certificate,
    count_cells,
    is_bounded,
    sum_cells,
)
from calibrant._solvers.newton import conjugate_gradients

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._objectives.normalization_aware import NormalizedLikelihood
    from calibrant._types import Floats, Wholes

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


def solve_with_prior(likelihood: NormalizedLikelihood, tol: float, max_rounds: int) -> Found:
    """Minimise NA-FIR's objective with a prior, which keeps the minimum finite."""
    index, weight, target = likelihood.rows.index, likelihood.weight, likelihood.target
    result = minimise(index, weight, target, likelihood.exposures, tol=tol, max_rounds=max_rounds)
    proof = likelihood.objective(result.totals, result.values), result.violation
    return Found(result.values, result.rounds, (BOUNDED,) * is_bounded(result.values), proof)


def minimise(
    index: NDArray[np.generic],
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
        while length > 1e-6:
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
