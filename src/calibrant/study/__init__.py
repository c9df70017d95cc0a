"""The experiment of the paper: methods x classifiers -> one table, and what is drawn of it.

Names are loaded when they are first used, so that worker processes start quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.study.calarena import win_rates
    from calibrant.study.make_predictions import from_estimator, from_torch
    from calibrant.study.outputs import write_outputs
    from calibrant.study.run import run_study
    from calibrant.study.table import StudyTable, read_table, write_table

_HOMES = ("calarena", "make_predictions", "outputs", "run", "table")
__all__ = [
    "StudyTable",
    "from_estimator",
    "from_torch",
    "read_table",
    "run_study",
    "win_rates",
    "write_outputs",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'calibrant.study' has no attribute {name!r}")
    modules = (import_module(f"calibrant.study.{home}") for home in _HOMES)
    globals()[name] = value = next(vars(module)[name] for module in modules if name in vars(module))
    return value


def __dir__() -> list[str]:
    return __all__
