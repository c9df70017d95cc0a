"""Files larger than memory, and directories of tables: rows in chunks, as ``fit`` takes them."""

from __future__ import annotations

import glob
from copy import copy
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _extras as extras
from calibrant import _notices as notices
from calibrant._files.columns import Request
from calibrant._files.predictions import TABLES, find_format, is_table, open_source
from calibrant._files.tables import TEXT, suffix_of
from calibrant._files.values import read_labels, values_of
from calibrant._gate import ONE_COLUMN, NamedMatrix, fitted_names
from calibrant.errors import LabelError, PredictionFileError, ShapeError, number_of, some_in_words
from calibrant.scale import Chunks, located

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from calibrant._files.align import Aligned
    from calibrant._files.source import RawPredictions
    from calibrant.scale import RowSample

T = TypeVar("T")

LARGE_BYTES = 2 << 30
"""Size of a file above which it is read in chunks, and sampled if its rows are too many."""


def is_read_in_chunks(path: Path) -> bool:
    """Whether a path is a directory of tables, or a file that is too large to be read whole.

    Logs of language models and npz files are read whole, whatever their size.
    """
    known = find_format(path)
    can_be = known is not None and known.holds in ("array", "table")
    return path.is_dir() or (can_be and path.is_file() and path.stat().st_size > LARGE_BYTES)


def _files_in(path: Path) -> list[Path]:
    """Return the files with a suffix in a directory and below it, sorted.

    What begins with a dot or an underscore is not data: Spark and Dask write such files.
    """
    files = [file for file in sorted(path.rglob("*")) if file.suffix and file.is_file()]
    return [file for file in files if not any(p[0] in "._" for p in file.relative_to(path).parts)]


def find_tables(path: Path) -> list[Path]:
    """Return the tables in a directory and below it, sorted."""
    result = [file for file in _files_in(path) if is_table(file)]
    if not result:
        raise PredictionFileError(f"{path} is a directory without tables ({TABLES})")
    return result


def ignored_files(path: Path) -> str:
    """Say which files of a directory of tables are not read; nothing if there are none."""
    others = [str(f.relative_to(path)) for f in _files_in(path) if not is_table(f)]
    read = number_of(len(find_tables(path)), "table")
    return f"{path}: {read} read; ignored {some_in_words(others)}" if others else ""


class TableChunks(Chunks):
    """Rows of files of predictions, some at a time; the first file tells which columns are read.

    ``columns`` are their names, if the caller has put them in order. ``progress`` is called with
    the number of rows that were read, None for that of all rows, and words.
    """

    def __init__(
        self,
        files: Sequence[Path],
        request: Request,
        *,
        columns: list[str] | None = None,
        weight: str | None = None,
        progress: Callable[[int, int | None, str], None] | None = None,
    ) -> None:
        self.files, self._weight, self._progress = files, weight, progress
        with open_source(files[0], request) as source:
            self.source, self.n_columns = source.place.source, source.n_columns
            self._columns, layout = columns or source.place.names, source.layout
        self.names: list[Any] | None = self._columns
        self._label = None if layout is None else layout.label
        self._is_sure = layout is None or layout.is_chosen
        if layout is not None:
            request = replace(request, label=layout.label, columns=layout.score_names)
        self._request = request

    def _read(self) -> Iterator[RawPredictions]:
        """Yield the rows of all files, columns as in the first one, and say how far it is."""
        n_done = 0
        for file in self.files:
            with open_source(file, self._request) as source:
                names, order = source.place.names, None
                if self._request.reads_scores and names != self._columns:
                    order = [*map((names or []).index, self._columns or [])]
                for chunk in source.chunks:
                    scores = chunk.scores if order is None else chunk.scores[:, order]
                    if len(scores):
                        place = replace(chunk.place, names=self._columns)
                        yield replace(chunk, scores=scores, place=place)
                    n_done += len(scores)
                    if self._progress is not None:
                        self._progress(n_done, None, f"reading {self.source}")

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk, one after the other."""
        results = (self._count(count, raw) for raw in self._read())
        for first in results:
            return reduce(merge, results, first)
        raise ShapeError("the tables have no row; pass at least one")

    def _count(self, count: Callable[..., T], raw: RawPredictions) -> T:
        """Count one chunk."""
        if self._label is None:
            raise LabelError("the tables have no column of labels; pass label=")
        # Labels of text tables are numbers if all of them are; others are as they are stored.
        y: Any = raw.batch.column(self._label).to_pandas()
        if suffix_of(raw.place.path) in TEXT:
            y = read_labels(raw.require_labels(), raw.place)
        weight = None if self._weight is None else values_of(raw.beside[self._weight])
        with self._located(raw):
            return count(NamedMatrix(raw.scores, self._columns or []), y, weight)

    def _located(self, raw: RawPredictions) -> AbstractContextManager[None]:
        """Let errors name the file, the row and the column."""
        columns = {"scores": self.names, "y": self._label, "sample_weight": self._weight}
        return located(raw.place.source, first_row=raw.place.first_row, columns=columns)

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels; no score is read for them."""
        return Chunks.labels(self._without_scores())

    def _without_scores(self) -> TableChunks:
        """Return the same rows without their scores."""
        result = copy(self)
        result._request = replace(self._request, reads_scores=False)  # noqa: SLF001  (a copy)
        return result

    def map(self, predict: Callable[[Any], Any]) -> Iterator[Any]:
        """Return an iterator of the predictions for every chunk."""
        for raw in self._read():
            with self._located(raw):
                result = predict(NamedMatrix(raw.scores, self._columns or []))
            yield result


class FileChunks(TableChunks):
    """Rows of a large file, or of all tables of a directory, with the class of each column.

    All labels are read first: with the first rows they tell the classes, by ``align(raw, like=None,
    labels=None)``. It has what ``Aligned`` has of a file that was read whole, and commands take
    either.
    """

    has_absent = is_stated = False

    def __init__(
        self,
        path: Path,
        request: Request,
        align: Callable[..., Aligned],
        progress: Callable[[int, int | None, str], None] | None = None,
    ) -> None:
        super().__init__(find_tables(path) if path.is_dir() else [path], request, progress=progress)
        self.source = str(path) if path.is_dir() else self.source
        self._align, self._gives_probabilities = align, False
        self._sampled: tuple[Any, RowSample] | None = None
        first = next(self._read(), None)
        if first is None:
            raise PredictionFileError(f"{self.source} has no rows")
        self._labels = self._read_labels()
        self.first = align(replace(first, are_columns_sure=self._is_sure), labels=self._labels)
        self.kind, self.normalize = self.first.kind, self.first.normalize
        self.classes, self.place = self.first.classes, self.first.place
        self.names = fitted_names(self.first.scores, self.kind)

    def _read_labels(self) -> list[Any]:
        """Return the distinct labels of all rows."""
        labels: set[Any] = set()
        for raw in self._without_scores()._read():  # noqa: SLF001  (a copy)
            labels |= set(read_labels(raw.require_labels(), raw.place).tolist())
        if any(isinstance(label, str) for label in labels):  # numbers in some files alone
            labels = {str(label) for label in labels}
        return sorted(labels)

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels, which are known."""
        return np.array(self._labels)

    def _count(self, count: Callable[..., T], raw: RawPredictions) -> T:
        """Count one chunk; a fault is told with its file and row."""
        rows = self._align(raw, like=self.first)
        with rows.explained(), notices.kept():  # what is said of all rows is said once
            return count(rows.probabilities() if self._gives_probabilities else rows.scores, rows.y)

    def sample(self, classes: Any = None, **settings: Any) -> RowSample:
        """Return the rows, or a sample of them; who asks again gets the same."""
        asked = np.asarray(classes).tolist(), settings
        if self._sampled is None or self._sampled[0] != asked:
            self._sampled = asked, super().sample(classes, **settings)
        return self._sampled[1]

    def to_fit(self) -> tuple[Any, ...]:
        """Return what ``fit`` takes."""
        return (self,)

    def to_measure(self) -> tuple[Any, list[Any] | None]:
        """Return probabilities, as metrics take them, and the class of each column."""
        result = copy(self)
        result._gives_probabilities = True  # noqa: SLF001  (a copy)
        if self.kind in ONE_COLUMN:
            result.names, result.n_columns = None, 2
        return result, self.classes

    def count_rows(self) -> tuple[int, int]:
        """Return how many rows a fit has used, and how many were read."""
        if self._sampled is None:
            return 0, 0
        sample = self._sampled[1]
        return sample.n_rows if sample.is_complete else sample.n_kept, sample.n_rows

    def explained(self) -> AbstractContextManager[None]:
        """Let errors name the file and the options; the rows that told the classes are checked."""
        return self.first.explained()


def open_tables(
    path: Any,
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
    paths = [Path(given) for given in ([path] if isinstance(path, str | Path) else path)]
    files = [file for own in paths for file in (find_tables(own) if own.is_dir() else [own])]
    for file in files:
        if not is_table(file):
            raise PredictionFileError(f"{file} is not a table ({TABLES})")
    request = Request(
        label=label,
        columns=[*map(glob.escape, scores)],  # these are names, not patterns
        ignore=("*",) if label is None else (),
        beside={} if weight is None else {weight: "weight="},
        options=("scores=", "label="),
    )
    return TableChunks(files, request, columns=[*scores], weight=weight)
