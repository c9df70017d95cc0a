"""What comes in chunks, whoever holds it, as ``Chunks``.

A module of its own, since Dask's chunks are made from ``_chunks``, and not the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._containers import library
from calibrant.scale._chunks import ChunkArguments, Chunks, distinct, is_dask, union

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant.scale._chunks import Counted


class RowSource:
    """Rows in another form than a matrix.

    ``places`` yields where a block is among the labels, and its first row; ``rows`` makes a block
    into a matrix; ``apply`` calls a method of a calibrator, and returns what has the same form.
    """

    n_classes: int
    shape: tuple[int, ...]  # of the labels
    ignore_index: int | None = None  # label of rows that are left out
    places: Any
    rows: Any
    apply: Any

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise errors.ContainerError(
            f"{self} is not a matrix, which is needed here; only fits, predictions and metrics "
            "that are sums over rows accept it. For TopLists, pass rows(), which is a matrix"
        )


class SourceChunks(Chunks):
    """Blocks of a source of rows, counted one after the other."""

    def __init__(self, source: RowSource, y: Any, weight: Any, named: errors.Arguments) -> None:
        self.source, self._named, self.n_classes = source, named, source.n_classes
        weight = np.broadcast_to(1.0, source.shape) if weight is None else weight
        self.y, self.weight = to_numpy(y), to_numpy(weight)
        for name, given in ((named.y, self.y), ("sample_weight", self.weight)):
            if given.shape != source.shape:
                raise errors.ShapeError(
                    f"{name} has shape {given.shape}, but {named.scores} is {source}: pass one "
                    f"entry per row, {source.shape} (inconsistent numbers of samples)"
                )

    def _blocks(self) -> Iterator[tuple[Any, int, Any, Any, Any]]:
        """Yield place, first row, which rows are used, and the labels and weights of those."""
        ignored = self.source.ignore_index
        for place, first in self.source.places():
            y, weight = self.y[place].ravel(), self.weight[place].ravel()
            used = np.full(len(y), True) if ignored is None else y != ignored
            yield place, first, used, y[used], weight[used]

    def _distinct(self) -> NDArray[Any]:
        return union([distinct(y, weight) for *_, y, weight in self._blocks()])

    def count(self, empty: Counted) -> Counted:
        """Let a copy of ``empty`` count every block."""
        found = empty.empty()
        for number, (place, first, used, y, weight) in enumerate(self._blocks()):
            named = ChunkArguments(number, first if used.all() else None, self._named)
            with named.told():
                found.update(self.source.rows(place)[used], y, weight, named=named)
        return found


def to_numpy(block: Any) -> NDArray[Any]:
    """Return an array, or a part of one, or of a tensor, wherever that is."""
    if library(block) == "torch":
        block = block.detach().cpu()
        block = block.float() if block.is_floating_point() and block.itemsize < 4 else block
    return np.asarray(block)


def is_elsewhere(scores: Any) -> bool:
    """Whether rows are no matrix in memory."""
    return isinstance(scores, RowSource) or is_dask(scores)


def as_chunks(
    scores: Any, y: Any, sample_weight: Any = None, named: errors.Arguments = errors.ARGUMENTS
) -> Chunks | None:
    """Return chunks of what comes in chunks; None for what is in memory."""
    if isinstance(scores, RowSource):
        return SourceChunks(scores, y, sample_weight, named)
    if isinstance(scores, Chunks):
        if y is not None or sample_weight is not None:
            raise errors.ParameterError(
                f"{named.scores} are chunks with labels and weights; pass None for {named.y}, and "
                "no weights"
            )
        return scores
    if any(is_dask(given) for given in (scores, y, sample_weight)):
        from calibrant.scale.dask import DaskChunks

        return DaskChunks(scores, y, sample_weight, named)
    return None
