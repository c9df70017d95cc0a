"""Text and Arrow tables: a column per class, one with the labels, and others."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files.arrays import decoding, open_binary
from calibrant.files.layout import INDEX_NAMES, MISSING_CELLS, is_number, make_layout
from calibrant.files.row_groups import open_arrow, open_parquet
from calibrant.files.text import SAMPLE_ROWS, TEXT, explain, open_text, read_start, suffix_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager, ExitStack
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant.files.layout import Layout, Wish

PARQUET = {".parquet", ".pq"}
ARROW = {*PARQUET, ".arrow", ".feather", ".ipc"}
BLOCK_BYTES = 1 << 24
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


def open_table(path: Path, wish: Wish, stack: ExitStack) -> OpenTable:
    """Open a table of any format, until the stack is closed."""
    suffix = suffix_of(path)
    if suffix not in ARROW:
        return _open_text(path, wish, stack)
    kind = "Parquet" if suffix in PARQUET else "Arrow"
    with open_binary(path, kind), decoding(path, kind):
        schema, found = (open_parquet if suffix in PARQUET else open_arrow)(path, stack)
    check_header(schema.names, str(path))
    batches = guarded(found, lambda: decoding(path, kind))
    first = next(batches, None)
    samples = {field.name: _sample(field.type, first, j) for j, field in enumerate(schema)}
    layout = make_layout(schema.names, samples, wish, str(path))
    return OpenTable(layout, schema, batches if first is None else chain([first], batches))


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
    if first is None:
        return []
    values = first.column(place)[:SAMPLE_ROWS].to_pylist()
    return [str(value) for value in values if value is not None]


def _open_text(path: Path, wish: Wish, stack: ExitStack) -> OpenTable:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, separator, samples, rest = read_start(stack.enter_context(open_text(path)), path)
    if names and all(map(is_number, names)):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(names[:4])} ... are numbers; the first line must name the "
            "columns"
        )
    check_header(names, f"{path}, line 1")
    layout = make_layout(names, samples, wish, str(path))
    scores = set(layout.score_names)
    types = [(n, pa.float64() if n in scores else pa.string()) for n in layout.names]
    block = max(BLOCK_BYTES, LONGEST_NUMBER * len(layout.names))  # which must hold a row
    with _explained(path, layout):
        reader = arrow_csv.open_csv(
            pa.PythonFile(rest, mode="r"),
            read_options=arrow_csv.ReadOptions(block_size=block, column_names=layout.names),
            parse_options=arrow_csv.ParseOptions(delimiter=separator),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict(types), null_values=MISSING_CELLS if wish.takes_missing else []
            ),
        )
    batches = guarded(stack.enter_context(reader), lambda: _explained(path, layout))
    return OpenTable(layout, pa.schema(types), batches)


@contextmanager
def _explained(path: Path, layout: Layout) -> Iterator[None]:
    import pyarrow as pa

    try:
        with decoding(path, "text"):
            yield
    except PredictionFileError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        raise PredictionFileError(explain(path, layout, str(error.__cause__))) from error


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


def _value_type(kind: Any) -> Any:
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _is_of_numbers(kind: Any) -> bool:
    from pyarrow import types

    kind = _value_type(kind)
    checks = (types.is_floating, types.is_integer, types.is_decimal, types.is_boolean)
    return any(check(kind) for check in checks)


def labels_of(batch: Any, name: str, path: Path, done: int) -> NDArray[Any]:
    """Labels of a record batch, before which ``done`` rows came."""
    from pyarrow import compute, types

    column = batch.column(batch.schema.names.index(name))
    kind = _value_type(column.type)
    text = (types.is_string, types.is_large_string, types.is_string_view)
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    if not any(check(kind) for check in (*text, *numbers)):
        raise PredictionFileError(
            f"{path}, column {name!r} is of type {column.type}; labels are text or whole numbers"
        )
    if column.null_count:
        row = done + compute.index(column.is_null(), True).as_py()
        raise PredictionFileError(
            f"{path}, row {row} (from 0), column {name!r}: the label is missing; drop the row"
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))
