"""Fit to more rows than memory holds, in chunks.

``dask`` and ``spark`` are modules, each with the extra of its name; they and the other names are
loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._lazy import attach

if TYPE_CHECKING:
    from calibrant.scale._chunks import Chunks, distinct, merge_all
    from calibrant.scale._lists import TopLists
    from calibrant.scale._stacked import StackedRows
    from calibrant.scale._statistics import Statistics

_HOMES: dict[str, str] = {
    "Chunks": "calibrant.scale._chunks",
    "StackedRows": "calibrant.scale._stacked",
    "Statistics": "calibrant.scale._statistics",
    "TopLists": "calibrant.scale._lists",
    "distinct": "calibrant.scale._chunks",
    "merge_all": "calibrant.scale._chunks",
}
"""The module of every public name."""

_MODULES = ("dask", "spark")
"""Public names that are modules themselves."""

__all__ = [
    "Chunks",
    "StackedRows",
    "Statistics",
    "TopLists",
    "dask",
    "distinct",
    "merge_all",
    "spark",
]
__getattr__, __dir__ = attach(__name__, _HOMES, _MODULES)
