"""What comes in chunks, whoever holds it, as ``Chunks``.

A module of its own, since Dask's chunks are made from ``_chunks``, and not the other way round.
"""

from __future__ import annotations

from typing import Any

from calibrant import errors
from calibrant.scale._chunks import Chunks, is_dask


def as_chunks(
    scores: Any, y: Any, sample_weight: Any = None, named: errors.Arguments = errors.ARGUMENTS
) -> Chunks | None:
    """Return chunks of what comes in chunks; None for what is in memory."""
    if isinstance(scores, Chunks):
        if y is not None or sample_weight is not None:
            raise errors.ParameterError(
                f"{named.scores} are chunks that hold labels and weights; pass None for {named.y}, "
                "and no weights"
            )
        return scores
    if any(is_dask(given) for given in (scores, y, sample_weight)):
        from calibrant.scale.dask import DaskChunks

        return DaskChunks(scores, y, sample_weight, named)
    return None
