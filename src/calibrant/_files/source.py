"""What is asked of a file of predictions, the rows that it holds, and where each of them stands."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from calibrant._gate import is_single, single_kind
from calibrant.errors import Arguments, DataError, MemoryLimitError, PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from calibrant._files.tables import Columns
    from calibrant._types import Array, Label, Labels, Wholes

    Locate = Callable[[Sequence[int]], list[str]]

CHUNK_BYTES = 1 << 20
"""Bytes of the scores in a chunk of an array."""


@contextmanager
def decoding(where: Path | str) -> Iterator[None]:
    """Say which file is damaged, whatever its decoder raises.

    Decoders of damaged bytes raise anything: SyntaxError, zlib.error, NotImplementedError, ...
    """
    try:
        yield
    except (DataError, MemoryLimitError, ImportError):
        raise
    except Exception as error:
        fault = (
            "it is damaged or has another format; write it again, or rename it to the suffix of "
            "its format"
        )
        if isinstance(error, UnicodeDecodeError):
            fault = "it is not UTF-8 text; save it as UTF-8"
        elif isinstance(error, OSError) and error.errno is not None:
            fault = str(error.strerror)
        elif isinstance(error, MemoryError):
            fault = "it needs more memory than there is, or is damaged"
        elif "allow_pickle" in str(error) or "Python objects" in str(error):
            fault = "Python objects are never unpickled; save an array of numbers"
        raise PredictionFileError(f"{where} cannot be read: {fault}") from error


def check_file(path: Path) -> None:
    """Refuse what is not there, and pipes, since files are read more than once."""
    if not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    if not path.is_file():
        what = "a directory" if path.is_dir() else "a pipe"
        raise PredictionFileError(f"{path} is {what}; name a file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a file: first what the options of the command say, each in one field.

    ``part`` is "val" or "test" of an npz file with arrays of both, and an error for other files. An
    npz file tells the kind of its scores by the names of its arrays; others hold probabilities
    unless ``kind`` says otherwise. ``labels`` is a npy file with the labels of a npy file;
    ``label`` names the column of labels of a table, ``columns`` and ``ignore`` are names or
    patterns of columns that hold scores, and that hold none. ``groups`` and ``features`` are
    columns beside the scores.
    """

    part: str | None = None
    kind: str | None = None
    positive: str | None = None
    normalize: bool = False
    label: str | None = None
    labels: Path | None = None
    columns: Sequence[str] = ()
    ignore: Sequence[str] = ()
    classes: Sequence[str] | None = None
    groups: str | None = None
    features: Sequence[str] = ()

    usual_part: str | None = None
    """Part of an npz file that is read where none is asked for."""

    known_classes: Sequence[Label] | None = None
    """Classes of a model, or of another part of the same data, by which logs are read."""

    fitted: Sequence[str] = ()
    """Columns that a model was fitted to: a table that has them all may have other numbers."""

    more: Mapping[str, str] = field(default_factory=dict)
    """Further columns to read, and the option that names each."""

    may_lack_labels: bool = False
    """Whether some rows of a log may have no label."""

    reads_scores: bool = True
    reads_others: bool = False
    """Whether scores are read, and whether columns that nobody names are: they are copied."""

    options: tuple[str, str] = ("--columns", "--label-column")
    """What names the columns of scores and of labels, for messages."""

    @property
    def beside(self) -> dict[str, str]:
        """Columns beside the scores that are read, and the option that names each."""
        named = {} if self.groups is None else {self.groups: "--groups"}
        return named | dict.fromkeys(self.features, "--features") | dict(self.more)

    @property
    def log_classes(self) -> list[str] | None:
        """Classes by which a log is read, if they are known."""
        known = self.classes or self.known_classes
        return None if known is None else [str(c) for c in known]


@dataclass(frozen=True)
class Place(Arguments):
    """Where rows stand, for messages in the words of the command.

    ``source`` is the file and which part of it, ``names`` are those of the columns of scores.
    ``locate`` says where rows are, which count from ``first_row`` of the source.
    """

    source: str
    names: list[str] | None = None
    locate: Locate | None = None
    first_row: int = 0
    label_option: str = "--label-column"

    if_logits = "for logits, use --scores logits"
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
    def if_unnormalized(self) -> str:  # type: ignore[override]
        """What to do about rows that do not sum to one: a column of a table may hold no scores."""
        ignore = "" if self.names is None else "leave out columns without scores by --ignore; "
        return f"{ignore}--normalize divides each row by its sum"

    @property
    def prefix(self) -> str:  # type: ignore[override]
        """What comes before a message that names no place."""
        return f"{self.source}: "

    @property
    def scores(self) -> str:  # type: ignore[override]
        """The file."""
        return self.source

    y = scores

    def take(self, rows: slice | Wholes) -> Place:
        """Return where some of the rows stand."""
        if isinstance(rows, slice):
            return replace(self, first_row=rows.start)
        return replace(
            self, locate=lambda own: self.where([int(rows[row]) for row in own]), first_row=0
        )

    def where(self, rows: Sequence[int]) -> list[str]:
        """Where rows are: lines of text, else rows counted from 0."""
        rows = [self.first_row + row for row in rows]
        if self.locate is None:
            return [f"{self.source}, row {row} (from 0)" for row in rows]
        return self.locate(rows)

    def place(self, argument: str, row: int, column: int | None = None) -> str:
        """Where a row or its label is, or a cell of it."""
        (where,) = self.where([row])
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


@dataclass(frozen=True)
class Rows:
    """Rows of a file: scores, labels as they stand in it, and columns beside them by name.

    ``beside`` is a batch of Arrow for a table, with all columns that were read, and arrays for
    other files. Unless its columns are sure to hold scores, they are all columns of numbers of a
    table. Names of columns may be known to be the classes, as in archives and logs, whose labels
    are among them. Rows of a log may lack options (``has_absent``), and scores may be confidences
    that a model stated (``is_stated``).
    """

    scores: Array
    kind: str
    labels: Labels | None
    place: Place
    beside: dict[str, Array] | pa.RecordBatch = field(default_factory=dict)
    are_columns_sure: bool = True
    names_are_classes: bool = False
    has_absent: bool = False
    is_stated: bool = False

    @property
    def is_single(self) -> bool:
        """Whether the scores are one number for each row, of two classes."""
        return is_single(self.kind)

    def column(self, name: str) -> Array:
        """Return a column beside the scores."""
        return to_array(self.beside[name])

    def take(self, rows: slice | Wholes) -> Rows:
        """Return some of the rows, which know where they are; a slice is of arrays alone."""
        beside = self.beside
        if isinstance(beside, dict):
            beside = {name: values[rows] for name, values in beside.items()}
        else:
            beside = beside.take(rows)
        return replace(
            self,
            scores=self.scores[rows],
            labels=None if self.labels is None else self.labels[rows],
            place=self.place.take(rows),
            beside=beside,
        )


def to_array(column: pa.ChunkedArray | pa.Array | Array) -> Array:
    """Return a column of Arrow, or an array, as an array; text is objects, None where missing."""
    if isinstance(column, np.ndarray):
        return column
    # Several chunks of categories at once would have some category where one is missing.
    chunks = getattr(column, "chunks", None) or [column]
    arrays = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


@dataclass(frozen=True)
class Source:
    """An open file: its rows whole, if they are in memory or mapped, or a stream to be read once.

    ``columns`` says what those of a table are, ``note`` what was read as what, for users.
    """

    place: Place
    kind: str
    n_columns: int
    dtype: np.dtype[np.generic]
    whole: Rows | None = None
    stream: Iterator[Rows] | None = None
    columns: Columns | None = None
    note: str = ""

    @classmethod
    def of(cls, rows: Rows, note: str = "") -> Source:
        """Return rows that are in memory, or mapped, as an open file."""
        scores = rows.scores
        return cls(rows.place, rows.kind, scores.shape[1], scores.dtype, rows, note=note)

    @property
    def chunks(self) -> Iterator[Rows]:
        """Rows, some at a time."""
        if self.whole is None:
            yield from self.stream or ()
            return
        step = max(1, CHUNK_BYTES // (self.dtype.itemsize * self.n_columns))
        for start in range(0, len(self.whole.scores), step):
            yield self.whole.take(slice(start, start + step))

    def read(self) -> Rows:
        """Read all rows."""
        if self.whole is not None:
            return self.whole
        import pyarrow as pa

        parts = list(self.chunks)
        labels = [part.labels for part in parts if part.labels is not None]
        batches = [part.beside for part in parts if not isinstance(part.beside, dict)]
        if all(batch.schema.equals(batches[0].schema) for batch in batches):
            beside = pa.Table.from_batches(batches)
        else:  # files of a directory may store a column in several types
            names = batches[0].schema.names
            beside = {name: np.concatenate([part.column(name) for part in parts]) for name in names}
        places = [part.place for part in parts]
        starts = [0, *accumulate(len(part.scores) for part in parts)]

        def locate(rows: Sequence[int]) -> list[str]:
            inside = [(row, bisect_right(starts, row) - 1) for row in rows]
            return [places[part].where([row - starts[part]])[0] for row, part in inside]

        return replace(
            parts[0],
            scores=np.concatenate([part.scores for part in parts]),
            labels=np.concatenate(labels) if labels else None,
            place=replace(self.place, locate=locate),
            beside=beside,
        )


def kind_of(kind: str | None, n_columns: int, where: str, plain: str = "probabilities") -> str:
    """Kind of the scores: as the caller says, else ``plain``, or that of one column of it."""
    if kind is None:
        return plain if n_columns > 1 else single_kind(plain)
    if is_single(kind) and n_columns > 1:
        needed = f"--scores {kind} needs one number per row; choose one column with --columns"
        raise PredictionFileError(f"{where} has {n_columns} columns of scores, but {needed}")
    return kind
