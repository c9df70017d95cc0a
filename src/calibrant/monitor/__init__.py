"""Monitor whether served probabilities are still calibrated, with few false alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._extras import attach

if TYPE_CHECKING:
    from calibrant.monitor._monitor import CalibrationMonitor
    from calibrant.monitor._results import write_page

_HOMES = {
    "CalibrationMonitor": "calibrant.monitor._monitor",
    "write_page": "calibrant.monitor._results",
}
"""The module of every public name."""

__all__ = ["CalibrationMonitor", "write_page"]
__getattr__, __dir__ = attach(__name__, _HOMES)
