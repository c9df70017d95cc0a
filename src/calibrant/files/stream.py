"""Read and write predictions a chunk of rows at a time: memory does not grow with the file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol
from zipfile import ZipFile

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files import tables
from calibrant.files.arrays import (
    Header,
    check_matrix,
    decoding,
    open_npz,
    read_header,
    read_numbers,
)
from calibrant.files.predictions import KINDS, npz_prefix, npz_scores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """An open file of predictions.

    Attributes
    ----------
    kind : str or None
        "probabilities" or "logits", where the file says it.
    names : list of str or None
        Names of the columns of scores.
    n_columns : int
    n_rows : int or None
        Where it is known beforehand.
    dtype : dtype
    first_line : int
        Line (or row) number of the first row, for messages.
    chunks : iterator of (scores, labels or None)
    label_column : str or None
    """

    kind: str | None
    names: list[str] | None
    n_columns: int
    n_rows: int | None
    dtype: np.dtype[Any]
    first_line: int
    chunks: Iterator[tuple[NDArray[Any], NDArray[Any] | None]]
    label_column: str | None = None


@contextmanager
def open_source(
    path: Path, *, part: str | None, kind: str | None, label_column: str
) -> Iterator[Source]:
    """Open a file of predictions to read it chunk by chunk; its size is fixed at opening."""
    suffix = path.suffix.lower()
    if str(path) != "-" and not path.is_file():
        raise PredictionFileError(f"{path} is not a file")
    if suffix == ".npy":
        with decoding(path, "npy"):
            file = path.open("rb")
        with file:
            with decoding(path, "npy"):
                header = read_header(file, str(path))
            yield _array_source(file, header, path, str(path), None)
    elif suffix == ".npz":
        with open_npz(path) as archive:
            prefix = npz_prefix(archive.names, part, path)
            name = npz_scores(archive.names, prefix, kind, path)
            with archive.open(name) as (member, header):
                found = KINDS[name.removeprefix(prefix)]
                yield _array_source(member, header, path, f"{path}: {name}", found)
    elif suffix in tables.TEXT or suffix in tables.ARROW:
        with tables.batches(path, label_column) as (names, batches):
            label = label_column if label_column in names else None
            columns = tables.score_names(names, label, path)
            chunks = (tables.split(batch, columns, label, path) for batch in batches)
            first = 2 if suffix in tables.TEXT else 1
            float64 = np.dtype(np.float64)
            yield Source(None, columns, len(columns), None, float64, first, chunks, label)
    else:
        raise PredictionFileError(
            f"{path}: {suffix!r} is not known; use .npz, .npy, .csv, .tsv, .parquet or .arrow"
        )


def _array_source(
    file: IO[bytes], header: Header, path: Path, where: str, kind: str | None
) -> Source:
    check_matrix(header, where)
    if header.fortran:
        raise PredictionFileError(
            f"{where} is in Fortran order, which cannot be read row by row; save "
            "np.ascontiguousarray(scores)"
        )
    n_rows, n_columns = header.shape
    chunks = _read_rows(file, header, path, where)
    return Source(kind, None, n_columns, n_rows, header.dtype, 0, chunks)


def _read_rows(
    file: IO[bytes], header: Header, path: Path, where: str
) -> Iterator[tuple[NDArray[Any], None]]:
    n_rows, n_columns = header.shape
    of_a_row = header.dtype.itemsize * n_columns
    step = max(1, CHUNK_BYTES // of_a_row)
    for start in range(0, n_rows, step):
        height = min(step, n_rows - start)
        data = read_numbers(
            file, header, path, where, n_bytes=height * of_a_row, done=start * of_a_row
        )
        yield np.frombuffer(data, header.dtype).reshape(height, n_columns), None


class Sink(Protocol):
    """Takes calibrated rows one chunk after the other."""

    def write(self, rows: NDArray[Any], labels: NDArray[Any] | None) -> None:
        """Append rows."""

    def finish(self) -> None:
        """Write what comes at the end."""


def make_sink(
    path: Path, file: IO[bytes], classes: list[str], source: Source, dtype: np.dtype[Any]
) -> Sink:
    """Writer for ``path``'s format, into an open file."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _NpySink(file, len(classes), dtype)
    if suffix == ".npz":
        return _NpzSink(file, len(classes), dtype)
    if suffix in tables.TEXT or suffix in tables.ARROW:
        return _TableSink(path, file, classes, source.label_column)
    raise PredictionFileError(
        f"{path}: {suffix!r} is not known; write .npy, .npz, .csv, .tsv, .parquet or .arrow"
    )


class _NpySink:
    """A npy file whose header is written again when the number of rows is known."""

    def __init__(self, file: IO[bytes], n_columns: int, dtype: np.dtype[Any]) -> None:
        self._file, self._n_columns, self._dtype = file, n_columns, dtype
        self._n_rows = 0
        self._write_header()

    def _write_header(self) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._n_rows, self._n_columns),
        }
        np.lib.format.write_array_header_1_0(self._file, header)  # pads for larger shapes

    def write(self, rows: NDArray[Any], labels: NDArray[Any] | None) -> None:  # noqa: ARG002
        self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        self._n_rows += len(rows)

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()


class _NpzSink:
    """An npz file with the array ``probs``; the rows wait in a temporary file."""

    def __init__(self, file: IO[bytes], n_columns: int, dtype: np.dtype[Any]) -> None:
        from tempfile import TemporaryFile

        self._file = file
        self._rows = TemporaryFile()  # noqa: SIM115  (closed in finish)
        self._inner = _NpySink(self._rows, n_columns, dtype)

    def write(self, rows: NDArray[Any], labels: NDArray[Any] | None) -> None:
        self._inner.write(rows, labels)

    def finish(self) -> None:
        self._inner.finish()
        self._rows.seek(0)
        with (
            self._rows,
            ZipFile(self._file, "w") as archive,
            archive.open("probs.npy", "w", force_zip64=True) as out,
        ):
            while block := self._rows.read(CHUNK_BYTES):
                out.write(block)


class _TableSink:
    """CSV, TSV, Parquet or Arrow, with a column for each class and the labels if there are any."""

    def __init__(
        self, path: Path, file: IO[bytes], classes: list[str], label_column: str | None
    ) -> None:
        import pyarrow as pa

        self._pa, self._label = pa, label_column
        fields = [(name, pa.float64()) for name in classes]
        if label_column is not None:
            fields.insert(0, (label_column, pa.string()))
        self._schema = pa.schema(fields)
        self._writer: Any = self._open(path.suffix.lower(), file)

    def _open(self, suffix: str, file: IO[bytes]) -> Any:
        if suffix in tables.PARQUET:
            import pyarrow.parquet as pq

            return pq.ParquetWriter(file, self._schema)
        if suffix in tables.ARROW:
            return self._pa.ipc.new_file(file, self._schema)
        from pyarrow import csv

        options = csv.WriteOptions(delimiter=tables.TEXT[suffix], quoting_style="needed")
        return csv.CSVWriter(file, self._schema, write_options=options)

    def write(self, rows: NDArray[Any], labels: NDArray[Any] | None) -> None:
        columns = [self._pa.array(rows[:, j]) for j in range(rows.shape[1])]
        if self._label is not None and labels is not None:
            columns.insert(0, self._pa.array([str(label) for label in labels]))
        self._writer.write(self._pa.record_batch(columns, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()
