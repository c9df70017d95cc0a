"""Fits to all rows of which a sample was kept: the surrogate likelihood of Jordan, Lee and Yang.

A method minimises F(t) = mean_all loss(t) + penalty(t). Its solver knows the rows that were kept,

    minimise  mean_kept loss(t) + penalty(t) - <d, t>,

and a pass over all rows gives G(t), their mean gradient, at the solution t. It tells how far t is
from optimal, which is the certificate, and which linear term d the sample should have had:
D(t) = mean_kept gradient(t) - G(t). Where d = D(t), the solution is that of all rows. Solutions of
several passes are combined by Anderson's acceleration of this fixed point, which for one parameter
is the secant method.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from calibrant.scale.parts import PassPart
from calibrant.scale.statistics import Solution, Statistics
from calibrant.solvers.temperature import fit_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import CalibrationMap
    from calibrant.maps.logits import TemperatureMap
    from calibrant.objectives.base import Objective
    from calibrant.scale.parts import Part
    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.report import SolverReport

    Array = NDArray[np.float64]

PROVEN = 1e-6
"""Violation over all rows at which no other pass is asked for, unless more is allowed."""

NOISE = 5e-4
"""What may be left of it after the last pass: so much of what chance alone moves, which is one over
the square root of the number of rows."""

MOST_PASSES = 6
"""Passes at points of one objective."""

LARGEST_WEIGHT = 10.0
"""Of a point in a combination of several; beyond, rounding would tell more than the points."""

SAME = 1e-12
"""Part of the objective that two points may differ by and be as good."""


class KeptFit(Protocol):
    """What a solver finds for rows that were kept."""

    map: CalibrationMap
    report: SolverReport
    objective: Objective
    point: Array


class KeptSolver(Protocol):
    """Fits a method to rows that were kept, with its own options."""

    def __call__(
        self,
        kept: SimplexBatch,
        *,
        weight: float,
        objective: Objective | None = None,
        linear_term: Array | None = None,
        start: Array | None = None,
    ) -> KeptFit: ...


class ObjectiveSums(PassPart):
    """Sums over rows of the weighted loss of an objective, and of its gradient, at a point."""

    def __init__(self, objective: Any, point: Array, name: str = "objective") -> None:
        self.objective, self.point, self.name = objective, point, name
        self.loss, self.gradient = 0.0, np.zeros_like(point)

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        loss, gradient = self.objective.sums(batch, self.point)
        self.loss, self.gradient = self.loss + loss, self.gradient + gradient

    def merge(self, other: Self) -> None:
        """Add what another one has counted."""
        self.loss, self.gradient = self.loss + other.loss, self.gradient + other.gradient

    def empty(self) -> Self:
        """Return one that has counted nothing."""
        return type(self)(self.objective, self.point, self.name)


@dataclass(frozen=True)
class Judged:
    """A fit to kept rows with a linear term, and what all rows say of it."""

    fit: KeptFit
    used: Array  # the linear term that it was fitted with, ...
    wanted: Array  # ... and the one that makes its gradient that of all rows
    value: float  # of the objective, penalty included
    violation: float


@dataclass(frozen=True)
class Surrogate:
    """The fit of one objective to all rows, pass after pass.

    Attributes
    ----------
    solver : callable
        Fits rows that were kept, with a linear term.
    kept : SimplexBatch
        With weights of their own; only their ratios matter.
    weight : float
        Of all rows.
    tol : float
        Violation at which no further pass is asked for.
    fit : KeptFit
        What the next pass is to judge; after the last one, the fit that follows from it.
    term : ndarray
        Linear term that it was fitted with.
    damping : float
        Part of a step that is taken; halved after each that went too far.
    judged : tuple of Judged
        Fits of the passes so far.
    """

    solver: KeptSolver
    kept: SimplexBatch
    weight: float
    tol: float
    fit: KeptFit
    term: Array
    damping: float = 1.0
    judged: tuple[Judged, ...] = ()

    @classmethod
    def start(
        cls, solver: KeptSolver, kept: SimplexBatch, weight: float, tol: float = 0.0
    ) -> Surrogate:
        """Fit the rows that were kept by themselves."""
        fit = solver(kept, weight=weight)
        return cls(solver, kept, weight, max(tol, PROVEN), fit, np.zeros_like(fit.point))

    @property
    def best(self) -> Judged:
        """The best fit that all rows have judged."""
        least = min(one.value for one in self.judged)
        as_good = [one for one in self.judged if one.value <= least + SAME * (1.0 + abs(least))]
        return min(as_good, key=lambda one: one.violation)

    @property
    def is_done(self) -> bool:
        """Whether all rows have proved a fit, or no further pass is worth its time."""
        n_passes = len(self.judged)
        return n_passes > 0 and (self.best.violation <= self.tol or n_passes >= MOST_PASSES)

    def sums(self, name: str = "objective") -> ObjectiveSums:
        """Return what the next pass has to count."""
        return ObjectiveSums(self.fit.objective, self.fit.point, name)

    def judge(self, sums: ObjectiveSums) -> Surrogate:
        """Take what a pass has counted, and fit again unless that is not needed."""
        objective, point = self.fit.objective, self.fit.point
        mean = sums.gradient / self.weight
        value = sums.loss / self.weight + objective.penalty(point)[0]
        violation = objective.violation(point, mean)
        of_kept = objective.sums(self.kept, point)[1] / float(np.sum(self.kept.weight))
        if not math.isfinite(value):
            value = violation = math.inf
        new = Judged(self.fit, self.term, of_kept - mean, value, violation)
        found = replace(self, judged=(*self.judged, new))
        if found.is_done:
            return found
        if found.best is not new:
            found = replace(found, damping=0.5 * self.damping)
        term = found._combine()  # noqa: SLF001  (ours)
        fit = self.solver(
            self.kept,
            weight=self.weight,
            objective=objective,
            linear_term=term,
            start=found.best.fit.point,
        )
        return replace(found, fit=fit, term=term)

    def _combine(self) -> Array:
        """Return the linear term at which the residuals, combined linearly, are least."""
        best = self.best
        others = [one for one in self.judged if one is not best and math.isfinite(one.value)]
        residual = best.wanted - best.used
        while others:
            moved = np.column_stack([(o.wanted - o.used) - residual for o in others])
            share = np.linalg.lstsq(moved, -residual, rcond=1e-10)[0]
            if np.all(np.abs(share) <= LARGEST_WEIGHT):
                used = [o.used - best.used for o in others]
                residual = residual + moved @ share
                return best.used + np.column_stack(used) @ share + self.damping * residual
            others = others[1:]
        found: Array = best.used + self.damping * residual
        return found

    def fitted(self, n_rows: int, n_passes: int) -> dict[str, Any]:
        """Return map and report of the best fit so far."""
        stand = f"{self.kept.n_rows} rows stand for {n_rows}"
        if not self.judged:
            report = self.fit.report
            notes = *report.notes, stand
            return {"map_": self.fit.map, "solver_report_": replace(report, notes=notes)}
        best = self.best
        notes = *best.fit.report.notes, stand, f"all {n_rows} rows were read {n_passes} times"
        report = replace(
            best.fit.report,
            objective=best.value,
            violation=best.violation,
            tolerance=max(self.tol, NOISE / math.sqrt(n_rows)),
            rounds=n_passes,
            notes=notes,
        )
        return {"map_": best.fit.map, "solver_report_": report}


class SurrogateStatistics(Statistics):
    """Statistics of a method whose objective is a sum over rows: those kept, then ``Surrogate``."""

    starts_at_temperature: ClassVar[bool] = True
    """Whether the objective is made at the temperature scaling of all rows, which is found first,
    as far as one pass tells it."""

    surrogate: Surrogate | None = None
    """Of the passes before, where this is not the first; it is not sent anywhere."""

    @abstractmethod
    def _fit_all(self, batch: SimplexBatch) -> dict[str, Any]:
        """Return the fitted attributes for all rows in memory."""

    @abstractmethod
    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:
        """Return what fits rows that were kept."""

    def _start(self) -> list[Part]:
        return [self._keep()]

    def empty(self) -> Self:
        """Return statistics that ask for the same and have counted nothing."""
        found = super().empty()
        found.surrogate = None
        return found

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        first, before = self.passes()[0], self.surrogate
        if before is None and first.kept.is_complete:
            return Solution(self._fit_all(self.kept_batch()))
        kept, weight = first.kept_batch(), self.weight
        if before is None and self.starts_at_temperature:
            zero = self.options.get("zero_probability")
            scaling = Surrogate.start(partial(fit_temperature, zero_probability=zero), kept, weight)
            return Solution(
                lambda: self._begin(kept, scaling).fitted(self.n_rows, 1),
                self._ask(scaling, "temperature"),
            )
        if before is None:
            found = self._begin(kept, None)
        elif "temperature" in self.parts:
            found = self._begin(kept, before.judge(self.parts["temperature"]))
        else:
            found = before.judge(self.parts["objective"])
        again = None if found.is_done else self._ask(found, "objective")
        return Solution(found.fitted(self.n_rows, len(self.passes())), again)

    def _begin(self, kept: SimplexBatch, scaling: Surrogate | None) -> Surrogate:
        temperature: Any = None if scaling is None else scaling.fit.map
        tol = float(self.options.get("tol", 0.0))
        return Surrogate.start(self._solver(temperature), kept, self.weight, tol)

    def _ask(self, surrogate: Surrogate, name: str) -> Self:
        found = self.next_pass(surrogate.sums(name))
        found.surrogate = surrogate
        return found
