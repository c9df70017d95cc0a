"""Text, Parquet and Arrow tables: a column per class, one with the labels, and others."""

from __future__ import annotations

import math
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._files import text
from calibrant._files.arrays import decoding, open_binary
from calibrant._files.layout import INDEX_NAMES, MORE_MISSING, is_number, make_layout
from calibrant._files.text import TEXT, suffix_of
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager, ExitStack
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.layout import ColumnSelection, Layout

PARQUET = {".parquet", ".pq"}
ARROW = {*PARQUET, ".arrow", ".feather", ".ipc"}
CHUNK_BYTES = 1 << 23
LONGEST_NUMBER = 64


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its suffix."""
    suffix = suffix_of(path)
    return suffix in TEXT or (suffix in ARROW and path.suffix.lower() != ".gz")


class OpenTable(NamedTuple):
    """An open table: what its columns are, and its rows in record batches."""

    layout: Layout
    schema: Any
    batches: Iterator[Any]


def open_table(path: Path, selection: ColumnSelection, stack: ExitStack) -> OpenTable:
    """Open a table of any format, until the stack is closed."""
    suffix = suffix_of(path)
    if suffix not in ARROW:
        return _open_text(path, selection, stack)
    kind = "Parquet" if suffix in PARQUET else "Arrow"
    with open_binary(path, kind), decoding(path, kind):
        schema, found = (open_parquet if suffix in PARQUET else _open_arrow)(path, stack)
    check_header(schema.names, str(path))
    batches = guarded(found, lambda: decoding(path, kind))
    first = next(batches, None)
    samples = {field.name: _sample(field.type, first, j) for j, field in enumerate(schema)}
    layout = make_layout(schema.names, samples, selection, str(path))
    return OpenTable(layout, schema, batches if first is None else chain([first], batches))


def open_parquet(
    path: Path, stack: ExitStack, columns: list[str] | None = None
) -> tuple[Any, Iterator[Any]]:
    """Open a Parquet file: its schema, and chunks of rows, of some of the columns."""
    import pyarrow.parquet as pq

    file = stack.enter_context(pq.ParquetFile(path, buffer_size=1 << 14, pre_buffer=False))
    schema = file.schema_arrow
    chosen = [name for name in schema.names if columns is None or name in columns]
    batches = file.iter_batches(_chunk_rows(len(chosen)), columns=chosen)
    return schema, (batch.select(chosen) for batch in batches)


def _open_arrow(path: Path, stack: ExitStack) -> tuple[Any, Iterator[Any]]:
    """Open an Arrow file: its schema, and chunks of rows."""
    import pyarrow as pa

    file = stack.enter_context(pa.ipc.open_file(stack.enter_context(pa.memory_map(str(path)))))
    step = _chunk_rows(len(file.schema.names))

    def chunks() -> Iterator[Any]:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)

    return file.schema, chunks()


def _chunk_rows(n_columns: int) -> int:
    return math.ceil(CHUNK_BYTES / (8 * max(n_columns, 1)))


def guarded(
    batches: Iterator[Any], guard: Callable[[], AbstractContextManager[None]]
) -> Iterator[Any]:
    """Record batches, each read under the guard of a context."""
    while True:
        with guard():
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)  # offsets of a damaged file point anywhere
        if batch is None:
            return
        yield batch


def _sample(kind: Any, first: Any, place: int) -> list[str] | None:
    """First values of a column of numbers as text; None for any other column."""
    if not _is_of_numbers(kind):
        return None
    values = [] if first is None else first.column(place)[: text.SAMPLE_ROWS].to_pylist()
    return [str(value) for value in values if value is not None]


def _open_text(path: Path, selection: ColumnSelection, stack: ExitStack) -> OpenTable:
    import pyarrow as pa
    from pyarrow import csv

    file = stack.enter_context(text.open_text(path))
    names, separator, samples, rest = text.read_start(file, path)
    if names and all(map(is_number, names)):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(names[:4])} ... are numbers; the first line must name the "
            "columns"
        )
    check_header(names, f"{path}, line 1")
    layout = make_layout(names, samples, selection, str(path))
    scores = set(layout.score_names)
    types = {name: pa.float64() if name in scores else pa.string() for name in layout.names}
    block = max(text.BLOCK_BYTES, LONGEST_NUMBER * len(names))  # which must hold a row
    missing = [*csv.ConvertOptions().null_values, *MORE_MISSING]
    with _explained(path, names):
        reader = csv.open_csv(
            pa.PythonFile(rest, mode="r"),
            # One thread, which tells the row of a fault.
            csv.ReadOptions(use_threads=False, block_size=block, column_names=names),
            csv.ParseOptions(delimiter=separator),
            csv.ConvertOptions(
                column_types=types, null_values=missing if selection.takes_missing else []
            ),
        )
    batches = guarded(stack.enter_context(reader), lambda: _explained(path, names))
    return OpenTable(layout, pa.schema(types), batches)


@contextmanager
def _explained(path: Path, names: list[str]) -> Iterator[None]:
    import pyarrow as pa

    try:
        with decoding(path, "text"):
            yield
    except PredictionFileError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        raise PredictionFileError(text.explain(path, names, str(error.__cause__))) from error


def check_header(head: list[str], where: str) -> None:
    """Refuse a header in which a name is missing or there twice."""
    seen = set()
    for i, name in enumerate(head):
        if not name and not (i == 0 and name in INDEX_NAMES):
            raise PredictionFileError(f"{where}: column {i + 1} has no name")
        if name in seen:
            raise PredictionFileError(f"{where}: column name {name!r} is there twice")
        seen.add(name)


def scores_of(batch: Any, layout: Layout, path: Path) -> NDArray[np.float64]:
    """Scores of a record batch."""
    scores = np.empty((batch.num_rows, len(layout.score_names)))
    place = {name: j for j, name in enumerate(batch.schema.names)}
    for j, name in enumerate(layout.score_names):
        column = batch.column(place[name])
        if not _is_of_numbers(column.type):
            raise PredictionFileError(
                f"{path}, column {name!r} is of type {column.type}; scores are numbers, and labels "
                "are in --label-column"
            )
        scores[:, j] = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return scores


def _is_one_of(kind: Any, *names: str) -> bool:
    """Whether a type, or that of the values of a dictionary, is one of those of these names."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(getattr(types, f"is_{name}")(kind) for name in names)


def _is_of_numbers(kind: Any) -> bool:
    return _is_one_of(kind, "floating", "integer", "decimal", "boolean")


def labels_of(batch: Any, name: str, path: Path, done: int) -> NDArray[Any]:
    """Labels of a record batch, before which ``done`` rows came."""
    from pyarrow import compute

    column = batch.column(batch.schema.names.index(name))
    texts = ("string", "large_string", "string_view")
    if not _is_one_of(column.type, *texts, "integer", "floating", "boolean", "null"):
        raise PredictionFileError(
            f"{path}, column {name!r} is of type {column.type}; labels are text or whole numbers"
        )
    if column.null_count:
        row = done + compute.index(column.is_null(), True).as_py()
        raise PredictionFileError(
            f"{path}, row {row} (from 0), column {name!r}: the label is missing; drop the row"
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))
