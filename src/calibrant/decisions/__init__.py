"""Decisions on calibrated probabilities: costs, thresholds, abstaining and sets of classes."""

from calibrant.decisions._cost_files import read_cost_file as read_cost_file
from calibrant.decisions._cost_sensitive import CostSensitive
from calibrant.decisions._cost_tables import CostTable as CostTable
from calibrant.decisions._cost_tables import action_costs as action_costs
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

# Names with "as" are for the report and the command; they are no part of the public interface.
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


def __dir__() -> list[str]:
    return __all__
