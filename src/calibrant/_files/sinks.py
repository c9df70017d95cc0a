"""Write calibrated rows a chunk at a time, in any format."""

from __future__ import annotations

import gzip
import shutil
import sys
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

from calibrant._atomic_file import replace_file
from calibrant._files import tables
from calibrant._files.align import read_labels
from calibrant._files.predictions import CHUNK_BYTES, unknown_format
from calibrant._files.text import TEXT, is_zipped, suffix_of
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.predictions import FileChunk, Source


def refuse_inputs(out: Path, *inputs: Path | None) -> None:
    """Refuse to write over what is read, by whatever name."""
    for path in inputs:
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise PredictionFileError(f"{out} is the input itself; write elsewhere")


@contextmanager
def open_sink(
    path: Path,
    classes: NDArray[Any],
    source: Source,
    order: NDArray[np.int64] | None,
    dtype: np.dtype[Any],
) -> Iterator[_NpySink | _TableSink]:
    """Open a file of the format of its suffix, which appears whole or not at all.

    ``-`` is standard output; ``order`` is that of the classes.
    """
    suffix = path.suffix.lower()
    if suffix not in {".npy", ".npz"} and not tables.is_table(path):
        raise unknown_format(path)
    with _open_output(path) as file:
        sink: _NpySink | _TableSink
        if suffix == ".npy":
            sink = _NpySink(file, len(classes), dtype)
        elif suffix == ".npz":
            sink = _NpzSink(file, classes, source, dtype)
        else:
            sink = _TableSink(suffix_of(path), file, classes, source, order)
        try:
            yield sink
            sink.finish()
        except BaseException:
            sink.give_up()
            raise


@contextmanager
def _open_output(out: Path) -> Iterator[IO[bytes]]:
    if str(out) == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replace_file(out) as file:
        if not is_zipped(out):
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield zipped  # type: ignore[misc]


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

    def write(self, rows: NDArray[Any], chunk: FileChunk, keep: NDArray[np.bool_]) -> None:  # noqa: ARG002
        """Append the calibrated rows of those of a chunk that are kept."""
        self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        self._n_rows += len(rows)

    def finish(self) -> None:
        """Write what comes at the end."""
        self._file.seek(0)
        self._write_header()

    def give_up(self) -> None:
        """Leave what was written as it is."""


class _NpzSink(_NpySink):
    """An npz file with ``probs``, ``classes`` and ``labels``; rows wait in a temporary file."""

    def __init__(
        self, file: IO[bytes], classes: NDArray[Any], source: Source, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(TemporaryFile(), len(classes), dtype)  # noqa: SIM115  (closed in finish)
        self._archive, self._source = file, source
        self._classes = classes.astype(str) if classes.dtype.kind in "OT" else classes
        self._labels: list[NDArray[Any]] = []

    def write(self, rows: NDArray[Any], chunk: FileChunk, keep: NDArray[np.bool_]) -> None:
        super().write(rows, chunk, keep)
        labels = chunk.labels()
        if labels is not None:
            self._labels.append(labels[keep])

    def finish(self) -> None:
        super().finish()
        self._file.seek(0)
        with self._file, ZipFile(self._archive, "w") as archive:
            with archive.open("probs.npy", "w", force_zip64=True) as out:
                shutil.copyfileobj(self._file, out, CHUNK_BYTES)
            for name, array in {"classes": self._classes, "labels": self._read_labels()}.items():
                if array is not None:
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                        np.lib.format.write_array(out, array, allow_pickle=False)

    def _read_labels(self) -> NDArray[Any] | None:
        """Labels as ``fit`` would read them; not those of a column that only may hold them."""
        if not self._labels:
            return None
        raw = np.concatenate(self._labels)
        layout = self._source.layout
        if layout is None:
            return raw
        if not layout.is_named and not {str(v) for v in raw} <= {str(c) for c in self._classes}:
            return None
        labels = read_labels(raw, self._source.place)
        # Numbers beside classes of text would be read as their places.
        return labels.astype(str) if self._classes.dtype.kind == "U" else labels


class _TableSink:
    """CSV, TSV, Parquet or Arrow: the columns of the source, with calibrated scores."""

    def __init__(
        self,
        suffix: str,
        file: IO[bytes],
        classes: NDArray[Any],
        source: Source,
        order: NDArray[np.int64] | None,
    ) -> None:
        import pyarrow as pa

        self._source, layout = source, source.layout
        names = source.place.names or [str(c) for c in classes]
        own = set(names)
        columns = ["label"] * source.has_labels + names if layout is None else layout.names
        self._is_score = [
            name in own and (layout is not None or j >= source.has_labels)
            for j, name in enumerate(columns)
        ]
        following = iter(names if order is None else [names[j] for j in order])
        is_text = suffix in TEXT or layout is None
        self._schema = pa.schema(
            (next(following), pa.float64())
            if is_score
            else (name, pa.string() if is_text else source.schema.field(name).type)
            for name, is_score in zip(columns, self._is_score, strict=True)
        )
        self._writer: Any = self._open(suffix, file)

    def _open(self, suffix: str, file: IO[bytes]) -> Any:
        if suffix in tables.PARQUET:
            import pyarrow.parquet as pq

            return pq.ParquetWriter(file, self._schema)
        if suffix in tables.ARROW:
            from pyarrow import ipc

            return ipc.new_file(file, self._schema)
        from pyarrow import csv

        options = csv.WriteOptions(delimiter=TEXT[suffix], quoting_style="needed")
        return csv.CSVWriter(file, self._schema, write_options=options)

    def write(self, rows: NDArray[Any], chunk: FileChunk, keep: NDArray[np.bool_]) -> None:
        import pyarrow as pa

        scores = iter(rows.T)
        columns = [
            pa.array(next(scores), pa.float64()) if is_score else self._carried(chunk, j, keep)
            for j, is_score in enumerate(self._is_score)
        ]
        self._writer.write(pa.record_batch(columns, schema=self._schema))

    def _carried(self, chunk: FileChunk, j: int, keep: NDArray[np.bool_]) -> Any:
        """Rows that are kept of a column without scores."""
        import pyarrow as pa

        labels = None if chunk.batch is not None else chunk.labels()
        if labels is not None:
            return pa.array([str(label) for label in labels[keep].tolist()])
        column = chunk.batch.column(j)
        try:
            return column.filter(pa.array(keep)).cast(self._schema.field(j).type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise PredictionFileError(
                f"{self._source.place.path}, column {chunk.batch.schema.names[j]!r} is of type "
                f"{column.type}, which has no place in text; write .parquet or .arrow"
            ) from error

    def finish(self) -> None:
        self._writer.close()

    def give_up(self) -> None:
        """Keep a Parquet writer from writing once more when it is deleted."""
        if hasattr(self._writer, "is_open"):
            self._writer.is_open = False
