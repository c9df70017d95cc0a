"""Vector, matrix and Dirichlet scaling: logistic regression on the logits by L-BFGS and Newton."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from calibrant._gate import to_logits
from calibrant._objectives.affine import AffineObjective, RidgePenalty
from calibrant._solvers.newton import PenalisedLoss, conjugate_gradients, minimise_newton
from calibrant._solvers.report import ScalingFit, SolverReport
from calibrant._solvers.rows import REWEIGHTINGS, divide_by_unit, merge_rows, remaining, share
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import AffineMap, TemperatureMap
    from calibrant._objectives.affine import AffineRows
    from calibrant._types import Bools, Floats

ROUGH_TOLERANCE, ROUGH_ROUNDS = 1e-3, 50
"""Gradient at which, or rounds after which, the number of pseudo-observations is adapted."""

CHEAP_WORK = 1e9
"""Multiplications that Newton's steps may take in any case: about a second."""

MOST_PRODUCTS = 500
"""Products with the Hessian for one step."""

LONGEST_LAST_STEP = 0.1
"""Change of a difference of logits by the step after the last, above which there is no minimum."""

NO_MINIMUM = (
    "there is no finite minimum: the rows do not limit some slopes and intercepts; use a positive "
    "prior_strength or ridge"
)

STEEPEST_START = 64.0
"""Inverse temperature to start from at most, in units of the logits' range: beyond it every row is
certain, and nothing can be learnt from there."""


def solve_affine(
    batch: SimplexBatch,
    *,
    full: bool,
    penalty: RidgePenalty | None = None,
    prior_strength: float = 0.0,
    zero_probability: float | None = None,
    temperature: TemperatureMap | None = None,
    tol: float = 1e-6,
    max_rounds: int = 500,
) -> ScalingFit[AffineMap, AffineObjective]:
    """Find the affine map of the logits of least penalised NLL; see ``AffineObjective``.

    Starts at temperature scaling, which may be given, and is scaled by the curvature there, since
    logits of different classes differ in size by orders of magnitude. The violation is the largest
    gradient in these units. Classes without a label keep temperature scaling's parameters: the
    likelihood would send their intercepts to minus infinity.
    """
    started = perf_counter()
    # Merged before the temperature is fitted, too: where the likelihood is flat, its last bits
    # would tell a weight of 2 from two rows.
    batch = merge_rows(batch)
    total = float(batch.weight.sum())
    if temperature is None:
        temperature = solve_temperature(batch, zero_probability=zero_probability).map
    objective = _freeze(batch, temperature, penalty or RidgePenalty(), full=full)
    problem = _AffineProblem(objective.row_loss(batch, total), objective)
    start = objective.start
    if prior_strength > 0.0:
        start = _adapt(problem, prior_strength, total, tol, max_rounds)
    point, report = _minimise(problem, start, tol, max_rounds)
    objective = problem.objective
    report = replace(report, seconds=perf_counter() - started)
    return ScalingFit(objective.map(point), report, objective, point)


def _adapt(
    problem: _AffineProblem, prior_strength: float, total: float, tol: float, max_rounds: int
) -> Floats:
    """Set as many pseudo-observations as the distance from the start leaves (``rows``).

    Returns a point close to the minimum.
    """
    tol, max_rounds = max(tol, ROUGH_TOLERANCE), min(max_rounds, ROUGH_ROUNDS)
    start = point = problem.objective.start
    loss, gradient = problem.rows.value(start)
    gradient = np.where(problem.objective.free, gradient, 0.0)
    # A fit of p parameters moves by p / 2n nats if there is nothing to learn: twice that proves
    # nothing against the start. Without it, many classes with few rows would undo the prior.
    by_chance = np.count_nonzero(problem.objective.free) / total
    strength = prior_strength
    for _ in range(REWEIGHTINGS):
        problem.set_prior(share(strength, total) * gradient)
        point = _minimise(problem, point, tol, max_rounds)[0]
        # D: mean divergence of the rows at the point from those at the start.
        divergence = problem.rows.value(point)[0] - loss - float(gradient @ (point - start))
        strength = remaining(prior_strength, divergence - by_chance)
    problem.set_prior(share(strength, total) * gradient)
    return point


def _freeze(
    batch: SimplexBatch, temperature: TemperatureMap, penalty: RidgePenalty, *, full: bool
) -> AffineObjective:
    """Return the objective of a batch, in units of the curvature at temperature scaling."""
    k, zero_logit = batch.n_classes, temperature.zero_logit
    logits = to_logits(batch.scores, batch.kind, zero_logit)
    unit = divide_by_unit(logits, batch.weight)
    beta = unit * temperature.inverse_temperature
    # The likelihood would send the intercept of a class without a label to minus infinity.
    present = np.isin(np.arange(k), batch.class_index)
    slopes = np.where(present, min(beta, STEEPEST_START), beta)
    start = np.append(np.diag(slopes) if full else slopes, np.zeros(k))
    free = np.append(np.repeat(present, k if full else 1), present)
    weights = penalty.weights(k, unit, full=full)
    settings = batch.kind, k, zero_logit, unit, weights, free, start
    objective = AffineObjective(*settings, np.ones_like(start), np.zeros_like(start))
    rows = objective.row_loss(batch, float(batch.weight.sum()))
    rows.value(start)
    curvature = rows.hessian_diagonal() + 2.0 * weights
    # A direction without curvature would get an endless step: give it the scale of the others.
    scale = 1.0 / np.sqrt(np.maximum(curvature, 1e-6 * curvature.max() + 1e-300))
    return replace(objective, unit=scale)


class _AffineProblem(PenalisedLoss):
    """The penalised loss in the free parameters."""

    rows: AffineRows
    objective: AffineObjective

    def set_prior(self, gradient: Floats) -> None:
        """Set the part of the gradient that pseudo-observations have."""
        self.objective = replace(self.objective, prior_gradient=gradient)

    def value(self, x: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        value, gradient = super().value(x)
        return value, np.where(self.objective.free, gradient, 0.0)

    def newton_step(
        self, gradient: Floats, free: Bools, ridge: Floats, most: int
    ) -> tuple[Floats, int]:
        """Newton's step by conjugate gradients.

        The Hessian gets a little of its own diagonal, in proportion to the gradient: enough where
        the minimum lies at infinity, and too little to slow the last steps.
        """
        added = 2.0 * self.objective.penalty_weights
        free = free & self.objective.free
        diagonal = self.rows.hessian_diagonal() + added
        size = float(np.max(np.abs(gradient * self.objective.unit)))
        ridge = ridge + min(1e-2, 1e-2 * size) * diagonal
        ridge = ridge + 1e-12 * float(diagonal.max()) + 1e-300

        def product(direction: Floats) -> Floats:
            change = self.rows.hessian_product(direction) + (added + ridge) * direction
            return np.where(free, change, 0.0)

        scale = diagonal + ridge
        most = min(most, MOST_PRODUCTS)
        return conjugate_gradients(
            product, lambda rest: rest / scale, gradient, lambda size: 1e-8 * size, most
        )


def _minimise(
    problem: _AffineProblem, start: Floats, tol: float, max_rounds: int
) -> tuple[Floats, SolverReport]:
    """L-BFGS; the last tenth of the rounds are Newton's, for what it leaves."""
    unit, n_last = problem.objective.unit, max_rounds // 10

    def scaled(step: Floats) -> tuple[float, Floats]:
        value, gradient = problem.value(start + unit * step)
        return value, gradient * unit

    n_first = max_rounds - n_last
    result = minimize(
        scaled,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": n_first, "maxfun": 2 * n_first, "gtol": tol, "ftol": 0.0},
    )
    work = problem.rows.logits.size * (len(start) // problem.objective.n_classes - 1)
    found = minimise_newton(
        problem,
        start + unit * result.x,
        unit,
        tol=tol,
        max_rounds=n_last,
        max_products=max(max_rounds, int(CHEAP_WORK / work)),  # no longer than what came before
    )
    violation, notes = found.violation, found.notes
    # Pseudo-observations or a ridge on every parameter keep the minimum finite.
    objective = problem.objective
    is_free = not (objective.prior_gradient.any() or (objective.penalty_weights > 0.0).all())
    if is_free and violation <= tol:
        # Towards a minimum at infinity the loss falls as exp(-t) does, whose gradient and curvature
        # are equal: steps stay as long as they are while the gradient vanishes.
        _, gradient = problem.value(found.x)
        free, none = np.ones(len(found.x), dtype=bool), np.zeros_like(found.x)
        step, _ = problem.newton_step(gradient, free, none, MOST_PRODUCTS)
        if float(np.ptp(problem.rows.map_logits(step), axis=1).max()) > LONGEST_LAST_STEP:
            violation, notes = math.inf, (*notes, NO_MINIMUM)
    numbers = found.value, violation, tol, found.rounds + int(result.nit)
    return found.x, SolverReport("l-bfgs", *numbers, notes=notes)
