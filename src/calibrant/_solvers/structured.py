"""Structured scaling: Newton's method by conjugate gradients, penalties adapted to the evidence."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._objectives.structured import (
    DIAGONAL,
    INTERCEPT,
    StructuredObjective,
    parameter_kinds,
    read_gaps,
)
from calibrant._solvers.newton import (
    NewtonMinimum,
    PenalisedLoss,
    conjugate_gradients,
    minimise_newton,
)
from calibrant._solvers.report import ScalingFit, SolverReport
from calibrant._solvers.rows import (
    AT_TEMPERATURE,
    REWEIGHTINGS,
    divide_by_unit,
    feature_scale,
    merge_rows,
    remaining,
    share,
)
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import StructuredMap, TemperatureMap
    from calibrant._objectives.structured import StructuredRows
    from calibrant._types import Bools, Floats, Wholes

    StructuredFit = ScalingFit[StructuredMap, StructuredObjective]

PENALTIES = np.array([1.0, 1.0, 32.0, 16.0, 4.0])
"""Strength of the penalty on each kind of parameter, times half its square, in rows.

Chosen by cross-validation within the validation parts of real classifiers, where halving or
doubling any of them changes the NLL by less than half a percent on average.
"""

WEAKEST, STRONGEST = 0.25, 64.0
"""How far the evidence may move a penalty, as a factor."""

ROUGH_TOLERANCE = 1e-2
"""Violation at which the evidence is looked at."""

SINGLE_TOLERANCE = 1e-3
"""Violation that products in single precision are exact enough for."""

MOST_PRODUCTS = 200
"""Limit of conjugate gradients in one step."""

MOST_WORK, FEWEST_PRODUCTS = 1e9, 120
"""Limits of a fit: multiplications, or products with the Hessian if these allow more. On real
classifiers a fit takes at most 80 products. Weights that count rows as millions leave nothing of
the penalties, and the optimum of many classes is then so far out that thousands do not reach it."""


def refit_structured(
    batch: SimplexBatch, whole: StructuredFit, weight: float, *, tol: float, max_rounds: int
) -> tuple[StructuredMap, SolverReport]:
    """Fit a part of the rows of ``whole``, whose weight is given, with the penalties found there.

    Its temperature and reading of zeros stay, too: a few numbers, in which a row left out has
    hardly a part. It starts where that fit ended, as good as any other point: the loss is convex.
    """
    penalties = weight / float(batch.weight.sum()) * whole.objective.penalty_weights
    objective = replace(whole.objective, penalty_weights=penalties)
    return solve_structured(
        batch,
        full=objective.full,
        tol=tol,
        max_rounds=max_rounds,
        objective=objective,
        start=whole.point,
    )[:2]


def solve_structured(
    batch: SimplexBatch,
    *,
    full: bool,
    strength: float | None = None,
    prior_strength: float = AT_TEMPERATURE,
    bound: float = 0.02,
    tol: float = 1e-6,
    max_rounds: int = 100,
    zero_probability: float | None = None,
    temperature: TemperatureMap | None = None,
    objective: StructuredObjective | None = None,
    start: Floats | None = None,
    like: StructuredFit | None = None,
) -> StructuredFit:
    """Find the map of least penalised NLL; see ``StructuredObjective``.

    Without ``strength`` the penalties are adapted to the evidence. The ``temperature`` that it
    starts from may be known. The violation is the largest gradient, each in units of the square
    root of its curvature.

    An ``objective`` is that of an earlier fit, and ``start`` a point close to its minimum. Without
    one, penalties are adapted three times, or once from those of a fit ``like`` it, of the same
    rows and another bound.
    """
    started = perf_counter()
    # Merged before the temperature is fitted, too: where the likelihood is flat, its last bits
    # would tell a weight of 2 from two rows.
    batch = merge_rows(batch)
    total = float(batch.weight.sum())
    is_new = objective is None
    if objective is None:
        if temperature is None:
            temperature = solve_temperature(batch, zero_probability=zero_probability).map
        objective, rows = _freeze(batch, temperature, bound, full=full)
    else:
        rows = objective.row_loss(batch, total)
    known = None
    if like is not None and strength is None:
        # Of logarithms that spread wider, a slope does as much as a larger one did.
        known = _penalties_of(like.objective, total)
        known[DIAGONAL:INTERCEPT] *= (np.log(bound) / np.log(like.objective.bound)) ** 2
    options = _Options(total, strength, prior_strength, tol, max_rounds, known)
    problem = _StructuredProblem(rows, objective, options)
    result = problem.fit_adapted() if is_new else problem.fit(start)
    if result.x[0] < 0.0:
        # By convexity the best of alpha >= 0 is at 0, where logits do nothing.
        objective = replace(problem.objective, inverse_temperature=0.0)
        rows = objective.row_loss(batch, total)
        problem = _StructuredProblem(rows, objective, options)
        result = problem.fit_adapted() if is_new else problem.fit(result.x)
    penalties = _penalties_of(problem.objective, total)[DIAGONAL:]
    names = zip(("diagonal", "off-diagonal", "intercept"), penalties, strict=True)
    notes = "penalties in rows: " + ", ".join(f"{name} {value:.3g}" for name, value in names)
    numbers = result.value, result.violation, tol, result.rounds, perf_counter() - started
    report = SolverReport("newton-cg", *numbers, notes=(notes, *result.notes))
    return ScalingFit(problem.objective.map(result.x), report, problem.objective, result.x)


def _freeze(
    batch: SimplexBatch, temperature: TemperatureMap, bound: float, *, full: bool
) -> tuple[StructuredObjective, StructuredRows]:
    """Return the objective of a batch, as yet without penalties, and its rows."""
    gaps = read_gaps(batch, temperature.zero_logit)
    unit = divide_by_unit(gaps, batch.weight)
    weights = batch.weight / batch.weight.sum()
    scale = feature_scale(gaps, weights, unit * temperature.inverse_temperature) / unit
    gaps *= unit
    k = batch.n_classes
    none = np.zeros(2 + (k * k if full else k) + k)
    features = temperature.inverse_temperature, temperature.zero_logit, scale, bound
    objective = StructuredObjective(batch.kind, k, full, *features, none, none, none)
    return objective, objective.rows_of_gaps(gaps, batch.class_index, weights)


class _Preconditioner:
    """Hessian of alpha and gamma, which do nearly the same, and a diagonal for all others.

    A direction without curvature would get an endless step: it has at least a billionth of the
    largest.
    """

    def __init__(self, common: Floats, rest: Floats) -> None:
        least = 1e-9 * max(float(rest.max()), float(common.max())) + 1e-300
        common = common + 1e-9 * np.trace(common) * np.eye(2)
        common[np.diag_indices(2)] = np.maximum(np.diag(common), least)
        self._inverse = np.linalg.inv(common)
        self._rest = np.maximum(rest, least)
        self.unit = 1.0 / np.sqrt(np.concatenate([np.diag(common), self._rest]))

    def __call__(self, gradient: Floats) -> Floats:
        """Curvature^-1 gradient."""
        return np.concatenate([self._inverse @ gradient[:2], gradient[2:] / self._rest])


class _Options(NamedTuple):
    """Weight of all rows, strengths of penalties and of pseudo-observations, when to stop."""

    weight: float
    strength: float | None
    prior: float
    tol: float
    max_rounds: int
    penalties: Floats | None = None


class _StructuredProblem(PenalisedLoss):
    """The penalised loss, with penalties that may be adapted."""

    rows: StructuredRows
    objective: StructuredObjective
    _preconditioner: _Preconditioner
    _tol: float

    def __init__(
        self, rows: StructuredRows, objective: StructuredObjective, options: _Options
    ) -> None:
        super().__init__(rows, objective)
        self._options = options

    @cached_property
    def _kinds(self) -> Wholes:
        return parameter_kinds(self.objective.n_classes, full=self.objective.full)

    @cached_property
    def _at_start(self) -> tuple[Floats, float, Floats]:
        """Temperature scaling, its loss and its gradient."""
        start = self.objective.start
        return start, *self.loss(start)

    def newton_step(
        self,
        gradient: Floats,
        free: Bools,  # noqa: ARG002  (there are no bounds)
        ridge: Floats,
        most: int,
    ) -> tuple[Floats, int]:
        """Newton's step by conjugate gradients, the more exact the smaller the gradient is."""
        ridge = ridge + self.objective.penalty_weights

        def goal(first: float) -> float:
            return max(first * max(min(0.01, first), 1e-10), 0.1 * self._tol**2)

        def product(direction: Floats) -> Floats:
            return self.rows.hessian_product(direction) + ridge * direction

        most = min(most, MOST_PRODUCTS)
        return conjugate_gradients(product, self._preconditioner, gradient, goal, most)

    def _minimise(self, x: Floats, tol: float) -> NewtonMinimum:
        """Minimise from ``x``, in units of the curvature there."""
        self.loss(x)
        common, rest = self.rows.curvature()
        held, self._tol = self.objective.penalty_weights, tol
        self._preconditioner = _Preconditioner(common + np.diag(held[:2]), rest + held[2:])
        self.objective = replace(self.objective, unit=self._preconditioner.unit)
        size = self.rows.x.size * (self.objective.n_classes if self.objective.full else 1)
        most = max(int(MOST_WORK / size), FEWEST_PRODUCTS) // (4 if self.rows.rough else 1)
        unit, max_rounds = self.objective.unit, self._options.max_rounds
        return minimise_newton(self, x, unit, tol=tol, max_rounds=max_rounds, max_products=most)

    def fit(self, x: Floats | None) -> NewtonMinimum:
        """Fit as exactly as asked for, in single precision as far as that goes."""
        x, tol = self.objective.start if x is None else x, self._options.tol
        self.rows.rough = True
        result = self._minimise(x, max(tol, SINGLE_TOLERANCE))
        if result.violation <= tol:
            return result
        self.rows.rough = False
        return self._minimise(result.x, tol)

    def fit_adapted(self) -> NewtonMinimum:
        """Fit roughly, adapt penalties to the evidence and pseudo-observations; then exactly."""
        start, loss, gradient = self._at_start
        x, strength, prior = start, self._options.strength, self._options.prior
        begin, rounds = self._options.penalties, 1
        if begin is None:
            begin, rounds = PENALTIES * (1.0 if strength is None else strength), REWEIGHTINGS
        self._set_penalties(begin, prior)
        self.rows.rough = True
        # Each round takes the log(1 + s D) of pseudo-observations as linear where it is, which is a
        # convex problem, and the penalties from the evidence there: both hardly move after three.
        for _ in range(rounds if strength is None or prior > 0.0 else 0):
            x = self._minimise(x, max(self._options.tol, ROUGH_TOLERANCE)).x
            divergence = self.loss(x)[0] - loss - float(gradient @ (x - start))
            penalties = _penalties_of(self.objective, self._options.weight)
            if strength is None:
                known = self._options.weight * self.rows.curvature()[1]
                penalties = _evidence(known, self._kinds, x, penalties)
            self._set_penalties(penalties, remaining(prior, divergence))
        return self.fit(x)

    def _set_penalties(self, penalties: Floats, pseudo_rows: float) -> None:
        # Only the common terms are held: those of classes have penalties of their own.
        common = np.where(self._kinds < DIAGONAL, self._at_start[2], 0.0)
        weight = self._options.weight
        self.objective = replace(
            self.objective,
            penalty_weights=penalties[self._kinds] / weight,
            prior_gradient=share(pseudo_rows, weight) * common,
        )


def _penalties_of(objective: StructuredObjective, weight: float) -> Floats:
    """Return the penalties of each kind of parameter, in rows."""
    result = np.zeros(len(PENALTIES))
    kinds = parameter_kinds(objective.n_classes, full=objective.full)
    result[kinds] = weight * objective.penalty_weights
    return result


def _evidence(data: Floats, kinds: Wholes, theta: Floats, penalties: Floats) -> Floats:
    """One step of MacKay's fixed point: number of well-determined parameters / their squares.

    It finds the penalties of most evidence, in which single parameters are taken as independent;
    ``data`` is the curvature of all but the first two. To three digits: a rough fit has no more.
    """
    kinds, theta = kinds[DIAGONAL:], theta[DIAGONAL:]
    known = np.bincount(kinds, data / (data + penalties[kinds]), minlength=len(PENALTIES))
    squares = np.bincount(kinds, theta**2, minlength=len(PENALTIES))
    result = np.clip(
        known / np.maximum(squares, 1e-300), WEAKEST * PENALTIES, STRONGEST * PENALTIES
    )
    result[:DIAGONAL] = PENALTIES[:DIAGONAL]
    return np.array([float(f"{value:.3g}") for value in result])
