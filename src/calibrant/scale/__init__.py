"""Calibration sets larger than memory: sampled by content, wherever the rows are.

``Chunks`` is what an engine has to provide. ``dask`` and ``spark`` are modules, each with the extra
of its name; they and ``open_tables`` are loaded when they are first used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import errors
from calibrant._extras import attach
from calibrant._gate import distinct_labels, is_dask
from calibrant._row_sample import RowSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from calibrant._files.chunks import open_tables
    from calibrant._types import Label, Labels

__all__ = ["Chunks", "RowSample", "dask", "open_tables", "spark"]
__getattr__, _ = attach(
    __name__, {"open_tables": "calibrant._files.chunks"}, modules=("dask", "spark")
)

T = TypeVar("T")


class Chunks(ABC):
    """A calibration set in chunks of rows, each with all classes.

    ``fit``, ``evaluate`` and the metrics accept it instead of scores and labels. A subclass says
    how an engine goes through its chunks (:meth:`reduce`) and, if it can predict lazily, how it
    maps them (:meth:`map`). One that finds the labels without reading the scores may say how
    (:meth:`labels`), and how many rows have each (:meth:`count_labels`).

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

    names: Sequence[Label] | None = None
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

    def map(self, predict: Callable[..., object]) -> object:  # noqa: ARG002  (for subclasses)
        """Return ``predict(scores)`` of every chunk, lazily, in the engine's own form."""
        raise errors.ContainerError(
            f"{type(self).__name__} cannot predict: it has no method map(predict)"
        )

    def labels(self) -> Labels:
        """Return the distinct labels of all rows that have a weight, sorted."""
        counts = self.count_labels()
        return sorted_labels(self.reduce(count_each, add) if counts is None else counts)

    def count_labels(self) -> Mapping[Label, int] | None:
        """Return the number of rows of each label, or None where it needs the scores to be read.

        With it, workers drop at once what the sample of all rows will not keep.
        """
        return None

    def sample(
        self,
        classes: object = None,
        *,
        scores: str = "probabilities",
        normalize: str | None = None,
        max_cells: int | None = None,
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
        start = partial(RowSample, classes, scores=scores, normalize=normalize, max_cells=max_cells)
        empty = start()  # refuses parameters here, and not in a task of the engine
        counted = self.count_labels()
        if counted is not None:
            counts = np.array([counted.get(label, 0) for label in empty.classes.tolist()])
            bounds, count = empty.expect(counts), partial(_count_rows, start, counts)
            sample = self.reduce(count, RowSample.merge)
            if sample.has_reached(bounds):
                return sample
        return self.reduce(partial(_count_rows, start, None), RowSample.merge)


def _count_rows(
    start: Callable[[], RowSample],
    counts: NDArray[np.integer] | None,
    scores: object,
    y: object,
    sample_weight: object = None,
) -> RowSample:
    """Return a sample of the rows of one chunk, given the number of all rows of each class."""
    sample = start()
    if counts is not None:
        sample.expect(counts)
    return sample.update(scores, y, sample_weight) if has_rows(y, sample_weight) else sample


def has_rows(y: Any, sample_weight: object = None) -> bool:
    """Whether a chunk has rows, and not the weight 0 in all of them: others have to tell."""
    return len(y) > 0 and (sample_weight is None or bool(np.any(np.asarray(sample_weight) != 0)))


def count_each(_: object, y: object, sample_weight: object = None) -> Counter[Label]:
    """Return the number of rows of a chunk that have a weight, by label."""
    values, codes = distinct_labels(y)
    used = None if sample_weight is None else np.asarray(sample_weight) != 0
    if used is not None and used.shape == codes.shape:  # another shape is refused with the rows
        codes = codes[used]
    counts = np.bincount(codes, minlength=len(values)).tolist()
    return +Counter(dict(zip(values.tolist(), counts, strict=True)))


def sorted_labels(counts: Mapping[Label, int]) -> Labels:
    """Return the labels that were counted, sorted."""
    return np.unique(np.array([*counts]))


def is_elsewhere(scores: object) -> bool:
    """Whether rows are no matrix in memory."""
    return isinstance(scores, Chunks) or is_dask(scores)


@contextmanager
def located(
    place: str,
    *,
    first_row: int = 0,
    columns: Mapping[str, str | Sequence[str] | None] | None = None,
) -> Iterator[None]:
    """Say in errors about the data inside which place and which row it is.

    The first row inside is row ``first_row`` of the place. ``columns`` names the columns of
    ``scores``, ``y`` and ``sample_weight`` where users know them by name: one for each class, or
    one of arrays.
    """
    try:
        yield
    except errors.DataError as error:
        message = f"{place}: {error}"
        if error.row is not None:
            row = first_row + error.row
            name, cell = (columns or {}).get(error.argument), error.place(row)
            if isinstance(name, str):
                cell = f"column {name!r}" + ("" if error.column is None else f"[{error.column}]")
            elif name is not None:
                cell = "the row" if error.column is None else f"column {name[error.column]!r}"
            message = f"{place}, row {row}: {cell} {error.message}"
        located = type(error)(message, argument=error.argument)
        located.column, located.value = error.column, error.value
        raise located from error


def as_chunks(scores: object, y: object = None, sample_weight: object = None) -> Chunks | None:
    """Return chunks of what comes in chunks; None for what is in memory."""
    if isinstance(scores, Chunks):
        if y is not None or sample_weight is not None:
            raise errors.ParameterError(
                "chunks have their own labels and weights; pass no y and no sample_weight"
            )
        return scores
    if is_dask(scores) or is_dask(y) or is_dask(sample_weight):
        # By its name, since it imports this module.
        chunks: Chunks = import_module("calibrant.scale.dask").DaskChunks(scores, y, sample_weight)
        return chunks
    return None


def __dir__() -> list[str]:
    return __all__
