"""Calibrate a model that grades answers to human grades of some of them."""

from calibrant._lazy import attach

_HOMES = {"calibrate_judge": "calibrant.judge._judge"}
"""The module of every public name."""

__all__ = sorted(_HOMES)  # noqa: PLE0605  (a list)
__getattr__, __dir__ = attach(__name__, _HOMES)
