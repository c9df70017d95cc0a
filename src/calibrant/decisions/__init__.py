"""Decisions on calibrated probabilities: costs, thresholds, abstaining and sets of classes.

Names are loaded when they are first used: costs need no scikit-learn, which takes a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._extras import attach

if TYPE_CHECKING:
    from calibrant.decisions._cost_sensitive import CostSensitive
    from calibrant.decisions._cost_tables import CostTable as CostTable
    from calibrant.decisions._cost_tables import action_costs as action_costs
    from calibrant.decisions._cost_tables import read_cost_file as read_cost_file
    from calibrant.decisions._cost_tables import read_costs as read_costs
    from calibrant.decisions._costs import CalibrationValue as CalibrationValue
    from calibrant.decisions._costs import ExpectedCost as ExpectedCost
    from calibrant.decisions._costs import expected_cost, value_of_calibration
    from calibrant.decisions._curves import CostCurve as CostCurve
    from calibrant.decisions._curves import DecisionCurve as DecisionCurve
    from calibrant.decisions._curves import RiskCoverage as RiskCoverage
    from calibrant.decisions._curves import cost_curve, decision_curve, risk_coverage
    from calibrant.decisions._sets import ConformalSets
    from calibrant.decisions._thresholds import threshold_for

_HOMES = {
    "CalibrationValue": "_costs",
    "ConformalSets": "_sets",
    "CostCurve": "_curves",
    "CostSensitive": "_cost_sensitive",
    "CostTable": "_cost_tables",
    "DecisionCurve": "_curves",
    "ExpectedCost": "_costs",
    "RiskCoverage": "_curves",
    "action_costs": "_cost_tables",
    "cost_curve": "_curves",
    "decision_curve": "_curves",
    "expected_cost": "_costs",
    "read_cost_file": "_cost_tables",
    "read_costs": "_cost_tables",
    "risk_coverage": "_curves",
    "threshold_for": "_thresholds",
    "value_of_calibration": "_costs",
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
__getattr__, _ = attach(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})


def __dir__() -> list[str]:
    return __all__
