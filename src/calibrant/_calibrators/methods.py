"""Every method by its short name: what the command line, the study, files and tables derive from.

A method is a class in this package with a ``method`` of its own; nothing else lists it.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from calibrant import _calibrators as calibrators
from calibrant import _simplex as simplex
from calibrant._calibrators.base import Calibrator


@cache
def _import_all() -> None:
    for module in pkgutil.iter_modules(calibrators.__path__):
        importlib.import_module(f"{calibrators.__name__}.{module.name}")


def saved_methods() -> dict[str, type[Calibrator]]:
    """Return the class of every method that has a name, compositions included."""
    _import_all()
    named = Calibrator._registered  # noqa: SLF001  (ours)
    return dict(sorted(named.items(), key=lambda item: (item[1].place, item[0])))


def methods() -> dict[str, type[Calibrator]]:
    """Return the class of every method that needs no parameters, in the order of tables."""
    return {method: cls for method, cls in saved_methods().items() if cls.stands_alone}


def make_calibrator(method: str, *, has_absent: bool = False, **parameters: Any) -> Calibrator:
    """Return an unfitted calibrator by its short name, a key of ``methods()``.

    Where rows have absent options, it is one that leaves them out.
    """
    simplex.check_option("method", method, tuple(methods()))
    if has_absent:
        return saved_methods()["masked"](calibrator=methods()[method](), **parameters)
    return methods()[method](**parameters)


def methods_table() -> str:
    """Return the table of methods of docs/start/methods.md, in Markdown."""
    head = "class", "`-m`", "map", "keeps the order", "same for all classes", "good for"
    rows = [head, ("---",) * len(head)]
    for method, cls in methods().items():
        promises = ("yes" if kept else "no" for kept in (cls.keeps_order, cls.same_for_all_classes))
        name = f"`{cls.__name__}` ({cls.title})"
        rows.append((name, f"`{method}`", cls.summary, *promises, cls.good_for))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
