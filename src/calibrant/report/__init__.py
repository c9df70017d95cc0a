"""Compare calibrators on a calibration part and a test part, and write an HTML page.

Names are loaded when they are first used: comparing needs no template engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._extras import attach

if TYPE_CHECKING:
    from calibrant.report._answers import read_answers
    from calibrant.report._comparison import compare
    from calibrant.report._models import ModelAnswers, compare_models
    from calibrant.report._page import write_models, write_report
    from calibrant.report._results import Comparison

_HOMES = {
    "Comparison": "calibrant.report._results",
    "ModelAnswers": "calibrant.report._models",
    "compare": "calibrant.report._comparison",
    "compare_models": "calibrant.report._models",
    "read_answers": "calibrant.report._answers",
    "write_models": "calibrant.report._page",
    "write_report": "calibrant.report._page",
}
"""The module of every public name."""

__all__ = [
    "Comparison",
    "ModelAnswers",
    "compare",
    "compare_models",
    "read_answers",
    "write_models",
    "write_report",
]
__getattr__, __dir__ = attach(__name__, _HOMES)
