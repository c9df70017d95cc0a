"""Text tables: the separator, the header, the first rows, and the line of a fault."""

from __future__ import annotations

import csv
import gzip
import io
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import IO, TYPE_CHECKING, NamedTuple

from calibrant._files.arrays import decoding, open_binary
from calibrant.errors import Arguments, PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TEXT = {".csv": ",", ".tsv": "\t"}
SEPARATORS = ",;\t"

BLOCK_BYTES = 1 << 24
"""What is read at a time; a row has to fit into it."""

SAMPLE_ROWS = 100
"""Rows that are looked at to tell labels and scores apart."""


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


def explain(path: Path, names: list[str], message: str) -> PredictionFileError:
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
