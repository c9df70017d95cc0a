"""Diagrams: ``compute_*`` returns numbers, ``draw_*`` draws them.

matplotlib is loaded when something is drawn, and not before.
"""

from calibrant.plots._classwise import ClasswiseSummary as ClasswiseSummary  # for the report
from calibrant.plots._classwise import compute_classwise, draw_classwise
from calibrant.plots._decisions import draw_decisions
from calibrant.plots._maps import compute_map, draw_map
from calibrant.plots._reliability import (
    ReliabilityDisplay,
    compute_reliability_grid,
    draw_reliability,
    draw_reliability_grid,
)
from calibrant.plots._reliability import find_lower_end as find_lower_end
from calibrant.plots._segments import SegmentDisplay

__all__ = [
    "ReliabilityDisplay",
    "SegmentDisplay",
    "compute_classwise",
    "compute_map",
    "compute_reliability_grid",
    "draw_classwise",
    "draw_decisions",
    "draw_map",
    "draw_reliability",
    "draw_reliability_grid",
]


def __dir__() -> list[str]:
    return __all__
