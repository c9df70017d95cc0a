"""NA-FIR of more rows than memory holds: kept rows that agree with all in what was counted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from calibrant import errors
from calibrant.maps.cells import SharedSteps
from calibrant.scale.cells import CellCounts
from calibrant.scale.segments import Segments, SegmentSums
from calibrant.scale.statistics import Number, Solution, Statistics
from calibrant.scale.temperature import fit_sample, judge, standing_for
from calibrant.scale.temperature_sums import TemperatureSums, at
from calibrant.solvers.normalization_aware import solve_normalization_aware
from calibrant.solvers.normalization_aware.by_sample import Improved, minimise_by_sample
from calibrant.solvers.normalization_aware.prior import choose_strength
from calibrant.solvers.normalization_aware.rows import largest_violation, step_function
from calibrant.solvers.normalization_aware.sample import (
    LEAST_MASS,
    Reference,
    estimate_prior,
    place_sample,
)
from calibrant.solvers.pseudo_rows import AT_SCORES
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.logits import TemperatureMap
    from calibrant.scale.parts import Part
    from calibrant.solvers.normalization_aware.prior import PriorChoice
    from calibrant.solvers.normalization_aware.sample import Sample, WholeSet

    Array = NDArray[np.float64]

PROVEN = 1e-6
"""Violation over all rows at which no other pass is asked for, unless more is allowed."""

NOISE = 5e-4
"""What may be left of it after the last pass: so much of what chance alone moves, which is one over
the square root of the number of rows."""

MOST_PASSES = 8

ROUNDS = 4
"""Times that blocks are pooled anew between two passes."""

SETTLED = 1e-6
"""Relative change of the temperature of the prior below which it stays as it is."""

SLOW = 0.5
"""A step after which the violation is still this much of what it was is made half as long."""

STUCK = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """A map that was judged by all rows."""

    values: Array
    objective: float
    violation: float
    shares: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What the first pass told, and what later ones found."""

    segments: Segments
    sample: Sample
    temperature: TemperatureMap  # of the prior
    strength: float
    choice: PriorChoice | None
    note: str
    mass: Array  # of the prior, by segment
    settled: bool = False  # whether the temperature is that of all rows
    points: tuple[_Point, ...] = ()  # since it is

    @property
    def whole(self) -> WholeSet:
        """What is known of all rows."""
        return self.segments.whole

    @property
    def ratio(self) -> float:
        """Pseudo-observations for each row."""
        return self.strength / self.whole.weight

    @property
    def total(self) -> float:
        """Weight of rows and pseudo-observations."""
        return self.whole.weight + self.strength

    @property
    def target(self) -> Array:
        """Labels and pseudo-labels in each segment."""
        return self.whole.labels + self.ratio * self.mass

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say of the prior."""
        beta = self.temperature.inverse_temperature
        return (f"prior of {self.strength:g} pseudo-observations, 1/T = {beta:.4g}{self.note}",)

    def improve(self, reference: Reference) -> Improved:
        """Minimise the objective of all rows as the sample tells it, from a point of reference."""
        about = self.sample, self.whole, reference, self.target, 1.0 + self.ratio
        return minimise_by_sample(*about, ROUNDS)

    def improve_from(self, point: _Point) -> Improved:
        """Do so from a point that all rows have judged."""
        shares = np.maximum(point.shares, LEAST_MASS)  # of a segment that is left with nothing
        return self.improve(Reference(point.values, point.shares, shares / point.values))

    def judge(self, sums: SegmentSums) -> _Point:
        """Objective and certificate of all rows."""
        loss = (1.0 + self.ratio) * sums.log_totals - self.target @ np.log(sums.values)
        found = _Point(sums.values, float(loss) / self.total, 0.0, sums.shares())
        violation = largest_violation(found.values, self.residual(found)) / self.total
        return replace(found, violation=violation)

    def residual(self, found: _Point | Improved) -> Array:
        """Return the gradient of all rows by segment; 0 where none have judged it."""
        if isinstance(found, _Point):
            return (1.0 + self.ratio) * found.shares - self.target
        return np.zeros_like(self.target)


class NormalizationAwareStatistics(Statistics):
    """What NA-FIR needs to know of a calibration set: rows while they fit, then counts as well.

    Parameters
    ----------
    classes, scores, normalize, max_rows
        As of all ``Statistics``.
    prior_strength, solver, tol, max_rounds
        As of ``NormalizationAwareIsotonic``; only the exact solver is possible.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale.normalization_aware import NormalizationAwareStatistics
    >>> scores, y = simulated_scores()
    >>> first = NormalizationAwareStatistics([0, 1, 2], max_rows=100).update(scores, y)
    >>> second = first.solution().again.update(scores, y)
    >>> second.solution().fitted["solver_report_"].notes[-1]
    'all 1000 rows were read 2 times'
    """

    method = "na-fir"
    allowed: ClassVar = {
        "solver": ("exact",),
        "prior_strength": Number(high=1e12, words=("cv",)),
        "tol": Number(low=1e-15, high=1.0),
        "max_rounds": Number(low=1, whole=True, optional=True),
    }
    plan: _Plan | None = None
    """Of the passes before, where this is not the first."""

    def __init__(self, classes: Any, **options: Any) -> None:
        solver = options.get("solver", "exact")
        if solver != "exact":
            raise errors.ParameterError(
                f"solver={errors.in_words(solver)} needs all rows in memory; from chunks only "
                "solver='exact' is possible"
            )
        super().__init__(classes, **options)

    def _start(self) -> list[Part]:
        return [self._keep(), CellCounts(), TemperatureSums(self.n_classes, self.scores)]

    def empty(self) -> Self:
        """Return statistics that ask for the same and have counted nothing."""
        found = super().empty()
        found.plan = None  # is not sent anywhere
        return found

    def solution(self) -> Solution:
        """Fit to all rows counted so far."""
        is_first = self.plan is None and "kept" in self.parts
        if is_first and self._prior_strength == 0.0 and not self.kept.is_complete:
            raise errors.ParameterError(
                "prior_strength=0 needs all rows as they are, and "
                f"{self.kept.n_rows:,} of {self.n_rows:,} were kept: without pseudo-observations "
                "the optimum lies at infinity, and rows that were not kept decide how; pass "
                "prior_strength=1 or more, or statistics(classes, max_rows=...) that keep all rows"
            )
        return super().solution()

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        if self.plan is not None:
            return self._next_solution(self.plan)
        return self._solution_in_memory() if self.kept.is_complete else self._first_solution()

    @property
    def _tol(self) -> float:
        return float(self.options.get("tol", 1e-8))

    @property
    def _prior_strength(self) -> float | None:
        strength = self.options.get("prior_strength", "cv")
        return None if strength == "cv" else float(strength)

    def _solution_in_memory(self) -> Solution:
        found, report, choice = solve_normalization_aware(
            self.kept_batch(),
            prior_strength=self._prior_strength,
            tol=self._tol,
            max_rounds=self.options.get("max_rounds"),
        )
        return Solution(_fitted(found, report, self._prior_strength, choice))

    def _first_solution(self) -> Solution:
        started = perf_counter()
        scaling = fit_sample(self)
        plan = self._make_plan(scaling.map)
        found = plan.improve(plan.segments.scores)
        fitted = self._describe(plan, found, started)
        return Solution(fitted, self._ask(plan, found.values, scaling.strength))

    def _make_plan(self, temperature: TemperatureMap) -> _Plan:
        cells: Any = self.parts["cells"]
        segments = Segments.of(cells.bins())
        batch, strength, choice, note = self.kept_batch(), self._prior_strength, None, ""
        if strength is None:
            strength, choice, _ = choose_strength(batch)
            note = ", the strength by cross-validation of the rows that were kept"
        sample = place_sample(batch.probabilities(), batch.weight, segments.whole)
        mass = estimate_prior(sample, segments.whole, segments.scores, batch, temperature)
        return _Plan(segments, sample, temperature, strength, choice, note, mass)

    def _ask(self, plan: _Plan, values: Array, strength: float) -> Self:
        """Return statistics that judge a map by all rows, for another pass.

        And the temperature of the prior, drawn to T = 1 by ``strength``, until that is settled.
        """
        prior = plan.temperature
        about = self.n_classes, self.scores, plan.whole.edges, values
        if plan.settled:
            found = self.next_pass(SegmentSums(*about))
        else:
            first: Any = self.passes()[0].parts["temperature"]
            sums = SegmentSums(*about, prior.inverse_temperature, prior.zero_logit)
            found = self.next_pass(sums, at(prior, first, strength))
        found.plan = plan
        return found

    def _next_solution(self, plan: _Plan) -> Solution:
        started = perf_counter()
        sums: Any = self.parts["segments"]
        prior, strength = plan.temperature, 0.0
        if not plan.settled:
            plan = replace(plan, mass=np.maximum(sums.prior_mass(), LEAST_MASS * plan.whole.cells))
            first, *others = self.passes()
            scaled: list[Any] = [one.parts["temperature"] for one in others]
            judged = judge(first, scaled, AT_SCORES)
            prior, strength = judged.better, judged.strength
            plan = replace(plan, settled=_are_near(prior, plan.temperature))
        point = plan.judge(sums)
        plan = replace(plan, points=(*plan.points, point))
        n_passes = len(self.passes())
        is_proven = plan.settled and point.violation <= max(self._tol, PROVEN)
        if is_proven or n_passes >= MOST_PASSES or _is_stuck(plan.points):
            best = min(plan.points, key=lambda one: one.violation)
            again = None
        else:
            best, values = point, _next_values(plan)
            ahead = plan if plan.settled else replace(plan, temperature=prior, points=())
            again = self._ask(ahead, values, strength)
        return Solution(self._describe(plan, best, started), again)

    @property
    def _tolerance(self) -> float:
        return max(self._tol, PROVEN, NOISE / math.sqrt(self.passes()[0].n_rows))

    def _describe(self, plan: _Plan, found: _Point | Improved, started: float) -> dict[str, Any]:
        whole, beta = plan.whole, plan.temperature.inverse_temperature
        step = step_function(whole.starts, found.values, whole.cells, plan.segments.empty, beta)
        n_passes = len(self.passes())
        seen = f"all {self.n_rows} rows were read {n_passes} times"
        report = SolverReport(
            "exact",
            found.objective if isinstance(found, _Point) else float("nan"),
            found.violation,
            self._tolerance,
            n_passes,
            perf_counter() - started,
            n_blocks=step.n_blocks,
            notes=(*plan.notes, seen if n_passes > 1 else standing_for(self)),
            binning=plan.segments.binning(plan.target, plan.residual(found), plan.total),
        )
        return _fitted(SharedSteps(step, self.scores), report, plan.strength, plan.choice)


def _fitted(
    found: SharedSteps, report: SolverReport, strength: float | None, choice: PriorChoice | None
) -> dict[str, Any]:
    return {
        "map_": found,
        "solver_report_": report,
        "prior_strength_": strength if choice is None else choice.best,
        "cv_results_": None if choice is None else choice.results,
    }


def _are_near(one: TemperatureMap, other: TemperatureMap) -> bool:
    """Whether two priors are one for all that a map of theirs can tell."""
    scale = max(abs(other.inverse_temperature), 1e-300)
    is_near = abs(one.inverse_temperature - other.inverse_temperature) <= SETTLED * scale
    depth = max(abs(other.zero_logit), 1.0)
    return is_near and abs(one.zero_logit - other.zero_logit) <= SETTLED * depth


def _is_stuck(points: tuple[_Point, ...]) -> bool:
    """Whether two passes in a row bettered nothing."""
    if len(points) < 4:
        return False
    least = min(point.violation for point in points[:-2])
    return all(point.violation > STUCK * least for point in points[-2:])


def _next_values(plan: _Plan) -> Array:
    """Where to go from the last point: half-way, if the last step was too long."""
    *before, last = plan.points
    values = plan.improve_from(last).values
    if before and last.violation > SLOW * before[-1].violation:
        values = np.sqrt(values) * np.sqrt(last.values)
    return values
