"""Temperature scaling: safeguarded Newton method in 1/T, at the best reading of zeros for each.

The objective is that of ``_objectives.temperature``. For a given beta the best delta costs a pass
over sums of rows alone, and what is left is convex in beta.

Two weak priors keep the optimum finite. Pseudo-observations labelled by the scores themselves (see
``rows``) draw T to 1, which it would leave without bound on a set without errors: they are
linear in beta, so the problem stays convex. And zeros are held to have had half a label more than
they had.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._objectives.temperature import (
    LARGEST_BETA,
    TemperatureObjective,
    TemperatureRows,
    find_zeros,
    temperature_rows,
)
from calibrant._solvers.report import ScalingFit, SolverReport
from calibrant._solvers.rows import AT_SCORES, REWEIGHTINGS, remaining, share

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._types import Floats

ROUGH_SLOPE = 1e-4
"""Slope at which the number of pseudo-observations is adapted."""

HELD = 1e12
"""Pseudo-observations, the most there may be, that leave T at 1: to the last bit, as solvers and
programs that export writes may not tell a factor from 1 that differs in its last digits."""

LAST_STEP = 1e-3
"""Part of beta that Newton's next step would add, above which there is no minimum."""

NO_MINIMUM = (
    "there is no finite minimum: no row limits the inverse temperature; use a positive "
    "prior_strength"
)

ZERO_LABELS = 0.5
"""What is added to the number of labels whose score was an exact zero."""


def solve_temperature(
    batch: SimplexBatch,
    *,
    prior_strength: float = AT_SCORES,
    zero_probability: float | None = None,
    tol: float = 1e-10,
    max_rounds: int = 200,
    start: float = 1.0,
) -> ScalingFit[TemperatureMap, TemperatureObjective]:
    """Find the inverse temperature, and the reading of exact zeros, of least NLL.

    ``zero_probability`` sets the reading by hand; scores below it are read as it, too. The
    violation is the slope in beta, in units of the spread of the logits, or that in delta.
    ``start`` is a beta to begin with.
    """
    started = perf_counter()
    total = float(batch.weight.sum())
    reads_zeros, zero_logit = find_zeros(batch, zero_probability)
    rows = temperature_rows(batch, zero_logit, total, reads_zeros=reads_zeros)
    objective = TemperatureObjective(batch.kind, rows.unit, zero_logit, reads_zeros)
    problem = _Profile(rows, objective)
    first, before = _adapt(problem, prior_strength, total, start, tol, max_rounds)
    point, rounds, notes = _descend(problem, first, tol, max_rounds)
    objective, result = problem.objective, np.array([point.beta, point.delta])
    temperature = objective.map(result)
    if prior_strength >= HELD:  # rounding would leave T a last digit from 1
        temperature = replace(temperature, inverse_temperature=1.0)
    if objective.strength > 0.0:
        drawn = f"shrunk towards T = 1 by {objective.strength:.3g} pseudo-observations"
        notes = (*notes, drawn)
    if objective.reads_zeros:
        notes = (*notes, f"an exact zero is read as {math.exp(temperature.zero_logit):.3g}")
    violation = 0.0 if point.beta == 0.0 else point.violation
    if _runs_away(point, tol):
        violation, notes = math.inf, (NO_MINIMUM, *notes)
    seconds = perf_counter() - started
    report = SolverReport(
        "newton", point.loss, violation, tol, before + rounds, seconds, notes=notes
    )
    return ScalingFit(temperature, report, objective, result)


def read_zero(batch: SimplexBatch, zero_probability: float | None) -> float:
    """Log-probability that an exact zero is read as: that of the fit, if there is one to fit."""
    reads_zeros, zero_logit = find_zeros(batch, zero_probability)
    return solve_temperature(batch).map.zero_logit if reads_zeros else zero_logit


@dataclass(frozen=True, slots=True)
class _ProfilePoint:
    """Objective at the best delta of a beta, with its derivatives in beta."""

    beta: float
    delta: float
    loss: float
    slope: float
    curvature: float
    rest: float = 0.0

    @property
    def violation(self) -> float:
        """Of the optimality conditions in beta and in delta."""
        return max(abs(self.slope), self.rest)


class _Profile:
    """The objective as a function of beta alone: the best delta is found for each."""

    def __init__(self, rows: TemperatureRows, objective: TemperatureObjective) -> None:
        self.rows, self.objective = rows, objective
        self._flat = rows.moments(0.0, 0.0)

    def start_at_scores(self) -> tuple[float, Floats]:
        """Return the loss at T = 1, where zeros have no probability, and its gradient."""
        rows = self.rows
        s0, s1, _ = rows.sums_at(rows.unit)
        gradient = np.array([rows.mean(s1 / s0 - rows.own), rows.zero_labels])
        return rows.mean(np.log(s0) - rows.unit * rows.own), gradient

    def __call__(self, beta: float) -> _ProfilePoint:
        """Value, slope and curvature."""
        rows, reach = self.rows, self.objective.reach
        prior_beta, prior_delta = self.objective.prior_gradient
        delta = 0.0
        if len(rows.zeros) and beta > 0.0:
            rate = rows.zero_labels - prior_delta
            least = 1e-3 * ZERO_LABELS / (rows.total + self.objective.strength)
            delta = _best_delta(rows, beta, max(rate, least), reach)
        result = self._flat if beta == 0.0 else rows.moments(beta, delta)
        slope, by_delta = result.by_beta - prior_beta, result.by_delta - prior_delta
        curvature, rest = result.beta_beta, 0.0
        if len(rows.zeros) == 0:
            pass
        elif delta >= beta * reach and by_delta < 0.0:  # moves with beta along its bound
            slope += reach * by_delta
            curvature += reach * (2.0 * result.beta_delta + reach * result.delta_delta)
        elif delta > 0.0:
            rest = abs(by_delta)
            if result.delta_delta > 0.0:
                curvature = max(curvature - result.beta_delta**2 / result.delta_delta, 0.0)
        loss = result.loss - prior_beta * beta - prior_delta * delta
        return _ProfilePoint(beta, delta, loss, slope, curvature, rest)


def _best_delta(rows: TemperatureRows, beta: float, rate: float, reach: float) -> float:
    """Where zeros get as much probability as they had labels: Newton's method on its log."""
    s0, mass = (values[rows.zeros] for values in (rows.sums_at(beta)[0], rows.zero_mass(beta)))
    weight, high = rows.weight[rows.zeros], beta * reach

    def excess(delta: float) -> tuple[float, float]:
        part = mass * math.exp(-delta)
        zero = part / (s0 + part)
        mean = max(float(weight @ zero) / rows.total, 1e-300)
        slope = -float(weight @ (zero * (1.0 - zero))) / rows.total
        return math.log(mean) - math.log(rate), slope / mean

    low, delta, (value, slope) = 0.0, 0.0, excess(0.0)
    if high <= 0.0 or value <= 0.0:
        return 0.0
    # From here on no row gives its zeros more than their rate. Further on they may underflow.
    high = min(high, math.log(float(mass.max())) - math.log(rate))
    if excess(high)[0] >= 0.0:
        return high
    for _ in range(100):
        delta -= value / slope
        if not low < delta < high:
            delta = 0.5 * (low + high)
        value, slope = excess(delta)
        low, high = (delta, high) if value > 0.0 else (low, delta)
        if abs(value) <= 1e-13 or not low < 0.5 * (low + high) < high:
            break
    return delta


def _adapt(
    problem: _Profile,
    prior_strength: float,
    weight: float,
    beta: float,
    tol: float,
    max_rounds: int,
) -> tuple[float, int]:
    """Set as many pseudo-observations as the distance from the scores leaves.

    Labelled as the scores say, they add their share of the gradient at T = 1 to the linear term.
    Returns a beta close to the best, and the rounds that this took.
    """
    loss, gradient = problem.start_at_scores() if prior_strength > 0.0 else (0.0, np.zeros(2))
    strength, rounds = prior_strength, 0
    for last in (False,) * (REWEIGHTINGS if prior_strength > 0.0 else 0) + (True,):
        prior = share(strength, weight) * gradient
        prior[1] -= ZERO_LABELS / (strength + weight)
        pair = (*prior.tolist(),)
        problem.objective = replace(problem.objective, strength=strength, prior_gradient=pair)
        if last:
            break
        point, n, _ = _descend(problem, beta, max(tol, ROUGH_SLOPE), max_rounds)
        # D: mean of sum_j p_j log(p_j / q_j) for the scores p and the scaled rows q. Zeros
        # have no probability at T = 1, so that delta's part of the loss is left out.
        moved = point.beta - problem.rows.unit
        gap = float(prior[0] * point.beta + (prior[1] - gradient[1]) * point.delta)
        divergence = point.loss + gap - loss - float(gradient[0]) * moved
        strength = remaining(prior_strength, divergence)
        beta, rounds = point.beta or 1.0, rounds + n
    return beta, rounds


def _descend(
    problem: _Profile, start: float, tol: float, max_rounds: int
) -> tuple[_ProfilePoint, int, tuple[str, ...]]:
    """Newton's method in a bracket."""
    point = problem(0.0)
    if point.slope >= 0.0:
        return point, 1, ("the scores carry no information: inverse temperature 0",)
    point = problem(start)
    rounds = 2
    low, high = 0.0, math.inf
    while abs(point.slope) > tol and rounds < max_rounds:
        low, high = (point.beta, high) if point.slope < 0.0 else (low, point.beta)
        if low >= LARGEST_BETA:
            break
        newton = math.inf
        if point.curvature > 0.0:
            newton = point.beta - point.slope / point.curvature
        # Newton's step where it stays inside the bracket, else its middle, or four times as far.
        if high == math.inf:
            beta = min(newton if low < newton <= 4.0 * low else 4.0 * low, LARGEST_BETA)
        else:
            beta = newton if low < newton < high else 0.5 * (low + high)
        if beta in (low, high):  # two neighbouring floats: nothing is left to gain
            break
        point = problem(beta)
        rounds += 1
    return point, rounds, ()


def _runs_away(point: _ProfilePoint, tol: float) -> bool:
    """Whether beta is at its bound, or would go on growing though its slope is all but zero.

    Without an error the loss falls as exp(-beta) does, whose slope and curvature are equal.
    """
    goes_on = -point.slope > LAST_STEP * point.beta * point.curvature
    return point.beta >= LARGEST_BETA or (point.violation <= tol and goes_on)
