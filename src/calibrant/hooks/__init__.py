"""Calibration where evaluations run: Inspect, lm-eval, Hugging Face and pandas.

Names are loaded when they are first used, and need the tool that they are for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._extras import attach

if TYPE_CHECKING:
    from calibrant.hooks._frames import register_accessor
    from calibrant.hooks._hub import module_path
    from calibrant.hooks._inspect import calibration_error, confident_choice, overconfidence
    from calibrant.hooks._lm_eval import add_calibration, register_filter

_HOMES = {
    "add_calibration": "calibrant.hooks._lm_eval",
    "calibration_error": "calibrant.hooks._inspect",
    "confident_choice": "calibrant.hooks._inspect",
    "module_path": "calibrant.hooks._hub",
    "overconfidence": "calibrant.hooks._inspect",
    "register_accessor": "calibrant.hooks._frames",
    "register_filter": "calibrant.hooks._lm_eval",
}

__all__ = [
    "add_calibration",
    "calibration_error",
    "confident_choice",
    "module_path",
    "overconfidence",
    "register_accessor",
    "register_filter",
]
__getattr__, __dir__ = attach(__name__, _HOMES)
