"""A fitted calibrator for other runtimes: what serves it needs no Python, or no calibrant.

Names are loaded when they are first used, each with the extra that it needs: ``import
calibrant.export`` needs none.
"""

from __future__ import annotations

from calibrant.lazy import attach

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
__getattr__, __dir__ = attach(__name__, _HOMES, _MODULES)
