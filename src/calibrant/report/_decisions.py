"""What decisions cost before and after calibration, and how large sets of classes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant._result import Estimate, doc, result
from calibrant._text import money, percent
from calibrant.decisions import SetSizes, expected_cost, set_sizes, value_of_calibration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant.decisions import CalibrationValue, ExpectedCost


@result()
class Decisions:
    """What decisions cost and how large sets are, before calibration and after."""

    method: str = doc("The method after; that of the verdict.")
    value: CalibrationValue | None = doc("What it saves in 1,000 decisions; None without costs.")
    costs: dict[str, ExpectedCost] = doc("By method; empty without costs.")
    sets: dict[str, SetSizes] = doc("By method; empty without a coverage.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers by name."""
        found: dict[str, Any] = {"method": self.method}
        found["value"] = None if self.value is None else self.value.to_dict()
        for name in ("costs", "sets"):
            found[name] = {method: own.to_dict() for method, own in getattr(self, name).items()}
        return found

    def describe(self) -> list[str]:
        """Say in words what is saved, and how often sets hold the label."""
        lines = []
        if self.value is not None:
            saved = self.value.total
            chance = ", which may be chance" if saved.low <= 0.0 <= saved.high else ""
            words = f"saves {money(saved)}"
            if saved.value < 0.0:
                words = f"loses {money(Estimate(-saved.value, -saved.high, -saved.low))}"
            lines.append(
                f"{self.method} {words} in {self.value.n_decisions:,.0f} decisions{chance}; it "
                f"decides otherwise for {percent(self.value.changed)} of the rows."
            )
            first, *_, last = [money(own.realised) for own in self.costs.values()] * 2
            lines.append(f"A decision costs {first} before calibration and {last} after.")
        return [*lines, *(f"{method}: {own}" for method, own in self.sets.items())]


def judge_decisions(
    judged: Mapping[str, Predictions],
    costs: ArrayLike | None,
    coverage: float | None,
    confidence_level: float,
) -> Decisions:
    """Measure decisions on the predictions of two methods: as they came first, then calibrated."""
    methods = [*judged]
    first, last = judged[methods[0]], judged[methods[-1]]
    columns = np.arange(first.n_classes)
    value, paid, sets = None, {}, {}
    if costs is not None:
        with notices.kept():  # of the order of columns metrics have warned
            for method, own in judged.items():
                paid[method] = expected_cost(own, costs=costs, confidence_level=confidence_level)
            value = value_of_calibration(
                first.class_index,
                first.rows,
                last.rows,
                costs,
                confidence_level=confidence_level,
                sample_weight=first.weight,
                classes=columns,
            )
    if coverage is not None:
        for method, own in judged.items():
            sets[method] = set_sizes(
                own.class_index, own.rows, coverage, sample_weight=own.weight, classes=columns
            )
    return Decisions(methods[-1], value, paid, sets)
