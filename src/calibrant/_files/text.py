"""Text tables: the separator, the header, the first rows, and where a fault is."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from calibrant._files.arrays import decoding
from calibrant.errors import Arguments, PredictionFileError, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

TEXT = {".csv": ",", ".tsv": "\t", "": ","}
SEPARATORS = ",;\t|"
MISSING = re.compile(r"\s*(?:nan|none|null|na|n/a|<na>|-)?\s*", re.IGNORECASE)
"""How tables write what is not there."""

BLOCK_BYTES = 1 << 24
"""What is read at a time; a row has to fit into it."""

DECIMAL = re.compile(r"\s*[+-]?[0-9]*([.,])[0-9]+(?:[eE][+-]?[0-9]+)?\s*$")
"""A number with a decimal point, or a decimal comma."""

SAMPLE_BYTES, SAMPLE_ROWS = 1 << 22, 100
"""What is looked at to tell labels and scores apart; the header has to fit into it."""


def suffix_of(path: Path) -> str:
    """Suffix that names the format, in small letters; that of ``p.csv.gz`` is ``.csv``."""
    return (path.with_suffix("") if is_zipped(path) else path).suffix.lower()


def is_zipped(path: Path) -> bool:
    """Whether a text table is compressed by gzip."""
    return path.suffix.lower() == ".gz"


@contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """Open a text table; ``-`` is standard input."""
    if str(path) == "-":
        if sys.stdin is None:
            raise PredictionFileError("-: standard input is closed; pipe a table, or name a file")
        yield sys.stdin.buffer
        return
    with decoding(path, "text"):
        file: Any = gzip.GzipFile(path) if is_zipped(path) else path.open("rb")
    with file:
        yield file


class TextHead(NamedTuple):
    """The header of a text table, and the first cells of each column that are not empty."""

    names: list[str]
    separator: str
    cells: dict[str, list[str]]

    def decimal_point(self, columns: Iterable[str]) -> str:
        """Return the comma if numbers in some columns have it, and none has a point."""
        cells = (cell for name in columns for cell in self.cells[name])
        signs = {found[1] for cell in cells if (found := DECIMAL.match(cell))}
        return "," if signs == {","} else "."


@contextmanager
def open_rows(path: Path) -> Iterator[tuple[TextHead, Any]]:
    """Open a text table: its header, and a file of Arrow's own that begins with the header.

    Threads of Arrow read ahead, and must not hold anything of Python, no file and no bytes: one
    that releases it while the interpreter ends waits for its lock in vain, and the process aborts.
    """
    import pyarrow as pa

    if str(path) != "-" and path.is_file():
        with open_text(path) as file, decoding(path, "text"):
            head = _read_head(file.read(SAMPLE_BYTES), path)
        with decoding(path, "text"):
            stored = pa.input_stream(str(path), "gzip" if is_zipped(path) else None)
        with stored:
            yield head, stored
        return
    with open_text(path) as file, decoding(path, "text"):  # a pipe, which can be read once
        content = file.read()
    buffer = pa.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    yield _read_head(content[:SAMPLE_BYTES], path), pa.BufferReader(buffer)


def _read_head(start: bytes, path: Path) -> TextHead:
    """Read the header and the first rows; the separator is what splits the header most often."""
    first = re.split(rb"[\r\n]", start, maxsplit=1)[0]
    try:
        line = first.decode("utf-8-sig")
    except UnicodeDecodeError:
        line = "\0"
    if "\0" in line:
        raise PredictionFileError(f"{path}, line 1 is not UTF-8 text; save the table as UTF-8")
    usual = TEXT.get(suffix_of(path), ",")
    separator = max([usual, *SEPARATORS], key=lambda sign: len(_split(line, sign)))
    names = [name.strip() for name in _split(line, separator)]
    if not names:
        raise PredictionFileError(f"{path} is empty; write a header with a name for each column")
    if len(first) == SAMPLE_BYTES:
        raise PredictionFileError(
            f"{path}, line 1 is longer than {SAMPLE_BYTES >> 20} MiB; is this a table?"
        )
    text = start[len(first) :].decode("utf-8", errors="replace").replace("\0", "")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    sample: list[list[str]] = []
    with suppress(csv.Error):  # whoever reads the rows says it, with the line
        sample.extend(islice((row for row in rows if len(row) == len(names)), SAMPLE_ROWS))
    cells = {name: [row[j] for row in sample if row[j].strip()] for j, name in enumerate(names)}
    return TextHead(names, separator, cells)


def _split(line: str, separator: str) -> list[str]:
    """Split the header; a wide one that this does not split is longer than a cell may be."""
    with suppress(csv.Error):
        return next(csv.reader([line], delimiter=separator), [])
    return []


def lines_of(path: Path, rows: list[int]) -> list[int] | None:
    """Lines on which some rows of a text table end: lines may be empty, and rows span several.

    None if the table cannot be read again.
    """
    if suffix_of(path) not in TEXT or not path.is_file():
        return None
    with open_text(path) as file, suppress(csv.Error):
        separator = _read_head(file.read(SAMPLE_BYTES), path).separator
        file.seek(0)
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
    use_logits = "use --scores logits"
    if_percent = "for percent, use --normalize"
    if_unnormalized = "--normalize divides each row by its sum"
    if_untold = "name the class of each column with --classes"
    if_named_twice = "choose one set with --columns"
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

    def cell(self, *place: int) -> str:
        """Where a row is, or a cell of it."""
        row, *column = place
        names = [j if self.names is None else repr(self.names[j]) for j in column]
        return ", column ".join(map(str, [self.rows([row]), *names]))

    def if_unknown_positive(self, other: str, own: str) -> str:
        """Say how to tell the class of a single column."""
        return f"use --positive {own} or --positive {other}"

    def if_of_other(self, other: str, own: str) -> str:  # noqa: ARG002
        """Say how to make the other class that of a single column."""
        return f"use --positive {other}"

    def label(self, row: int) -> str:
        """Where the label of a row is."""
        return f"{self.rows([row])}: the label"


def explain(path: Path, names: list[str], message: str) -> str:
    """Say what Arrow could not read in the words of this file, with the line."""
    if "straddl" in message:
        limit = f"{BLOCK_BYTES >> 20} MiB"
        return f"{path} has a row that is longer than {limit}; close the quotes that are open"
    row = re.search(r"Row #(\d+):", message)  # from 1, which is the header
    lines = lines_of(path, [int(row[1]) - 2]) or [int(row[1])] if row else []
    where = f"{path}, line {lines[0]}" if lines else str(path)
    column = re.search(r"column #(\d+):", message)
    if column is not None:
        where += f", column {(name := names[int(column[1])])!r}"
        value = re.search(r"invalid value '(.*)'", message, re.DOTALL)
        if value is not None:
            return f"{where}: {value[1]!r:.200} is not a number{_remedy(value[1], name)}"
        return f"{where} is not UTF-8 text; save the table as UTF-8"
    ragged = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if ragged is not None:
        return f"{where} has {number_of(int(ragged[2]), 'column')}, but the header has {ragged[1]}"
    return f"{where} cannot be read: {message}"


def _remedy(text: str, name: str) -> str:
    if text.strip().endswith("%"):
        return " (write percent without the sign; --normalize divides each row by its sum)"
    if DECIMAL.match(text):
        return " (write all decimals in the same way, with a point)"
    is_missing = MISSING.fullmatch(text) is not None
    missing = "fill it, drop the row, or use apply with --on-bad-row; " if is_missing else ""
    return f" ({missing}use --ignore {name!r} if the column is not scores)"
