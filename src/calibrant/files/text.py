"""Text tables: the separator, the header, the first rows, and where a fault is."""

from __future__ import annotations

import csv
import gzip
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from calibrant.errors import Arguments, PredictionFileError, number_of
from calibrant.files.arrays import decoding
from calibrant.files.layout import MISSING, is_number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from calibrant.files.layout import Layout

TEXT = {".csv": ",", ".tsv": "\t", "": ","}
SEPARATORS = ",;\t|"
LONGEST_HEADER = 1 << 26
LONGEST_FIELD = 1 << 24
"""Characters; a row has to fit into a block of the reader, too."""

UNZIPPED_BYTES, UNZIPPED_RATIO = 1 << 30, 100
"""A table that is larger than this, and than so many times its compressed size, is refused."""

SAMPLE_BYTES = 1 << 16
SAMPLE_CELLS = 200_000
SAMPLE_ROWS = 100


def suffix_of(path: Path) -> str:
    """Suffix that names the format, in small letters; that of ``p.csv.gz`` is ``.csv``."""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix


def is_zipped(path: Path) -> bool:
    """Whether a text table is compressed by gzip."""
    return path.suffix.lower() == ".gz"


@contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """Open a text table; ``-`` is standard input."""
    if str(path) == "-":
        if sys.stdin is None:
            raise PredictionFileError("-: standard input is closed; send a table, or name a file")
        yield sys.stdin.buffer
        return
    with decoding(path, "text"):
        file: Any = _BoundedGzip(path) if is_zipped(path) else path.open("rb")
    with file:
        yield file


class _BoundedGzip(gzip.GzipFile):
    """A gzip file that is no larger than tables are: a few bytes can stand for any number."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path, self._most = path, max(UNZIPPED_BYTES, UNZIPPED_RATIO * path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, unless they are too many."""
        found = super().read(size)
        if self.tell() > self._most:
            raise PredictionFileError(
                f"{self._path} is more than {UNZIPPED_RATIO} times as large when it is "
                f"decompressed, and larger than {UNZIPPED_BYTES / 2**30:g} GiB, as no usual table "
                "is; decompress it first, if it is one"
            )
        return found


class Rejoined:
    """A file whose next bytes were read already."""

    closed = False

    def __init__(self, start: bytes, file: IO[bytes]) -> None:
        self._start, self._file = start, file

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if not self._start:
            return self._file.read(size)
        if size < 0:
            size = len(self._start)
        out, self._start = self._start[:size], self._start[size:]
        return out

    def close(self) -> None:
        """Leave the file to whoever opened it."""


def read_start(
    file: IO[bytes], path: Path
) -> tuple[list[str], str, dict[str, list[str]], Rejoined]:
    """Read the header and the first rows.

    Returns the names, the separator, the first cells of each column that are not empty, and the
    table from its second line on, to read once.
    """
    names, separator = _read_header(file, path)
    with decoding(path, "text"):
        start = file.read(max(SAMPLE_BYTES, 16 * sum(1 + len(name) for name in names)))
    text = start.decode("utf-8", errors="replace").replace("\0", "")
    rows = csv.reader(text.splitlines(), delimiter=separator)
    cells: list[list[str]] = [[] for _ in names]
    n_rows = max(1, min(SAMPLE_ROWS, SAMPLE_CELLS // len(names)))
    try:
        for row in islice((row for row in rows if len(row) == len(names)), n_rows):
            for column, cell in zip(cells, row, strict=True):
                if cell.strip():
                    column.append(cell)
    except csv.Error:
        pass  # whoever reads the rows says it, with the line
    return names, separator, dict(zip(names, cells, strict=True)), Rejoined(start, file)


def _read_header(file: IO[bytes], path: Path) -> tuple[list[str], str]:
    """Names, and the separator: what splits the line into most of them."""
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
    best: list[str] = []
    usual = separator = TEXT.get(suffix_of(path), ",")
    for sign in [usual, *SEPARATORS]:
        with suppress(csv.Error):  # a wide line that this does not split is one long name
            names = next(csv.reader([text], delimiter=sign), [])
            if len(names) > len(best):
                best, separator = names, sign
    if not best and text:
        raise PredictionFileError(
            f"{path}, line 1: a name is longer than {csv.field_size_limit():,} characters"
        )
    if not best:
        raise PredictionFileError(f"{path} is empty; a header with a name per column is needed")
    return [name.strip() for name in best], separator


@contextmanager
def _rows_again(path: Path) -> Iterator[Any]:
    """Read a text table once more, slowly, behind its header; ``line_num`` is the line."""
    usual = csv.field_size_limit(LONGEST_FIELD)  # Arrow has read longer ones than the csv module
    try:
        with open_text(path) as file:
            _, separator = _read_header(file, path)
            yield csv.reader(_lines(file), delimiter=separator)
    finally:
        csv.field_size_limit(usual)


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Lines of a file; one that is longer than any row is not read to its end."""
    while raw := file.readline(LONGEST_HEADER):
        yield raw.decode("utf-8", errors="surrogateescape")
        if len(raw) == LONGEST_HEADER:
            raise csv.Error("a line is too long")


def lines_of(path: Path, rows: list[int]) -> list[int] | None:
    """Lines on which some rows of a text table end: lines may be empty, and rows span several.

    None if the table cannot be read again.
    """
    if suffix_of(path) not in TEXT or not path.is_file():
        return None
    wanted, found = set(rows), []
    with suppress(csv.Error), _rows_again(path) as reader:
        for i, _ in enumerate(row for row in reader if row):
            if i in wanted:
                found.append(1 + reader.line_num)
                if len(found) == len(wanted):
                    return found
    return None


@dataclass(frozen=True)
class Place(Arguments):
    """A file of predictions, for messages about it in the words of the command.

    ``source`` is the file and which part of it, ``names`` are those of the columns of scores. Rows
    are counted from ``first_row``, where only some of them were read.
    """

    path: Path
    source: str
    names: list[str] | None = None
    first_row: int = 0

    if_logits = "logits? Then --scores logits"
    use_logits = "use --scores logits"
    if_percent = "percent? --normalize divides rows by their sums"
    if_unnormalized = "--normalize divides rows by their sums"
    if_untold = "give the class of each column by --classes"
    if_named_twice = "choose one set by --columns"

    @property
    def prefix(self) -> str:  # type: ignore[override]
        """What comes before a message that names no place."""
        return f"{self.source}: "

    @property
    def scores(self) -> str:  # type: ignore[override]
        """The file."""
        return self.source

    @property
    def y(self) -> str:  # type: ignore[override]
        """The file as well."""
        return self.source

    def rows(self, rows: list[int]) -> str:
        """Where some rows are: lines of a text table, else rows counted from 0."""
        many = "s" if len(rows) > 1 else ""
        rows = [self.first_row + row for row in rows]
        lines = lines_of(self.path, rows)
        if lines is None:
            return f"{self.source}, row{many} {', '.join(map(str, rows))} (from 0)"
        return f"{self.source}, line{many} {', '.join(map(str, lines))}"

    def cell(self, *place: int) -> str:
        """Where a row is, or a cell of it."""
        row, *column = place
        names = [j if self.names is None else repr(self.names[j]) for j in column]
        return ", column ".join(map(str, [self.rows([row]), *names]))

    def label(self, row: int) -> str:
        """Where the label of a row is."""
        return f"{self.rows([row])}: the label"


def explain(path: Path, layout: Layout, message: str) -> str:
    """Find the line and column of what could not be read, by a slow second look."""
    if not path.is_file():  # a pipe cannot be read again
        return f"{path}{_translate(message, layout.names)}"
    with _rows_again(path) as reader:
        try:
            place = _first_fault(reader, layout)
        except csv.Error:
            place = f": a field is longer than {csv.field_size_limit():,} characters"
        if reader.line_num == 0:
            return f"{path} has a header and no rows"
        line = 1 + reader.line_num
        return f"{path}, line {line}{place or f' cannot be read: {message}'}"


def _translate(message: str, names: list[str]) -> str:
    """Say where a fault is in the words of this file, from those of Arrow, which counts rows."""
    cell = re.search(r"column #(\d+):(?: Row #(\d+):)? CSV conv.* invalid value '(.*)'", message)
    if cell is not None:
        line = "" if cell[2] is None else f", line {1 + int(cell[2])}"
        return f"{line}, column {names[int(cell[1])]!r}: {cell[3]!r} is not a number"
    ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message)
    if ragged is not None:
        row, expected, got = map(int, ragged.groups())
        return f", line {1 + row}: {got} columns, but the header has {expected}"
    if "mpty CSV" in message:
        return " has a header and no rows"
    return f" cannot be read: {message}"


def _first_fault(reader: Any, layout: Layout) -> str | None:
    scores = set(layout.score_names)
    for row in reader:
        if row and len(row) != len(layout.names):
            return f": {number_of(len(row), 'column')}, but the header has {len(layout.names)}"
        for name, text in zip(layout.names, row, strict=False):
            if any("\udc80" <= c <= "\udcff" for c in text):
                return f", column {name!r} is not UTF-8 text; save the table as UTF-8"
            if name in scores and not is_number(text):
                return f", column {name!r}: {text!r} is not a number{_remedy(text, name)}"
    return None


def _remedy(text: str, name: str) -> str:
    if text.strip().endswith("%"):
        return " (write percent without the sign; --normalize divides rows by their sums)"
    if "," in text:
        return " (decimals are written with a point)"
    missing = (
        "fill it, or drop the row; apply has --on-bad-row; " if MISSING.fullmatch(text) else ""
    )
    return f" ({missing}--ignore {name!r}, if the column holds no scores)"
