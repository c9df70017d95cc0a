"""Files larger than memory, and directories of tables: rows in chunks, as ``fit`` takes them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from calibrant import _notices as notices
from calibrant._containers import fitted_names
from calibrant._files.predictions import find_format, is_table
from calibrant._files.records import files_in
from calibrant._files.source import LABEL_KINDS, RawPredictions
from calibrant._files.values import read_labels
from calibrant._one_column import ONE_COLUMN
from calibrant._row_sample import MAX_CELLS
from calibrant.errors import PredictionFileError, number_of, some_in_words
from calibrant.scale import Chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.align import Aligned
    from calibrant._files.columns import ColumnSelection
    from calibrant._files.source import Source
    from calibrant._files.text import Place
    from calibrant.scale import RowSample

T = TypeVar("T")

LARGE_BYTES = 2 << 30
"""Size of a file above which it is read in chunks, and sampled if its rows are too many."""

MOST_LABELS = 1000
"""Distinct labels, beside ten for each column, after which no others are looked for."""


def is_read_in_chunks(path: Path, labels: Path | None = None) -> bool:
    """Whether a path is a directory of tables, or a file that is too large to be read whole.

    Logs of language models are read whole, whatever their size, and so is a table whose
    ``labels`` are in another file.
    """
    known = find_format(path)
    if path.is_dir():
        return known is None or not known.is_log
    can_be = known is not None and not known.is_log and not (known.is_table and labels is not None)
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


class RawRows(NamedTuple):
    """Some rows of a file: scores in the order of the first file's columns, and raw labels."""

    scores: NDArray[Any]
    labels: Any
    place: Place


class FileChunks(Chunks):
    """Rows of a large file, or of all tables of a directory, which have the same columns.

    Until :meth:`settle` was called the classes of the columns are not known. Then it has what
    ``Aligned`` has of a file that was read whole, and commands take either of them.

    Parameters
    ----------
    path : Path
        File, or directory of tables.
    opening : callable
        ``opening(file, selection=...)`` opens a file, as ``open_source`` does.
    selection : ColumnSelection
        What the caller says of the columns of the first file; all other files have the same.
    progress : callable, optional
        Called with the number of rows that were read, of all rows if it is known, and words.
    """

    has_absent = is_stated = False

    def __init__(
        self,
        path: Path,
        opening: Callable[..., AbstractContextManager[Source]],
        selection: ColumnSelection,
        progress: Callable[[int, int | None, str], None] | None = None,
    ) -> None:
        self.files = find_tables(path) if path.is_dir() else [path]
        self._opening, self._progress = opening, progress
        with opening(self.files[0], selection=selection) as source:
            self.kind, self._place, layout = source.kind, source.place, source.layout
            self._is_sure = layout is None or layout.is_chosen
        self.source = str(path) if path.is_dir() else self._place.source
        if layout is not None:
            columns = tuple(layout.score_names)
            selection = replace(selection, label=layout.label, columns=columns)
        self._selection = selection
        self._n_rows: int | None = None
        self._gives_probabilities = False
        self._sampled: tuple[Any, RowSample] | None = None

    def _read(self, what: str) -> Iterator[RawRows]:
        """Yield the rows of all files, and say how far it is."""
        names, n_done = self._place.names, 0
        for file in self.files:
            first = 0
            with self._opening(file, selection=self._selection) as source:
                own = source.place.names
                order = None if own == names else [(own or []).index(name) for name in names or []]
                for chunk in source.chunks:
                    scores = chunk.scores if order is None else chunk.scores[:, order]
                    place = replace(source.place, names=names, first_row=first)
                    if len(scores):
                        yield RawRows(scores, _labels_of(chunk.labels(), place), place)
                    first, n_done = first + len(scores), n_done + len(scores)
                    if self._progress is not None:
                        self._progress(n_done, self._n_rows, f"{what} {self.source}")
        self._n_rows = n_done

    def settle(self, align: Callable[[RawPredictions], Aligned]) -> Self:
        """Read all labels, and let ``align`` tell the class of each column.

        It is given the first rows, and the first row of each label that comes later.
        """
        all_rows = self._read("reading the labels of")
        head = next(all_rows, None)
        if head is None:
            raise PredictionFileError(f"{self.source} has no rows")
        found = RawPredictions(head.scores, self.kind, head.labels, head.place, self._is_sure)
        if head.labels is not None and head.labels.ndim == 1:
            found = self._with_later_labels(found, head.labels, all_rows)
        self._found = align(found)
        self._typed: dict[Any, Any] = {}
        if found.labels is not None and found.labels.ndim == 1:
            pairs = zip(found.labels.tolist(), self._found.y.tolist(), strict=True)
            self._typed = {raw: own for raw, own in pairs if raw != own}
        self.place, self.classes = self._found.place, self._found.classes
        self.normalize = self._found.normalize
        self.names = fitted_names(self._found.scores, self.kind)
        self.n_columns = head.scores.shape[1]
        return self

    def _with_later_labels(
        self, found: RawPredictions, labels: NDArray[Any], rows: Iterator[RawRows]
    ) -> RawPredictions:
        """Add the first row of each label that the first rows lack."""
        seen, later, n_first = set(labels.tolist()), [], len(labels)
        most = MOST_LABELS + 10 * found.scores.shape[1]
        for own in rows:
            later += _first_of_new(own, seen)
            if len(seen) > most:  # ids or numbers, which are refused
                break

        def where(row: int) -> str:
            if row < n_first:
                return found.place.label(row)
            return later[row - n_first].place.label(0)

        return replace(
            found,
            scores=np.concatenate([found.scores, *(own.scores for own in later)]),
            labels=np.concatenate([labels, *(own.labels for own in later)]),
            place=replace(found.place, where=where),
        )

    def _aligned(self) -> Iterator[Aligned]:
        """Yield the rows of all files as ``align`` would return them."""
        like, names = self._found, self._found.place.names
        is_turned = like.is_flipped or (names is not None and names != self._place.names)
        known = like.classes or self.labels().tolist()
        for scores, raw, place in self._read("reading"):
            yield replace(
                like,
                y=self._labels(raw, place),
                matrix=scores[:, ::-1] if is_turned else scores,
                place=replace(place, names=names),
                classes=known,
            )

    def _labels(self, raw: Any, place: Place) -> NDArray[Any]:
        """Return the labels of some rows, of the type that those of all rows have."""
        if raw.ndim > 1:
            return np.asarray(raw)
        if raw.dtype.kind in "OUS":  # each text was read before: it is looked up, if it changes
            typed = self._typed
            own = [typed.get(label, label) for label in raw.tolist()] if typed else raw
            return np.array(own, dtype=object)
        return read_labels(raw, place, as_text=self._found.y.dtype.kind == "U")

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels, which are known; one-hot rows have the columns."""
        y = self._found.y
        return np.unique(y) if y.ndim == 1 else np.arange(self.n_columns)

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk, one after the other; a fault is told with its file and row."""

        def counted() -> Iterator[T]:
            for rows in self._aligned():
                with rows.explained(), notices.kept():  # what is said of all rows is said once
                    scores = rows.probabilities() if self._gives_probabilities else rows.scores
                    found = count(scores, rows.y)
                yield found

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
        return self._found.explained()


def _labels_of(raw: NDArray[Any] | None, place: Place) -> NDArray[Any] | None:
    """Return labels as they stand in a file, whole numbers as such; refuse what no label can be."""
    if raw is not None and raw.dtype.kind not in LABEL_KINDS:
        raise PredictionFileError(
            f"{place.source} has labels of dtype {raw.dtype}; write a number or a text for each row"
        )
    if raw is None or raw.dtype.kind != "f" or not np.all(np.isfinite(raw) & (raw % 1 == 0)):
        return raw
    return raw.astype(np.int64)


def _first_of_new(rows: RawRows, seen: set[Any]) -> list[RawRows]:
    """Return the first row of each label that was not seen, and note it as seen."""
    labels, found = rows.labels.tolist(), []
    new = set(labels) - seen
    seen |= new
    for i, label in enumerate(labels if new else ()):
        if label in new:
            new.remove(label)
            place = replace(rows.place, first_row=rows.place.first_row + i)
            found.append(RawRows(rows.scores[i : i + 1], rows.labels[i : i + 1], place))
    return found
