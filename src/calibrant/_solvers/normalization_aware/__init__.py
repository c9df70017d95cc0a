"""NA-FIR: the solver of a calibration set.

``prior`` draws it towards temperature scaling, ``fit`` minimises the objective exactly,
``infinity`` does so without a prior, where the optimum is not finite, and ``ways`` has the paper's
own methods, which work on the blocks of PAVA.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from calibrant._maps.cells import SharedSteps
from calibrant._solvers.normalization_aware.fit import solve_with_prior
from calibrant._solvers.normalization_aware.infinity import solve_by_levels
from calibrant._solvers.normalization_aware.prior import build_likelihood
from calibrant._solvers.normalization_aware.ways import WAYS, Way
from calibrant._solvers.report import SolverReport
from calibrant.errors import ParameterError, in_words

if TYPE_CHECKING:
    from calibrant._maps.logits import TemperatureMap
    from calibrant._maps.steps import StepFunction
    from calibrant._objectives.normalization_aware import NormalizedLikelihood
    from calibrant._simplex import SimplexBatch
    from calibrant._solvers.normalization_aware.prior import PriorChoice


def solve_normalization_aware(
    batch: SimplexBatch,
    *,
    prior_strength: float | None,
    solver: Way | Literal["exact"] = "exact",
    tol: float = 1e-8,
    max_rounds: int | None = None,
    temperature: TemperatureMap | None = None,
) -> tuple[SharedSteps, SolverReport, PriorChoice | None]:
    """Fit NA-FIR with so many pseudo-observations, or as many as cross-validation chooses.

    The ``temperature`` that they are drawn from may be known.
    """
    likelihood, choice = build_likelihood(batch, prior_strength, temperature)
    step, report = minimise_likelihood(likelihood, solver, tol, max_rounds)
    return SharedSteps(step, batch.kind), report, choice


def minimise_likelihood(
    likelihood: NormalizedLikelihood,
    solver: Way | Literal["exact"] = "exact",
    tol: float = 1e-8,
    max_rounds: int | None = None,
) -> tuple[StepFunction, SolverReport]:
    """Minimise NA-FIR's objective; the certificate is of all segments, whoever found the values.

    The paper's own searches keep the blocks of PAVA, so they seldom reach the tolerance on all
    segments.
    """
    started = perf_counter()
    if isinstance(solver, str):
        solve = solve_with_prior if likelihood.prior_strength > 0.0 else solve_by_levels
        found = solve(likelihood, tol, max_rounds or 100)
    else:
        found = solver.minimise(likelihood, tol, max_rounds)
    loss, violation = found.proof or likelihood.evaluate(found.values)
    step = likelihood.step_function(found.values)
    report = SolverReport(
        solver if isinstance(solver, str) else solver.name,
        loss,
        violation,
        tol,
        found.rounds,
        perf_counter() - started,
        n_blocks=step.n_blocks,
        notes=likelihood.notes + found.notes,
    )
    return step, report


def check_solver(solver: Any) -> None:
    """Refuse what is neither "exact" nor one of the paper's ways with options that it takes."""
    if isinstance(solver, Way):
        solver.check()
    elif not (isinstance(solver, str) and solver == "exact"):
        named = WAYS.get(solver) if isinstance(solver, str) else None
        remedy = (
            f"or one of {', '.join(f'{way.__name__}()' for way in WAYS.values())}"
            if named is None
            else f"or solver={named.__name__}(), which takes its options"
        )
        raise ParameterError(f"solver={in_words(solver)} is not known; use 'exact', {remedy}")
