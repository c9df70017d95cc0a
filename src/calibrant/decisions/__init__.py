"""Decisions on calibrated probabilities: costs, thresholds, abstaining and sets of classes."""

from calibrant.decisions._cost_sensitive import CostSensitive
from calibrant.decisions._costs import expected_cost, value_of_calibration
from calibrant.decisions._curves import cost_curve, decision_curve, risk_coverage
from calibrant.decisions._sets import ConformalSets, prediction_sets
from calibrant.decisions._thresholds import threshold_for

__all__ = [
    "ConformalSets",
    "CostSensitive",
    "cost_curve",
    "decision_curve",
    "expected_cost",
    "prediction_sets",
    "risk_coverage",
    "threshold_for",
    "value_of_calibration",
]


def __dir__() -> list[str]:
    return __all__
