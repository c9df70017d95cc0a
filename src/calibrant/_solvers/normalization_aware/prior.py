"""How strongly NA-FIR is drawn towards temperature scaling: given, or by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _threads as threads
from calibrant._objectives.normalization_aware import NormalizedLikelihood, prior_mass, segment_rows
from calibrant._row_order import deal_shares
from calibrant._solvers.merged_rows import choice_rows
from calibrant._solvers.normalization_aware.fit import minimise
from calibrant._solvers.pseudo_rows import price
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._objectives.normalization_aware import SegmentedRows
    from calibrant._types import Floats

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
        """Sum the predictions over the segments, for parts of the rows."""
        beta = temperature.inverse_temperature
        mass, totals = prior_mass(batch, rows, share, temperature)
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
    choice, share = None, None
    chosen = choice_rows(batch) if prior_strength is None else None
    if chosen is not None:
        choice = choose_strength(batch.take(chosen), temperature)
    rows = segment_rows(batch, fill_gaps=True)
    if prior_strength is None and choice is None:
        share = deal_segments(batch, rows)
    share = np.ascontiguousarray(rows.weight[:, None]) if share is None else share
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


def choose_strength(batch: SimplexBatch, temperature: TemperatureMap) -> PriorChoice:
    """Choose how many pseudo-observations there are, by cross-validation."""
    rows = segment_rows(batch, fill_gaps=True)
    share = deal_segments(batch, rows)
    return cross_validate(rows, TemperaturePrior.of(batch, rows, share, temperature), share)


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
