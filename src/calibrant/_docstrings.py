"""Docstrings of classes that share parameters: what a base documents, its subclasses inherit."""

from __future__ import annotations

import re
from inspect import cleandoc

SECTIONS = (
    *("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"),
    *("See Also", "Notes", "References", "Examples"),
)
"""In the order of numpydoc."""

_HEADING = re.compile(r"^(\w[\w ]+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def inherit_docstring(cls: type, example: str = "") -> None:
    """Add parameters, attributes and references of the bases of a class to its docstring.

    It gets the ``example``, unless it has its own.
    """
    head, own = _split(cls) if "__doc__" in vars(cls) else ("", {})
    for base in cls.__mro__[1:]:
        for name, text in _split(base)[1].items():
            if name in ("Parameters", "Attributes"):
                known = {key for entry in _entries(own.get(name, "")) for key in _names(entry)}
                missing = [one for one in _entries(text) if not known.intersection(_names(one))]
                own[name] = "".join([own.get(name, ""), *missing])
            elif name == "References":
                own.setdefault(name, text)
    cls.__doc__ = _join(head, {"Examples": example} | own)


def _split(documented: object) -> tuple[str, dict[str, str]]:
    """Return what a docstring says before its sections, and these by name."""
    head, *rest = _HEADING.split(cleandoc(documented.__doc__ or ""))
    bodies = (body.rstrip() + "\n" for body in rest[1::2])
    return head, dict(zip(rest[::2], bodies, strict=True))


def _join(head: str, sections: dict[str, str]) -> str:
    parts = [f"{n}\n{'-' * len(n)}\n{sections[n]}" for n in SECTIONS if sections.get(n)]
    return "\n".join([head.rstrip() + "\n", *parts])


def _entries(section: str) -> list[str]:
    return [entry for entry in _ENTRY.split(section) if entry]


def _names(entry: str) -> list[str]:
    """Names that an entry describes, as ``a, b : float`` does."""
    head = entry.partition("\n")[0].partition(" :")[0]
    return [name.strip(" *") for name in head.split(",")]
