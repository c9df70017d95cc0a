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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from calibrant._objectives.base import held_by_bounds
from calibrant._solvers.temperature import fit_temperature
from calibrant.scale._parts import PassPart
from calibrant.scale._statistics import Solution, Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.logits import TemperatureMap
    from calibrant._simplex import SimplexBatch
    from calibrant.scale._parts import Part

    Array = NDArray[np.float64]

PROVEN = 1e-6
"""Violation over all rows at which no other pass is asked for, if no larger one is allowed."""

NOISE = 1e-3
"""Violation that is allowed, as a fraction of the sampling error 1 / sqrt(n_rows)."""

MOST_PASSES = 8
"""Passes at points of one objective."""

LARGEST_WEIGHT = 10.0
"""Of a point in a combination of several; beyond, rounding would tell more than the points."""


ENOUGH_ROWS = 5000
"""Rows kept that tell the temperature as well as another pass: their strata are those of all."""

KeptSolver = Callable[..., Any]
"""Fits rows that were kept: ``solver(kept, weight=, objective=, linear_term=, start=)``, and where
penalties are adapted again ``adapt=True`` with the ``curvature`` of all rows, if there is one.
Returns a fit: its ``map``, ``report``, ``objective`` and ``point``."""


class ObjectiveSums(PassPart):
    """Sums over rows of the weighted loss of an objective, and of its gradient, at a point."""

    def __init__(self, objective: Any, point: Array, name: str = "objective") -> None:
        self.objective, self.point, self.name = objective, point, name
        self.loss, self.gradient = 0.0, np.zeros_like(point)
        self.curvature: Array | None = None

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        loss, gradient = self.objective.sums(batch, self.point)
        self._add(loss, gradient, self.objective.curvature_sums(batch, self.point))

    def merge(self, other: Self) -> None:
        """Add what another one has counted."""
        self._add(other.loss, other.gradient, other.curvature)

    def _add(self, loss: float, gradient: Array, curvature: Array | None) -> None:
        self.loss, self.gradient = self.loss + loss, self.gradient + gradient
        if curvature is not None:
            self.curvature = curvature if self.curvature is None else self.curvature + curvature

    def empty(self) -> Self:
        """Return one that has counted nothing."""
        return type(self)(self.objective, self.point, self.name)


class Judged(NamedTuple):
    """A fit to kept rows, and what these and all rows say of its point, penalties left aside."""

    fit: Any
    loss: float  # mean over all rows
    gradient: Array  # its gradient
    kept_gradient: Array  # that of the rows kept


@dataclass(frozen=True)
class Surrogate:
    """The fit of one objective to all rows, pass after pass."""

    solver: KeptSolver
    kept: SimplexBatch  # with weights of their own; only their ratios matter
    weight: float  # of all rows
    tol: float  # violation at which no further pass is asked for
    fit: Any  # what the next pass is to judge; after the last one, what follows from it
    adaptations: int = 0  # fits after the first in which penalties are adapted again
    damping: float = 1.0  # part of a step that is taken; halved after each that went too far
    judged: tuple[Judged, ...] = ()  # fits of the passes so far

    same: ClassVar[float] = 1e-12  # part of the objective that points differ by and are as good

    @classmethod
    def start(
        cls,
        solver: KeptSolver,
        kept: SimplexBatch,
        weight: float,
        tol: float = 0.0,
        adaptations: int = 0,
    ) -> Surrogate:
        """Fit the rows that were kept by themselves."""
        fit = solver(kept, weight=weight)
        return cls(solver, kept, weight, max(tol, PROVEN), fit, adaptations)

    def value(self, one: Judged) -> float:
        """Return the objective of all rows, with penalties as they are now."""
        found: float = one.loss + self.fit.objective.penalty(one.fit.point)[0]
        return found if math.isfinite(found) else math.inf

    def violation(self, one: Judged) -> float:
        """Return how far a fit violates the optimality conditions of all rows."""
        found: float = self.fit.objective.violation(one.fit.point, one.gradient)
        return found

    @property
    def best(self) -> Judged:
        """The best fit that all rows have judged."""
        least = min(map(self.value, self.judged))
        near = least + self.same * (1.0 + abs(least))
        return min((one for one in self.judged if self.value(one) <= near), key=self.violation)

    @property
    def is_done(self) -> bool:
        """Whether all rows have proved a fit, or no further pass is worth its time."""
        n_passes = len(self.judged)
        is_proven = n_passes > 0 and self.violation(self.best) <= self.tol
        return is_proven or n_passes >= MOST_PASSES

    def sums(self, name: str = "objective") -> ObjectiveSums:
        """Return what the next pass has to count."""
        return ObjectiveSums(self.fit.objective, self.fit.point, name)

    def judge(self, sums: ObjectiveSums) -> Surrogate:
        """Take what a pass has counted, and fit again unless that is not needed."""
        _, kept = self.fit.objective.sums(self.kept, self.fit.point)
        kept /= float(np.sum(self.kept.weight))
        new = Judged(self.fit, sums.loss / self.weight, sums.gradient / self.weight, kept)
        found = replace(self, judged=(*self.judged, new))
        if found.is_done:
            return found
        if found.best is not new:
            found = replace(found, damping=0.5 * self.damping)
        term, start = found._combine()  # noqa: SLF001  (ours)
        more: dict[str, Any] = {}
        if len(found.judged) <= self.adaptations:
            curvature = sums.curvature
            more = {"adapt": True}
            more |= {} if curvature is None else {"curvature": curvature / self.weight}
        fit = self.solver(
            self.kept,
            weight=self.weight,
            objective=self.fit.objective,
            linear_term=term,
            start=start,
            **more,
        )
        return replace(found, fit=fit)

    def _combine(self) -> tuple[Array, Array]:
        """Return a linear term for the next fit, and a point to start from.

        Of all combinations of points, whose gradients and linear terms are combined alike, it is
        the one of least gradient; the linear term is what takes that to zero.
        """
        best, terms = self.best, []
        others = [one for one in self.judged if one is not best and math.isfinite(self.value(one))]
        for one in (best, *others):
            penalty = self.fit.objective.penalty(one.fit.point)[1]
            terms.append(
                np.stack([one.gradient + penalty, one.kept_gradient + penalty, one.fit.point])
            )
        found, bounds = terms[0], self.fit.objective.bounds
        free = ~held_by_bounds(found[2], found[0], bounds)
        while len(terms) > 1:
            moved = np.stack(terms[1:]) - terms[0]
            share = np.linalg.lstsq(moved[:, 0, free].T, -terms[0][0, free], rcond=1e-6)[0]
            if np.all(np.abs(share) <= LARGEST_WEIGHT):
                found = terms[0] + np.tensordot(share, moved, 1)
                break
            del terms[1]
        gradient, kept, start = found
        return kept - self.damping * gradient, np.clip(start, *bounds)

    def fitted(self, n_rows: int, n_passes: int) -> dict[str, Any]:
        """Return map and report of the best fit so far."""
        best = self.best
        violation = self.violation(best)
        seen = f"all {n_rows} rows were read {n_passes} times"
        notes = *best.fit.report.notes, f"{self.kept.n_rows} rows stand for {n_rows}", seen
        report = replace(
            best.fit.report,
            objective=self.value(best),
            violation=violation,
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

    adaptations: ClassVar[int] = 0
    """Fits after the first in which penalties are adapted again."""

    surrogate: Surrogate | None = None
    """Of the passes before, where this is not the first; it is not sent anywhere."""

    @abstractmethod
    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:
        """Return what fits rows; ``temperature`` is that of all, where these are a sample."""

    def _start(self) -> list[Part]:
        return [self._keep()]

    def empty(self) -> Self:
        """Return statistics that ask for the same and have counted nothing."""
        found = super().empty()
        found.surrogate = None
        return found

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        before = self.surrogate
        if before is None:
            return self._first_solution()
        if "temperature" in self.parts:
            temperature: Any = before.judge(self.parts["temperature"]).fit.map
            first = self.passes()[0]
            return Solution(first.fit_kept, self._ask(self._begin(temperature), "objective"))
        judged = before.judge(self.parts["objective"])
        fitted = judged.fitted(self.n_rows, len(self.passes()))
        return Solution(fitted, None if judged.is_done else self._ask(judged, "objective"))

    def _first_solution(self) -> Solution:
        if self.kept.is_complete:
            return Solution(self.fit_kept())
        solver = partial(fit_temperature, zero_probability=self.options.get("zero_probability"))
        temperature: Any = None
        if self.starts_at_temperature:
            scaling = Surrogate.start(solver, self.kept_batch(), self.weight, adaptations=1)
            temperature = scaling.fit.map
        if temperature is not None and self.kept.n_rows < ENOUGH_ROWS:
            return Solution(self.fit_kept, self._ask(scaling, "temperature"))
        return Solution(self.fit_kept, self._ask(self._begin(temperature), "objective"))

    def fit_kept(self) -> dict[str, Any]:
        """Fit the rows that were kept, as if there were no others."""
        kept = self.kept_batch()
        fit = self._solver(None)(kept)
        n_kept = self.kept.n_rows
        notes = () if self.kept.is_complete else (f"{n_kept} rows stand for {self.n_rows}",)
        report = replace(fit.report, notes=fit.report.notes + notes)
        return {"map_": fit.map, "solver_report_": report}

    def _begin(self, temperature: TemperatureMap | None) -> Surrogate:
        kept, tol = self.passes()[0].kept_batch(), float(self.options.get("tol", 0.0))
        solver = self._solver(temperature)
        return Surrogate.start(solver, kept, self.weight, tol, self.adaptations)

    def _ask(self, surrogate: Surrogate, name: str) -> Self:
        """Return statistics of the next pass."""
        found = self.next_pass(surrogate.sums(name))
        found.surrogate = surrogate
        return found
