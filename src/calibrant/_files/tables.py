"""Text, Parquet and Arrow tables: a column per class, one with the labels, and others."""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._files import text
from calibrant._files.arrays import decoding, open_binary
from calibrant._files.columns import check_header, is_number, make_layout, no_column
from calibrant._files.source import RawPredictions, Source, kind_of
from calibrant._files.text import Place, suffix_of
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.columns import Request, Samples

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
CHUNK_BYTES = 1 << 23
"""Bytes of the columns of a Parquet or Arrow table that are read at a time."""

LONGEST_NUMBER = 64

MORE_MISSING = ["None", "none", "NONE", "<NA>", "<na>", "n/A", "Na", "-", " "]
"""How cells say that there is no score, beside what Arrow knows."""


class OpenTable(NamedTuple):
    """An open table: its header, first values, and what reads some of its columns.

    ``read(columns, numbers, missing)`` yields record batches of these columns; those of text
    tables are text but for the ``numbers``, in which ``missing`` cells are null. The schema of
    text is not known.
    """

    names: list[str]
    samples: Samples
    schema: Any
    read: Callable[[list[str], Collection[str], bool], Iterator[Any]]


def open_table(path: Path, stack: ExitStack) -> OpenTable:
    """Open a table of any format, until the stack is closed."""
    if suffix_of(path) not in (*PARQUET, *ARROW):
        return _open_text(path, stack)
    is_parquet = suffix_of(path) in PARQUET
    kind = "Parquet" if is_parquet else "Arrow"
    with open_binary(path, kind), decoding(path, kind):
        schema, batches = (_open_parquet if is_parquet else _open_arrow)(path, stack)
    check_header(schema.names, str(path))

    def read(columns: list[str], *_: Any) -> Iterator[Any]:
        step = math.ceil(CHUNK_BYTES / (8 * max(len(columns), 1)))
        with decoding(path, kind):
            for batch in batches(columns, step):
                batch.validate(full=True)  # offsets of a damaged file point anywhere
                yield batch.select(columns)

    with decoding(path, kind):
        first = next(batches(schema.names, text.SAMPLE_ROWS), None)
        samples = {field.name: _sample(field, first) for field in schema}
    return OpenTable(schema.names, samples, schema, read)


def _open_parquet(path: Path, stack: ExitStack) -> tuple[Any, Callable[..., Iterator[Any]]]:
    """Open a Parquet file: its schema, and what reads chunks of rows of some columns.

    A dataset of Arrow would hold whole groups of rows, which may be as large as the file.
    """
    import pyarrow.parquet as pq

    file = stack.enter_context(pq.ParquetFile(path, buffer_size=1 << 14, pre_buffer=False))
    return file.schema_arrow, lambda columns, step: file.iter_batches(step, columns=columns)


def _open_arrow(path: Path, stack: ExitStack) -> tuple[Any, Callable[..., Iterator[Any]]]:
    """Open an Arrow file: its schema, and what reads chunks of rows."""
    import pyarrow as pa

    file = stack.enter_context(pa.ipc.open_file(stack.enter_context(pa.memory_map(str(path)))))

    def chunks(columns: list[str], step: int) -> Iterator[Any]:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number).select(columns)
            yield from (batch.slice(start, step) for start in range(0, batch.num_rows, step))

    return file.schema, chunks


def _sample(field: Any, first: Any) -> list[str] | None:
    """First values of a column of numbers as text; None for any other column."""
    if not _is_one_of(field.type, *NUMBERS):
        return None
    values = [] if first is None else first.column(field.name).to_pylist()
    return [str(value) for value in values if value is not None]


def _open_text(path: Path, stack: ExitStack) -> OpenTable:
    head, file = stack.enter_context(text.open_rows(path))
    names = head.names
    if all(map(is_number, names)):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(names[:4])} ... are numbers; the first line must name the "
            "columns"
        )
    check_header(names, f"{path}, line 1")
    return OpenTable(names, head.cells, None, partial(_read_text, path, head, file))


def _read_text(
    path: Path,
    head: text.TextHead,
    file: Any,
    columns: list[str],
    numbers: Collection[str],
    takes_missing: bool = False,
) -> Iterator[Any]:
    """Yield record batches of a text table."""
    import pyarrow as pa
    from pyarrow import csv

    missing = [*csv.ConvertOptions().null_values, *MORE_MISSING]
    is_empty = True
    with _explained(path, head.names):
        batches = csv.open_csv(
            file,
            # One thread, which tells the row of a fault; a block must hold a row.
            csv.ReadOptions(
                use_threads=False,
                block_size=max(text.BLOCK_BYTES, LONGEST_NUMBER * len(head.names)),
                skip_rows=1,
                column_names=head.names,
            ),
            csv.ParseOptions(delimiter=head.separator, newlines_in_values=True),
            csv.ConvertOptions(
                column_types={n: pa.float64() if n in numbers else pa.string() for n in columns},
                include_columns=columns,
                null_values=missing if takes_missing else [],
                decimal_point=head.decimal_point(numbers),
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
        message = text.explain(path, names, str(error.__cause__))
        raise PredictionFileError(message) from error


def read_table(path: Path, request: Request, stack: ExitStack) -> Source:
    """Open a table of predictions."""
    table = open_table(path, stack)
    layout = make_layout(table.names, table.samples, request, str(path))
    names, label = layout.score_names, layout.label
    columns = request.read_of(layout)
    schema = table.schema
    if schema is None:
        import pyarrow as pa

        schema = pa.schema((n, pa.float64() if n in names else pa.string()) for n in table.names)

    place, kind = Place(path, str(path), names), kind_of(request.kind, len(names), str(path))

    def read() -> Iterator[RawPredictions]:
        done = 0
        for batch in table.read(columns, names, request.takes_missing):
            labels = None
            if label is not None:
                labels = np.asarray(batch.column(label).to_numpy(zero_copy_only=False))
            yield RawPredictions(
                scores_of(batch, names if request.reads_scores else [], path),
                kind,
                labels,
                replace(place, first_row=done),
                layout.is_chosen,
                beside={name: batch.column(name) for name in request.beside},
                batch=batch,
            )
            done += batch.num_rows

    n_columns, dtype = len(names), np.dtype(np.float64)
    return Source(place, kind, n_columns, dtype, stream=read(), layout=layout, schema=schema)


def read_table_column(path: Path, name: str, option: str) -> Any:
    """Return a column of a table, which may have no scores."""
    import pyarrow as pa

    with ExitStack() as stack:
        table = open_table(path, stack)
        if name not in table.names:
            raise no_column(str(path), name, option, table.names)
        return pa.chunked_array([batch.column(name) for batch in table.read([name], (), False)])


NUMBERS = ("floating", "integer", "decimal", "boolean")
"""Types of Arrow that scores may have."""


def _is_one_of(kind: Any, *names: str) -> bool:
    """Whether a type, or that of the values of a dictionary, is one of those of these names."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(getattr(types, f"is_{name}")(kind) for name in names)


def scores_of(batch: Any, names: list[str], path: Path) -> NDArray[np.float64]:
    """Scores of a record batch."""
    scores = np.empty((batch.num_rows, len(names)))
    for j, name in enumerate(names):
        column = batch.column(name)
        if not _is_one_of(column.type, *NUMBERS):
            raise PredictionFileError(
                f"{path}, column {name!r} is of type {column.type}; scores must be numbers: name "
                "the labels with --label-column, or leave the column out with --ignore"
            )
        scores[:, j] = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return scores
