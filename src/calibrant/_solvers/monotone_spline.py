"""Monotone spline: projected Newton method on the slopes, their strength by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _threads as threads
from calibrant._gate import softmax
from calibrant._objectives.spline import (
    SLOPE_BOUNDS,
    SplineObjective,
    SplineRows,
    sort_cells,
    spline_rows,
)
from calibrant._solvers.newton import NewtonMinimum, PenalisedLoss, minimise_newton
from calibrant._solvers.report import ScalingFit, SolverReport
from calibrant._solvers.rows import (
    AT_TEMPERATURE,
    REWEIGHTINGS,
    choice_rows,
    divide_by_unit,
    feature_scale,
    merge_rows,
    remaining,
    share,
)
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import SplineMap, TemperatureMap
    from calibrant._types import Bools, Floats

STRENGTH = 8.0
"""Default strength in rows, good on most real classifiers; 1 to 16 give nearly the same loss."""

STRENGTHS = (8.0**8, 512.0, 64.0, STRENGTH, 1.0, 0.125)
"""What cross-validation chooses from; the first is a straight line to a few digits."""

LARGEST_STRENGTH = 1e9
"""A larger one would leave no digits for the likelihood."""

ROUGH_VIOLATION, ROUGH_ROUNDS = 1e-4, 30
"""Violation at which the number of pseudo-observations is adapted, and that of the folds."""

N_FOLDS = 5
DEEPEST_BIN, BIN_WIDTH = -60.0, 0.01
"""Bins of the temperature-scaled log-probabilities, in which knots are placed."""

LARGEST_SCALE = 1e8
"""Logarithms of rows that differ by less than its inverse are equal but for rounding."""


def solve_monotone_spline(
    batch: SimplexBatch,
    *,
    n_knots: int = 12,
    strength: float | None = None,
    prior_strength: float = AT_TEMPERATURE,
    tol: float = 1e-8,
    max_rounds: int = 100,
    zero_probability: float | None = None,
    temperature: TemperatureMap | None = None,
) -> ScalingFit[SplineMap, SplineObjective]:
    """Find the slopes of least penalised NLL; see ``SplineObjective``.

    Without ``strength``, cross-validation chooses it. The ``temperature`` that it starts from may
    be known. The violation is the largest projected gradient, each in units of the square root of
    its curvature.
    """
    started = perf_counter()
    batch = merge_rows(sort_cells(batch))
    total = float(batch.weight.sum())
    notes: tuple[str, ...] = ()
    if temperature is None:
        temperature = solve_temperature(batch, zero_probability=zero_probability).map
    objective, rows = _freeze(batch, temperature, n_knots)
    if strength is None:
        strength = choose_spline_strength(rows, batch)
        notes = (f"strength {strength:g} by cross-validation",)
    objective = replace(objective, rate=min(strength, LARGEST_STRENGTH) / total)
    problem = _SplineProblem(rows, objective)
    start = _adapt(problem, total, prior_strength)
    result = problem.minimise(start, tol, max_rounds)
    numbers = result.value, result.violation, tol, result.rounds, perf_counter() - started
    report = SolverReport("projected-newton", *numbers, notes=notes + result.notes)
    return ScalingFit(problem.objective.map(result.x), report, problem.objective, result.x)


def _freeze(
    batch: SimplexBatch, temperature: TemperatureMap, n_knots: int
) -> tuple[SplineObjective, SplineRows]:
    """Return the objective of a sorted batch, as yet without penalties, and its rows."""
    logs = spline_rows(batch, temperature.zero_logit)
    unit = divide_by_unit(logs, batch.weight)
    beta = unit * temperature.inverse_temperature
    weights = batch.weight / batch.weight.sum()
    scale = min(feature_scale(logs, weights, beta), LARGEST_SCALE * unit)
    logs *= scale
    knots = place_knots(logs, weights, n_knots)
    start, none = float(np.clip(beta / scale, *SLOPE_BOUNDS)), np.zeros(len(knots) + 1)
    features = temperature.zero_logit, scale / unit, knots
    objective = SplineObjective(batch.kind, *features, start, 0.0, none, none)
    return objective, SplineRows(logs, batch.class_index, weights, knots)


def place_knots(values: Floats, weights: Floats, n_knots: int) -> Floats:
    """Quantiles of the scaled log-probabilities of all cells, weighted by their information.

    A cell of probability q tells about theta in proportion to q (1 - q). In cross-validation on
    real classifiers this was better than quantiles of the labels' log-probabilities, most of
    which lie where every prediction is right.
    """
    # Log-probabilities are up to 0; those of nearly uniform rows, times a large scale, far below.
    high = min(float(values.max()) - 0.5 * DEEPEST_BIN, 0.0)
    low = max(float(values.min()), high + DEEPEST_BIN)
    n_bins, q = max(1, int(np.ceil((high - low) / BIN_WIDTH))), softmax(values)
    q *= weights[:, None] * (1.0 - q)
    place = np.clip((values - low) / BIN_WIDTH, 0, n_bins - 1).astype(np.int32)
    cumulative = np.cumsum(np.bincount(place.ravel(), q.ravel(), minlength=n_bins))
    if not cumulative[-1] > 0.0:
        return np.array([-1.0])
    goals = np.arange(1, n_knots + 1) / (n_knots + 1) * cumulative[-1]
    return low + BIN_WIDTH * (1 + np.unique(np.searchsorted(cumulative, goals * (1.0 - 1e-9))))


class _SplineProblem(PenalisedLoss):
    """The penalised loss in the slopes."""

    rows: SplineRows
    objective: SplineObjective
    _penalty_hessian: Floats

    def newton_step(
        self,
        gradient: Floats,
        free: Bools,
        ridge: Floats,
        most: int,  # noqa: ARG002  (there are none)
    ) -> tuple[Floats, int]:
        """Newton's step of the free slopes, by elimination."""
        hessian = self.rows.hessian + self._penalty_hessian + np.diag(ridge)
        hessian[np.diag_indices_from(hessian)] += 1e-12 * _curvature_of(hessian)
        step = np.zeros_like(gradient)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        return step, 0

    def minimise(self, x: Floats, tol: float, max_rounds: int) -> NewtonMinimum:
        """Minimise from ``x``, in units of the curvature there."""
        self.loss(x)
        self._penalty_hessian = self.objective.penalty_hessian()
        unit = 1.0 / np.sqrt(_curvature_of(self.rows.hessian + self._penalty_hessian))
        self.objective = replace(self.objective, unit=unit)
        return minimise_newton(self, x, unit, tol=tol, max_rounds=max_rounds, bounds=SLOPE_BOUNDS)


def _curvature_of(hessian: Floats) -> Floats:
    """Return the diagonal; a slope without curvature has a little of the largest."""
    diagonal = np.diag(hessian)
    curvature: Floats = np.maximum(diagonal, 1e-12 * diagonal.max() + 1e-300)
    return curvature


def _adapt(problem: _SplineProblem, weight: float, prior_strength: float) -> Floats:
    """Draw to a straight line by pseudo-observations labelled as likely as it says.

    They draw the mean features of the labels to those expected at the line, which differ from
    them by the gradient there: a term that is linear in the slopes, their share times that.
    Returns slopes close to the best.
    """
    x = straight = np.full_like(problem.objective.prior_gradient, problem.objective.start)
    loss, gradient = problem.loss(straight)
    left = prior_strength
    for _ in range(REWEIGHTINGS if prior_strength > 0.0 else 0):
        prior = share(left, weight) * gradient
        problem.objective = replace(problem.objective, prior_gradient=prior)
        x = problem.minimise(x, ROUGH_VIOLATION, ROUGH_ROUNDS).x
        # The expected loss of the line's own labels, less what it is on the line.
        left = remaining(
            prior_strength, problem.loss(x)[0] - loss - float(gradient @ (x - straight))
        )
    prior = share(left, weight) * gradient
    problem.objective = replace(problem.objective, prior_gradient=prior)
    return x


def choose_spline_strength(rows: SplineRows, batch: SimplexBatch) -> float:
    """Strength of the least NLL in held-out folds, if it beats the usual one by two errors.

    The least NLL alone is a noisy choice: in cross-validation within the validation parts of real
    classifiers it was worse than one strength for all.
    """
    chosen = choice_rows(batch)
    if chosen is not None:
        rows, batch = rows.part(chosen), batch.take(chosen)
    row, folds, weight = batch.deal(N_FOLDS)
    losses = np.zeros((len(STRENGTHS), len(row)))
    none = np.zeros(len(rows.knots) + 1)
    objective = SplineObjective(batch.kind, 0.0, 1.0, rows.knots, 1.0, 0.0, none, none)

    def judge(fold: int) -> None:
        held = folds == fold
        if not held.any() or held.all():
            return
        train = rows.part(row[~held], weight[~held])
        rest = rows.part(row[held], weight[held])
        slopes, problem = none + 1.0, _SplineProblem(train, objective)
        for i, strength in enumerate(STRENGTHS):
            rate = strength / weight[~held].sum()
            problem.objective = replace(objective, rate=rate)
            slopes = problem.minimise(slopes, ROUGH_VIOLATION, ROUGH_ROUNDS).x
            rest.value(slopes)
            losses[i, held] = rest.losses

    for _ in threads.each(judge, range(N_FOLDS)):
        pass
    gain = losses[STRENGTHS.index(STRENGTH)] - losses
    n_rows = weight.sum()
    mean = gain @ weight / n_rows
    error = np.sqrt((gain - mean[:, None]) ** 2 @ weight) / n_rows
    # Two standard errors: most differences between strengths are noise, and a default is safer.
    sure = mean > 2.0 * error + 1e-9
    return STRENGTHS[int(np.argmax(np.where(sure, mean, 0.0)))] if sure.any() else STRENGTH
