"""Writers of calibrated rows, one for each kind of format; each is called for every chunk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant._atomic_file import replace_file
from calibrant._files.align import read_labels
from calibrant._files.source import Rows
from calibrant._files.tables import ARROW, PARQUET, TEXT, is_zipped, suffix_of
from calibrant._gate import output_dtype
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from calibrant._files.apply import RowCalibration
    from calibrant._types import Labels


Chunks = Iterator[tuple[NDArray[Any], Rows]]
"""Calibrated rows, and the rows that they were made of."""

Writer = Callable[[IO[bytes], Path, "RowCalibration", Chunks], None]
"""Write calibrated rows to a file, whose path tells its format."""


def labels_of_model(rows: Rows, classes: Labels) -> Labels:
    """Return the labels of a file as a model has them."""
    return read_labels(rows, as_text=classes.dtype.kind in "OTU")


def write_arrays(file: IO[bytes], path: Path, calibration: RowCalibration, chunks: Chunks) -> None:
    """Write an npy file, or an npz file with ``probs``, ``classes`` and ``labels``.

    The rows are held until all of them are known.
    """
    classes, source = calibration.classes, calibration.source
    dtype = output_dtype(np.empty(0, source.dtype))
    probs, labels = [np.empty((0, len(classes)), dtype)], []
    for calibrated, rows in chunks:
        probs.append(calibrated.astype(dtype, copy=False))
        if rows.labels is not None:
            # Of a table they are read as the model's; of arrays they stay as they are.
            is_table = source.columns is not None
            labels.append(labels_of_model(rows, classes) if is_table else rows.labels)
    if path.suffix.lower() == ".npy":
        np.save(file, np.concatenate(probs))
        return
    names = classes.astype(str) if classes.dtype.kind in "OT" else classes
    arrays = {"probs": np.concatenate(probs), "classes": names}
    if labels:
        arrays["labels"] = np.concatenate(labels)
    np.savez(file, **arrays)  # type: ignore[arg-type]


def write_lines(file: IO[bytes], _: Path, calibration: RowCalibration, chunks: Chunks) -> None:
    """Write a JSON object a line, as logs are read: ``probs`` by class, and the label."""
    names = [str(c) for c in calibration.classes]
    for calibrated, rows in chunks:
        labels = [None] * len(calibrated) if rows.labels is None else rows.labels.tolist()
        for row, label in zip(calibrated.tolist(), labels, strict=True):
            # A class of exactly 0 is an option that the row does not have; NaN is a bad row.
            record: dict[str, object] = {
                "probs": {n: p for n, p in zip(names, row, strict=True) if p}
            }
            record |= {} if label is None else {"label": label}
            file.write(json.dumps(record).encode() + b"\n")


def write_table_file(
    file: IO[bytes], path: Path, calibration: RowCalibration, chunks: Chunks
) -> None:
    """Write CSV, TSV, Parquet or Arrow: the columns of the source, with calibrated scores."""
    tables = (calibrated_table(calibration, *chunk) for chunk in chunks)
    for first in tables:
        writer = _open_writer(suffix_of(path), file, first.schema)
        try:
            for table in (first, *tables):
                writer.write(table)
        except BaseException:
            if hasattr(writer, "is_open"):  # Parquet's would write once more when it is deleted
                writer.is_open = False
            raise
        writer.close()
        return
    raise PredictionFileError(f"{calibration.source.place.source} has no rows to write")


def calibrated_table(
    calibration: RowCalibration, calibrated: NDArray[np.generic], rows: Rows
) -> Any:
    """Return the columns of a chunk, with calibrated rows in place of its scores, as Arrow's.

    Of arrays these are the labels, if there are any, and a column for each class.
    """
    import pyarrow as pa

    # Of a single column, which is that of the positive class, the last one is written.
    last = calibrated.astype(np.float64).T[-len(calibration.names) :]
    scores = zip(calibration.names, last, strict=True)
    columns = calibration.source.columns
    if columns is None:
        labels = {} if rows.labels is None else {"label": rows.labels}
        return pa.table({**labels, **{name: pa.array(p) for name, p in scores}})
    table = pa.table({name: rows.beside[name] for name in columns.names})
    for place, name in enumerate(columns.names):
        if name in columns.scores:
            own, values = next(scores)
            table = table.set_column(place, own, pa.array(values))
    # By its metadata pandas knows that __index_level_0__ is the index, and no column.
    schema = getattr(rows.beside, "schema", table.schema)
    return table.replace_schema_metadata(schema.metadata)


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
