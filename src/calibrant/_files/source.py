"""An open file of predictions, whatever its format: rows in chunks, or all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._one_column import ONE_COLUMN
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from calibrant._files.columns import Layout
    from calibrant._files.logs import Log
    from calibrant._files.text import Place

CHUNK_BYTES = 1 << 20
"""Bytes of the scores in a chunk of an array."""

LABEL_KINDS = "iufbUSO"
"""Kinds of dtypes that labels may have; objects are texts of a table."""


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Some rows: scores, labels when they are asked for, and what stands beside them.

    ``beside`` are the columns that were asked for by name, as they are stored; ``batch`` is the
    record batch of a table. Labels are read on demand: ``apply`` takes files whose labels are bad.
    """

    scores: NDArray[Any]
    read_labels: Callable[[], NDArray[Any]] | None = None
    beside: dict[str, Any] = field(default_factory=dict)
    batch: Any = None

    def labels(self) -> NDArray[Any] | None:
        """Return the labels, if there are any."""
        return None if self.read_labels is None else self.read_labels()

    def rows(self, start: int, stop: int) -> FileChunk:
        """Return some of the rows of arrays."""
        own = self.read_labels
        labels = None if own is None else lambda: own()[start:stop]
        beside = {name: values[start:stop] for name, values in self.beside.items()}
        return FileChunk(self.scores[start:stop], labels, beside)


@dataclass(frozen=True, slots=True)
class RawPredictions:
    """What a file of predictions holds: scores, and labels as they stand in it.

    Unless its columns are sure to hold scores, they are all columns of numbers of a table. ``log``
    is that of an evaluation, whose rows may lack some of the options. ``beside`` are the columns
    that were asked for by name.
    """

    scores: NDArray[Any]
    kind: str
    labels: NDArray[Any] | None
    place: Place
    are_columns_sure: bool = True
    log: Log | None = None
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where it came from."""
        return self.place.source

    def require_labels(self) -> NDArray[Any]:
        """Return the labels, or say where they could have been."""
        if self.labels is None:
            raise PredictionFileError(
                f"{self.source} has no labels; tables need a column 'label' or a single column of "
                "text, or name it with --label-column; npz files need an array 'labels', npy files "
                "--labels FILE (--test-labels FILE for TEST)"
            )
        return self.labels


@dataclass(frozen=True, slots=True)
class Source:
    """An open file of predictions: ``whole`` if it is held or mapped in memory, else ``stream``.

    A stream can be read once. The layout and the schema are those of a table; ``log`` is what was
    read of the log of an evaluation.
    """

    place: Place
    kind: str
    n_columns: int
    dtype: np.dtype[Any]
    has_labels: bool
    whole: FileChunk | None = None
    stream: Iterator[FileChunk] | None = None
    layout: Layout | None = None
    schema: Any = None
    log: Log | None = None

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known before they are read."""
        return None if self.whole is None else len(self.whole.scores)

    @property
    def chunks(self) -> Iterator[FileChunk]:
        """Rows, some at a time."""
        if self.whole is None:
            yield from self.stream or ()
        elif self.log is not None:
            yield self.whole
        else:
            step = max(1, CHUNK_BYTES // (self.dtype.itemsize * self.n_columns))
            for start in range(0, len(self.whole.scores), step):
                yield self.whole.rows(start, start + step)

    def join(self) -> FileChunk:
        """Read all rows as one chunk."""
        return self.whole or _joined(self.stream or iter(()), self.n_columns)

    def read(self) -> RawPredictions:
        """Read all rows."""
        whole = self.join()
        is_sure = self.layout is None or self.layout.is_chosen
        return RawPredictions(
            whole.scores, self.kind, whole.labels(), self.place, is_sure, self.log, whole.beside
        )


def _joined(chunks: Iterator[FileChunk], n_columns: int) -> FileChunk:
    """Return the rows of all chunks of a table as one."""
    import pyarrow as pa

    parts = list(chunks)
    if not parts:
        return FileChunk(np.empty((0, n_columns)))
    table = pa.Table.from_batches([part.batch for part in parts])

    def labels() -> NDArray[Any]:
        return np.concatenate([part.labels() for part in parts])

    return FileChunk(
        np.concatenate([part.scores for part in parts]),
        None if parts[0].read_labels is None else labels,
        {name: table.column(name) for name in parts[0].beside},
        table,
    )


def kind_of(kind: str | None, n_columns: int, where: str, plain: str = "probabilities") -> str:
    """Kind of the scores: as the caller says, else ``plain``, or that of one column of it."""
    if kind is None:
        return plain if n_columns > 1 else {two: one for one, two in ONE_COLUMN.items()}[plain]
    if kind in ONE_COLUMN and n_columns > 1:
        raise PredictionFileError(
            f"{where} has {n_columns} columns of scores, but --scores {kind} needs one number per "
            "row; choose one column with --columns"
        )
    return kind
