"""Honest probabilities for multi-class classifiers.

Names are loaded when they are first used, so that ``import calibrant`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors; what is there when it runs is what is found below
    from calibrant._calibrators.around import *  # noqa: F403
    from calibrant._calibrators.auto import *  # noqa: F403
    from calibrant._calibrators.classifier import *  # noqa: F403
    from calibrant._calibrators.composition import *  # noqa: F403
    from calibrant._calibrators.features import *  # noqa: F403
    from calibrant._calibrators.grouped import *  # noqa: F403
    from calibrant._calibrators.isotonic import *  # noqa: F403
    from calibrant._calibrators.one_vs_rest import *  # noqa: F403
    from calibrant._calibrators.prior_shift import *  # noqa: F403
    from calibrant._calibrators.scaling import *  # noqa: F403
    from calibrant._solvers.bivariate_isotonic import *  # noqa: F403

__version__ = "1.0.0"

_ELSEWHERE = {
    "CalibratedClassifier": "calibrant._calibrators.classifier",
    "bivariate_isotonic_regression": "calibrant._solvers.bivariate_isotonic",
}
"""The module of every public name that is no method."""

_ROOMS = (
    *("datasets", "decisions", "errors", "export", "judge", "metrics", "model_file"),
    *("monitor", "plots", "report", "scale", "study"),
)
"""Public modules, each with names of its own."""


def _methods() -> dict[str, type]:
    from calibrant._calibrators.methods import saved_methods

    return {cls.__name__: cls for cls in saved_methods().values()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_methods(), *_ELSEWHERE, "__version__"])
    if name in _ROOMS:
        return importlib.import_module(f"calibrant.{name}")
    if name in _ELSEWHERE:
        value = getattr(importlib.import_module(_ELSEWHERE[name]), name)
    elif name[:1].isupper() and name in (result := _methods()):  # modules are lower case
        value = result[name]
    else:
        raise AttributeError(f"module 'calibrant' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_methods(), *_ELSEWHERE, *_ROOMS, "__version__"])
