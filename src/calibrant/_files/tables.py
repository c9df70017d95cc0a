"""Text, Parquet and Arrow tables: a column per class, one with the labels, and others."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._columns import are_whole
from calibrant._files import text
from calibrant._files.arrays import decoding, open_binary
from calibrant._files.text import MISSING, TEXT, suffix_of
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager, ExitStack
    from pathlib import Path

    from numpy.typing import NDArray

    Samples = Mapping[str, Sequence[str] | None]

PARQUET = {".parquet", ".pq"}
ARROW = {*PARQUET, ".arrow", ".feather", ".ipc"}
CHUNK_BYTES = 1 << 23
LONGEST_NUMBER = 64

LABEL_NAMES = {"label", "labels", "target", "y", "y_true", "class"}
PREDICTION_NAMES = {"y_pred", "y_hat", "pred", "prediction", "predicted"}
"""What a classifier decided: neither a label nor a score, unless the caller says so.

Where there is no other column of numbers, one with fractions holds scores under such a name.
"""

INDEX_NAMES = {"", "Unnamed: 0", "__index_level_0__"}
"""What pandas calls an index that was written with the table."""

MORE_MISSING = ["None", "none", "NONE", "<NA>", "<na>", "n/A", "Na", "-", " "]
"""The same, of cells with scores, beside what Arrow knows."""


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
        schema, found = (_open_parquet if suffix in PARQUET else _open_arrow)(
            path, selection, stack
        )
    check_header(schema.names, str(path))
    batches = _guarded(found, lambda: decoding(path, kind))
    first = next(batches, None)
    samples = {field.name: _sample(field, first) for field in schema}
    layout = make_layout(schema.names, samples, selection, str(path))
    return OpenTable(layout, schema, batches if first is None else chain([first], batches))


def _open_parquet(
    path: Path, selection: ColumnSelection, stack: ExitStack
) -> tuple[Any, Iterator[Any]]:
    """Open a Parquet file: its schema, and chunks of rows.

    A dataset of Arrow would hold whole groups of rows, which may be as large as the file.
    """
    import pyarrow.parquet as pq

    file = stack.enter_context(pq.ParquetFile(path, buffer_size=1 << 14, pre_buffer=False))
    chosen = selection.read_of(file.schema_arrow.names)
    batches = file.iter_batches(_chunk_rows(len(chosen)), columns=chosen)
    return file.schema_arrow, (batch.select(chosen) for batch in batches)


def _open_arrow(
    path: Path, selection: ColumnSelection, stack: ExitStack
) -> tuple[Any, Iterator[Any]]:
    """Open an Arrow file: its schema, and chunks of rows."""
    import pyarrow as pa

    file = stack.enter_context(pa.ipc.open_file(stack.enter_context(pa.memory_map(str(path)))))
    chosen = selection.read_of(file.schema.names)
    step = _chunk_rows(len(chosen))

    def chunks() -> Iterator[Any]:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number).select(chosen)
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)

    return file.schema, chunks()


def _chunk_rows(n_columns: int) -> int:
    return math.ceil(CHUNK_BYTES / (8 * max(n_columns, 1)))


def _guarded(
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


def _sample(field: Any, first: Any) -> list[str] | None:
    """First values of a column of numbers as text; None for any other column."""
    if not _is_of_numbers(field.type):
        return None
    is_read = first is not None and field.name in first.schema.names
    values = first.column(field.name)[: text.SAMPLE_ROWS].to_pylist() if is_read else []
    return [str(value) for value in values if value is not None]


def _open_text(path: Path, selection: ColumnSelection, stack: ExitStack) -> OpenTable:
    import pyarrow as pa
    from pyarrow import csv

    file = stack.enter_context(text.open_text(path))
    table = text.read_start(file, path)
    names = table.names
    if names and all(map(is_number, names)):
        raise PredictionFileError(
            f"{path}, line 1: {', '.join(names[:4])} ... are numbers; the first line must name the "
            "columns"
        )
    check_header(names, f"{path}, line 1")
    layout = make_layout(names, table.cells, selection, str(path))
    scores = set(layout.score_names)
    types = {name: pa.float64() if name in scores else pa.string() for name in layout.names}
    missing = [*csv.ConvertOptions().null_values, *MORE_MISSING]
    options = csv.ConvertOptions(
        column_types=types,
        include_columns=selection.read_of(names),
        null_values=missing if selection.takes_missing else [],
        decimal_point=text.decimal_point(
            cell for name in layout.score_names for cell in table.cells[name]
        ),
    )
    batches = _read_blocks(table, options, path)
    first = next(batches, None)
    if first is None:
        raise PredictionFileError(f"{path} has a header but no rows")
    return OpenTable(layout, pa.schema(types), chain([first], batches))


def _read_blocks(table: text.TextTable, options: Any, path: Path) -> Iterator[Any]:
    """Yield the rows of each block of a text table as a record batch."""
    from pyarrow import csv

    n_bytes = max(text.BLOCK_BYTES, LONGEST_NUMBER * len(table.names))  # which must hold a row
    n_done = 0
    for block in table.blocks(n_bytes, path):
        with _explained(path, table.names, n_done):
            rows = csv.read_csv(
                text.buffer_reader(block),
                # One thread, which tells the row of a fault, and one block.
                csv.ReadOptions(
                    use_threads=False, block_size=1 + len(block), column_names=table.names
                ),
                csv.ParseOptions(delimiter=table.separator, newlines_in_values=True),
                options,
            )
        n_done += rows.num_rows
        yield from rows.to_batches()


@contextmanager
def _explained(path: Path, names: list[str], n_done: int) -> Iterator[None]:
    import pyarrow as pa

    try:
        with decoding(path, "text"):
            yield
    except PredictionFileError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        message = text.explain(path, names, str(error.__cause__), n_done)
        raise PredictionFileError(message) from error


def check_header(head: list[str], where: str) -> None:
    """Refuse a header in which a name is missing or there twice."""
    seen = set()
    for i, name in enumerate(head):
        if not name and not (i == 0 and name in INDEX_NAMES):
            raise PredictionFileError(f"{where}: column {i + 1} has no name; add one")
        if name in seen:
            raise PredictionFileError(f"{where}: column name {name!r} appears twice; rename one")
        seen.add(name)


def scores_of(batch: Any, layout: Layout, path: Path) -> NDArray[np.float64]:
    """Scores of a record batch."""
    scores = np.empty((batch.num_rows, len(layout.score_names)))
    place = {name: j for j, name in enumerate(batch.schema.names)}
    for j, name in enumerate(layout.score_names):
        column = batch.column(place[name])
        if not _is_of_numbers(column.type):
            raise PredictionFileError(
                f"{path}, column {name!r} is of type {column.type}; scores must be numbers: name "
                "the labels with --label-column, or leave the column out with --ignore"
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


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """What the caller says of the columns, or leaves open: that of the labels, by its name.

    Columns of scores, and columns that hold none, are names or patterns. A score that is missing in
    a text table is an error, or NaN where ``takes_missing`` says that bad rows are dealt with.
    ``is_single`` says whether there is one column of scores, of the positive class; or nobody does.
    Where the names of labels and scores are known, ``reads_others`` says that others are read, too.
    """

    label: str | None = None
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    takes_missing: bool = False
    is_single: bool | None = None
    reads_others: bool = True

    def read_of(self, names: list[str]) -> list[str]:
        """Return the columns to read."""
        known = {self.label, *self.columns}
        return [name for name in names if self.reads_others or name in known]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table are.

    The label column is named if it was asked for, or has the name of one. Where the caller did not
    choose the columns of scores, they are all that hold numbers.
    """

    names: list[str]
    label: str | None
    is_named: bool
    score_names: list[str]
    is_chosen: bool


def make_layout(
    names: list[str],
    samples: Samples,
    selection: ColumnSelection,
    where: str,
) -> Layout:
    """Tell labels, scores and other columns apart.

    ``samples`` are the first values of each column, empty ones left out; None for a column that is
    text whatever it holds. ``where`` is the file, for messages.
    """
    ignored = _chosen(names, selection.ignore, "--ignore or --groups", where)
    predicted = [n for n in names if n.casefold() in PREDICTION_NAMES and n not in ignored]
    ignored |= {*predicted, *(n for n in names if n in INDEX_NAMES)}
    text = {name for name in names if _is_text(samples[name])}
    free = [name for name in names if name not in ignored]
    label = _label(free, text, samples, selection, where)
    if selection.columns:
        chosen = _chosen(names, selection.columns, "--columns", where) - {label}
        scores = [name for name in names if name in chosen]
    else:
        scores = [name for name in free if name != label and name not in text]
        of_fractions = [n for n in predicted if n != label and _has_fractions(samples[n])]
        if not scores and len(of_fractions) == 1:
            scores = of_fractions
    if len(scores) < 2:
        unused = f" ({some_in_words(predicted)} holds predicted labels)" if predicted else ""
        _refuse_few(scores, samples, selection, where, unused)
    is_named = label is not None and (
        selection.label is not None or label.casefold() in LABEL_NAMES
    )
    return Layout(names, label, is_named, scores, bool(selection.columns))


def _refuse_few(
    scores: list[str], samples: Samples, selection: ColumnSelection, where: str, unused: str
) -> None:
    """Refuse no column, or one that was not said to be, and may not be, of the positive class."""
    found, is_open = f"no columns of scores{unused}", selection.is_single is None
    if scores:
        is_whole = not selection.columns and are_whole(samples[scores[0]] or ("",))
        if selection.is_single or (is_open and not is_whole):
            return
        found = f"one column of scores, {scores[0]!r}"
        found += ", of whole numbers" if is_open else ""
    raise PredictionFileError(
        f"{where} has {found}; write a column of numbers for each of two or more classes "
        "(--columns), or for two classes one column with --scores positive, or --scores decision "
        "for margins"
    )


def _chosen(names: list[str], patterns: Sequence[str], option: str, where: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        if pattern in names:
            found.add(pattern)
            continue
        matching = {name for name in names if fnmatchcase(name, pattern)}
        if not matching:
            raise PredictionFileError(
                f"{where} has no column {pattern!r} ({option}); it has {some_in_words(names)}"
            )
        found |= matching
    return found


def _label(
    free: list[str],
    text: set[str],
    samples: Samples,
    selection: ColumnSelection,
    where: str,
) -> str | None:
    if selection.label is not None:
        if selection.label not in samples:
            raise PredictionFileError(
                f"{where} has no column {selection.label!r} (--label-column); it has "
                f"{some_in_words(list(samples))}"
            )
        return selection.label
    if "label" in free:
        return "label"
    usual = [name for name in free if name.casefold() in LABEL_NAMES]
    named = [name for name in usual if name in text or are_whole(samples[name] or ())]
    if len(named) > 1:
        named = [name for name in named if name in text] or named
    if len(named) > 1:
        raise PredictionFileError(
            f"{where}: columns {some_in_words(named)} may all hold the labels; choose one with "
            "--label-column"
        )
    if named:
        return named[0]
    others = [name for name in free if name in text]
    return others[0] if len(others) == 1 else None


def _is_text(sample: Sequence[str] | None) -> bool:
    """Whether no value is a number, not even one with a decimal comma or a sign of percent."""
    if sample is None:
        return True
    spoken = [text for text in sample if not MISSING.fullmatch(text)]
    return bool(spoken) and not any(
        is_number(text.rstrip("% ").replace(",", ".")) for text in spoken
    )


def _has_fractions(sample: Sequence[str] | None) -> bool:
    """Whether values are numbers that are not all whole."""
    numbers = [own for text in sample or () if is_number(own := text.replace(",", "."))]
    return any(not float(own).is_integer() for own in numbers if math.isfinite(float(own)))


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
