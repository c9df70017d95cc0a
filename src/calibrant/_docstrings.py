"""Docstrings that share parameters: what a function or a base documents, others inherit."""

from __future__ import annotations

import re
from inspect import cleandoc, signature
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Documented = TypeVar("Documented", bound="Callable[..., Any]")

SECTIONS = (
    *("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"),
    *("See Also", "Notes", "References", "Examples"),
)
"""In the order of numpydoc."""

_HEADING = re.compile(r"^(\w[\w ]+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def inherit_parameters(*sources: Callable[..., Any]) -> Callable[[Documented], Documented]:
    """Return a decorator that adds parameters of the signature which other functions document.

    One that the function does not describe itself, or by "As in ...", is described as in the first
    source that does, with the default of the signature and in its order. What is returned is said
    as in a source that returns the same.
    """

    def decorate(function: Documented) -> Documented:
        head, own = _split(function)
        known: dict[str, str] = {}
        for source in (function, *sources):
            entries = _entries(_split(source)[1].get("Parameters", ""))
            whole = [entry for entry in entries if "\n    As in " not in entry]
            known = {name: entry for entry in whole for name in _names(entry)} | known
            if function.__annotations__.get("return") == source.__annotations__.get("return"):
                own = {k: text for k, text in _split(source)[1].items() if k == "Returns"} | own
        wanted = {n: p.default for n, p in signature(function).parameters.items() if n in known}
        found = dict.fromkeys(_heading(known[name], wanted) for name in wanted)
        function.__doc__ = _join(head, own | {"Parameters": "".join(found)})
        return function

    return decorate


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


def _split(documented: Any) -> tuple[str, dict[str, str]]:
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


def _heading(entry: str, wanted: dict[str, Any]) -> str:
    """Leave only names that are wanted in the heading of an entry, and correct its default."""
    head, _, text = entry.partition("\n")
    kept = [name for name in _names(entry) if name in wanted]
    if len(kept) < len(_names(entry)):
        head = ", ".join(kept) + head[head.index(" :") :]
    head = re.sub(r"(?<=default=)\S+$", lambda _: repr(wanted[kept[0]]), head)
    return f"{head}\n{text}"
