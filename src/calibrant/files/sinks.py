"""Write calibrated rows a chunk at a time, in any format."""

from __future__ import annotations

import gzip
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Protocol
from zipfile import ZipFile

import numpy as np

from calibrant.atomic_file import replace_file
from calibrant.errors import PredictionFileError
from calibrant.files import tables
from calibrant.files.align import read_labels
from calibrant.files.predictions import unknown_format
from calibrant.files.stream import CHUNK_BYTES
from calibrant.files.text import TEXT, is_zipped, suffix_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant.files.stream import Chunk, Source

LABEL = "label"


def refuse_inputs(out: Path, *inputs: Path | None) -> None:
    """Refuse to write over what is read, by whatever name.

    Parameters
    ----------
    out : Path
        The file to write.
    *inputs : Path or None
        Files that are read.
    """
    for path in inputs:
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise PredictionFileError(f"{out} is the input itself; write elsewhere")


@contextmanager
def open_output(out: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all; ``-`` is standard output."""
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


class Sink(Protocol):
    """Takes calibrated rows one chunk after the other."""

    def write(self, rows: NDArray[Any], chunk: Chunk, keep: NDArray[np.bool_]) -> None:
        """Append the calibrated rows of those of a chunk that are kept."""

    def finish(self) -> None:
        """Write what comes at the end."""


def make_sink(
    path: Path,
    file: IO[bytes],
    classes: NDArray[Any],
    source: Source,
    order: NDArray[np.int64] | None,
    dtype: np.dtype[Any],
) -> Sink:
    """Writer for ``path``'s format, into an open file; ``order`` is that of the classes."""
    suffix = suffix_of(path)
    if path.suffix.lower() == ".npy":
        return _NpySink(file, len(classes), dtype)
    if path.suffix.lower() == ".npz":
        return _NpzSink(file, classes, source, dtype)
    if tables.is_table(path):
        return _TableSink(suffix, file, classes, source, order)
    raise unknown_format(path)


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

    def write(self, rows: NDArray[Any], chunk: Chunk, keep: NDArray[np.bool_]) -> None:  # noqa: ARG002
        self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        self._n_rows += len(rows)

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()


class _NpzSink:
    """An npz file with ``probs``, ``classes`` and ``labels``; rows wait in a temporary file."""

    def __init__(
        self, file: IO[bytes], classes: NDArray[Any], source: Source, dtype: np.dtype[Any]
    ) -> None:
        from tempfile import TemporaryFile

        self._file, self._source = file, source
        self._classes = classes.astype(str) if classes.dtype.kind in "OT" else classes
        self._labels: list[NDArray[Any]] = []
        self._rows = TemporaryFile()  # noqa: SIM115  (closed in finish)
        self._inner = _NpySink(self._rows, len(classes), dtype)

    def write(self, rows: NDArray[Any], chunk: Chunk, keep: NDArray[np.bool_]) -> None:
        self._inner.write(rows, chunk, keep)
        labels = chunk.labels()
        if labels is not None:
            self._labels.append(labels[keep])

    def finish(self) -> None:
        self._inner.finish()
        self._rows.seek(0)
        with self._rows, ZipFile(self._file, "w") as archive:
            with archive.open("probs.npy", "w", force_zip64=True) as out:
                while block := self._rows.read(CHUNK_BYTES):
                    out.write(block)
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

        self._pa, self._source, self._is_text = pa, source, suffix in TEXT
        names = [str(c) for c in classes] if source.names is None else source.names
        if order is not None:
            names = [names[j] for j in order]
        numbers = [(name, pa.float64()) for name in names]
        if source.layout is None:
            first = [(LABEL, pa.string())] if source.has_labels else []
            fields = [*first, *numbers]
        else:
            scores = set(source.layout.score_names)
            following = iter(numbers)
            fields = [
                next(following) if name in scores else (name, self._type(source.schema.field(name)))
                for name in source.layout.names
            ]
        self._schema = pa.schema(fields)
        self._writer: Any = self._open(suffix, file)

    def _type(self, field: Any) -> Any:
        return self._pa.string() if self._is_text else field.type

    def _open(self, suffix: str, file: IO[bytes]) -> Any:
        if suffix in tables.PARQUET:
            import pyarrow.parquet as pq

            return pq.ParquetWriter(file, self._schema)
        if suffix in tables.ARROW:
            return self._pa.ipc.new_file(file, self._schema)
        from pyarrow import csv

        options = csv.WriteOptions(delimiter=TEXT[suffix], quoting_style="needed")
        return csv.CSVWriter(file, self._schema, write_options=options)

    def write(self, rows: NDArray[Any], chunk: Chunk, keep: NDArray[np.bool_]) -> None:
        pa, layout = self._pa, self._source.layout
        numbers = [pa.array(rows[:, j], pa.float64()) for j in range(rows.shape[1])]
        if layout is None:
            labels = chunk.labels()
            if labels is not None:
                numbers.insert(0, pa.array([str(label) for label in labels[keep].tolist()]))
            self._writer.write(pa.record_batch(numbers, schema=self._schema))
            return
        scores, following, columns = set(layout.score_names), iter(numbers), []
        mask = pa.array(keep)
        for j, name in enumerate(layout.names):
            if name in scores:
                columns.append(next(following))
                continue
            column = chunk.batch.column(j)
            try:
                columns.append(column.filter(mask).cast(self._schema.field(j).type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise PredictionFileError(
                    f"{self._source.place.path}, column {name!r} is of type {column.type}, which "
                    "has no place in text; write .parquet or .arrow"
                ) from error
        self._writer.write(pa.record_batch(columns, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()
