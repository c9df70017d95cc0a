"""Monitor whether served probabilities are still calibrated, with few false alarms."""

from calibrant._lazy import attach

_HOMES = {
    "CalibrationMonitor": "calibrant.monitor._monitor",
    "write_page": "calibrant.monitor._page",
}
"""The module of every public name."""

__all__ = sorted(_HOMES)  # noqa: PLE0605  (a list)
__getattr__, __dir__ = attach(__name__, _HOMES)
