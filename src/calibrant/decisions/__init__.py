"""Decisions on calibrated probabilities: costs, thresholds, abstaining and sets of classes.

Names are loaded when they are first used: costs need no scikit-learn, which takes a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._extras import attach

if TYPE_CHECKING:
    from calibrant.decisions._costs import CalibrationValue as CalibrationValue
    from calibrant.decisions._costs import ExpectedCost as ExpectedCost
    from calibrant.decisions._costs import action_costs as action_costs
    from calibrant.decisions._costs import expected_cost, value_of_calibration
    from calibrant.decisions._costs import read_cost_file as read_cost_file
    from calibrant.decisions._costs import read_costs as read_costs
    from calibrant.decisions._curves import CostCurve as CostCurve
    from calibrant.decisions._curves import DecisionCurve as DecisionCurve
    from calibrant.decisions._curves import RiskCoverage as RiskCoverage
    from calibrant.decisions._curves import cost_curve, decision_curve, risk_coverage, threshold_for
    from calibrant.decisions._estimators import ConformalSets, CostSensitive

_HOMES = {
    "_costs": "expected_cost value_of_calibration action_costs read_cost_file read_costs "
    "CalibrationValue ExpectedCost",
    "_curves": "cost_curve decision_curve risk_coverage threshold_for "
    "CostCurve DecisionCurve RiskCoverage",
    "_estimators": "ConformalSets CostSensitive",
}

# The other names are for the report and the command; they are no part of the public interface.
__all__ = [
    "ConformalSets",
    "CostSensitive",
    "cost_curve",
    "decision_curve",
    "expected_cost",
    "risk_coverage",
    "threshold_for",
    "value_of_calibration",
]
__getattr__, _ = attach(
    __name__,
    {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()},
)


def __dir__() -> list[str]:
    return __all__
