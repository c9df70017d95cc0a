"""Files larger than memory, and directories of tables: rows in chunks, as ``fit`` takes them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _notices as notices
from calibrant._files.predictions import find_format, is_table, open_source
from calibrant._files.records import files_in
from calibrant._files.values import read_labels
from calibrant._gate import ONE_COLUMN, fitted_names
from calibrant._row_sample import MAX_CELLS
from calibrant.errors import PredictionFileError, number_of, some_in_words
from calibrant.scale import Chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.align import Aligned
    from calibrant._files.predictions import Request
    from calibrant._files.source import RawPredictions
    from calibrant.scale import RowSample

T = TypeVar("T")

LARGE_BYTES = 2 << 30
"""Size of a file above which it is read in chunks, and sampled if its rows are too many."""

MOST_LABELS = 1000
"""Distinct labels, beside ten for each column, after which no others are looked for."""


def is_read_in_chunks(path: Path, labels: Path | None = None) -> bool:
    """Whether a path is a directory of tables, or a file that is too large to be read whole.

    Logs of language models and npz files are read whole, whatever their size, and so is a table
    whose ``labels`` are in another file.
    """
    known = find_format(path)
    if path.is_dir():
        return known is None or not known.is_log
    is_array = known is not None and known.suffixes == (".npy",)
    can_be = is_array or (known is not None and known.is_table and labels is None)
    return can_be and path.is_file() and path.stat().st_size > LARGE_BYTES


def find_tables(path: Path) -> list[Path]:
    """Return the tables in a directory and below it, sorted."""
    found = [file for file in files_in(path) if is_table(file)]
    if not found:
        raise PredictionFileError(
            f"{path} is a directory without .parquet, .arrow, .csv or .tsv files"
        )
    return found


def tell_ignored(path: Path) -> str:
    """Say which files of a directory of tables are not read; nothing if there are none."""
    others = [str(f.relative_to(path)) for f in files_in(path) if not is_table(f)]
    read = number_of(len(find_tables(path)), "table")
    return f"{path}: {read} read; ignored {some_in_words(others)}" if others else ""


class FileChunks(Chunks):
    """Rows of a large file, or of all tables of a directory, which have the same columns.

    All labels are read first: with the first rows they tell the class of each column. It has what
    ``Aligned`` has of a file that was read whole, and commands take either.

    Parameters
    ----------
    path : Path
        File, or directory of tables.
    request : Request
        What the caller says of the first file; all other files have the same columns.
    align : callable
        ``align(raw, like=None, labels=None)`` tells the class of each column.
    progress : callable, optional
        Called with the number of rows that were read, of all rows if it is known, and words.
    """

    has_absent = is_stated = False

    def __init__(
        self,
        path: Path,
        request: Request,
        align: Callable[..., Aligned],
        progress: Callable[[int, int | None, str], None] | None = None,
    ) -> None:
        self.files = find_tables(path) if path.is_dir() else [path]
        self._align, self._progress, self._request = align, progress, request
        with open_source(self.files[0], request) as source:
            self._names, self.n_columns, layout = (
                source.place.names,
                source.n_columns,
                source.layout,
            )
            self.source = str(path) if path.is_dir() else source.place.source
        if layout is not None:
            columns = tuple(layout.score_names)
            selection = replace(request.selection, label=layout.label, columns=columns)
            self._request = replace(request, selection=selection)
        self._gives_probabilities = False
        self._n_rows: int | None = None
        self._sampled: tuple[Any, RowSample] | None = None
        first, self._labels = self._read_labels()
        is_sure = layout is None or layout.is_chosen
        self.first = align(replace(first, are_columns_sure=is_sure), labels=self._labels)
        self.kind, self.normalize = self.first.kind, self.first.normalize
        self.classes, self.place = self.first.classes, self.first.place
        self.names = fitted_names(self.first.scores, self.kind)

    def _read(self, words: str) -> Iterator[RawPredictions]:
        """Yield the rows of all files, columns as in the first one, and say how far it is."""
        n_done = 0
        for file in self.files:
            with open_source(file, self._request) as source:
                own = source.place.names
                order = None if own == self._names else [*map((own or []).index, self._names or [])]
                for chunk in source.chunks:
                    scores = chunk.scores if order is None else chunk.scores[:, order]
                    if len(scores):
                        place = replace(chunk.place, names=self._names)
                        yield replace(chunk, scores=scores, place=place)
                    n_done += len(scores)
                    if self._progress is not None:
                        self._progress(n_done, self._n_rows, f"{words} {self.source}")
        self._n_rows = n_done

    def _read_labels(self) -> tuple[RawPredictions, list[Any] | None]:
        """Return the first rows, and the distinct labels of all rows, unless they are one-hot."""
        first: RawPredictions | None = None
        labels: set[Any] = set()
        for raw in self._read("reading the labels of"):
            first = raw if first is None else first
            own = raw.require_labels()
            if own.ndim != 1:
                return first, None
            labels |= set(read_labels(own, raw.place).tolist())
            if len(labels) > MOST_LABELS + 10 * self.n_columns:  # ids, which are refused
                break
        if first is None:
            raise PredictionFileError(f"{self.source} has no rows")
        if any(isinstance(label, str) for label in labels):  # numbers in some files alone
            labels = {str(label) for label in labels}
        return first, sorted(labels)

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels, which are known; one-hot rows have the columns."""
        return np.arange(self.n_columns) if self._labels is None else np.array(self._labels)

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk, one after the other; a fault is told with its file and row."""

        def counted() -> Iterator[T]:
            for raw in self._read("reading"):
                rows = self._align(raw, like=self.first)
                with rows.explained(), notices.kept():  # what is said of all rows is said once
                    scores = rows.probabilities() if self._gives_probabilities else rows.scores
                    result = count(scores, rows.y)
                yield result

        return reduce(merge, counted())

    def sample(
        self,
        classes: Any = None,
        *,
        scores: str = "probabilities",
        normalize: str | None = None,
        max_cells: int = MAX_CELLS,
    ) -> RowSample:
        """Return the rows, or a sample of them; who asks again gets the same."""
        asked = np.asarray(classes).tolist(), scores, normalize, max_cells
        if self._sampled is None or self._sampled[0] != asked:
            found = super().sample(classes, scores=scores, normalize=normalize, max_cells=max_cells)
            self._sampled = asked, found
        return self._sampled[1]

    def to_fit(self) -> tuple[Any, ...]:
        """Return what ``fit`` takes."""
        return (self,)

    def to_measure(self) -> tuple[Any, list[Any] | None]:
        """Return probabilities, as metrics take them, and the class of each column."""
        found = copy(self)
        found._gives_probabilities = True  # noqa: SLF001  (a copy)
        if self.kind in ONE_COLUMN:
            found.names, found.n_columns = None, 2
        return found, self.classes

    def count_rows(self) -> tuple[int, int]:
        """Return how many rows a fit has used, and how many were read."""
        if self._sampled is None:
            return 0, 0
        sample = self._sampled[1]
        return sample.n_rows if sample.is_complete else sample.n_kept, sample.n_rows

    def explained(self) -> AbstractContextManager[None]:
        """Let errors name the file and the options; the rows that told the classes are checked."""
        return self.first.explained()
