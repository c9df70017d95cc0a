"""Text tables: the separator, the header, the first rows, and where a fault is."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from calibrant._files.arrays import decoding
from calibrant.errors import Arguments, PredictionFileError, number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

TEXT = {".csv": ",", ".tsv": "\t", "": ","}
SEPARATORS = ",;\t|"
MISSING = re.compile(r"\s*(?:nan|none|null|na|n/a|<na>|-)?\s*", re.IGNORECASE)
"""How tables write what is not there."""

LONGEST_LINE = 1 << 26
BLOCK_BYTES = 1 << 24
"""What is read at a time; a row has to fit into it."""

UNZIPPED_BYTES, UNZIPPED_RATIO = 1 << 30, 100
"""A table that is larger than this, and than so many times its compressed size, is refused."""

DECIMAL = re.compile(r"\s*[+-]?[0-9]*([.,])[0-9]+(?:[eE][+-]?[0-9]+)?\s*$")
"""A number with a decimal point, or a decimal comma."""

SAMPLE_BYTES = 1 << 16
SAMPLE_CELLS = 200_000
SAMPLE_ROWS = 100


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


def refuse_growth(path: Path, n_bytes: int) -> None:
    """Refuse a compressed table that is larger than tables are: a few bytes can stand for many."""
    if n_bytes > max(UNZIPPED_BYTES, UNZIPPED_RATIO * path.stat().st_size):
        raise PredictionFileError(
            f"{path} grows more than {UNZIPPED_RATIO} times when decompressed, to over "
            f"{UNZIPPED_BYTES / 2**30:g} GiB, which is unusual for a table; decompress it first if "
            "you trust it"
        )


class TextHead(NamedTuple):
    """The header of a text table, and the first cells of each column that are not empty."""

    names: list[str]
    separator: str
    cells: dict[str, list[str]]


@contextmanager
def open_rows(path: Path) -> Iterator[tuple[TextHead, Any]]:
    """Open a text table: its header, and a file of Arrow's own that begins with the header.

    Threads of Arrow read ahead, and must not hold anything of Python, no file and no bytes: one
    that releases it while the interpreter ends waits for its lock in vain, and the process aborts.
    """
    import pyarrow as pa

    if str(path) != "-" and path.is_file():
        with open_text(path) as file:
            head = _read_head(file, path)
        with decoding(path, "text"):
            opened = pa.OSFile(str(path))
        with opened as stored:
            yield head, pa.CompressedInputStream(stored, "gzip") if is_zipped(path) else stored
        return
    with open_text(path) as file, decoding(path, "text"):  # a pipe, which can be read once
        start = file.read(LONGEST_LINE)
        head = _read_head(io.BytesIO(start), path)
        content = start + file.read()
    buffer = pa.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    yield head, pa.BufferReader(buffer)


def _read_head(file: IO[bytes], path: Path) -> TextHead:
    """Read the header and the first rows."""
    names, separator = _read_header(file, path)
    with decoding(path, "text"):
        start = file.read(max(SAMPLE_BYTES, 16 * sum(1 + len(name) for name in names)))
    text = start.decode("utf-8", errors="replace").replace("\0", "")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    whole = (row for row in rows if len(row) == len(names))
    sample: list[list[str]] = []
    with suppress(csv.Error):  # whoever reads the rows says it, with the line
        sample.extend(islice(whole, max(1, min(SAMPLE_ROWS, SAMPLE_CELLS // len(names)))))
    cells = {name: [row[j] for row in sample if row[j].strip()] for j, name in enumerate(names)}
    return TextHead(names, separator, cells)


def decimal_point(cells: Iterable[str]) -> str:
    """Return the comma if numbers are written with it, and none with a point."""
    signs = {found[1] for cell in cells if (found := DECIMAL.match(cell))}
    return "," if signs == {","} else "."


def _read_header(file: IO[bytes], path: Path) -> tuple[list[str], str]:
    """Names, and the separator: what splits the line into most of them."""
    with decoding(path, "text"):
        line = file.readline(LONGEST_LINE)
    fault = None
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        what = (
            "is UTF-16 text" if line.startswith((b"\xff\xfe", b"\xfe\xff")) else "is not UTF-8 text"
        )
        text, fault = "", f", line 1 {what}; save the table as UTF-8"
    if len(line) == LONGEST_LINE:
        fault = f", line 1 is longer than {LONGEST_LINE >> 20} MiB; is this a table?"
    elif "\r" in text:
        fault = " has lines that end with CR alone; save it with LF or CRLF, or use tr '\\r' '\\n'"
    elif "\0" in text:
        fault = ", line 1 has NUL characters, so it is not a text file"
    best: list[str] = []
    usual = separator = TEXT.get(suffix_of(path), ",")
    for sign in [usual, *SEPARATORS]:
        with suppress(csv.Error):  # a wide line that this does not split is one long name
            names = next(csv.reader([text], delimiter=sign), [])
            if len(names) > len(best):
                best, separator = names, sign
    if not best:
        longest = f", line 1: a name is longer than {csv.field_size_limit():,} characters"
        empty = " is empty; write a header with a name for each column"
        fault = fault or (longest if text else empty)
    if fault is not None:
        raise PredictionFileError(f"{path}{fault}")
    return [name.strip() for name in best], separator


def lines_of(path: Path, rows: list[int]) -> list[int] | None:
    """Lines on which some rows of a text table end: lines may be empty, and rows span several.

    None if the table cannot be read again.
    """
    if suffix_of(path) not in TEXT or not path.is_file():
        return None
    wanted, found = set(rows), []
    row, is_quoted = -1, False
    with open_text(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if number == 1 or (not is_quoted and not line.strip(b"\r\n")):
                continue
            if len(line) == LONGEST_LINE:
                return None
            is_quoted ^= line.count(b'"') % 2 == 1
            row += not is_quoted
            if not is_quoted and row in wanted:
                found.append(number)
                if len(found) == len(wanted):
                    return found
    return None


@dataclass(frozen=True)
class Place(Arguments):
    """A file of predictions, for messages about it in the words of the command.

    ``source`` is the file and which part of it, ``names`` are those of the columns of scores. Rows
    are counted from ``first_row``, where only some of them were read; ``where`` tells the place of
    a label, where rows are something else; ``lines`` are those of the rows, where they are known.
    """

    path: Path
    source: str
    names: list[str] | None = None
    first_row: int = 0
    where: Callable[[int], str] | None = None
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
        return f"{self.rows([row])}: the label" if self.where is None else self.where(row)


def explain(path: Path, names: list[str], message: str) -> str:
    """Say what Arrow could not read in the words of this file, with the line."""
    if "straddl" in message:
        return (
            f"{path} has a row that is longer than {BLOCK_BYTES >> 20} MiB; close the quotes that "
            "are open"
        )
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
    if "," in text:
        return " (write decimals with a point)"
    if DECIMAL.match(text):
        return " (other decimals have a comma; write all in the same way)"
    is_missing = MISSING.fullmatch(text) is not None
    missing = "fill it, drop the row, or use apply with --on-bad-row; " if is_missing else ""
    return f" ({missing}use --ignore {name!r} if the column is not scores)"
