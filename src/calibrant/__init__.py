"""Honest probabilities for multi-class classifiers.

Names are loaded when they are first used, so that ``import calibrant`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.calibrators.classifier import CalibratedClassifier
    from calibrant.calibrators.composition import Chain, Mixture
    from calibrant.calibrators.flattened import FlattenedIsotonic
    from calibrant.calibrators.one_vs_rest import OneVsRestIsotonic
    from calibrant.calibrators.scaling import MatrixScaling, TemperatureScaling, VectorScaling

__version__ = "0.1.0"

_HOME = {
    "CalibratedClassifier": "calibrators.classifier",
    "Chain": "calibrators.composition",
    "FlattenedIsotonic": "calibrators.flattened",
    "MatrixScaling": "calibrators.scaling",
    "Mixture": "calibrators.composition",
    "OneVsRestIsotonic": "calibrators.one_vs_rest",
    "TemperatureScaling": "calibrators.scaling",
    "VectorScaling": "calibrators.scaling",
}

__all__ = [
    "CalibratedClassifier",
    "Chain",
    "FlattenedIsotonic",
    "MatrixScaling",
    "Mixture",
    "OneVsRestIsotonic",
    "TemperatureScaling",
    "VectorScaling",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"calibrant.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'calibrant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
