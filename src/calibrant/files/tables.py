"""Text and Arrow tables: a column per class, and perhaps one with the labels."""

from __future__ import annotations

import csv
import sys
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files.arrays import decoding
from calibrant.files.row_groups import open_arrow, open_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

TEXT = {".csv": ",", ".tsv": "\t", "": ","}
PARQUET = {".parquet", ".pq"}
ARROW = {*PARQUET, ".arrow", ".feather", ".ipc"}
BLOCK_BYTES = 1 << 24
LONGEST_HEADER = 1 << 26


@contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """Open a text table; ``-`` is standard input."""
    if str(path) == "-":
        if sys.stdin is None:
            raise PredictionFileError("-: standard input is closed; send a table, or name a file")
        yield sys.stdin.buffer
    else:
        with decoding(path, "text"):
            file = path.open("rb")
        with file:
            yield file


@contextmanager
def batches(path: Path, label_column: str | None) -> Iterator[tuple[list[str], Iterator[Any]]]:
    """Column names and record batches of a table, whatever its format."""
    suffix = path.suffix.lower()
    with ExitStack() as stack:
        if suffix not in ARROW:
            yield _text_batches(path, label_column, stack)
            return
        kind = "Parquet" if suffix in PARQUET else "Arrow"
        with decoding(path, kind), path.open("rb"):  # says in plain words why it cannot
            names, found = (open_parquet if suffix in PARQUET else open_arrow)(path, stack)
        check_names(names, str(path))
        yield names, _decoded(found, path, kind)


def _decoded(found: Iterator[Any], path: Path, kind: str) -> Iterator[Any]:
    while True:
        with decoding(path, kind):
            batch = next(found, None)
            if batch is not None:
                batch.validate(full=True)  # offsets of a damaged file point anywhere
        if batch is None:
            return
        yield batch


def _text_batches(
    path: Path, label_column: str | None, stack: ExitStack
) -> tuple[list[str], Iterator[Any]]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    separator = TEXT.get(path.suffix.lower(), ",")
    file = stack.enter_context(open_text(path))
    head = _header(file, separator, path)
    check_names(head, f"{path}, line 1")
    score_names(head, label_column, path)
    types = {name: pa.float64() for name in head if name != label_column}
    if label_column in head:
        types[label_column] = pa.string()
    with _explained(path, label_column):
        reader = arrow_csv.open_csv(
            pa.PythonFile(file, mode="r"),
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, column_names=head),
            parse_options=arrow_csv.ParseOptions(delimiter=separator),
            convert_options=arrow_csv.ConvertOptions(column_types=types, null_values=[]),
        )
    return head, _read_text(stack.enter_context(reader), path, label_column)


def _read_text(reader: Any, path: Path, label_column: str | None) -> Iterator[Any]:
    while True:
        with _explained(path, label_column):
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _explained(path: Path, label_column: str | None) -> Iterator[None]:
    import pyarrow as pa

    try:
        with decoding(path, "text"):
            yield
    except PredictionFileError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        raise PredictionFileError(explain(path, label_column, str(error.__cause__))) from error


def _header(file: IO[bytes], separator: str, path: Path) -> list[str]:
    """Names in the first line; the file is at the second one then."""
    with decoding(path, "text"):
        line = file.readline(LONGEST_HEADER)
    if len(line) == LONGEST_HEADER:
        raise PredictionFileError(
            f"{path}, line 1 is longer than {LONGEST_HEADER >> 20} MiB: no header of a table"
        )
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise PredictionFileError(
            f"{path}, line 1 is not UTF-8 text; save the table as UTF-8"
        ) from error
    if "\r" in text:
        raise PredictionFileError(
            f"{path} ends its lines with CR alone; save it with LF or CRLF, or use tr '\\r' '\\n'"
        )
    if "\0" in text:
        raise PredictionFileError(f"{path}, line 1 has NUL characters: this is not a text file")
    try:
        head = next(csv.reader([text], delimiter=separator), [])
    except csv.Error as error:
        raise PredictionFileError(
            f"{path}, line 1: a name is longer than {csv.field_size_limit():,} characters"
        ) from error
    if not head:
        raise PredictionFileError(f"{path} is empty; a header with a name per column is needed")
    if all(_is_number(name) for name in head):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(head[:4])} ... are numbers; the first line must name the "
            "columns"
        )
    return [name.strip() for name in head]


def check_names(head: list[str], where: str) -> None:
    """Refuse columns that cannot be told apart."""
    seen = set()
    for i, name in enumerate(head):
        if not name:
            raise PredictionFileError(f"{where}: column {i + 1} has no name")
        if name in seen:
            raise PredictionFileError(f"{where}: column name {name!r} is there twice")
        seen.add(name)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def explain(path: Path, label_column: str | None, message: str) -> str:
    """Find the line and column of what could not be read, by a slow second look."""
    if not path.is_file():  # a pipe cannot be read again
        return f"{path} cannot be read: {message}"
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, delimiter=TEXT.get(path.suffix.lower(), ","))
        try:
            place = _first_fault(reader, label_column)
        except csv.Error:
            place = f": a field is longer than {csv.field_size_limit():,} characters"
        if reader.line_num <= 1:
            return f"{path} has a header and no rows"
        return f"{path}, line {reader.line_num}{place or f' cannot be read: {message}'}"


def _first_fault(reader: Any, label_column: str | None) -> str | None:
    head = [name.strip() for name in next(reader)]
    for row in reader:
        if row and len(row) != len(head):
            return f": {len(row)} columns, but the header has {len(head)}"
        for name, text in zip(head, row, strict=False):
            if any("\udc80" <= c <= "\udcff" for c in text):
                return f", column {name!r} is not UTF-8 text; save the table as UTF-8"
            if name != label_column and not _is_number(text):
                comma = " (decimals are written with a point)" if "," in text else ""
                return f", column {name!r}: {text!r} is not a number{comma}"
    return None


def split(
    batch: Any, score_names: list[str], label_column: str | None, path: Path
) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    """Scores and labels of a record batch."""
    scores = np.empty((batch.num_rows, len(score_names)))
    place = {name: j for j, name in enumerate(batch.schema.names)}
    for j, name in enumerate(score_names):
        scores[:, j] = _numbers(batch.column(place[name]), name, path)
    if label_column is None:
        return scores, None
    return scores, _labels(batch.column(place[label_column]), label_column, path)


def _numbers(column: Any, name: str, path: Path) -> NDArray[Any]:
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not any(
        check(kind)
        for check in (types.is_floating, types.is_integer, types.is_decimal, types.is_boolean)
    ):
        raise PredictionFileError(
            f"{path}, column {name!r} is of type {column.type}; scores are numbers, and labels are "
            "in --label-column"
        )
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _labels(column: Any, name: str, path: Path) -> NDArray[Any]:
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not any(
        check(kind)
        for check in (
            types.is_string,
            types.is_large_string,
            types.is_string_view,
            types.is_integer,
            types.is_floating,
            types.is_boolean,
            types.is_null,
        )
    ):
        raise PredictionFileError(
            f"{path}, column {name!r} is of type {column.type}; labels are text or whole numbers"
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))


def score_names(names: list[str], label_column: str | None, path: Path) -> list[str]:
    """Names of the columns that hold scores."""
    found = [name for name in names if name != label_column]
    if len(found) < 2:
        raise PredictionFileError(
            f"{path} has {len(found)} columns of scores; at least two classes are needed"
        )
    return found
