"""Read and write predictions a chunk of rows at a time: memory does not grow with the file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol
from zipfile import BadZipFile, ZipFile

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files import tables
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
        with path.open("rb") as file:
            yield _array_source(file, path, None)
    elif suffix == ".npz":
        with _npz_member(path, part, kind) as (file, found):
            yield _array_source(file, path, found)
    elif suffix in tables.TEXT or suffix in tables.ARROW:
        with tables.batches(path, label_column) as (names, batches):
            label = label_column if label_column in names else None
            columns = tables.score_names(names, label, path)
            chunks = (tables.split(batch, columns, label) for batch in batches)
            first = 2 if suffix in tables.TEXT else 1
            float64 = np.dtype(np.float64)
            yield Source(None, columns, len(columns), None, float64, first, chunks, label)
    else:
        raise PredictionFileError(
            f"{path}: {suffix!r} is not known; use .npz, .npy, .csv, .tsv, .parquet or .arrow"
        )


@contextmanager
def _npz_member(path: Path, part: str | None, kind: str | None) -> Iterator[tuple[IO[bytes], str]]:
    try:
        with ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            prefix = npz_prefix(names, part, path)
            name = npz_scores(names, prefix, kind, path)
            with archive.open(f"{name}.npy") as file:
                yield file, KINDS[name.removeprefix(prefix)]
    except BadZipFile as error:
        raise PredictionFileError(f"{path} cannot be read as npz: {error}") from error


def _array_source(file: IO[bytes], path: Path, kind: str | None) -> Source:
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file)
    except (ValueError, KeyError, EOFError) as error:
        raise PredictionFileError(f"{path} is not a npy file of numbers: {error}") from error
    if len(shape) != 2 or dtype.hasobject:
        raise PredictionFileError(
            f"{path} has shape {shape} and dtype {dtype}; one row per sample and one column per "
            "class are needed"
        )
    if fortran:
        raise PredictionFileError(
            f"{path} is in Fortran order, which cannot be read row by row; save "
            "np.ascontiguousarray(scores)"
        )
    chunks = _read_rows(file, path, shape, dtype)
    return Source(kind, None, shape[1], shape[0], dtype, 0, chunks)


def _read_rows(
    file: IO[bytes], path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Iterator[tuple[NDArray[Any], None]]:
    n_rows, n_columns = shape
    step = max(1, CHUNK_BYTES // (dtype.itemsize * n_columns))
    for start in range(0, n_rows, step):
        height = min(step, n_rows - start)
        data = file.read(height * n_columns * dtype.itemsize)
        if len(data) != height * n_columns * dtype.itemsize:
            raise PredictionFileError(
                f"{path} ends in row {start + len(data) // (n_columns * dtype.itemsize)}, but its "
                f"header promises {n_rows} rows"
            )
        yield np.frombuffer(data, dtype=dtype).reshape(height, n_columns), None


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
        if suffix in {".parquet", ".pq"}:
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
