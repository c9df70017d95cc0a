"""``Chunks``: a calibration set in pieces, wherever they are: what an engine has to provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._containers import library
from calibrant._labels import encode, of_pandas, refuse_missing
from calibrant.scale._sample import MAX_CELLS, RowSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

T = TypeVar("T")


class Chunks(ABC):
    """A calibration set in chunks of rows, each with all classes.

    ``fit``, ``evaluate`` and the metrics accept it instead of scores and labels. A subclass says
    how an engine goes through its chunks (:meth:`reduce`) and, if it can predict lazily, how it
    maps them (:meth:`map`).

    Attributes
    ----------
    names : list or None
        Names of the columns of scores, if they have any.
    n_columns : int
        Number of these columns.

    Examples
    --------
    Rows in two pieces:

    >>> from functools import reduce
    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import Chunks
    >>> class Halves(Chunks):
    ...     def __init__(self, scores, y):
    ...         self.halves = [(scores[half::2], y[half::2]) for half in (0, 1)]
    ...         self.n_columns = scores.shape[1]
    ...
    ...     def reduce(self, count, merge):
    ...         return reduce(merge, [count(*half) for half in self.halves])
    ...
    ...     def map(self, predict):
    ...         return (predict(scores) for scores, _ in self.halves)
    >>> scores, y = simulated_scores()
    >>> halves = Halves(scores, y)
    >>> calibrator = FlattenedIsotonic().fit(halves)
    >>> next(calibrator.predict_proba(halves)).shape
    (500, 3)
    """

    names: list[Any] | None = None
    n_columns: int

    @abstractmethod
    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk and merge the results, in the order of the chunks.

        Parameters
        ----------
        count : callable
            ``count(scores, y, sample_weight=None)`` of one chunk; can be pickled.
        merge : callable
            ``merge(first, second)`` of two results; it may change the first.

        Returns
        -------
        merged : object
            What ``merge`` returned last.
        """

    def map(self, predict: Callable[[Any], Any]) -> Any:
        """Return ``predict(scores)`` of every chunk, lazily, in the engine's own form."""
        raise errors.ContainerError(
            f"{type(self).__name__} cannot predict: it has no method map(predict)"
        )

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels of all rows that have a weight, sorted."""
        return self.reduce(_labels_of, union)

    def sample(
        self,
        classes: Any = None,
        *,
        scores: str = "probabilities",
        normalize: str | None = None,
        max_cells: int = MAX_CELLS,
    ) -> RowSample:
        """Return the rows of all chunks, or a sample of them that fits into memory.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), optional
            Label of each column; by default the distinct labels.
        scores, normalize, max_cells
            As of ``RowSample``.

        Returns
        -------
        sample : RowSample
        """
        classes = self.labels() if classes is None else classes
        empty = RowSample(classes, scores=scores, normalize=normalize, max_cells=max_cells)
        return self.reduce(partial(count_rows, empty), RowSample.merge)


def count_rows(empty: RowSample, scores: Any, y: Any, sample_weight: Any = None) -> RowSample:
    """Return a sample of the rows of one chunk; ``empty`` has counted nothing."""
    how: dict[str, Any] = {"scores": empty.scores, "normalize": empty.normalize}
    sample = RowSample(empty.classes, max_cells=empty.max_cells, **how)
    return sample.update(scores, y, sample_weight)


def _labels_of(scores: Any, y: Any, sample_weight: Any = None) -> NDArray[Any]:  # noqa: ARG001
    return distinct(y, sample_weight)


def distinct(y: Any, sample_weight: Any = None) -> NDArray[Any]:
    """Return the distinct labels of the rows of a chunk that have a weight, sorted."""
    labels = of_pandas(y)
    if labels is None:
        plain = np.asarray(y)
        refuse_missing(plain)
        if plain.ndim != 1:
            raise errors.LabelError(
                f"y has {plain.ndim} dimensions; pass classes= for one-hot rows in chunks"
            )
        labels = encode(plain)
    used = None if sample_weight is None else np.asarray(sample_weight) != 0
    if used is not None and used.shape != (labels.n_rows,):
        used = None  # is refused when rows are counted
    found = labels.present(used)
    return np.array(found.tolist()) if found.dtype.kind == "O" else found


def union(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct labels of two chunks; the type of an empty one tells nothing."""
    both = [own for own in (first, second) if len(own)]
    return np.unique(np.concatenate(both)) if both else first


class ArrayChunks(Chunks):
    """Rows of arrays, in chunks; arrays that are mapped from a file may exceed memory."""

    def __init__(self, scores: Any, y: Any, sample_weight: Any = None, *, n_rows: int) -> None:
        self._arrays, self._n_rows = (scores, y, sample_weight), n_rows
        self.n_columns = scores.shape[1] if scores.ndim == 2 else 1

    def _places(self) -> range:
        return range(0, len(self._arrays[0]), self._n_rows)

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk, on threads where these are allowed, and merge the results."""

        def work(start: int) -> T:
            own = slice(start, start + self._n_rows)
            with chunk_named(f"rows {start:,} to {start + self._n_rows:,}"):
                return count(*(None if a is None else np.asarray(a[own]) for a in self._arrays))

        return reduce(merge, threads.each(work, self._places()))

    def map(self, predict: Callable[[Any], Any]) -> Iterator[Any]:
        """Return an iterator of the predictions for every chunk."""
        scores = self._arrays[0]
        return (predict(np.asarray(scores[i : i + self._n_rows])) for i in self._places())


@contextmanager
def chunk_named(place: str) -> Iterator[None]:
    """Say which chunk it is, if something is wrong with the data inside."""
    try:
        yield
    except errors.DataError as error:
        raise type(error)(f"{place}: {error}") from error


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


def merge_tree(parts: Sequence[Any], merge: Callable[[Sequence[Any]], Any], fan_in: int = 4) -> Any:
    """Merge results a few neighbours at a time, so that nobody holds them all."""
    level = list(parts)
    while len(level) > 1:
        level = [merge(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
    return level[0]
