"""Docstrings that share parameters: what one function documents, others inherit."""

from __future__ import annotations

import re
from inspect import cleandoc, signature
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Documented = TypeVar("Documented", bound="Callable[..., Any]")

_SECTION = re.compile(r"(?s)(?<=Parameters\n----------\n).*?(?=\n\n\S[^\n]*\n-{3,}\n|\Z)")


def inherit_parameters(
    *sources: Callable[..., Any],
) -> Callable[[Documented], Documented]:
    """Return a decorator that adds parameters which other functions document.

    Parameters
    ----------
    *sources : callable
        Documented as numpydoc has it. A parameter of the signature that the decorated function
        does not describe itself, or by "As in ...", is described as in the first of these that
        does, with the default of the signature.

    Returns
    -------
    decorator : callable
        Its functions have a section "Parameters", in the order of their signatures.

    Examples
    --------
    >>> from calibrant.docstrings import inherit_parameters
    >>> from calibrant.plots import draw_effect
    >>> @inherit_parameters(draw_effect)
    ... def draw_nothing(title, size):
    ...     '''Draw nothing.
    ...
    ...     Parameters
    ...     ----------
    ...     size : float
    ...         Of nothing.
    ...     '''
    >>> print(draw_nothing.__doc__.partition("----------")[2])
    <BLANKLINE>
    title : str, optional
        Printed above.
    size : float
        Of nothing.
    """

    def decorate(function: Documented) -> Documented:
        text = cleandoc(function.__doc__ or "")
        if not _SECTION.search(text):
            text = text.replace("\n\nReturns\n", "\n\nParameters\n----------\n\n\nReturns\n", 1)
        known: dict[str, str] = {}
        for source in (function, *sources):
            known = {**_entries(cleandoc(source.__doc__ or "")), **known}
        wanted = {n: p.default for n, p in signature(function).parameters.items() if n in known}
        entries = dict.fromkeys(_heading(known[name], wanted) for name in wanted)
        function.__doc__ = _SECTION.sub(lambda _: "\n".join(entries), text, count=1)
        return function

    return decorate


def inherit_examples(result: type, source: Callable[..., Any]) -> None:
    """Show the example of a function in the class of its result as well."""
    example = cleandoc(source.__doc__ or "").partition("\nExamples\n--------\n")[2]
    result.__doc__ = f"{cleandoc(result.__doc__ or '')}\n\nExamples\n--------\n{example}\n"


def _entries(text: str) -> dict[str, str]:
    """Return the entries of a section "Parameters" by the names that they are of."""
    found = _SECTION.search(text)
    entries = re.split(r"\n(?=\S)", found[0]) if found else []
    whole = [entry for entry in entries if "\n    As in " not in entry]
    return {name: entry for entry in whole for name in _names(entry)}


def _names(entry: str) -> list[str]:
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
