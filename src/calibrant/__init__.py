"""Honest probabilities for multi-class classifiers.

Names are loaded when they are first used, so that ``import calibrant`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.calibrators.auto import AutoCalibrator
    from calibrant.calibrators.classifier import CalibratedClassifier
    from calibrant.calibrators.composition import Chain, Mixture
    from calibrant.calibrators.dirichlet import DirichletCalibration
    from calibrant.calibrators.flattened import FlattenedIsotonic
    from calibrant.calibrators.monotone_spline import MonotoneSpline
    from calibrant.calibrators.normalization_aware import NormalizationAwareIsotonic
    from calibrant.calibrators.one_vs_rest import OneVsRestBeta, OneVsRestIsotonic, OneVsRestPlatt
    from calibrant.calibrators.one_vs_rest_bins import OneVsRestBBQ, OneVsRestHistogram
    from calibrant.calibrators.scaling import MatrixScaling, TemperatureScaling, VectorScaling
    from calibrant.calibrators.shared_classwise import SharedClasswise
    from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic
    from calibrant.calibrators.structured import StructuredScaling
    from calibrant.calibrators.top_label import TopLabelHistogram, TopLabelIsotonic
    from calibrant.solvers.bivariate_isotonic import bivariate_isotonic_regression
    from calibrant.solvers.normalization_aware.ways import (
        SLSQP,
        Annealing,
        Penalty,
        ProjectedGradient,
        TrustConstr,
    )

__version__ = "0.1.0"

_HOME = {
    "Annealing": "solvers.normalization_aware.ways",
    "AutoCalibrator": "calibrators.auto",
    "CalibratedClassifier": "calibrators.classifier",
    "Chain": "calibrators.composition",
    "DirichletCalibration": "calibrators.dirichlet",
    "FlattenedIsotonic": "calibrators.flattened",
    "MatrixScaling": "calibrators.scaling",
    "Mixture": "calibrators.composition",
    "MonotoneSpline": "calibrators.monotone_spline",
    "NormalizationAwareIsotonic": "calibrators.normalization_aware",
    "OneVsRestBBQ": "calibrators.one_vs_rest_bins",
    "OneVsRestBeta": "calibrators.one_vs_rest",
    "OneVsRestHistogram": "calibrators.one_vs_rest_bins",
    "OneVsRestIsotonic": "calibrators.one_vs_rest",
    "OneVsRestPlatt": "calibrators.one_vs_rest",
    "Penalty": "solvers.normalization_aware.ways",
    "ProjectedGradient": "solvers.normalization_aware.ways",
    "SLSQP": "solvers.normalization_aware.ways",
    "SharedClasswise": "calibrators.shared_classwise",
    "SortedCumulativeIsotonic": "calibrators.sorted_cumulative",
    "StructuredScaling": "calibrators.structured",
    "TemperatureScaling": "calibrators.scaling",
    "TopLabelHistogram": "calibrators.top_label",
    "TopLabelIsotonic": "calibrators.top_label",
    "TrustConstr": "solvers.normalization_aware.ways",
    "VectorScaling": "calibrators.scaling",
    "bivariate_isotonic_regression": "solvers.bivariate_isotonic",
}

__all__ = [
    "SLSQP",
    "Annealing",
    "AutoCalibrator",
    "CalibratedClassifier",
    "Chain",
    "DirichletCalibration",
    "FlattenedIsotonic",
    "MatrixScaling",
    "Mixture",
    "MonotoneSpline",
    "NormalizationAwareIsotonic",
    "OneVsRestBBQ",
    "OneVsRestBeta",
    "OneVsRestHistogram",
    "OneVsRestIsotonic",
    "OneVsRestPlatt",
    "Penalty",
    "ProjectedGradient",
    "SharedClasswise",
    "SortedCumulativeIsotonic",
    "StructuredScaling",
    "TemperatureScaling",
    "TopLabelHistogram",
    "TopLabelIsotonic",
    "TrustConstr",
    "VectorScaling",
    "__version__",
    "bivariate_isotonic_regression",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"calibrant.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'calibrant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
