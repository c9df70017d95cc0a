"""Compare calibrators on a calibration part and a test part, and write an HTML page.

Names are loaded when they are first used: comparing needs no template engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._lazy import attach

if TYPE_CHECKING:
    from calibrant.report._comparison import compare
    from calibrant.report._page import build_report, write_report

_HOMES = {
    "build_report": "calibrant.report._page",
    "compare": "calibrant.report._comparison",
    "write_report": "calibrant.report._page",
}
"""The module of every public name."""

__all__ = ["build_report", "compare", "write_report"]
__getattr__, __dir__ = attach(__name__, _HOMES)
