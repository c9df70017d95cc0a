"""Text, Parquet and Arrow tables: a column per class, one with the labels, and others."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._files import text
from calibrant._files.arrays import decoding, open_binary
from calibrant._files.columns import check_header, is_number, make_layout, no_column
from calibrant._files.source import RawPredictions, Source, kind_of
from calibrant._files.text import TEXT, Place, suffix_of
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import ExitStack
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.columns import Request, Samples

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
CHUNK_BYTES = 1 << 23
"""Bytes of the columns of a Parquet or Arrow table that are read at a time."""

LONGEST_NUMBER = 64
NUMBERS = ("floating", "integer", "decimal", "boolean")
"""Types of Arrow that scores may have."""

MORE_MISSING = ["None", "none", "NONE", "<NA>", "<na>", "n/A", "Na", "-", " "]
"""How cells say that there is no score, beside what Arrow knows."""


class OpenTable(NamedTuple):
    """An open table: its header, first values, and what reads some of its columns.

    ``read(columns, numbers)`` yields record batches of these columns; those of text tables are
    text but for the ``numbers``, of which missing ones are null.
    """

    names: list[str]
    samples: Samples
    read: Callable[[list[str], Collection[str]], Iterator[Any]]


def open_table(path: Path) -> OpenTable:
    """Open a table of any format."""
    return _open_text(path) if suffix_of(path) in TEXT else _open_arrow(path)


def _open_arrow(path: Path) -> OpenTable:
    """Open a Parquet or Arrow file."""
    import pyarrow as pa
    from pyarrow import dataset

    kind = "Parquet" if suffix_of(path) in PARQUET else "Arrow"
    with open_binary(path, kind), decoding(path, kind):
        table = dataset.dataset(str(path), format="parquet" if kind == "Parquet" else "ipc")
        first = table.head(text.SAMPLE_ROWS)
        samples = {field.name: _sample(field, first) for field in table.schema}
    check_header(table.schema.names, str(path))

    def read(columns: list[str], _: Collection[str]) -> Iterator[Any]:
        n_rows = math.ceil(CHUNK_BYTES / (8 * max(len(columns), 1)))
        batches = table.to_batches(columns, batch_size=n_rows, batch_readahead=1, use_threads=False)
        is_empty = True
        with decoding(path, kind):
            for batch in batches:
                batch.validate(full=True)  # offsets of a damaged file point anywhere
                is_empty &= batch.num_rows == 0
                yield batch
        if is_empty:  # such as a partition that Spark wrote
            yield pa.RecordBatch.from_pylist([], table.schema).select(columns)

    return OpenTable(table.schema.names, samples, read)


def _sample(field: Any, first: Any) -> list[str] | None:
    """First values of a column of numbers as text; None for any other column."""
    if not _is_number(field.type):
        return None
    values = first.column(field.name).to_pylist()
    return [str(value) for value in values if value is not None]


def _is_number(kind: Any) -> bool:
    """Whether a type of Arrow, or that of the values of a dictionary, is one of numbers."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(getattr(types, f"is_{name}")(kind) for name in NUMBERS)


def _open_text(path: Path) -> OpenTable:
    """Open a text table."""
    head = text.read_head(path)
    if all(map(is_number, head.names)):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(head.names[:4])} ... are numbers; the first line must "
            "name the columns"
        )
    check_header(head.names, f"{path}, line 1")
    return OpenTable(head.names, head.cells, partial(_read_text, path, head))


def _read_text(
    path: Path, head: text.TextHead, columns: list[str], numbers: Collection[str]
) -> Iterator[Any]:
    """Yield record batches of a text table."""
    import pyarrow as pa
    from pyarrow import csv

    is_empty = True
    with _explained(path, head.names):
        batches = csv.open_csv(
            str(path),
            # One thread, which tells the row of a fault; a block must hold a row.
            csv.ReadOptions(
                use_threads=False,
                block_size=max(text.BLOCK_BYTES, LONGEST_NUMBER * len(head.names)),
                skip_rows=1,
                column_names=head.names,
            ),
            csv.ParseOptions(delimiter=head.separator, newlines_in_values=True),
            csv.ConvertOptions(
                # Other columns stay text: they are written again as they were.
                column_types={n: pa.float64() if n in numbers else pa.string() for n in columns},
                include_columns=columns,
                null_values=[*csv.ConvertOptions().null_values, *MORE_MISSING],
            ),
        )
        for batch in batches:
            is_empty &= batch.num_rows == 0
            yield batch
    if is_empty:
        raise PredictionFileError(f"{path} has a header but no rows")


@contextmanager
def _explained(path: Path, names: list[str]) -> Iterator[None]:
    """Say what Arrow could not read, with the line and the column."""
    import pyarrow as pa

    try:
        with decoding(path, "text"):
            yield
    except PredictionFileError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        raise text.explain(path, names, str(error.__cause__)) from error


def read_table(path: Path, request: Request, _: ExitStack) -> Source:
    """Open a table of predictions."""
    table = open_table(path)
    layout = make_layout(table.names, table.samples, request, str(path))
    names, label = layout.score_names, layout.label
    place, kind = Place(path, str(path), names), kind_of(request.kind, len(names), str(path))

    def read() -> Iterator[RawPredictions]:
        done = 0
        for batch in table.read(request.read_of(layout), names):
            yield RawPredictions(
                _scores_of(batch, names if request.reads_scores else [], path),
                kind,
                None
                if label is None
                else np.asarray(batch.column(label).to_numpy(zero_copy_only=False)),
                replace(place, first_row=done),
                layout.is_chosen,
                beside={name: batch.column(name) for name in request.beside},
                batch=batch,
            )
            done += batch.num_rows

    return Source(place, kind, len(names), np.dtype(float), stream=read(), layout=layout)


def read_table_column(path: Path, name: str, option: str) -> Any:
    """Return a column of a table, which may have no scores."""
    import pyarrow as pa

    table = open_table(path)
    if name not in table.names:
        raise no_column(str(path), name, option, table.names)
    return pa.chunked_array([batch.column(name) for batch in table.read([name], ())])


def _scores_of(batch: Any, names: list[str], path: Path) -> NDArray[np.float64]:
    """Scores of a record batch."""
    scores = np.empty((batch.num_rows, len(names)))
    for j, name in enumerate(names):
        column = batch.column(name)
        if not _is_number(column.type):
            raise PredictionFileError(
                f"{path}, column {name!r} is of type {column.type}; scores must be numbers: name "
                "the labels with --label-column, or leave the column out with --ignore"
            )
        scores[:, j] = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return scores
