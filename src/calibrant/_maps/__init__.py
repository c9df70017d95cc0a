"""What a fit is: one frozen class for each kind of map, checked once, when it is made."""

from calibrant._maps.base import CalibrationMap, ChainMap, GroupedMap, MaskedMap, MixtureMap, Stage
from calibrant._maps.curves import (
    AveragedHistogram,
    BetaMap,
    ClasswiseCurves,
    Curve,
    LogOddsCurve,
    PiecewiseLinear,
    Sigmoid,
    TopLabelMap,
)
from calibrant._maps.logits import (
    AffineMap,
    DirichletMap,
    PriorMap,
    SplineMap,
    StructuredMap,
    TemperatureMap,
)
from calibrant._maps.steps import (
    Histogram,
    RankedStepFunction,
    RankedSteps,
    SharedSteps,
    StepFunction,
)

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
