"""Every method by its short name: what the command line, the study, files and tables derive from.

A method is a class in this package with a ``method`` of its own; nothing else lists it. Those that
only the paper compares with are in ``calibrant.study``, which is imported when one of them is asked
for: they take part where they are named, so that importing it changes no result.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from calibrant import _calibrators as calibrators
from calibrant import _gate as gate
from calibrant._calibrators.base import Calibrator

STUDY = "calibrant.study"  # the room of the paper, by name: no other room imports it


@cache
def _import_all() -> None:
    for module in pkgutil.iter_modules(calibrators.__path__):
        importlib.import_module(f"{calibrators.__name__}.{module.name}")


def saved_methods(*, study: bool = False) -> dict[str, type[Calibrator]]:
    """Return the class of every method that has a name, compositions included.

    With ``study``, those of ``calibrant.study`` are among them.
    """
    _import_all()
    if study:
        importlib.import_module(STUDY)
    named = Calibrator._registered  # noqa: SLF001  (ours)
    return {
        method: cls
        for method, cls in sorted(named.items(), key=lambda item: (item[1].place, item[0]))
        if study or not cls.__module__.startswith(f"{STUDY}.")
    }


def methods(*, study: bool = False) -> dict[str, type[Calibrator]]:
    """Return the class of every method that needs no parameters, in the order of tables."""
    result = saved_methods(study=study)
    return {method: cls for method, cls in result.items() if cls.stands_alone}


def find_method(method: str) -> type[Calibrator] | None:
    """Return the class of a method by its short name, also of the study; None if there is none."""
    return saved_methods().get(method) or saved_methods(study=True).get(method)


def make_calibrator(method: str, *, has_absent: bool = False, **parameters: Any) -> Calibrator:
    """Return an unfitted calibrator by its short name, a key of ``methods(study=True)``.

    Where rows have absent options, it is one that leaves them out.
    """
    known = methods()
    if method not in tuple(known):
        known = methods(study=True)
        gate.check_option("method", method, tuple(known))
    if has_absent:
        masked: Any = saved_methods()["masked"]  # whose options not all methods have
        made: Calibrator = masked(calibrator=known[method](), **parameters)
        return made
    return known[method](**parameters)
