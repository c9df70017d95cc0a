"""Writers of calibrated rows, one for each format; each is called for every chunk of rows."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant._atomic_file import replace_file
from calibrant._files.source import RawPredictions, Source
from calibrant._files.tables import ARROW, PARQUET
from calibrant._files.text import TEXT, is_zipped, suffix_of
from calibrant._files.values import labels_of_model
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Output:
    """What is written: rows of these classes, out of a source, whose columns are in an order.

    ``dtype`` is that of arrays; ``order`` are the columns of the source that are the classes'.
    """

    path: Path
    classes: NDArray[Any]
    source: Source
    order: NDArray[np.int64] | None
    dtype: np.dtype[Any]


Write = Callable[[NDArray[Any], RawPredictions, NDArray[np.bool_]], None]
"""Write calibrated rows: those of a chunk that are kept, the chunk, and which of it are kept."""

Writer = Callable[[IO[bytes], Output], AbstractContextManager[Write]]


@contextmanager
def write_npy(file: IO[bytes], output: Output) -> Iterator[Write]:
    """Write a npy file, and its header once more when the number of rows is known."""
    n_rows = 0

    def write_header() -> None:
        descr = np.lib.format.dtype_to_descr(output.dtype)
        shape = n_rows, len(output.classes)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)  # pads for larger shapes

    def write(rows: NDArray[Any], *_: Any) -> None:
        nonlocal n_rows
        file.write(np.ascontiguousarray(rows, dtype=output.dtype).data)
        n_rows += len(rows)

    write_header()
    yield write
    file.seek(0)
    write_header()


@contextmanager
def write_npz(file: IO[bytes], output: Output) -> Iterator[Write]:
    """Write an npz file with ``probs``, ``classes`` and ``labels``, which are held until then."""
    classes, source = output.classes, output.source
    probs = [np.empty((0, len(classes)), output.dtype)]
    labels: list[NDArray[Any]] = []

    def write(rows: NDArray[Any], chunk: RawPredictions, keep: NDArray[np.bool_]) -> None:
        probs.append(rows.astype(output.dtype, copy=False))
        if chunk.labels is not None:
            labels.append(chunk.labels[keep])

    yield write
    names = classes.astype(str) if classes.dtype.kind in "OT" else classes
    arrays = {"probs": np.concatenate(probs), "classes": names}
    y = np.concatenate(labels) if labels else None
    if source.layout is not None:  # of arrays, labels stay as they are
        y = labels_of_model(y, source, classes)
    np.savez(file, **arrays, **({} if y is None else {"labels": y}))  # type: ignore[arg-type]


@contextmanager
def write_lines(file: IO[bytes], output: Output) -> Iterator[Write]:
    """Write a JSON object a line, as logs are read: ``probs`` by class, and the label."""
    names = [str(c) for c in output.classes]

    def write(rows: NDArray[Any], chunk: RawPredictions, keep: NDArray[np.bool_]) -> None:
        labels = [None] * len(rows) if chunk.labels is None else chunk.labels[keep].tolist()
        for row, label in zip(rows.tolist(), labels, strict=True):
            # A class of exactly 0 is an option that the row does not have; NaN is a bad row.
            record: dict[str, Any] = {"probs": {n: p for n, p in zip(names, row, strict=True) if p}}
            record |= {} if label is None else {"label": label}
            file.write(json.dumps(record).encode() + b"\n")

    yield write


@contextmanager
def write_table(file: IO[bytes], output: Output) -> Iterator[Write]:
    """Write CSV, TSV, Parquet or Arrow: the columns of the source, with calibrated scores."""
    suffix = suffix_of(output.path)
    writer: Any = None

    def write(rows: NDArray[Any], chunk: RawPredictions, keep: NDArray[np.bool_]) -> None:
        nonlocal writer
        table = calibrated_table(output, rows, chunk, keep)
        writer = _open_writer(suffix, file, table.schema) if writer is None else writer
        writer.write(table)

    try:
        yield write
    except BaseException:
        if hasattr(writer, "is_open"):  # Parquet's would write once more when it is deleted
            writer.is_open = False
        raise
    if writer is None:
        empty = np.empty((0, len(output.classes)))
        write(empty, _no_rows(output.source), np.empty(0, dtype=bool))
    writer.close()


def _no_rows(source: Source) -> RawPredictions:
    """Return a chunk of a source that has no rows."""
    import pyarrow as pa

    scores, labels = np.empty((0, source.n_columns)), None
    if source.whole is not None and source.whole.labels is not None:
        labels = source.whole.labels[:0]
    batch = None if source.schema is None else pa.RecordBatch.from_pylist([], source.schema)
    return RawPredictions(scores, source.kind, labels, source.place, batch=batch)


def calibrated_table(
    output: Output, rows: NDArray[Any], chunk: RawPredictions, keep: NDArray[np.bool_]
) -> Any:
    """Return the columns of a chunk, with calibrated rows in place of its scores, as Arrow's.

    Of arrays these are the labels, if there are any, and a column for each class.
    """
    import pyarrow as pa

    source, layout = output.source, output.source.layout
    names = source.place.names or [str(c) for c in output.classes]
    ordered = names if output.order is None else [names[j] for j in output.order]
    # Of a single column, which is that of the positive class, the last one is written.
    scores = zip(ordered, rows.T[-len(names) :], strict=True)
    columns: list[tuple[str, Any]] = []
    labels = chunk.labels if layout is None else None
    if labels is not None:
        kept = labels[keep] if labels.ndim == 1 else [str(own) for own in labels[keep].tolist()]
        columns.append(("label", pa.array(kept)))
    for name in names if layout is None else layout.names:
        if layout is None or name in layout.score_names:
            own, values = next(scores)
            columns.append((own, pa.array(values, pa.float64())))
        else:
            column = chunk.batch.column(name).filter(pa.array(keep))
            columns.append((name, _as_text(column, name, output)))
    metadata = {} if source.schema is None else source.schema.metadata or {}
    # By it pandas knows that __index_level_0__ is the index, and no column.
    told = {key: value for key, value in metadata.items() if key == b"pandas"}
    schema = pa.schema([(name, own.type) for name, own in columns], metadata=told)
    return pa.Table.from_arrays([own for _, own in columns], schema=schema)


def _as_text(column: Any, name: str, output: Output) -> Any:
    """Return a column as text if the output is, unless it holds numbers."""
    import pyarrow as pa

    types = pa.types
    is_number = types.is_floating(column.type) or types.is_integer(column.type)
    if suffix_of(output.path) not in TEXT or is_number:
        return column
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PredictionFileError(
            f"{output.source.place.path}, column {name!r} is of type {column.type}, which text "
            "cannot hold; write .parquet or .arrow"
        ) from error


def _open_writer(suffix: str, file: IO[bytes], schema: Any) -> Any:
    """Open a writer of record batches, of the format of a suffix."""
    if suffix in PARQUET:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(file, schema)
    if suffix in ARROW:
        from pyarrow import ipc

        return ipc.new_file(file, schema)
    from pyarrow import csv

    options = csv.WriteOptions(delimiter=TEXT[suffix], quoting_style="needed")
    return csv.CSVWriter(file, schema, write_options=options)


def save_table(path: Path, table: Any) -> None:
    """Write a table of Arrow, whole or not at all."""
    with open_output(path) as file, _open_writer(suffix_of(path), file, table.schema) as writer:
        writer.write(table)


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all; ``-`` is standard output."""
    if str(path) == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replace_file(path) as file:
        if not is_zipped(path):
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield zipped  # type: ignore[misc]
