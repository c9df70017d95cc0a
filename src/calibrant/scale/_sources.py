"""Rows that are not in memory: recognised, and made into chunks."""

from __future__ import annotations

from typing import Any

from calibrant import errors
from calibrant._containers import library
from calibrant.scale._chunks import Chunks


def is_dask(given: Any) -> bool:
    """Whether something is a collection of Dask's."""
    return library(given) == "dask"


def is_elsewhere(scores: Any) -> bool:
    """Whether rows are no matrix in memory."""
    return isinstance(scores, Chunks) or is_dask(scores)


def as_chunks(scores: Any, y: Any = None, sample_weight: Any = None) -> Chunks | None:
    """Return chunks of what comes in chunks; None for what is in memory."""
    if isinstance(scores, Chunks):
        if y is not None or sample_weight is not None:
            raise errors.ParameterError(
                "chunks have their own labels and weights; pass no y and no sample_weight"
            )
        return scores
    if any(is_dask(given) for given in (scores, y, sample_weight)):
        from calibrant.scale.dask import DaskChunks

        return DaskChunks(scores, y, sample_weight)
    return None
