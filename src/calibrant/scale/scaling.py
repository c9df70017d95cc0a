"""Statistics of the methods that minimise a smooth objective over all rows; see ``surrogate``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from calibrant.scale.statistics import ZERO_PROBABILITY, Number
from calibrant.scale.surrogate import SurrogateStatistics
from calibrant.solvers.temperature import HELD, fit_temperature

if TYPE_CHECKING:
    from calibrant.maps.logits import TemperatureMap
    from calibrant.scale.surrogate import KeptSolver


class TemperatureStatistics(SurrogateStatistics):
    """Statistics of temperature scaling."""

    method = "ts"
    starts_at_temperature = False
    allowed: ClassVar = {
        "tol": Number(),
        "prior_strength": Number(high=HELD),
        "zero_probability": ZERO_PROBABILITY,
    }

    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:  # noqa: ARG002
        return partial(fit_temperature, **self.options)
