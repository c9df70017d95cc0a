"""Files of predictions, opened to be read a chunk of rows at a time, or whole."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files import tables
from calibrant._files.align import labels_of_archive
from calibrant._files.arrays import open_npy, open_npz
from calibrant._files.logs import read_log
from calibrant._files.records import is_log
from calibrant._files.tables import ColumnSelection
from calibrant._files.text import Place
from calibrant._one_column import ONE_COLUMN, two_column_kind
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._files.arrays import Archive, StoredArray
    from calibrant._files.logs import Log
    from calibrant._files.tables import Layout

ARRAYS = {"probs": "probabilities", "logits": "logits"}
CHUNK_BYTES = 1 << 20
LABEL_KINDS = "iufbUSO"
"""Kinds of dtypes that labels may have; objects are texts of a table."""


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Some rows: scores, labels when they are asked for, and the record batch of a table."""

    scores: NDArray[Any]
    read_labels: Callable[[], NDArray[Any]] | None
    batch: Any = None

    def labels(self) -> NDArray[Any] | None:
        """Return the labels, if there are any."""
        return None if self.read_labels is None else self.read_labels()


@dataclass(frozen=True, slots=True)
class RawPredictions:
    """What a file of predictions holds: scores, and labels as they stand in it.

    Unless its columns are sure to hold scores, they are all columns of numbers of a table. ``log``
    is that of an evaluation, whose rows may lack some of the options.
    """

    scores: NDArray[Any]
    kind: str
    labels: NDArray[Any] | None
    place: Place
    are_columns_sure: bool = True
    log: Log | None = None

    @property
    def source(self) -> str:
        """Where it came from."""
        return self.place.source

    def require_labels(self) -> NDArray[Any]:
        """Return the labels, or say where they could have been."""
        if self.labels is None:
            raise PredictionFileError(
                f"{self.source} has no labels; tables need a column 'label' or a single column of "
                "text, or name it with --label-column; npz files need an array 'labels', npy files "
                "--labels FILE (--test-labels FILE for TEST)"
            )
        return self.labels


@dataclass(frozen=True, slots=True)
class Source:
    """An open file of predictions, to be read once: in chunks, or all scores and all labels.

    The number of rows is told where it is known beforehand; the layout and the schema are those of
    a table. ``log`` is what was read of the log of an evaluation.
    """

    place: Place
    kind: str
    n_columns: int
    n_rows: int | None
    dtype: np.dtype[Any]
    has_labels: bool
    chunks: Iterator[FileChunk]
    whole: Callable[[], tuple[NDArray[Any], NDArray[Any] | None]]
    layout: Layout | None = None
    schema: Any = None
    log: Log | None = None

    @property
    def are_columns_sure(self) -> bool:
        """Whether the columns are sure to hold scores."""
        return self.layout is None or self.layout.is_chosen

    def read(self) -> RawPredictions:
        """Read all rows."""
        scores, labels = self.whole()
        return RawPredictions(
            scores, self.kind, labels, self.place, self.are_columns_sure, self.log
        )


def read_prediction_file(
    path: str | os.PathLike[str],
    *,
    part: str | None = None,
    usual_part: str | None = None,
    kind: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    selection: ColumnSelection | None = None,
    classes: Sequence[Any] | None = None,
) -> RawPredictions:
    """Read scores and labels from npz, npy, tables or logs of JSON; ``-`` is CSV on stdin.

    ``part`` is "val" or "test" of an npz file with arrays of both, and an error for other files;
    ``usual_part`` is read where none is asked for. An npz file tells the kind of its scores by the
    names of its arrays; other files hold probabilities unless ``kind`` says otherwise, and a single
    column is of the positive class of two. ``labels`` is a npy file with the labels, for scores in
    a npy file; ``classes`` are those of a log.
    """
    with open_source(
        Path(path),
        part=part,
        usual_part=usual_part,
        kind=kind,
        labels=None if labels is None else Path(labels),
        selection=selection,
        classes=classes,
    ) as source:
        return source.read()


@contextmanager
def open_source(
    path: Path,
    *,
    part: str | None = None,
    usual_part: str | None = None,
    kind: str | None = None,
    labels: Path | None = None,
    selection: ColumnSelection | None = None,
    classes: Sequence[Any] | None = None,
) -> Iterator[Source]:
    """Open a file of predictions; its size is fixed at opening.

    The options are those of :func:`read_prediction_file`.
    """
    if str(path) != "-" and not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    with ExitStack() as stack:
        if path.suffix.lower() == ".npz":
            archive = stack.enter_context(open_npz(path))
            source = _open_npz(archive, part, usual_part, kind, stack)
        else:
            _refuse_part(path, part)
            source = _open_other(path, kind, selection, classes, stack)
        if labels is not None:
            source = _with_labels(source, stack.enter_context(open_npy(labels)))
        yield source


def _open_other(
    path: Path,
    kind: str | None,
    selection: ColumnSelection | None,
    classes: Sequence[Any] | None,
    stack: ExitStack,
) -> Source:
    """Open a file that has no parts."""
    if path.suffix.lower() == ".npy":
        scores = stack.enter_context(open_npy(path))
        told = _kind_of(kind, _shape(scores, kind)[1], str(path))
        return _of_arrays(scores, None, told, Place(path, str(path)))
    if is_log(path):
        return _of_log(read_log(path, kind, selection, classes), path)
    if not tables.is_table(path):
        raise unknown_format(path)
    is_single = None if kind is None else kind in ONE_COLUMN
    chosen = replace(selection or ColumnSelection(), is_single=is_single)
    table = tables.open_table(path, chosen, stack)
    return _of_table(table, path, _kind_of(kind, len(table.layout.score_names), str(path)))


def _with_labels(source: Source, labels: StoredArray) -> Source:
    """Return a file whose labels are in a file of their own, which is mapped."""
    if source.has_labels:
        raise PredictionFileError(
            f"{source.place.path} has labels already; leave out --labels {labels.path}"
        )
    if source.n_rows is not None:
        _check_labels(labels, source.n_rows)
    y = labels.whole()

    def read() -> Iterator[FileChunk]:
        done = 0
        for chunk in source.chunks:
            own = y[done : done + len(chunk.scores)]
            yield replace(chunk, read_labels=partial(np.asarray, own))
            done += len(own)

    def whole() -> tuple[NDArray[Any], NDArray[Any]]:
        scores, _ = source.whole()
        _check_labels(labels, len(scores))
        return scores, y

    return replace(source, has_labels=True, chunks=read(), whole=whole)


def unknown_format(path: Path) -> PredictionFileError:
    """Return the error about a suffix that no format has."""
    suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix.lower()
    return PredictionFileError(
        f"{path}: {suffix!r} is not known; use .npz, .npy, .csv, .tsv, .csv.gz, .parquet, .arrow, "
        "or .jsonl, .json and .eval for evaluations"
    )


def _refuse_part(path: Path, part: str | None) -> None:
    if part is not None:
        raise PredictionFileError(f"{path} has no part {part!r}; leave out --part")


def _of_table(table: tables.OpenTable, path: Path, kind: str) -> Source:
    layout = table.layout
    names, label = layout.score_names, layout.label

    def read() -> Iterator[FileChunk]:
        done = 0
        for batch in table.batches:
            labels = partial(tables.labels_of, batch, label, path, done) if label else None
            yield FileChunk(tables.scores_of(batch, layout, path), labels, batch)
            done += batch.num_rows

    def whole() -> tuple[NDArray[Any], NDArray[Any] | None]:
        chunks = [(chunk.scores, chunk.labels()) for chunk in read()]
        scores = np.concatenate([np.empty((0, len(names))), *(own for own, _ in chunks)])
        y = [own for _, own in chunks if own is not None]
        return scores, np.concatenate(y) if y else None

    place, has_labels = Place(path, str(path), names), label is not None
    shape, dtype = (len(names), None), np.dtype(np.float64)
    return Source(place, kind, *shape, dtype, has_labels, read(), whole, layout, table.schema)


def _of_log(log: Log, path: Path) -> Source:
    place = Place(path, str(path), log.classes, lines=log.lines)
    labels = None if log.labels is None else partial(np.asarray, log.labels)
    n_rows, n_columns = log.scores.shape
    about, rows = (log.kind, n_columns, n_rows, log.scores.dtype), (log.scores, log.labels)
    chunks = iter([FileChunk(log.scores, labels)])
    return Source(place, *about, labels is not None, chunks, lambda: rows, log=log)


def _of_arrays(scores: StoredArray, labels: StoredArray | None, kind: str, place: Place) -> Source:
    n_rows, n_columns = _shape(scores, kind)

    def read() -> Iterator[FileChunk]:
        if labels is not None:
            _check_labels(labels, n_rows, "any")
        step = max(1, CHUNK_BYTES // (scores.dtype.itemsize * n_columns))
        of_rows: Iterable[Any] = repeat(None) if labels is None else labels.chunks(step)
        for rows, own in zip(scores.chunks(step), of_rows, strict=False):
            y = own
            if own is not None and own.ndim == 1 and place.names is not None:
                y, _ = labels_of_archive(own, place.names)  # places would be others in other orders
            rows = rows.reshape(-1, n_columns)  # noqa: PLW2901  (of a vector)
            yield FileChunk(rows, None if y is None else partial(np.asarray, y))

    def whole() -> tuple[NDArray[Any], NDArray[Any] | None]:
        matrix = scores.whole().reshape(-1, n_columns)
        if labels is None:
            return matrix, None
        _check_labels(labels, n_rows)
        return matrix, labels.whole()

    return Source(place, kind, n_columns, n_rows, scores.dtype, labels is not None, read(), whole)


def _kind_of(kind: str | None, n_columns: int, where: str, plain: str = "probabilities") -> str:
    """Kind of the scores: as the caller says, else ``plain``, or that of one column of it."""
    if kind is None:
        return plain if n_columns > 1 else {two: one for one, two in ONE_COLUMN.items()}[plain]
    if kind in ONE_COLUMN and n_columns > 1:
        raise PredictionFileError(
            f"{where} has {n_columns} columns of scores, but --scores {kind} needs one number per "
            "row; choose one column with --columns"
        )
    return kind


def _shape(scores: StoredArray, kind: str | None) -> tuple[int, ...]:
    if len(scores.shape) == 1 and scores.dtype.kind in "fiub" and kind not in ARRAYS.values():
        return *scores.shape, 1
    is_matrix = len(scores.shape) == 2 and scores.dtype.kind in "fiub" and scores.shape[1] > 0
    scores.check(is_matrix, "write one row per sample and one column of numbers per class")
    return scores.shape


def _check_labels(labels: StoredArray, n_rows: int, kinds: str = "iufbUS") -> None:
    are_right = labels.shape[:1] == (n_rows,) and (kinds == "any" or labels.dtype.kind in kinds)
    labels.check(are_right, f"write a number or a text for each of the {n_rows} rows of scores")


def _open_npz(
    archive: Archive, part: str | None, usual_part: str | None, kind: str | None, stack: ExitStack
) -> Source:
    path = archive.path
    prefix = _prefix(archive.names, part, usual_part, path)
    name = _scores(archive.names, prefix, kind, path)
    scores = stack.enter_context(archive.open(name))
    labels = None
    if f"{prefix}labels" in archive.names:
        labels = stack.enter_context(archive.open(f"{prefix}labels"))
    n_columns, plain = _shape(scores, kind)[1], ARRAYS[name.removeprefix(prefix)]
    kind = _kind_of(kind, n_columns, str(path), plain)
    classes = _classes(archive, 2 if kind in ONE_COLUMN else n_columns)
    place = Place(path, f"{path} ({prefix[:-1]})" if prefix else str(path), classes)
    return _of_arrays(scores, labels, kind, place)


def _classes(archive: Archive, n_columns: int) -> list[str] | None:
    """Names of the columns of an npz file: the array ``classes``."""
    if "classes" not in archive.names:
        return None
    with archive.open("classes") as stored:
        needed = f"write one name for each of the {n_columns} columns"
        stored.check(stored.shape == (n_columns,), needed)
        named = stored.whole().tolist()
    names = [c.decode(errors="replace") if isinstance(c, bytes) else str(c) for c in named]
    if len(set(names)) != len(names):
        raise PredictionFileError(
            f"{archive.path}: classes has the same name twice; give each column its own"
        )
    return names


def has_parts(path: Path) -> bool:
    """Whether a file is an npz file with ``val_*`` or ``test_*`` arrays in place of plain ones."""
    if path.suffix.lower() != ".npz":
        return False
    with open_npz(path) as file:
        return "" not in (prefixes := _prefixes(file.names)) and bool(prefixes)


def _prefixes(names: list[str]) -> list[str]:
    """Return what stands before the names of scores: nothing, or a part."""
    return [p for p in ("", "val_", "test_") if {f"{p}{scores}" for scores in ARRAYS} & {*names}]


def _prefix(names: list[str], part: str | None, usual_part: str | None, path: Path) -> str:
    """Return "val_", "test_" or "" for the layout of an npz file; never another part."""
    prefixes = _prefixes(names)
    if not prefixes:
        raise PredictionFileError(
            f"{path} has the arrays {', '.join(names[:6])}; 'probs' or 'logits' (and 'labels') are "
            "needed, or 'val_probs', 'test_probs', ..."
        )
    if prefixes == [""] or ("" in prefixes and part is None):
        _refuse_part(path, part)
        return ""
    chosen = part or usual_part
    if f"{chosen}_" in prefixes:
        return f"{chosen}_"
    has = f"{path} has {' and '.join(f'{p}* arrays' for p in prefixes if p)}"
    if chosen is None:
        raise PredictionFileError(f"{has}; choose one with --part")
    raise PredictionFileError(f"{has}, but no {chosen}_probs or {chosen}_logits; use --part")


def _scores(names: list[str], prefix: str, kind: str | None, path: Path) -> str:
    """Name of the array of scores: of the kind asked for, else probabilities first."""
    for short, long in ARRAYS.items():
        if f"{prefix}{short}" in names and (kind is None or two_column_kind(kind) == long):
            return f"{prefix}{short}"
    raise PredictionFileError(f"{path} has no {kind} in its {prefix or 'plain '}arrays")
