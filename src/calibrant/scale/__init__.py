"""Calibration sets larger than memory: sampled by content, wherever the rows are.

``dask`` and ``spark`` are modules, each with the extra of its name; they and the other names are
loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._lazy import attach

if TYPE_CHECKING:
    from calibrant._row_sample import RowSample
    from calibrant.scale._chunks import Chunks
    from calibrant.scale._tables import open_tables

_HOMES: dict[str, str] = {
    "Chunks": "calibrant.scale._chunks",
    "RowSample": "calibrant._row_sample",
    "open_tables": "calibrant.scale._tables",
}
"""The module of every public name."""

_MODULES = ("dask", "spark")
"""Public names that are modules themselves."""

__all__ = ["Chunks", "RowSample", "dask", "open_tables", "spark"]
__getattr__, __dir__ = attach(__name__, _HOMES, _MODULES)
