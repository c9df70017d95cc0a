"""Text, Parquet and Arrow tables: a column per class, one with the labels, and others."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._files.arrays import decoding, open_binary
from calibrant._files.columns import check_header, is_number, make_layout, no_column
from calibrant._files.source import RawPredictions, Source, kind_of
from calibrant.errors import Arguments, PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.columns import Request, Samples

TEXT = {".csv": ",", ".tsv": "\t"}
SEPARATORS = ",;\t"

BLOCK_BYTES = 1 << 24
"""What is read at a time; a row has to fit into it."""

SAMPLE_ROWS = 100
"""Rows that are looked at to tell labels and scores apart."""

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
CHUNK_BYTES = 1 << 23
"""Bytes of the columns of a Parquet or Arrow table that are read at a time."""

LONGEST_NUMBER = 64
NUMBERS = ("floating", "integer", "decimal", "boolean")
"""Types of Arrow that scores may have."""

MORE_MISSING = ["None", "none", "NONE", "<NA>", "<na>", "n/A", "Na", "-", " "]
"""How cells say that there is no score, beside what Arrow knows."""


def suffix_of(path: Path) -> str:
    """Suffix that names the format, in small letters; that of ``p.csv.gz`` is ``.csv``."""
    return (path.with_suffix("") if is_zipped(path) else path).suffix.lower()


def is_zipped(path: Path) -> bool:
    """Whether a file is compressed by gzip."""
    return path.suffix.lower() == ".gz"


@contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of text, which may be compressed."""
    with open_binary(path, "text") as file, decoding(path, "text"):
        yield gzip.GzipFile(fileobj=file) if is_zipped(path) else file  # type: ignore[misc]


class TextHead(NamedTuple):
    """The header of a text table, and the first cells of each column that are not empty."""

    names: list[str]
    separator: str
    cells: dict[str, list[str]]


def read_head(path: Path) -> TextHead:
    """Read the header and the first rows; the separator is the most frequent in the header."""
    with open_text(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", newline="")
        header = text.readline()
        separator = max([TEXT[suffix_of(path)], *SEPARATORS], key=header.count)
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
        if not names:
            raise PredictionFileError(
                f"{path} is empty; write a header with a name for each column"
            )
        rows: list[list[str]] = []
        with suppress(csv.Error):  # whoever reads the rows says it, with the line
            rows.extend(islice(csv.reader(text, delimiter=separator), SAMPLE_ROWS))
    full = [row for row in rows if len(row) == len(names)]
    cells = {name: [row[j] for row in full if row[j].strip()] for j, name in enumerate(names)}
    return TextHead(names, separator, cells)


def lines_of(path: Path, rows: list[int]) -> list[int] | None:
    """Lines on which some rows of a text table end: lines may be empty, and rows span several.

    None if the file is no text table.
    """
    if suffix_of(path) not in TEXT:
        return None
    separator = read_head(path).separator
    with open_text(path) as file, suppress(csv.Error):
        text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
        reader = csv.reader(text, delimiter=separator)
        wanted = set(rows)
        ends = (reader.line_num for row in reader if row)
        numbered = zip(count(-1), ends, strict=False)  # the header is no row
        lines = list(islice((line for row, line in numbered if row in wanted), len(wanted)))
        return lines if len(lines) == len(wanted) else None
    return None


@dataclass(frozen=True)
class Place(Arguments):
    """A file of predictions, for messages about it in the words of the command.

    ``source`` is the file and which part of it, ``names`` are those of the columns of scores. Rows
    are counted from ``first_row``, where only some of them were read; ``lines`` are those of the
    rows, where they are known.
    """

    path: Path
    source: str
    names: list[str] | None = None
    first_row: int = 0
    lines: Sequence[int] | None = None

    if_logits = "for logits, use --scores logits"
    if_unnormalized = "--normalize divides each row by its sum"
    if_untold = "name the class of each column with --classes"
    if_single = (
        "for the positive class alone, use --scores positive, or --scores decision for margins"
    )
    if_margins = (
        "divide percent by 100; for margins, use --scores decision; choose the column with "
        "--columns"
    )
    if_renamed = "choose it with --columns"
    if_features = "choose the columns of scores with --columns, or leave others out with --ignore"

    @property
    def prefix(self) -> str:  # type: ignore[override]
        """What comes before a message that names no place."""
        return f"{self.source}: "

    @property
    def scores(self) -> str:  # type: ignore[override]
        """The file."""
        return self.source

    y = scores

    def rows(self, rows: list[int]) -> str:
        """Where some rows are: lines of a text table, else rows counted from 0."""
        many = "s" if len(rows) > 1 else ""
        rows = [self.first_row + row for row in rows]
        lines = lines_of(self.path, rows) if self.lines is None else [self.lines[i] for i in rows]
        if lines is None:
            return f"{self.source}, row{many} {', '.join(map(str, rows))} (from 0)"
        return f"{self.source}, line{many} {', '.join(map(str, lines))}"

    def place(self, argument: str, row: int, column: int | None = None) -> str:
        """Where a row or its label is, or a cell of it."""
        where = self.rows([row])
        if argument == "y":
            return f"{where}: the label"
        if column is None:
            return where
        return f"{where}, column {column if self.names is None else repr(self.names[column])}"

    def if_unknown_positive(self, other: str, own: str) -> str:
        """Say how to tell the class of a single column."""
        return f"use --positive {own} or --positive {other}"

    def if_of_other(self, other: str, own: str) -> str:  # noqa: ARG002
        """Say how to make the other class that of a single column."""
        return f"use --positive {other}"


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
        first = table.head(SAMPLE_ROWS)
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
    head = read_head(path)
    if all(map(is_number, head.names)):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(head.names[:4])} ... are numbers; the first line must "
            "name the columns"
        )
    check_header(head.names, f"{path}, line 1")
    return OpenTable(head.names, head.cells, partial(_read_text, path, head))


def _read_text(
    path: Path, head: TextHead, columns: list[str], numbers: Collection[str]
) -> Iterator[Any]:
    """Yield record batches of a text table."""
    import pyarrow as pa
    from pyarrow import csv

    is_empty = True
    try:
        with decoding(path, "text"):
            batches = csv.open_csv(
                str(path),
                # One thread, which tells the row of a fault; a block must hold a row.
                csv.ReadOptions(
                    use_threads=False,
                    block_size=max(BLOCK_BYTES, LONGEST_NUMBER * len(head.names)),
                    skip_rows=1,
                    column_names=head.names,
                ),
                csv.ParseOptions(delimiter=head.separator, newlines_in_values=True),
                csv.ConvertOptions(
                    # Other columns stay text: they are written again as they were.
                    column_types={
                        n: pa.float64() if n in numbers else pa.string() for n in columns
                    },
                    include_columns=columns,
                    null_values=[*csv.ConvertOptions().null_values, *MORE_MISSING],
                ),
            )
            for batch in batches:
                is_empty &= batch.num_rows == 0
                yield batch
    except PredictionFileError as error:
        if isinstance(error.__cause__, pa.ArrowInvalid):
            raise _explain(path, head.names, str(error.__cause__)) from error
        raise
    if is_empty:
        raise PredictionFileError(f"{path} has a header but no rows")


def _explain(path: Path, names: list[str], message: str) -> PredictionFileError:
    """Return the error about what Arrow could not read, with the line and the column."""
    where, remedy = str(path), "write every row with as many cells as the header, in UTF-8"
    row = re.search(r"Row #(\d+): ", message)  # from 1, which is the header
    if row is not None:
        lines = lines_of(path, [int(row[1]) - 2]) or [int(row[1])]
        where += f", line {lines[0]}"
    column = re.search(r"column #(\d+):", message)
    if column is not None:
        name = names[int(column[1])]
        where += f", column {name!r}"
        remedy = f"write numbers with a decimal point, or use --ignore {name!r} if it has no scores"
    if "straddl" in message:
        remedy = f"a row is longer than {BLOCK_BYTES >> 20} MiB: close the quotes that are open"
    problem = message if row is None else message[row.end() :]
    problem = problem.removeprefix("CSV conversion error to double: ")
    return PredictionFileError(f"{where}: {problem:.200}; {remedy}")


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
