"""Text, Parquet and Arrow tables: a column per class, one with the labels, and others."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import count, islice
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np

from calibrant._files.source import Place, Rows, Source, decoding, kind_of, to_array
from calibrant._gate import are_whole
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyarrow.dataset import Dataset

    from calibrant._files.source import Request

TEXT = {".csv": ",", ".tsv": "\t"}
SEPARATORS = ",;\t"

SAMPLE_ROWS = 100
"""Rows that are looked at to tell labels and scores apart."""

BLOCK_BYTES = 1 << 24
"""What is read of a text at a time; a row has to fit into it."""

CHUNK_BYTES = 1 << 23
"""Bytes of the columns of a Parquet or Arrow table that are read at a time."""

NUMBERS = ("floating", "integer", "decimal", "boolean")
"""Types of Arrow that scores may have."""

MISSING = re.compile(r"\s*(?:nan|none|null|na|n/a|<na>|-)?\s*", re.IGNORECASE)
MORE_MISSING = ["None", "none", "NONE", "<NA>", "<na>", "n/A", "Na", "-", " "]
"""How tables write that there is no value; the last, beside what Arrow knows."""

LABEL_NAMES = {"label", "labels", "target", "y", "y_true", "class"}
NOT_SCORES = {"", "unnamed: 0", "__index_level_0__"}
NOT_SCORES |= {"y_pred", "y_hat", "pred", "prediction", "predicted"}
"""Names that pandas gives to an index that was written with the table, and columns of what a
classifier decided: neither a label nor a score, unless they are chosen."""


class OpenTable(Protocol):
    """An open table, of any format."""

    path: Path
    names: list[str]

    @property
    def samples(self) -> dict[str, list[str] | None]:
        """First values that are not missing, as text; None for a column that has no numbers."""

    def batches(self, columns: list[str], numbers: Collection[str], /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these columns, in which text is parsed where ``numbers`` are."""

    def locate(self, rows: Sequence[int], /) -> list[str]:
        """Name the lines on which rows stand, for messages; rows count from 0."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are.

    Where the caller did not choose the columns of scores, they are all that hold numbers.
    """

    names: list[str]
    label: str | None
    scores: list[str]
    are_chosen: bool


def assign_columns(table: OpenTable, request: Request) -> Columns:
    """Tell labels, scores and other columns of a table apart."""
    names = table.names
    ignored = {name for name in names if name.casefold() in NOT_SCORES}
    ignored |= {*_find_columns(table, request.ignore, "--ignore")}
    for name, option in request.beside.items():
        _check_column(table, name, option)
        ignored.add(name)
    free = [name for name in names if name not in ignored]
    label = _find_label(table, free, request)
    if request.columns:
        chosen = _find_columns(table, request.columns, request.options[0])
        scores = [name for name in chosen if name != label]
    else:
        scores = [name for name in free if name != label and not _is_text(table.samples[name])]
        if request.fitted and {*request.fitted} <= {*scores}:
            scores = [name for name in scores if name in request.fitted]
    if not scores:
        raise PredictionFileError(
            f"{table.path} has no columns of scores; write a column of numbers for each of two or "
            "more classes (--columns), or for two classes one column with --scores positive, or "
            "--scores decision for margins"
        )
    return Columns(names, label, scores, bool(request.columns))


def _find_columns(table: OpenTable, patterns: Sequence[str], option: str) -> dict[str, None]:
    """Return the columns that an option names, exactly or by patterns, in this order."""
    result: dict[str, None] = {}
    for pattern in patterns:
        exact = [name for name in table.names if name == pattern]
        matching = exact or [name for name in table.names if fnmatchcase(name, pattern)]
        if not matching:
            _check_column(table, pattern, option)
        result |= dict.fromkeys(matching)
    return result


def _check_column(table: OpenTable, name: str, option: str) -> None:
    """Refuse a column that an option names and a table has not."""
    if name not in table.names:
        has = some_in_words(table.names)
        raise PredictionFileError(f"{table.path} has no column {name!r} ({option}); it has {has}")


def _find_label(table: OpenTable, free: list[str], request: Request) -> str | None:
    """Return the column of labels: as asked for, by its name, or the only one of text."""
    if request.label is not None:
        _check_column(table, request.label, request.options[1])
        return request.label
    if "label" in free:
        return "label"
    text = [name for name in free if _is_text(table.samples[name])]
    # A class may be called y: numbers with fractions are its scores.
    named = [name for name in free if name.casefold() in LABEL_NAMES]
    named = [name for name in named if name in text or are_whole(table.samples[name] or ())]
    if len(named) > 1:
        fault = f"columns {some_in_words(named)} may all hold the labels"
        raise PredictionFileError(f"{table.path}: {fault}; choose one with --label-column")
    # What a model calibrates has no labels mostly: a column of text is something else.
    if not named and len(text) == 1 and not request.reads_others:
        return text[0]
    return named[0] if named else None


def _is_text(sample: list[str] | None) -> bool:
    """Whether no value is a number, not even one with a decimal comma or a sign of percent."""
    if sample is None:
        return True
    known = [text for text in sample if not MISSING.fullmatch(text)]
    return bool(known) and not any(_is_float(own.rstrip("% ").replace(",", ".")) for own in known)


def _is_float(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def read_table(opens: Callable[[Path], OpenTable], path: Path, request: Request) -> Source:
    """Open a table of predictions, of the format that has this way to open one."""
    table = opens(path)
    columns = assign_columns(table, request)
    names, label = columns.scores, columns.label
    place = Place(str(path), names, table.locate, label_option=request.options[1])
    kind = kind_of(request.kind, len(names), str(path))
    scored = names if request.reads_scores else []
    needed = {label, *request.beside, *scored}
    to_read = [name for name in columns.names if request.reads_others or name in needed]

    def read() -> Iterator[Rows]:
        n_done = 0
        with decoding(path):
            for batch in table.batches(to_read, names):
                scores = np.empty((batch.num_rows, len(scored)))
                for j, name in enumerate(scored):
                    if not _is_number(own := batch[name].type):
                        fault = f"column {name!r} is of type {own}; scores must be numbers"
                        remedy = "name the labels with --label-column, or leave it out by --ignore"
                        raise PredictionFileError(f"{path}, {fault}: {remedy}")
                    scores[:, j] = to_array(batch[name])
                labels = None if label is None else to_array(batch[label])
                where, are_sure = replace(place, first_row=n_done), columns.are_chosen
                yield Rows(scores, kind, labels, where, batch, are_columns_sure=are_sure)
                n_done += batch.num_rows
                # So that there is one chunk in memory, while the next is decoded.
                del batch, scores, labels

    return Source(place, kind, len(names), np.dtype(float), stream=read(), columns=columns)


def read_table_columns(table: OpenTable, named: Mapping[str, str]) -> tuple[Place, pa.Table]:
    """Return columns of a table, which may have no scores; ``named`` has the option of each."""
    import pyarrow as pa

    for name, option in named.items():
        _check_column(table, name, option)
    columns = pa.Table.from_batches(table.batches([*named], ()))
    return Place(str(table.path), locate=table.locate), columns


def _is_number(kind: pa.DataType) -> bool:
    """Whether a type of Arrow, or that of the values of a dictionary, is one of numbers."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(getattr(types, f"is_{name}")(kind) for name in NUMBERS)


def suffix_of(path: Path) -> str:
    """Suffix that names the format, in small letters; that of ``p.csv.gz`` is ``.csv``."""
    return (path.with_suffix("") if is_zipped(path) else path).suffix.lower()


def is_zipped(path: Path) -> bool:
    """Whether a file is compressed by gzip."""
    return path.suffix.lower() == ".gz"


def open_text(path: Path) -> IO[bytes]:
    """Open a file of text, which may be compressed."""
    return gzip.open(path) if is_zipped(path) else path.open("rb")  # type: ignore[return-value]


def _check_header(names: list[str], where: str) -> None:
    """Refuse a header in which a name is missing or there twice."""
    if "" in names[1:]:  # the first one may be the index that pandas wrote
        place = names.index("", 1)
        raise PredictionFileError(f"{where}: column {place + 1} has no name; add one")
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise PredictionFileError(f"{where}: column name {name!r} appears twice; rename one")


class TextTable:
    """A text table, whose separator is the most frequent one in the header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_text(path) as file:
            text = io.TextIOWrapper(file, "utf-8-sig", newline="")
            header = text.readline()
            self.separator = max([TEXT[suffix_of(path)], *SEPARATORS], key=header.count)
            cells = next(csv.reader([header], delimiter=self.separator), [])
            self.names = [name.strip() for name in cells]
            rows: list[list[str]] = []
            with suppress(csv.Error):  # whoever reads the rows says it, with the line
                rows.extend(islice(csv.reader(text, delimiter=self.separator), SAMPLE_ROWS))
        if not self.names:
            raise PredictionFileError(
                f"{path} is empty; write a header with a name for each column"
            )
        if all(map(_is_float, self.names)):
            fault = f"{', '.join(self.names[:4])} ... are numbers"
            raise PredictionFileError(
                f"{path}, line 1: {fault}; the first line must name the columns"
            )
        _check_header(self.names, f"{path}, line 1")
        whole = [row for row in rows if len(row) == len(self.names)]
        self.samples: dict[str, list[str] | None] = {
            name: [row[j] for row in whole if row[j].strip()] for j, name in enumerate(self.names)
        }

    def batches(self, columns: list[str], numbers: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of Arrow: ``numbers``, which are null where missing, and text as it is."""
        import pyarrow as pa
        from pyarrow import csv

        n_rows = 0
        types = {name: pa.float64() if name in numbers else pa.string() for name in columns}
        missing = [*csv.ConvertOptions().null_values, *MORE_MISSING]
        blocks = csv.ReadOptions(  # with threads it does not tell the row of a fault
            use_threads=False, block_size=BLOCK_BYTES, skip_rows=1, column_names=self.names
        )
        lines = csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        cells = csv.ConvertOptions(column_types=types, include_columns=columns, null_values=missing)
        try:
            for batch in csv.open_csv(str(self.path), blocks, lines, cells):
                n_rows += batch.num_rows
                yield batch
        except pa.ArrowInvalid as error:
            raise self._explain(str(error)) from error
        if n_rows == 0:
            raise PredictionFileError(f"{self.path} has a header but no rows")

    def locate(self, rows: Sequence[int]) -> list[str]:
        """Name the lines on which rows end: lines may be empty, and rows span several."""
        lines: dict[int, str] = {}
        with open_text(self.path) as file, suppress(csv.Error):
            text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
            reader = csv.reader(text, delimiter=self.separator)
            ends = (reader.line_num for row in reader if row)
            for row, line in zip(count(-1), ends, strict=False):  # the header is no row
                if row in rows:
                    lines[row] = f"line {line}"
                if len(lines) == len(rows):
                    break
        return [f"{self.path}, {lines.get(row, f'row {row} (from 0)')}" for row in rows]

    def _explain(self, message: str) -> PredictionFileError:
        """Return the error about what Arrow could not read, with the line and the column."""
        where, remedy = str(self.path), "write every row with as many cells as the header, in UTF-8"
        row = re.search(r"Row #(\d+): ", message)  # from 1, which is the header
        column = re.search(r"column #(\d+):", message)
        if row is not None:
            (where,) = self.locate([int(row[1]) - 2])
        if column is not None:
            name = self.names[int(column[1])]
            where += f", column {name!r}"
            remedy = f"write numbers with a decimal point, or --ignore {name!r} if it has no scores"
        if "UTF8" in message:
            remedy = "save the file as UTF-8"
        elif "straddl" in message:
            remedy = f"a row is longer than {BLOCK_BYTES >> 20} MiB: close the quotes that are open"
        problem = message if row is None else message[row.end() :]
        problem = problem.removeprefix("CSV conversion error to double: ")
        return PredictionFileError(f"{where}: {problem:.200}; {remedy}")


def open_arrow(kind: str, path: Path) -> ArrowTable:
    """Open a file that Arrow reads."""
    from pyarrow.dataset import dataset

    return ArrowTable(path, dataset(str(path), format=kind))


class ArrowTable:
    """A data set of Arrow: a file, or a table in memory."""

    def __init__(self, path: Path, rows: Dataset) -> None:
        self.path, self._rows = path, rows
        self.names: list[str] = self._rows.schema.names
        _check_header(self.names, str(path))

    @cached_property
    def samples(self) -> dict[str, list[str] | None]:
        """First values of each column, as text."""
        top = self._rows.head(SAMPLE_ROWS, batch_size=1 << 13, batch_readahead=1, use_threads=False)
        found = {name: top[name] for name in self.names if _is_number(top[name].type)}
        texts = {name: list(map(str, own.drop_null().to_pylist())) for name, own in found.items()}
        return dict.fromkeys(self.names) | texts

    def batches(self, columns: list[str], _: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of Arrow; one without rows if there are none, as Spark writes such."""
        import pyarrow as pa

        n_rows = math.ceil(CHUNK_BYTES / (8 * max(len(columns), 1)))
        is_empty = True
        for batch in self._rows.to_batches(
            columns, batch_size=n_rows, batch_readahead=1, use_threads=False
        ):
            batch.validate(full=True)  # offsets of a damaged file point anywhere
            is_empty &= batch.num_rows == 0
            yield batch
        if is_empty:
            yield pa.RecordBatch.from_pylist([], self._rows.schema).select(columns)

    def locate(self, rows: Sequence[int]) -> list[str]:
        """Name the rows by their numbers."""
        return [f"{self.path}, row {row} (from 0)" for row in rows]
