"""Tables larger than memory: files and directories of Parquet, Arrow or CSV, read in batches."""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _extras as extras
from calibrant import errors
from calibrant._gate import NamedMatrix
from calibrant.scale._chunks import Chunks, count_each, located, sorted_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

T = TypeVar("T")

BATCH_CELLS = 1 << 22
"""Scores that are read at once: 32 MiB."""

FORMATS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc", ".csv": "csv", ".tsv": "csv"}


class TableChunks(Chunks):
    """Batches of the rows of a dataset of pyarrow; ``open_tables`` makes it."""

    names: list[str]

    def __init__(
        self, dataset: Any, scores: Sequence[str], label: str | None, weight: str | None = None
    ) -> None:
        known = dataset.schema.names
        for name in (*scores, label, weight):
            if name is not None and name not in known:
                raise errors.ColumnNameError(
                    f"the tables have no column {name!r}; their columns are "
                    f"{errors.some_in_words(known, 20)}"
                )
        self._dataset, self._label, self._weight = dataset, label, weight
        self.names, self.n_columns = list(scores), len(scores)
        self._others = [name for name in (label, weight) if name is not None]

    def _each(self, columns: Sequence[str], work: Callable[[Any], T]) -> Iterator[T]:
        """Yield the result of some work for every batch of some columns."""
        known = {"scores": self.names, "y": self._label, "sample_weight": self._weight}
        for fragment in self._dataset.get_fragments():
            first = 0
            for batch in _batches(fragment, list(columns), self._dataset.schema):
                if batch.num_rows:
                    with located(fragment.path, first_row=first, columns=known):
                        result = work(batch)
                    yield result
                first += batch.num_rows

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels; no score is read for them."""
        each = partial(self._merged, self._others)
        return sorted_labels(each(lambda batch: count_each(None, *self._labels_of(batch)), add))

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every batch, one after the other."""
        columns = [*self.names, *self._others]
        return self._merged(
            columns, lambda batch: count(self._matrix(batch), *self._labels_of(batch)), merge
        )

    def _merged(
        self, columns: Sequence[str], work: Callable[[Any], T], merge: Callable[[T, T], T]
    ) -> T:
        if self._label is None:
            raise errors.LabelError("the tables have no column of labels; pass label=")
        results = self._each(columns, work)
        for first in results:
            return reduce(merge, results, first)
        raise errors.ShapeError("the tables have no row; pass at least one")

    def map(self, predict: Callable[[Any], Any]) -> Iterator[Any]:
        """Return an iterator of the predictions for every batch."""
        return self._each(self.names, lambda batch: predict(self._matrix(batch)))

    def _matrix(self, batch: Any) -> NamedMatrix:
        columns = [to_numpy(batch.column(name)) for name in self.names]
        return NamedMatrix(np.column_stack(columns), self.names)

    def _labels_of(self, batch: Any) -> tuple[Any, Any]:
        weight = None if self._weight is None else to_numpy(batch.column(self._weight))
        return batch.column(self._label).to_pandas(), weight


def _batches(fragment: Any, columns: list[str], schema: Any) -> Iterator[Any]:
    """Yield the batches of a file; no more of it than a few of them is held."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    for name in columns:
        if name not in fragment.physical_schema.names:
            raise errors.ColumnNameError(
                f"{fragment.path} has no column {name!r}, which other files have"
            )
    n_rows = max(BATCH_CELLS // max(len(columns), 1), 1)
    if not isinstance(fragment, ds.ParquetFileFragment):
        yield from fragment.to_batches(
            schema, columns=columns, batch_size=n_rows, batch_readahead=1
        )
        return
    # A scan would hold whole groups of rows, and one may be as large as the file.
    with pq.ParquetFile(fragment.open(), buffer_size=1 << 14, pre_buffer=False) as file:
        yield from file.iter_batches(n_rows, columns=columns)


def to_numpy(column: Any) -> NDArray[Any]:
    """Return a column of Arrow; what is null among numbers is NaN."""
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


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
        Files of Parquet, Arrow (Feather) or CSV, or a directory of files of one of these kinds.
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
    >>> table = pd.DataFrame(scores, columns=["0", "1", "2"]).assign(label=y)
    >>> path = Path(mkdtemp()) / "predictions.parquet"
    >>> table.to_parquet(path)
    >>> chunks = open_tables(path, scores=["0", "1", "2"])
    >>> TemperatureScaling().fit(chunks).classes_.tolist()
    [0, 1, 2]
    """
    try:
        import pyarrow.dataset as ds
        from pyarrow import csv
    except ImportError as error:
        raise extras.needed(error, "calibrant.scale.open_tables", "cli") from error
    paths = [Path(given) for given in ([path] if isinstance(path, str | Path) else path)]
    inside = [file for given in paths for file in (data_in(given) if given.is_dir() else [given])]
    files = [file for file in inside if file.suffix.lower() in FORMATS]
    if not files:
        raise errors.PredictionFileError(
            f"{errors.some_in_words(list(map(str, paths)))} has no .parquet, .arrow, .feather, "
            ".csv or .tsv file"
        )
    suffix, *others = sorted({file.suffix.lower() for file in files})
    if others:
        raise errors.PredictionFileError(
            f"the directory has files of several kinds, {', '.join([suffix, *others])}; pass those "
            "of one kind"
        )
    kind: Any = FORMATS[suffix]
    if suffix == ".tsv":
        kind = ds.CsvFileFormat(csv.ParseOptions(delimiter="\t"))
    dataset = ds.dataset([str(file) for file in files], format=kind)
    return TableChunks(dataset, scores, label, weight)


def data_in(path: Path) -> list[Path]:
    """Return what is in a directory and below it, sorted.

    What begins with a dot or an underscore is not data: Spark and Dask write such files.
    """
    files = sorted(path.rglob("*"))
    return [file for file in files if not any(p[0] in "._" for p in file.relative_to(path).parts)]
