"""Files larger than memory, and directories of tables: rows in chunks, as ``fit`` takes them."""

from __future__ import annotations

import glob
import os
from abc import abstractmethod
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _extras as extras
from calibrant import _notices as notices
from calibrant._files.align import align, read_labels, values_of
from calibrant._files.formats import files_below, join_tables, open_source
from calibrant._files.source import Request
from calibrant._gate import NamedMatrix, fitted_names
from calibrant.errors import LabelError, PredictionFileError, ShapeError
from calibrant.scale import Chunks, located

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from calibrant._files.align import Classes
    from calibrant._files.source import Rows, Source
    from calibrant._types import Array, Labels
    from calibrant.scale import RowSample

    StrPath = str | os.PathLike[str]

T = TypeVar("T")


class SourceChunks(Chunks):
    """Rows of files, some at a time; ``open_files`` opens them for each pass over the rows.

    ``progress`` is called with the number of rows that were read, None for that of all rows, and
    words.
    """

    def __init__(
        self,
        open_files: Callable[[Request], Source],
        request: Request,
        *,
        weight: str | None = None,
        progress: Callable[[int, int | None, str], None] | None = None,
    ) -> None:
        self._open, self.request = open_files, request
        self._weight, self._progress = weight, progress
        source = open_files(request)
        self.source, self.note, self.n_columns = source.place.source, source.note, source.n_columns
        names = source.place.names
        self.names = None if names is None else [*names]

    def _read(self, *, scores: bool = True) -> Iterator[Rows]:
        """Yield the rows of all files, and say how far it is; labels alone are read faster."""
        n_done = 0
        for rows in self._open(replace(self.request, reads_scores=scores)).chunks:
            if len(rows.scores):
                yield rows
            n_done += len(rows.scores)
            del rows
            if self._progress is not None:
                self._progress(n_done, None, f"reading {self.source}")

    def labels(self) -> Labels:
        """Return the distinct labels of all rows that have a weight."""
        return self._labels

    @cached_property
    def _labels(self) -> Labels:
        """The labels, for which no score is read."""
        labels: set[str | int] = set()
        for rows in self._read(scores=False):
            y, weight = read_labels(rows), self._weights(rows)
            labels |= set((y if weight is None else y[weight != 0]).tolist())
        if not labels:
            raise ShapeError(f"{self.source} have no row; pass at least one")
        # Labels may be numbers in some files alone; then they are text, as in the others.
        are_text = any(isinstance(label, str) for label in labels)
        return np.unique([str(label) if are_text else label for label in labels])

    def _weights(self, rows: Rows) -> Array | None:
        return None if self._weight is None else values_of(rows.column(self._weight))

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk, one after the other."""
        merged: T | None = None
        for rows in self._read():
            result = self._count(count, rows)
            del rows
            merged = result if merged is None else merge(merged, result)
        if merged is None:
            raise ShapeError(f"{self.source} have no row; pass at least one")
        return merged

    @abstractmethod
    def _count(self, count: Callable[..., T], rows: Rows) -> T:
        """Count one chunk; an error names its file and row."""


class TableChunks(SourceChunks):
    """Tables whose columns of scores are named by the caller, with the class of each."""

    def labels(self) -> Labels:
        """Return the distinct labels of all rows that have a weight."""
        if self.request.label is None:
            raise LabelError("the tables have no column of labels; pass label=")
        return self._labels

    def _count(self, count: Callable[..., T], rows: Rows) -> T:
        are_text = self.labels().dtype.kind == "U"
        with self._located(rows):
            y = read_labels(rows, as_text=are_text)
            return count(NamedMatrix(rows.scores, self.names or []), y, self._weights(rows))

    def _located(self, rows: Rows) -> AbstractContextManager[None]:
        """Let errors name the file, the row and the column."""
        columns = {
            "scores": rows.place.names,
            "y": self.request.label,
            "sample_weight": self._weight,
        }
        return located(rows.place.source, first_row=rows.place.first_row, columns=columns)

    def map(self, predict: Callable[..., T]) -> Iterator[T]:
        """Return an iterator of the predictions for every chunk."""
        for rows in self._read():
            with self._located(rows):
                result = predict(NamedMatrix(rows.scores, self.names or []))
            yield result


class FileChunks(SourceChunks):
    """A large file, or all tables of a directory, with the class of each column.

    All labels are read first: with the first rows they tell the classes. It has what ``Aligned``
    has of a file that was read whole, and commands take either.
    """

    groups = features = None

    def __init__(
        self,
        path: Path,
        request: Request,
        *,
        positive_last: bool = False,
        progress: Callable[[int, int | None, str], None] | None = None,
    ) -> None:
        super().__init__(partial(open_source, path), request, progress=progress)
        self._positive_last, self._gives_probabilities = positive_last, False
        self._sampled: tuple[object, RowSample] | None = None
        rows = next(self._read(), None)
        if rows is None:
            raise PredictionFileError(f"{self.source} has no rows")
        self.first = align(rows, request, labels=self._labels.tolist(), positive_last=positive_last)
        self.rows, self.normalize = self.first.rows, self.first.normalize
        self.classes, self.explained = self.first.classes, self.first.explained
        self.names = fitted_names(self.first.scores, self.rows.kind)

    def _count(self, count: Callable[..., T], rows: Rows) -> T:
        aligned = align(rows, self.request, like=self.first, positive_last=self._positive_last)
        with aligned.explained(), notices.kept():  # what is said of all rows is said once
            scores = aligned.probabilities() if self._gives_probabilities else aligned.scores
            return count(scores, aligned.y)

    def sample(self, classes: object = None, **settings: Any) -> RowSample:
        """Return the rows, or a sample of them; who asks again gets the same."""
        asked = np.asarray(classes).tolist(), settings
        if self._sampled is None or self._sampled[0] != asked:
            self._sampled = asked, super().sample(classes, **settings)
        return self._sampled[1]

    def to_fit(self) -> tuple[object, ...]:
        """Return what ``fit`` takes."""
        return (self,)

    def to_measure(self) -> tuple[FileChunks, Classes | None]:
        """Return probabilities, as metrics take them, and the class of each column."""
        result = copy(self)
        result._gives_probabilities = True  # noqa: SLF001  (a copy)
        if self.rows.is_single:
            result.names, result.n_columns = None, 2
        return result, self.classes

    def count_rows(self) -> tuple[int, int]:
        """Return how many rows a fit has used, and how many were read."""
        if self._sampled is None:
            return 0, 0
        sample = self._sampled[1]
        return sample.n_rows if sample.is_complete else sample.n_kept, sample.n_rows


def open_tables(
    path: StrPath | Sequence[StrPath],
    *,
    scores: Sequence[str],
    label: str | None = "label",
    weight: str | None = None,
) -> TableChunks:
    """Open a table, or a directory of tables, that may be larger than memory.

    Parameters
    ----------
    path : str, Path or list of these
        Files of Parquet, Arrow (Feather), CSV or TSV, or a directory of such files.
    scores : list of str
        Columns of the scores, one for each class.
    label : str or None, default="label"
        Column of the labels; None for tables to predict.
    weight : str, optional
        Column of the weights.

    Returns
    -------
    chunks : Chunks
        For ``calibrator.fit(chunks)``, ``calibrator.predict_proba(chunks)``, which is an iterator,
        and ``metrics.evaluate(chunks)``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import pandas as pd
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import open_tables
    >>> scores, y = simulated_scores(1000)
    >>> path = Path(mkdtemp()) / "predictions.parquet"
    >>> pd.DataFrame(scores, columns=["0", "1", "2"]).assign(label=y).to_parquet(path)
    >>> chunks = open_tables(path, scores=["0", "1", "2"])
    >>> TemperatureScaling().fit(chunks).classes_.tolist()
    [0, 1, 2]
    """
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise extras.needed(error, "calibrant.scale.open_tables", "cli") from error
    files: list[Path] = []
    for own in map(Path, [path] if isinstance(path, str | os.PathLike) else path):
        files += files_below(own, "table") if own.is_dir() else [own]
    if not files:
        raise PredictionFileError(f"{path} is a directory without tables")
    request = Request(
        label=label,
        columns=[*map(glob.escape, scores)],  # these are names, not patterns
        ignore=("*",) if label is None else (),
        more={} if weight is None else {weight: "weight="},
        options=("scores=", "label="),
    )
    return TableChunks(partial(join_tables, files, "the tables"), request, weight=weight)
