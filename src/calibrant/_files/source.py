"""An open file of predictions, whatever its format: rows in chunks, or all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._gate import ONE_COLUMN
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant._files.columns import Layout
    from calibrant._files.tables import Place

CHUNK_BYTES = 1 << 20
"""Bytes of the scores in a chunk of an array."""


@dataclass(frozen=True)
class RawPredictions:
    """Rows of a file of predictions: scores, and labels as they stand in it.

    Unless its columns are sure to hold scores, they are all columns of numbers of a table. Names of
    columns may be known to be the classes, as in archives and logs, whose labels are among them.
    ``beside`` are the columns that were asked for by name, as they are stored; ``batch`` has all
    columns of a table.

    Of the log of an evaluation, ``note`` says what was taken for a class. Rows of it may lack
    options (``has_absent``), and scores may be confidences that a model stated (``is_stated``).
    """

    scores: NDArray[Any]
    kind: str
    labels: NDArray[Any] | None
    place: Place
    are_columns_sure: bool = True
    names_are_classes: bool = False
    beside: dict[str, Any] = field(default_factory=dict)
    batch: Any = None
    note: str = ""
    has_absent: bool = False
    is_stated: bool = False

    def require_labels(self) -> NDArray[Any]:
        """Return the labels, or say where they could have been."""
        if self.labels is None:
            raise PredictionFileError(
                f"{self.place.source} has no labels; tables need a column 'label' or a single "
                "column of text, or name it with --label-column; npz files need an array 'labels', "
                "npy files --labels FILE (--test-labels FILE for TEST)"
            )
        return self.labels


@dataclass(frozen=True, slots=True)
class Source:
    """An open file of predictions: ``whole`` if it is held or mapped in memory, else ``stream``.

    A stream can be read once. The layout is that of a table.
    """

    place: Place
    kind: str
    n_columns: int
    dtype: np.dtype[Any]
    whole: RawPredictions | None = None
    stream: Iterator[RawPredictions] | None = None
    layout: Layout | None = None

    @classmethod
    def of(cls, rows: RawPredictions) -> Source:
        """Return rows that are held or mapped in memory as an open file."""
        scores = rows.scores
        return cls(rows.place, rows.kind, scores.shape[1], scores.dtype, rows)

    @property
    def chunks(self) -> Iterator[RawPredictions]:
        """Rows, some at a time, whose places are counted from the first of them."""
        whole = self.whole
        if whole is None:
            yield from self.stream or ()
        elif whole.note:
            yield whole
        else:
            step = max(1, CHUNK_BYTES // (self.dtype.itemsize * self.n_columns))
            for start in range(0, len(whole.scores), step):
                rows = slice(start, start + step)
                yield replace(
                    whole,
                    scores=whole.scores[rows],
                    labels=None if whole.labels is None else whole.labels[rows],
                    place=replace(whole.place, first_row=start),
                    beside={name: values[rows] for name, values in whole.beside.items()},
                )

    def read(self) -> RawPredictions:
        """Read all rows."""
        if self.whole is not None:
            return self.whole
        import pyarrow as pa

        parts = list(self.chunks)
        table = pa.Table.from_batches([part.batch for part in parts])
        labels = [part.labels for part in parts if part.labels is not None]
        return replace(
            parts[0],
            scores=np.concatenate([part.scores for part in parts]),
            labels=np.concatenate(labels) if labels else None,
            beside={name: table.column(name) for name in parts[0].beside},
            batch=table,
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
