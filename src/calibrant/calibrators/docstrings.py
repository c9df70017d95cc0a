"""Docstrings of calibrators, completed by what those of their bases say once for all."""

from __future__ import annotations

import re
from inspect import cleandoc

SECTIONS = ("Parameters", "Attributes", "See Also", "Notes", "References", "Examples")

EXAMPLE = """\
>>> from calibrant import {name}
>>> from calibrant.datasets import simulated_scores
>>> scores, y = simulated_scores()
>>> calibrator = {name}().fit(scores, y)
>>> calibrator.predict_proba(scores[:2]).shape
(2, 3)
"""
"""Example of a method that shows none of its own."""

_HEADING = re.compile(r"^(\w[\w ]+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def inherit_docstring(cls: type, *, example: bool) -> None:
    """Complete the docstring of a class.

    Parameters and attributes that it does not describe are described as in the nearest base that
    does, and so are references. With ``example`` it gets one, unless it has its own.
    """
    head, own = _sections(vars(cls).get("__doc__") or "")
    for base in cls.__mro__[1:]:
        for name, text in _sections(base.__doc__ or "")[1].items():
            if name in ("Parameters", "Attributes"):
                known = {key for entry in _entries(own.get(name, "")) for key in _names(entry)}
                missing = [one for one in _entries(text) if not known & _names(one)]
                own[name] = "".join([own.get(name, ""), *missing])
            elif name == "References":
                own.setdefault(name, text)
    if example:
        own.setdefault("Examples", EXAMPLE.format(name=cls.__name__))
    parts = [f"{name}\n{'-' * len(name)}\n{own[name]}" for name in SECTIONS if own.get(name)]
    cls.__doc__ = "\n".join([head.rstrip() + "\n", *parts])


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into what comes before its sections, and these by name."""
    head, *rest = _HEADING.split(cleandoc(text))
    return head, {
        name: body.rstrip() + "\n" for name, body in zip(rest[::2], rest[1::2], strict=True)
    }


def _entries(section: str) -> list[str]:
    return [entry for entry in _ENTRY.split(section) if entry]


def _names(entry: str) -> set[str]:
    """Names that an entry describes, as ``a, b : float`` does."""
    return {*entry.partition("\n")[0].partition(" : ")[0].split(", ")}
