"""What a fit is: one frozen class for each kind of map, checked once, when it is made."""

from calibrant._maps.base import CalibrationMap
from calibrant._maps.cells import ClasswiseCurves, RankedSteps, SharedSteps, TopLabelMap
from calibrant._maps.compositions import ChainMap, GroupedMap, MaskedMap, MixtureMap, Stage
from calibrant._maps.curves import (
    AveragedHistogram,
    BetaMap,
    Curve,
    LogOddsCurve,
    PiecewiseLinear,
    Sigmoid,
)
from calibrant._maps.logits import AffineMap, DirichletMap, SplineMap, StructuredMap, TemperatureMap
from calibrant._maps.priors import PriorMap
from calibrant._maps.steps import Histogram, RankedStepFunction, StepFunction

__all__ = [
    "AffineMap",
    "AveragedHistogram",
    "BetaMap",
    "CalibrationMap",
    "ChainMap",
    "ClasswiseCurves",
    "Curve",
    "DirichletMap",
    "GroupedMap",
    "Histogram",
    "LogOddsCurve",
    "MaskedMap",
    "MixtureMap",
    "PiecewiseLinear",
    "PriorMap",
    "RankedStepFunction",
    "RankedSteps",
    "SharedSteps",
    "Sigmoid",
    "SplineMap",
    "Stage",
    "StepFunction",
    "StructuredMap",
    "TemperatureMap",
    "TopLabelMap",
]
