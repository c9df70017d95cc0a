"""Calibration sets larger than memory: sampled by content, wherever the rows are.

``dask`` and ``spark`` are modules, each with the extra of its name; they and the other names are
loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._lazy import attach

if TYPE_CHECKING:
    from calibrant._files.chunks import open_tables
    from calibrant._row_sample import RowSample
    from calibrant.scale._chunks import Chunks
    from calibrant.scale._chunks import has_rows as has_rows
    from calibrant.scale._chunks import is_dask as is_dask
    from calibrant.scale._chunks import is_elsewhere as is_elsewhere
    from calibrant.scale._chunks import located as located

_CHUNKS = ("Chunks", "has_rows", "is_dask", "is_elsewhere", "located")
_HOMES = {
    "RowSample": "calibrant._row_sample",
    "open_tables": "calibrant._files.chunks",
    **dict.fromkeys(_CHUNKS, "calibrant.scale._chunks"),
}
"""The module of every name; those in lower case but ``open_tables`` are for other rooms."""

__all__ = ["Chunks", "RowSample", "dask", "open_tables", "spark"]
__getattr__, _ = attach(__name__, _HOMES, ("dask", "spark"))


def as_chunks(scores: object, y: object = None, sample_weight: object = None) -> Chunks | None:
    """Return chunks of what comes in chunks; None for what is in memory."""
    from calibrant.errors import ParameterError
    from calibrant.scale._chunks import Chunks, is_dask

    if isinstance(scores, Chunks):
        if y is not None or sample_weight is not None:
            raise ParameterError(
                "chunks have their own labels and weights; pass no y and no sample_weight"
            )
        return scores
    if any(is_dask(given) for given in (scores, y, sample_weight)):
        from calibrant.scale.dask import DaskChunks

        return DaskChunks(scores, y, sample_weight)
    return None


def __dir__() -> list[str]:
    return __all__
