"""A directory of tables, or one larger than memory: chunks of rows that are read and counted."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _threads as threads
from calibrant._columns import are_whole
from calibrant._containers import NamedMatrix
from calibrant._files import tables
from calibrant._files.align import align, read_labels
from calibrant._files.arrays import decoding, open_binary
from calibrant._files.predictions import RawPredictions, open_source
from calibrant._files.tables import ColumnSelection
from calibrant._files.text import Place
from calibrant.errors import DataError, PredictionFileError
from calibrant.scale._chunks import Chunks, merge_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.align import Aligned
    from calibrant.scale._chunks import Counted


def find_tables(path: Path) -> list[Path]:
    """Return the tables in a directory and below it, sorted; or the path, if it is one itself.

    What begins with a dot or an underscore is not data: Spark and Dask write such files.
    """
    if not path.is_dir():
        if not tables.is_table(path) or str(path) == "-":
            raise PredictionFileError(
                f"{path} is not a table that can be read in chunks more than once; use Parquet, "
                "Arrow, CSV, or a directory of them"
            )
        return [path]
    found = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix
        and tables.is_table(file)
        and file.is_file()
        and not any(part[0] in "._" for part in file.relative_to(path).parts)
    ]
    if not found:
        raise PredictionFileError(
            f"{path} is a directory without .parquet, .arrow, .csv or .tsv files"
        )
    return found


class TableChunks(Chunks):
    """Chunks of all rows in a table, or in the tables of a directory, with the same columns.

    ``selection`` is what the caller says of the columns, ``classes`` the class of each where names
    do not tell it, ``positive`` that of a single one. ``progress`` is called with the number of
    rows read in this pass, and of all.
    """

    def __init__(
        self,
        path: Path,
        *,
        selection: ColumnSelection,
        kind: str | None = None,
        classes: Sequence[str] | None = None,
        positive: str | None = None,
        progress: Callable[..., None] | None = None,
    ) -> None:
        self.path, self.files = path, find_tables(path)
        self._given, self._positive, self._progress = classes, positive, progress
        self._lock, self._n_done = Lock(), 0
        self._order: dict[str, Any] = {}
        self._n_rows: int | None = None  # of all files, when they were read once
        with open_source(self.files[0], kind=kind, selection=selection) as source:
            self._place = source.place
            layout = source.layout
            if layout is None or layout.label is None:
                raise PredictionFileError(
                    f"{self.files[0]} has no labels; tables need a column 'label' (--label-column)"
                )
            self._label, self._is_sure, self.kind = layout.label, layout.is_chosen, source.kind
            first = next(source.chunks, None)
            self._sample = np.empty((0, source.n_columns)) if first is None else first.scores
        self.names: list[str] = list(layout.score_names)
        self.n_classes = len(self.names)
        self._selection = ColumnSelection(self._label, tuple(self.names), selection.ignore)

    @cached_property
    def _aligned(self) -> Aligned:
        """Labels of all files, typed, and the classes of the columns."""
        first: dict[Any, Path] = {}
        for file in self.files:
            first = self._labels(file) | first
        self._n_rows, self._n_done = self._n_done, 0
        labels = self._of_one_type(first)

        def where(row: int) -> str:
            label = next(own for own in first if str(own) == str(labels[row]))
            return self._where(label, first[label])

        are_text = any(isinstance(label, str) for label in labels)
        raw = np.array(labels, dtype=object if are_text else None)
        place = replace(self._place, where=where)
        found = RawPredictions(self._sample, self.kind, raw, place, self._is_sure)
        return align(found, classes=self._given, positive=self._positive, **self._order)

    def _of_one_type(self, first: dict[Any, Path]) -> list[Any]:
        """Distinct labels, sorted; whole numbers and text that is a whole number are alike."""
        texts = [label for label in first if isinstance(label, str)]
        numbers = [label for label in first if not isinstance(label, str)]
        if texts and numbers and not are_whole(texts):
            word = next(label for label in texts if not are_whole([label]))
            raise PredictionFileError(
                f"{self._where(word, first[word])} is {word!r}, but "
                f"{self._where(numbers[0], first[numbers[0]])} is {numbers[0]!r}: labels are "
                "whole numbers in some files and text in others; write all in the same way"
            )
        return sorted(numbers) if not texts else sorted({str(label) for label in first})

    def _where(self, label: Any, file: Path) -> str:
        """Where a label stands first in a file."""
        with ExitStack() as stack:
            for batch, done in self._label_batches(file, stack):
                own = tables.labels_of(batch, self._label, file, done)
                same = np.flatnonzero(own == label if label == label else own != own)  # noqa: PLR0124
                if len(same):
                    return Place(file, str(file)).label(done + int(same[0]))
        return f"{file}: a label"

    @property
    def classes(self) -> list[Any] | None:
        """Class of each column, where the tables tell it."""
        return self._aligned.classes

    def put_positive_last(self, *, by_name: bool = False) -> None:
        """Read two columns in the sorted order of their classes, or the positive one last."""
        self._order = {"positive_last": True, "by_name": by_name}
        vars(self).pop("_aligned", None)
        self.names = self._aligned.place.names or self.names

    def _distinct(self) -> NDArray[Any]:
        return np.unique(self._aligned.y)

    def _labels(self, file: Path) -> dict[Any, Path]:
        """Distinct labels of a file, as they stand in it; of Parquet no other column is read."""
        found: dict[Any, Path] = {}
        with ExitStack() as stack:
            for batch, done in self._label_batches(file, stack):
                column, n_rows = batch.column(batch.schema.names.index(self._label)), len(batch)
                if column.null_count == 0:
                    batch = batch.from_arrays([column.unique()], [self._label])  # noqa: PLW2901
                own = tables.labels_of(batch, self._label, file, done)
                found |= dict.fromkeys(own.tolist(), file)
                self._advance(n_rows, "reading the labels of")
        return found

    def _label_batches(self, file: Path, stack: ExitStack) -> Iterator[tuple[Any, int]]:
        if file.suffix.lower() in tables.PARQUET:
            with open_binary(file, "Parquet"), decoding(file, "Parquet"):
                schema, found = tables.open_parquet(file, stack, [self._label])
            if self._label not in schema.names:
                raise PredictionFileError(
                    f"{file} has no column {self._label!r}, where {self.files[0]} has its labels"
                )
            batches = tables.guarded(found, lambda: decoding(file, "Parquet"))
        else:
            batches = tables.open_table(file, self._selection, stack).batches
        done = 0
        for batch in batches:
            yield batch, done
            done += batch.num_rows

    def count(self, empty: Counted) -> Counted:
        """Let a copy of ``empty`` count every file, and merge them in their order."""
        self._n_done = 0
        return merge_all(empty, self.count_each(empty, self.files))

    def count_each(self, empty: Counted, files: Sequence[Path]) -> Iterator[Counted]:
        """Yield the statistics of one file after the other."""
        yield from threads.each(lambda file: self._count_file(empty.empty(), file), files)

    def _count_file(self, found: Counted, file: Path) -> Counted:
        is_text = self._aligned.y.dtype.kind == "U"
        with open_source(file, kind=self.kind, selection=self._selection) as source:
            names = source.place.names or []
            same = names == self.names
            order = None if same else np.array([names.index(name) for name in self.names])
            done = 0
            for chunk in source.chunks:
                named = replace(source.place, first_row=done)
                raw = chunk.labels()
                if raw is None:
                    raise PredictionFileError(f"{file} has no labels in {self._label!r}")
                y = read_labels(raw, named, as_text=is_text)
                scores = chunk.scores if order is None else chunk.scores[:, order]
                try:
                    found.update(NamedMatrix(scores, self.names), y, named=named)
                except DataError as error:
                    if str(file) in str(error):
                        raise
                    raise type(error)(f"{source.place.prefix}{error}") from error
                done += len(scores)
                self._advance(len(scores), "reading")
        return found

    def _advance(self, n_rows: int, what: str) -> None:
        with self._lock:
            self._n_done += n_rows
            if self._progress is not None:
                self._progress(self._n_done, self._n_rows, f"{what} {self.path}")
