"""NA-FIR: the solver of a calibration set.

``prior`` draws it towards temperature scaling, ``fit`` minimises the objective exactly, and
``infinity`` does so without a prior, where the optimum is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from calibrant._maps.cells import SharedSteps
from calibrant._objectives.normalization_aware import Found, NormalizedLikelihood
from calibrant._solvers.normalization_aware.fit import solve_with_prior
from calibrant._solvers.normalization_aware.infinity import solve_by_levels
from calibrant._solvers.normalization_aware.prior import build_likelihood
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._maps.steps import StepFunction
    from calibrant._solvers.normalization_aware.prior import PriorChoice

Minimise = Callable[[NormalizedLikelihood, float, int | None], Found]
"""Minimises an objective to a tolerance, in at most ``max_rounds`` rounds if they are given."""


def minimise_exactly(
    likelihood: NormalizedLikelihood, tol: float = 1e-8, max_rounds: int | None = None
) -> Found:
    """Reach the optimum over all non-decreasing maps."""
    solve = solve_with_prior if likelihood.prior_strength > 0.0 else solve_by_levels
    return solve(likelihood, tol, max_rounds or 100)


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
