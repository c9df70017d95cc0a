"""Statistics of the methods that minimise a smooth objective over all rows; see ``surrogate``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from calibrant._objectives.affine import RidgePenalty
from calibrant._solvers.affine import fit_affine
from calibrant._solvers.monotone_spline import fit_spline
from calibrant._solvers.structured import fit_structured
from calibrant._solvers.temperature import fit_temperature
from calibrant.scale._surrogate import SurrogateStatistics

if TYPE_CHECKING:
    from calibrant._maps.logits import TemperatureMap
    from calibrant.scale._surrogate import KeptSolver, Surrogate

FORMS = ("auto", "matrix", "diagonal")
"""Of structured scaling."""

MOST_CLASSES = 200
"""Of which its form "auto" is a matrix: the cost grows with the square of their number."""

PROXIMAL = 0.3
"""How strongly vector scaling of kept rows is held near the last point, in standard errors of
their curvature: a few rows of a class may have no minimum."""


class TemperatureStatistics(SurrogateStatistics):
    """Statistics of temperature scaling."""

    method = "ts"
    adaptations = 2
    starts_at_temperature = False

    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:  # noqa: ARG002
        return partial(fit_temperature, **self.options)


class VectorStatistics(SurrogateStatistics):
    """Statistics of vector scaling."""

    method = "vs"

    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:
        options = dict(self.options)
        penalty = RidgePenalty(options.pop("ridge", 0.0))
        options |= {"full": False, "penalty": penalty, "proximal": PROXIMAL}
        return partial(fit_affine, temperature=temperature, **options)


class StructuredStatistics(SurrogateStatistics):
    """Statistics of structured scaling."""

    method = "structured"
    adaptations = 3

    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:
        form, strength = (self.options.get(name) for name in ("form", "strength"))
        is_full = self.n_classes <= MOST_CLASSES if form in (None, "auto") else form == "matrix"
        options = self.options | {"strength": None if strength == "evidence" else strength}
        options.pop("form", None)
        return partial(fit_structured, full=is_full, temperature=temperature, **options)

    def _begin(self, temperature: TemperatureMap | None) -> Surrogate:
        """Let all rows judge temperature scaling first.

        A fit to kept rows that weigh as much as all has parameters of noise where a class has few
        of them, and the evidence would take that for a reason to hardly penalise any.
        """
        found = super()._begin(temperature)
        fit, start = found.fit, found.fit.objective.start
        return replace(found, fit=fit._replace(map=fit.objective.map(start), point=start))


class SplineStatistics(SurrogateStatistics):
    """Statistics of the monotone spline."""

    method = "spline"
    adaptations = 2

    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:
        strength = self.options.get("strength", "cv")
        options = self.options | {"strength": None if strength == "cv" else strength}
        return partial(fit_spline, temperature=temperature, **options)
