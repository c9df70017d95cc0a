"""Diagrams: ``compute_*`` and metrics return numbers, ``draw_*`` draws them.

matplotlib is loaded when something is drawn, and not before.
"""

from calibrant.plots._diagrams import ClasswiseSummary as ClasswiseSummary  # for the report
from calibrant.plots._diagrams import (
    compute_classwise,
    compute_map,
    draw_classwise,
    draw_decisions,
    draw_map,
    draw_segments,
)
from calibrant.plots._reliability import (
    ReliabilityDisplay,
    draw_reliability,
    draw_reliability_grid,
)
from calibrant.plots._reliability import find_lower_end as find_lower_end

__all__ = [
    "ReliabilityDisplay",
    "compute_classwise",
    "compute_map",
    "draw_classwise",
    "draw_decisions",
    "draw_map",
    "draw_reliability",
    "draw_reliability_grid",
    "draw_segments",
]


def __dir__() -> list[str]:
    return __all__
