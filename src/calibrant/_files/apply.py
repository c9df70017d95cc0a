"""Calibrate a file chunk by chunk into another one, which appears whole or not at all."""

from __future__ import annotations

import gzip
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

import numpy as np

from calibrant import _notices as notices
from calibrant import _simplex as simplex
from calibrant._atomic_file import new_directory, replace_file
from calibrant._bad_rows import predict_good
from calibrant._columns import column_order, order_of
from calibrant._containers import NamedMatrix, output_dtype
from calibrant._files import tables
from calibrant._files.align import read_labels, refuse_other_columns
from calibrant._files.chunks import find_tables
from calibrant._files.column import group_reader
from calibrant._files.logs import leave_out_absent, write_lines
from calibrant._files.predictions import CHUNK_BYTES, open_source, unknown_format
from calibrant._files.records import LINES
from calibrant._files.tables import ColumnSelection
from calibrant._files.text import TEXT, is_zipped, suffix_of
from calibrant._one_column import ONE_COLUMN, check_positive, check_single_name
from calibrant.errors import CalibrantWarning, ColumnNameError, DataError, PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.predictions import FileChunk, Source

    Write = Callable[[NDArray[Any], FileChunk, NDArray[np.bool_]], None]

ON_BAD_ROW = ("error", "skip", "nan")
NAMED_ROWS = 5
"""Bad rows whose places are told."""


class Applied(NamedTuple):
    """How many rows were written, how many were bad, and where the first of them are."""

    n_rows: int
    n_bad_rows: int
    where: str = ""


def apply_file(
    calibrator: Calibrator,
    path: Path,
    out: Path,
    *,
    part: str | None = None,
    selection: ColumnSelection | None = None,
    on_bad_row: str = "error",
    progress: Callable[[int, int | None], None] | None = None,
    tell: Callable[[str], None] | None = None,
    groups: str | None = None,
) -> Applied:
    """Calibrate the predictions in ``path`` into ``out``.

    The format is that of the suffix, and ``-`` is CSV on standard input and output. Columns of a
    table that are no scores are copied; of other files the labels are, where ``out`` has a place
    for them. ``part`` is that of an npz file with "val" and "test", by default "test". ``progress``
    is called with the number of rows done and, where it is known, of all rows; ``tell`` with what
    was taken for a class in the log of an evaluation. ``groups`` is the column, array or field with
    the group of each row, for a fit by group.
    """
    simplex.check_option("on_bad_row", on_bad_row, ("error",) if groups else ON_BAD_ROW)
    n_read = n_bad = 0
    first_bad: list[int] = []
    selection = replace(selection or ColumnSelection(), takes_missing=on_bad_row != "error")
    with open_source(
        path,
        part=part,
        usual_part="test",
        kind=calibrator.scores,
        selection=selection,
        classes=calibrator.classes_.tolist(),
    ) as source:
        if source.log is not None and tell is not None:
            tell(source.log.note)
        order = find_order(calibrator, source)
        group_of = group_reader(calibrator, source, groups, part)
        dtype = output_dtype(np.empty(0, dtype=source.dtype))
        with open_sink(out, calibrator.classes_, source, order, dtype) as write:
            for chunk in source.chunks:
                by_group = {} if groups is None else {"groups": group_of(chunk, n_read)}
                calibrated, good = calibrate_rows(
                    calibrator, chunk.scores, order, source, n_read, by_group, on_bad_row
                )
                if source.log is not None and source.log.has_absent:
                    calibrated = leave_out_absent(calibrated, chunk.scores, source.kind, order)
                keep = good if on_bad_row == "skip" else np.ones(len(good), dtype=bool)
                write(calibrated[keep], chunk, keep)
                bad = n_read + np.flatnonzero(~good)
                first_bad += bad[: NAMED_ROWS - len(first_bad)].tolist()
                n_bad += len(bad)
                n_read += len(good)
                if progress is not None:
                    progress(n_read, source.n_rows)
        where = source.place.rows(first_bad) if first_bad else ""
    where += ", ..." if n_bad > NAMED_ROWS else ""
    return Applied(n_read - n_bad if on_bad_row == "skip" else n_read, n_bad, where)


def apply_directory(
    apply: Callable[[Path, Path], Applied],
    path: Path,
    out: Path,
    progress: Callable[[int, int | None], None],
) -> Applied:
    """Calibrate every table in a directory into one of the same name in a new directory."""
    files, done = find_tables(path), []
    with new_directory(out) as directory:
        for n, file in enumerate(files):
            target = directory / file.relative_to(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            done.append(apply(file, target))
            progress(n + 1, len(files))
    n_rows, n_bad, where = zip(*done, strict=True)
    return Applied(sum(n_rows), sum(n_bad), "; ".join([*filter(None, where)][:NAMED_ROWS]))


def find_order(calibrator: Calibrator, source: Source) -> NDArray[np.int64] | None:
    """Check the columns of the file against those of the model, as ``predict_proba`` does."""
    classes, names, where = calibrator.classes_, source.place.names, source.place.source
    fitted = getattr(calibrator, "feature_names_in_", None)
    if source.kind in ONE_COLUMN:
        single = names[0] if names is not None and len(names) == 1 else None
        check_positive(classes, single, told=True, named=source.place)
        if source.layout is None or not source.layout.is_chosen:
            check_single_name(single, fitted, classes, "the model", source.place)
        return None
    refuse_other_columns(source.place, source.n_columns, classes.tolist())
    if names is None:
        if fitted is not None:
            text = f"{where} has no column names; the columns are taken to be {some(fitted)}"
            notices.warn(CalibrantWarning(text))
        return None
    order = column_order(names, classes, named=source.place)
    told = order is not None or order_of(names, classes, source.place) is not None
    if not told and fitted is not None and names != fitted.tolist():
        raise ColumnNameError(
            f"{where}: the columns are {some(names)}, but the model expects {some(fitted)} in "
            "this order; rename or reorder them"
        )
    return order


def calibrate_rows(
    calibrator: Calibrator,
    scores: NDArray[Any],
    order: NDArray[np.int64] | None,
    source: Source,
    n_done: int,
    by_group: dict[str, Any],
    on_bad_row: str = "error",
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Calibrated rows, and which of them are good; bad ones are NaN."""
    is_strict = on_bad_row == "error"
    is_single = source.kind in ONE_COLUMN  # whose name was checked with the file
    fitted = None if is_single else getattr(calibrator, "feature_names_in_", None)
    names = source.place.names if order is None else [str(c) for c in calibrator.classes_]

    def predict(rows: NDArray[Any]) -> NDArray[Any]:
        rows = rows if order is None else rows[:, order]
        # The order is settled: names that the model knows keep it from asking again.
        named = rows if fitted is None else NamedMatrix(rows, names or fitted.tolist())
        return calibrator.predict_proba(named, **by_group)

    try:
        # Rows that are left out are still counted, so they are marked first.
        return predict_good(predict, scores, calibrator, "raise" if is_strict else "nan")
    except DataError:
        if is_strict:  # once more, for a message with its place in the file
            simplex.check_scores(
                scores, calibrator.scores, calibrator.normalize, n_done, source.place
            )
        raise


@contextmanager
def open_sink(
    path: Path,
    classes: NDArray[Any],
    source: Source,
    order: NDArray[np.int64] | None,
    dtype: np.dtype[Any],
) -> Iterator[Write]:
    """Yield what writes the rows of a chunk that are kept to a file of the format of its suffix.

    The file appears whole or not at all; ``-`` is standard output, ``order`` that of the classes.
    """
    suffix = path.suffix.lower()
    if suffix not in {".npy", ".npz", *LINES} and not tables.is_table(path):
        raise unknown_format(path)
    with _open_output(path) as file:
        if suffix == ".npy":
            sink = _write_npy(file, len(classes), dtype)
        elif suffix == ".npz":
            sink = _write_npz(file, classes, source, dtype)
        elif suffix in LINES:
            sink = write_lines(file, classes)
        else:
            sink = _write_table(suffix_of(path), file, classes, source, order)
        with sink as write:
            yield write


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


@contextmanager
def _write_npy(file: IO[bytes], n_columns: int, dtype: np.dtype[Any]) -> Iterator[Write]:
    """Write a npy file, and its header once more when the number of rows is known."""
    n_rows = 0

    def write_header() -> None:
        descr = np.lib.format.dtype_to_descr(dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (n_rows, n_columns)}
        np.lib.format.write_array_header_1_0(file, header)  # pads for larger shapes

    def write(rows: NDArray[Any], *_: Any) -> None:
        nonlocal n_rows
        file.write(np.ascontiguousarray(rows, dtype=dtype).data)
        n_rows += len(rows)

    write_header()
    yield write
    file.seek(0)
    write_header()


@contextmanager
def _write_npz(
    file: IO[bytes], classes: NDArray[Any], source: Source, dtype: np.dtype[Any]
) -> Iterator[Write]:
    """Write an npz file with ``probs``, ``classes`` and ``labels``; rows wait in another file."""
    labels: list[NDArray[Any]] = []
    classes = classes.astype(str) if classes.dtype.kind in "OT" else classes
    with TemporaryFile(dir=Path(file.name).parent) as waiting:  # where there must be room anyway
        with _write_npy(waiting, len(classes), dtype) as write_rows:

            def write(rows: NDArray[Any], chunk: FileChunk, keep: NDArray[np.bool_]) -> None:
                write_rows(rows, chunk, keep)
                own = chunk.labels()
                if own is not None:
                    labels.append(own[keep])

            yield write
        waiting.seek(0)
        with ZipFile(file, "w") as archive:
            with archive.open("probs.npy", "w", force_zip64=True) as out:
                shutil.copyfileobj(waiting, out, CHUNK_BYTES)
            y = _labels_of_archive(labels, classes, source) if labels else None
            for name, array in {"classes": classes, "labels": y}.items():
                if array is not None:
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                        np.lib.format.write_array(out, array, allow_pickle=False)


def _labels_of_archive(
    labels: list[NDArray[Any]], classes: NDArray[Any], source: Source
) -> NDArray[Any] | None:
    """Labels as ``fit`` would read them; not those of a column that only may hold them."""
    raw, layout = np.concatenate(labels), source.layout
    if layout is None:
        return raw
    if not layout.is_named and not {str(v) for v in raw} <= {str(c) for c in classes}:
        return None
    y = read_labels(raw, source.place)
    # Numbers beside classes of text would be read as their places.
    return y.astype(str) if classes.dtype.kind == "U" else y


@contextmanager
def _write_table(
    suffix: str,
    file: IO[bytes],
    classes: NDArray[Any],
    source: Source,
    order: NDArray[np.int64] | None,
) -> Iterator[Write]:
    """Write CSV, TSV, Parquet or Arrow: the columns of the source, with calibrated scores."""
    import pyarrow as pa

    layout, names = source.layout, source.place.names or [str(c) for c in classes]
    n_labels = int(source.has_labels) if layout is None else 0
    columns = ["label"] * n_labels + names if layout is None else layout.names
    is_score = [j >= n_labels and name in set(names) for j, name in enumerate(columns)]
    following = iter(names if order is None else [names[j] for j in order])
    is_text = suffix in TEXT or layout is None
    schema = pa.schema(
        (next(following), pa.float64())
        if is_own
        else (name, pa.string() if is_text else source.schema.field(name).type)
        for name, is_own in zip(columns, is_score, strict=True)
    )
    if not is_text and b"pandas" in (source.schema.metadata or {}):
        # By it pandas knows that __index_level_0__ is the index, and no column.
        schema = schema.with_metadata({b"pandas": source.schema.metadata[b"pandas"]})
    writer = open_writer(suffix, file, schema)

    def write(rows: NDArray[Any], chunk: FileChunk, keep: NDArray[np.bool_]) -> None:
        scores = iter(rows.T[-len(names) :])  # of a single column that of the positive class
        found = [
            pa.array(next(scores), pa.float64())
            if is_own
            else _carried(chunk, j, schema.field(j).type, keep, source.place.path)
            for j, is_own in enumerate(is_score)
        ]
        writer.write(pa.record_batch(found, schema=schema))

    try:
        yield write
    except BaseException:
        if hasattr(writer, "is_open"):  # Parquet's would write once more when it is deleted
            writer.is_open = False
        raise
    writer.close()


def open_writer(suffix: str, file: IO[bytes], schema: Any) -> Any:
    """Open a writer of record batches, of the format of a suffix."""
    if suffix in tables.PARQUET:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(file, schema)
    if suffix in tables.ARROW:
        from pyarrow import ipc

        return ipc.new_file(file, schema)
    from pyarrow import csv

    options = csv.WriteOptions(delimiter=TEXT[suffix], quoting_style="needed")
    return csv.CSVWriter(file, schema, write_options=options)


def _carried(chunk: FileChunk, j: int, kind: Any, keep: NDArray[np.bool_], path: Path) -> Any:
    """Rows that are kept of a column without scores."""
    import pyarrow as pa

    if chunk.batch is None:
        return pa.array([str(label) for label in chunk.labels()[keep].tolist()])  # type: ignore[index]
    column = chunk.batch.column(j)
    try:
        return column.filter(pa.array(keep)).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PredictionFileError(
            f"{path}, column {chunk.batch.schema.names[j]!r} is of type {column.type}, which text "
            "cannot hold; write .parquet or .arrow"
        ) from error
