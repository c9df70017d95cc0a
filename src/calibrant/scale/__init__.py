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
    from calibrant.scale._chunks import has_rows as has_rows
    from calibrant.scale._sources import as_chunks as as_chunks
    from calibrant.scale._sources import is_dask as is_dask
    from calibrant.scale._sources import is_elsewhere as is_elsewhere
    from calibrant.scale._tables import data_in as data_in
    from calibrant.scale._tables import open_tables

_HOMES: dict[str, str] = {
    "Chunks": "calibrant.scale._chunks",
    "RowSample": "calibrant._row_sample",
    "open_tables": "calibrant.scale._tables",
    # For other rooms of this package; these are not public.
    "as_chunks": "calibrant.scale._sources",
    "data_in": "calibrant.scale._tables",
    "has_rows": "calibrant.scale._chunks",
    "is_dask": "calibrant.scale._sources",
    "is_elsewhere": "calibrant.scale._sources",
}
"""The module of every name."""

_MODULES = ("dask", "spark")
"""Public names that are modules themselves."""

__all__ = ["Chunks", "RowSample", "dask", "open_tables", "spark"]
__getattr__, _ = attach(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    return __all__
