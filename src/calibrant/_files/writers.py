"""Writers of calibrated rows, one for each kind of format; each is called for every chunk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant._atomic_file import replace_file
from calibrant._files.source import RawPredictions, Source
from calibrant._files.tables import ARROW, PARQUET, TEXT, is_zipped, suffix_of
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
def write_arrays(file: IO[bytes], output: Output) -> Iterator[Write]:
    """Write an npy file, or an npz file with ``probs``, ``classes`` and ``labels``.

    The rows are held until all of them are known.
    """
    classes, source = output.classes, output.source
    probs = [np.empty((0, len(classes)), output.dtype)]
    labels: list[NDArray[Any]] = []

    def write(rows: NDArray[Any], chunk: RawPredictions, keep: NDArray[np.bool_]) -> None:
        probs.append(rows.astype(output.dtype, copy=False))
        if chunk.labels is not None:
            labels.append(chunk.labels[keep])

    yield write
    if output.path.suffix.lower() == ".npy":
        np.save(file, np.concatenate(probs))
        return
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
    writer: Any = None

    def write(rows: NDArray[Any], chunk: RawPredictions, keep: NDArray[np.bool_]) -> None:
        nonlocal writer
        table = calibrated_table(output, rows, chunk, keep)
        if writer is None:
            writer = _open_writer(suffix_of(output.path), file, table.schema)
        writer.write(table)

    try:
        yield write
    except BaseException:
        if hasattr(writer, "is_open"):  # Parquet's would write once more when it is deleted
            writer.is_open = False
        raise
    if writer is None:
        raise PredictionFileError(f"{output.source.place.source} has no rows to write")
    writer.close()


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
    columns: dict[str, Any] = {}
    if layout is None and chunk.labels is not None:
        columns["label"] = pa.array(chunk.labels[keep])
    for name in names if layout is None else layout.names:
        if layout is None or name in layout.score_names:
            own, values = next(scores)
            columns[own] = pa.array(values, pa.float64())
        else:
            columns[name] = chunk.batch.column(name).filter(pa.array(keep))
    table = pa.table(columns)
    # By its metadata pandas knows that __index_level_0__ is the index, and no column.
    return table if layout is None else table.replace_schema_metadata(chunk.batch.schema.metadata)


def _open_writer(suffix: str, file: IO[bytes], schema: Any) -> Any:
    """Open a writer of record batches, of the format of a suffix."""
    if suffix in PARQUET:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(file, schema)
    if suffix in ARROW:
        from pyarrow import ipc

        return ipc.new_file(file, schema)
    import pyarrow as pa
    from pyarrow import csv

    nested = [field for field in schema if pa.types.is_nested(field.type)]
    for field in nested:
        raise PredictionFileError(f"text cannot hold column {field.name!r}; write .parquet")
    options = csv.WriteOptions(delimiter=TEXT[suffix], quoting_style="needed")
    return csv.CSVWriter(file, schema, write_options=options)


def save_table(path: Path, table: Any) -> None:
    """Write a table of Arrow, whole or not at all."""
    with open_output(path) as file, _open_writer(suffix_of(path), file, table.schema) as writer:
        writer.write(table)


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all."""
    with replace_file(path) as file:
        if not is_zipped(path):
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield zipped  # type: ignore[misc]
