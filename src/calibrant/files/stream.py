"""Read predictions a chunk of rows at a time: memory does not grow with the file."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files import tables
from calibrant.files.align import labels_of_archive
from calibrant.files.arrays import (
    Header,
    check_matrix,
    decoding,
    open_binary,
    open_npz,
    read_header,
    read_numbers,
)
from calibrant.files.places import Place
from calibrant.files.predictions import (
    npz_classes,
    npz_prefix,
    npz_scores,
    refuse_part,
    unknown_format,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant.files.layout import Layout, Wish

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows: scores, labels when they are asked for, and the record batch of a table."""

    scores: NDArray[Any]
    labels: Callable[[], NDArray[Any] | None]
    batch: Any = None


@dataclass(frozen=True, slots=True)
class Source:
    """An open file of predictions.

    Attributes
    ----------
    names : list of str or None
        Names of the columns of scores.
    n_columns : int
    n_rows : int or None
        Where it is known beforehand.
    dtype : dtype
    chunks : iterator of Chunk
    place : Place
        For messages.
    has_labels : bool
    layout, schema
        What the columns of a table are; None for arrays.
    """

    names: list[str] | None
    n_columns: int
    n_rows: int | None
    dtype: np.dtype[Any]
    chunks: Iterator[Chunk]
    place: Place
    has_labels: bool
    layout: Layout | None = None
    schema: Any = None


@contextmanager
def open_source(
    path: Path, *, part: str | None, usual_part: str | None, kind: str | None, wish: Wish
) -> Iterator[Source]:
    """Open a file of predictions to read it chunk by chunk; its size is fixed at opening."""
    suffix = path.suffix.lower()
    if str(path) != "-" and not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    with ExitStack() as stack:
        if suffix == ".npz":
            yield _open_npz(path, part, usual_part, kind, stack)
            return
        refuse_part(path, part)
        if suffix == ".npy":
            yield _open_npy(path, stack)
        elif tables.is_table(path):
            table = stack.enter_context(tables.open_table(path, wish))
            names = table.layout.score_names
            yield Source(
                names=names,
                n_columns=len(names),
                n_rows=None,
                dtype=np.dtype(np.float64),
                chunks=_table_chunks(table, path),
                place=Place(path, str(path), names),
                has_labels=table.layout.label is not None,
                layout=table.layout,
                schema=table.schema,
            )
        else:
            raise unknown_format(path)


def _table_chunks(table: tables.Table, path: Path) -> Iterator[Chunk]:
    done = 0
    label = table.layout.label
    for batch in table.batches:

        def labels(batch: Any = batch, done: int = done) -> NDArray[Any] | None:
            return None if label is None else tables.labels_of(batch, label, path, done)

        yield Chunk(tables.scores_of(batch, table.layout, path), labels, batch)
        done += batch.num_rows


def _open_npy(path: Path, stack: ExitStack) -> Source:
    file = stack.enter_context(open_binary(path, "npy"))
    with decoding(path, "npy"):
        header = read_header(file, str(path))
    _check(header, str(path))
    rows = _read_rows(file, header, path, str(path), header.shape[1])
    chunks = (Chunk(scores, lambda: None) for scores in rows)
    n_rows, n_columns = header.shape
    return Source(None, n_columns, n_rows, header.dtype, chunks, Place(path, str(path)), False)


def _open_npz(
    path: Path, part: str | None, usual_part: str | None, kind: str | None, stack: ExitStack
) -> Source:
    archive = stack.enter_context(open_npz(path))
    prefix = npz_prefix(archive.names, part, usual_part, path)
    name = npz_scores(archive.names, prefix, kind, path)
    member, header = stack.enter_context(archive.open(name))
    _check(header, f"{path}: {name}")
    n_rows, n_columns = header.shape
    names = npz_classes(archive, n_columns, path)
    rows = _read_rows(member, header, path, f"{path}: {name}", n_columns)
    of_rows: Iterator[NDArray[Any]] | None = None
    if f"{prefix}labels" in archive.names:
        where = f"{path}: {prefix}labels"
        labels, about = stack.enter_context(archive.open(f"{prefix}labels"))
        if about.shape[:1] != (n_rows,) or (about.fortran and len(about.shape) > 1):
            raise PredictionFileError(
                f"{where} has shape {about.shape}; a label for each of {n_rows} rows is needed"
            )
        of_rows = _read_rows(labels, about, path, where, n_columns, header.dtype.itemsize)
    return Source(
        names=names,
        n_columns=n_columns,
        n_rows=n_rows,
        dtype=header.dtype,
        chunks=_array_chunks(rows, of_rows, names),
        place=Place(path, f"{path} ({prefix[:-1]})" if prefix else str(path), names),
        has_labels=of_rows is not None,
    )


def _array_chunks(
    rows: Iterator[NDArray[Any]], labels: Iterator[NDArray[Any]] | None, names: list[str] | None
) -> Iterator[Chunk]:
    for scores in rows:
        own = None if labels is None else next(labels)
        if own is not None and own.ndim == 1 and names is not None:
            own, _ = labels_of_archive(own, names)  # places would be others in another order
        yield Chunk(scores, lambda own=own: own)  # type: ignore[misc]


def _check(header: Header, where: str) -> None:
    check_matrix(header, where)
    if header.fortran:
        raise PredictionFileError(
            f"{where} is in Fortran order, which cannot be read row by row; save "
            "np.ascontiguousarray(scores)"
        )


def _read_rows(
    file: IO[bytes],
    header: Header,
    path: Path,
    where: str,
    n_columns: int,
    itemsize: int | None = None,
) -> Iterator[NDArray[Any]]:
    """Read rows of scores, or as many labels at a time as rows of ``n_columns`` scores."""
    n_rows = header.shape[0]
    of_a_row = header.n_bytes // n_rows if n_rows else 0
    step = max(1, CHUNK_BYTES // ((itemsize or header.dtype.itemsize) * n_columns))
    for start in range(0, n_rows, step):
        height = min(step, n_rows - start)
        data = read_numbers(
            file, header, path, where, n_bytes=height * of_a_row, done=start * of_a_row
        )
        yield np.frombuffer(data, header.dtype).reshape(height, *header.shape[1:])
