"""``Chunks``: a calibration set in pieces, wherever they are, that are counted one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._containers import library
from calibrant._labels import encode, of_pandas, refuse_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant.scale._mergeable import Mergeable

Counted = TypeVar("Counted", bound="Mergeable")
"""Statistics of a method, or of metrics."""


class ChunkArguments(errors.Arguments):
    """How messages name the rows of a chunk."""

    def __init__(
        self, number: int, first_row: int | None = None, named: errors.Arguments = errors.ARGUMENTS
    ) -> None:
        self._first_row, self._named = first_row, named
        self.scores, self.y = named.scores, named.y
        self.if_logits, self.use_logits = named.if_logits, named.use_logits
        self.if_percent, self.if_unnormalized = named.if_percent, named.if_unnormalized
        self.if_untold, self.if_named_twice = named.if_untold, named.if_named_twice
        self.if_single, self.if_margins = named.if_single, named.if_margins
        self.place = f"chunk {number}"
        self.prefix = f"{self.place}: {named.prefix}"

    def _row(self, row: int) -> str:
        of_all = "" if self._first_row is None else f", row {self._first_row + row} of all"
        return f"{self.place}, row {row}{of_all}"

    def cell(self, *place: int) -> str:
        """Name a row of the scores, or a cell of it."""
        return f"{self._row(place[0])}: {self._named.cell(*place)}"

    def label(self, row: int) -> str:
        """Name the label of a row."""
        return f"{self._row(row)}: {self._named.label(row)}"

    def weight(self, row: int) -> str:
        """Name the weight of a row."""
        return f"{self._row(row)}: {self._named.weight(row)}"

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say where it was, if something is wrong with the data inside."""
        try:
            yield
        except errors.DataError as error:
            if self.place in str(error):
                raise
            raise type(error)(f"{self.prefix}{error}") from error


class Chunks(ABC):
    """A calibration set in chunks of rows, each with all classes.

    Attributes
    ----------
    names : list or None
        Names of the columns, if they have any.
    n_classes : int
        Number of columns.

    Examples
    --------
    Rows in two pieces, wherever they are; ``fit`` and metrics take them:

    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import Chunks, distinct, merge_all
    >>> class Halves(Chunks):
    ...     def __init__(self, scores, y):
    ...         self.halves = [(scores[half::2], y[half::2]) for half in (0, 1)]
    ...         self.n_classes = scores.shape[1]
    ...
    ...     def _distinct(self):
    ...         return distinct([label for _, y in self.halves for label in y])
    ...
    ...     def count(self, empty):
    ...         return merge_all(empty, (empty.empty().update(*half) for half in self.halves))
    >>> scores, y = simulated_scores()
    >>> found = FlattenedIsotonic().fit(Halves(scores, y), None)
    >>> in_memory = FlattenedIsotonic().fit(scores, y)
    >>> bool((found.predict_proba(scores) == in_memory.predict_proba(scores)).all())
    True
    """

    names: list[Any] | None = None
    n_classes: int

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels of all rows that have a weight, sorted."""
        found = self._distinct()
        if len(found) == 0:
            raise errors.ShapeError(
                "no chunk has a row with a weight and a label; pass at least one"
            )
        return found

    @abstractmethod
    def _distinct(self) -> NDArray[Any]:
        """Look up what ``labels`` returns."""

    @abstractmethod
    def count(self, empty: Counted) -> Counted:
        """Let a copy of ``empty`` count every chunk, and merge them."""


class ArrayChunks(Chunks):
    """Chunks of arrays in memory, ``n_rows`` each; on threads where ``threads`` allows."""

    def __init__(self, scores: Any, y: Any, sample_weight: Any = None, *, n_rows: int) -> None:
        self._arrays = np.asarray(scores), np.asarray(y), sample_weight
        self.n_classes = self._arrays[0].shape[1]
        self._starts = range(0, len(self._arrays[0]), n_rows)

    def _distinct(self) -> NDArray[Any]:
        return distinct(*self._arrays[1:])

    def count(self, empty: Counted) -> Counted:
        """Let a copy of ``empty`` count every chunk, and merge them."""
        scores, y, weight = self._arrays

        def work(start: int) -> Counted:
            own = slice(start, start + self._starts.step)
            part = None if weight is None else weight[own]
            number = start // self._starts.step
            return count_chunk(empty, scores[own], y[own], part, number, first_row=start)

        return merge_all(empty, threads.each(work, self._starts))


def is_dask(given: Any) -> bool:
    """Whether something is a collection of Dask's."""
    return library(given) == "dask"


def count_chunk(
    empty: Counted,
    scores: Any,
    y: Any,
    sample_weight: Any,
    number: int,
    first_row: int | None = None,
    named: errors.Arguments = errors.ARGUMENTS,
) -> Counted:
    """Count one chunk; what is wrong with it is told with its number."""
    chunk = ChunkArguments(number, first_row, named)
    with chunk.told():
        return empty.empty().update(scores, y, sample_weight, named=chunk)


def distinct(y: Any, sample_weight: Any = None) -> NDArray[Any]:
    """Return the distinct labels of the rows of a chunk that have a weight, sorted.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels of the chunk.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of its rows; those of weight 0 do not count.

    Returns
    -------
    labels : ndarray

    Examples
    --------
    >>> from calibrant.scale import distinct
    >>> distinct(["bee", "ant", "bee", "cat"], [1.0, 1.0, 1.0, 0.0]).tolist()
    ['ant', 'bee']
    """
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
        used = None  # is refused when it is counted
    found = labels.present(used)
    return np.array(found.tolist()) if found.dtype.kind == "O" else found


def union(found: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the distinct labels of several chunks; of an empty one the type tells nothing."""
    return np.unique(np.concatenate([own for own in found if len(own)] or found[:1]))


def merge_few(counted: Iterable[Counted]) -> Counted:
    """Merge statistics into a new one."""
    counted = list(counted)
    return merge_all(counted[0], counted)


def merge_all(empty: Counted, counted: Iterable[Counted]) -> Counted:
    """Merge statistics of chunks, in the given order.

    Parameters
    ----------
    empty : Statistics or MetricStatistics
        Statistics that have counted nothing; not changed.
    counted : iterable of the same
        Statistics of each chunk.

    Returns
    -------
    merged : object of the same type

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import merge_all
    >>> scores, y = simulated_scores()
    >>> empty = TemperatureScaling().statistics([0, 1, 2])
    >>> parts = (empty.empty().update(scores[i::4], y[i::4]) for i in range(4))
    >>> merge_all(empty, parts).n_rows
    1000
    """
    found = empty.empty()
    for other in counted:
        found.merge(other)
    return found


def merge_tree(
    counted: Sequence[Any], merge: Callable[[Sequence[Any]], Any], fan_in: int = 4
) -> Any:
    """Merge what was counted, a few at a time, so that nobody holds it all."""
    level = list(counted)
    while len(level) > 1:
        level = [merge(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
    return level[0]
