"""A fitted calibrator for other runtimes: what serves it needs no Python, or no calibrant.

Names are loaded when they are first used, each with the extra that it needs: ``import
calibrant.export`` needs none.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES: dict[str, str] = {
    "ArenaCalibrator": "calibrant.export.arena",
    "merge_onnx": "calibrant.export.onnx_merge",
    "register_skl2onnx": "calibrant.export.skl2onnx",
    "save_pt2": "calibrant.export.torch",
    "to_onnx": "calibrant.export.onnx",
    "to_torch": "calibrant.export.torch",
    "trusted_types": "calibrant.export.skops",
    "write_map": "calibrant.export.map_formulas",
}
"""The module of every public name."""

_MODULES = ("mlflow", "probmetrics")
"""Public names that are modules themselves."""

__all__ = sorted([*_HOMES, *_MODULES])  # noqa: PLE0605  (a list)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
