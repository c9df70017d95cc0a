"""Pictures: ``compute_*`` returns numbers, ``draw_*`` draws them.

Names are loaded when they are first used; matplotlib only when something is drawn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.plots.classwise import (
        ClasswiseSummary,
        compute_class_curves,
        compute_classwise,
        draw_classwise,
    )
    from calibrant.plots.confidence import (
        ConfidenceHistogram,
        compute_confidence_histogram,
        draw_confidence_histogram,
    )
    from calibrant.plots.display import ReliabilityDisplay
    from calibrant.plots.effect import Effect, compute_effect, draw_effect
    from calibrant.plots.maps import CalibrationMap, compute_map, draw_map
    from calibrant.plots.reliability import (
        compute_reliability_grid,
        draw_reliability,
        draw_reliability_grid,
    )
    from calibrant.plots.top_r import TopRCurve, compute_top_r, draw_top_r

_HOME = {
    "CalibrationMap": "maps",
    "ClasswiseSummary": "classwise",
    "ConfidenceHistogram": "confidence",
    "Effect": "effect",
    "ReliabilityDisplay": "display",
    "TopRCurve": "top_r",
    "compute_class_curves": "classwise",
    "compute_classwise": "classwise",
    "compute_confidence_histogram": "confidence",
    "compute_effect": "effect",
    "compute_map": "maps",
    "compute_reliability_grid": "reliability",
    "compute_top_r": "top_r",
    "draw_classwise": "classwise",
    "draw_confidence_histogram": "confidence",
    "draw_effect": "effect",
    "draw_map": "maps",
    "draw_reliability": "reliability",
    "draw_reliability_grid": "reliability",
    "draw_top_r": "top_r",
}

__all__ = [
    "CalibrationMap",
    "ClasswiseSummary",
    "ConfidenceHistogram",
    "Effect",
    "ReliabilityDisplay",
    "TopRCurve",
    "compute_class_curves",
    "compute_classwise",
    "compute_confidence_histogram",
    "compute_effect",
    "compute_map",
    "compute_reliability_grid",
    "compute_top_r",
    "draw_classwise",
    "draw_confidence_histogram",
    "draw_effect",
    "draw_map",
    "draw_reliability",
    "draw_reliability_grid",
    "draw_top_r",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"calibrant.plots.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'calibrant.plots' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
