"""Export fitted calibrators to ONNX, PyTorch, MLflow and skops.

Names are loaded when they are first used, each with the extra that it needs: ``import
calibrant.export`` needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant import _extras as extras
from calibrant._extras import attach

if TYPE_CHECKING:
    from calibrant.export._onnx import merge_onnx, to_onnx
    from calibrant.export._skl2onnx import register_skl2onnx
    from calibrant.export._skops import trusted_types
    from calibrant.export._torch import save_pt2, to_torch

_HOMES: dict[str, str] = {
    "merge_onnx": "calibrant.export._onnx",
    "register_skl2onnx": "calibrant.export._skl2onnx",
    "save_pt2": "calibrant.export._torch",
    "to_onnx": "calibrant.export._onnx",
    "to_torch": "calibrant.export._torch",
    "trusted_types": "calibrant.export._skops",
}
"""The module of every public name."""

__all__ = ["merge_onnx", "register_skl2onnx", "save_pt2", "to_onnx", "to_torch", "trusted_types"]
_load, _ = attach(__name__, _HOMES, ("mlflow",))


def __getattr__(name: str) -> object:
    try:
        return _load(name)
    except ImportError as error:
        if name not in _HOMES:  # mlflow asks for its extra itself, and is not among ``__all__``
            raise
        extra = _HOMES[name].rpartition("._")[2]  # a module is named as the extra that it needs
        raise extras.needed(error, f"{__name__}.{name}", extra) from error


def __dir__() -> list[str]:
    return __all__
