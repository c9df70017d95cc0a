"""Text and Arrow tables: a column per class, and perhaps one with the labels."""

from __future__ import annotations

import csv
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

TEXT = {".csv": ",", ".tsv": "\t", "": ","}
ARROW = {".parquet", ".pq", ".arrow", ".feather", ".ipc"}
BLOCK_BYTES = 1 << 24


@contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """Open a text table; ``-`` is standard input."""
    if str(path) == "-":
        yield sys.stdin.buffer
    else:
        with path.open("rb") as file:
            yield file


@contextmanager
def batches(path: Path, label_column: str | None) -> Iterator[tuple[list[str], Iterator[Any]]]:
    """Column names and record batches of a table, whatever its format."""
    import pyarrow as pa

    try:
        if path.suffix.lower() in {".parquet", ".pq"}:
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                yield file.schema_arrow.names, file.iter_batches(batch_size=1 << 15)
        elif path.suffix.lower() in ARROW:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
                found = (file.get_batch(i) for i in range(file.num_record_batches))
                yield file.schema.names, found
        else:
            yield from _text_batches(path, label_column)
    except pa.ArrowInvalid as error:
        raise PredictionFileError(explain(path, label_column, str(error))) from error


def _text_batches(path: Path, label_column: str | None) -> Iterator[tuple[list[str], Any]]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    separator = TEXT.get(path.suffix.lower(), ",")
    with open_text(path) as file:
        head, rest = _header(file, separator, path)
        check_names(head, path)
        score_names(head, label_column, path)
        types = {name: pa.float64() for name in head if name != label_column}
        if label_column in head:
            types[label_column] = pa.string()
        with arrow_csv.open_csv(
            rest,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, column_names=head),
            parse_options=arrow_csv.ParseOptions(delimiter=separator),
            convert_options=arrow_csv.ConvertOptions(column_types=types, null_values=[]),
        ) as reader:
            yield head, iter(reader)


def _header(file: IO[bytes], separator: str, path: Path) -> tuple[list[str], Any]:
    """First line as names, and the file from the second line on."""
    import pyarrow as pa

    line = file.readline().decode("utf-8-sig")
    head = next(csv.reader([line], delimiter=separator), [])
    if not head:
        raise PredictionFileError(f"{path} is empty; a header with a name per column is needed")
    return [name.strip() for name in head], pa.PythonFile(file, mode="r")


def check_names(head: list[str], path: Path) -> None:
    """Refuse a header that is none."""
    if all(_is_number(name) for name in head):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(head[:4])} ... are numbers; the first line must name the "
            "columns"
        )
    for i, name in enumerate(head):
        if not name:
            raise PredictionFileError(f"{path}, line 1: column {i + 1} has no name")
        if name in head[:i]:
            raise PredictionFileError(f"{path}, line 1: column name {name!r} is there twice")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def explain(path: Path, label_column: str | None, message: str) -> str:
    """Find the line and column of what could not be read, by a slow second look."""
    suffix = path.suffix.lower()
    if suffix not in TEXT or str(path) == "-":
        return f"{path} cannot be read: {message}"
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=TEXT[suffix])
        head = next(reader)
        for row in reader:
            if row and len(row) != len(head):
                return (
                    f"{path}, line {reader.line_num}: {len(row)} columns, but the header has "
                    f"{len(head)}"
                )
            for name, text in zip(head, row, strict=False):
                if name != label_column and not _is_number(text):
                    comma = " (decimals are written with a point)" if "," in text else ""
                    return (
                        f"{path}, line {reader.line_num}, column {name!r}: {text!r} is not a "
                        f"number{comma}"
                    )
    return f"{path} cannot be read: {message}"


def split(
    batch: Any, score_names: list[str], label_column: str | None
) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    """Scores and labels of a record batch."""
    columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in score_names]
    scores = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    if label_column is None:
        return scores, None
    labels = batch.column(label_column).to_numpy(zero_copy_only=False)
    return scores, np.asarray(labels)


def score_names(names: list[str], label_column: str | None, path: Path) -> list[str]:
    """Names of the columns that hold scores."""
    found = [name for name in names if name != label_column]
    if len(found) < 2:
        raise PredictionFileError(
            f"{path} has {len(found)} columns of scores; at least two classes are needed"
        )
    return found
