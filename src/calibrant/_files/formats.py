"""Formats of files of predictions: one registry, how all are opened, and how each is written."""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import numpy as np

from calibrant._atomic_file import replace_file
from calibrant._files.align import read_labels
from calibrant._files.arrays import Archive, read_npy, read_npz
from calibrant._files.logs import LINES, read_fields, read_logs, read_records
from calibrant._files.readers import ID_FIELDS
from calibrant._files.source import Place, Request, Rows, Source, check_file, decoding
from calibrant._files.tables import (
    TEXT,
    TextTable,
    is_zipped,
    open_arrow,
    read_table,
    read_table_columns,
    suffix_of,
)
from calibrant._gate import output_dtype
from calibrant.errors import PredictionFileError, number_of, some_in_words

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from calibrant._files.apply import RowCalibration
    from calibrant._files.tables import OpenTable
    from calibrant._types import Floats, Labels

    Chunks = Iterator[tuple[Floats, Rows]]
    """Calibrated rows, and the rows that they were made of."""

    Writer = Callable[[IO[bytes], Path, RowCalibration, Chunks], None]
    """Write calibrated rows to a file, whose path tells its format."""

    TableWriter = Callable[[IO[bytes], Path, pa.Schema, Iterator[pa.Table]], None]
    """Write tables of a schema, one below another, to a file of this path."""

LARGE_BYTES = 2 << 30
"""Size of a file above which it is read in chunks, and sampled if its rows are too many."""


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
    own = {"labels": np.concatenate(labels)} if labels else {}
    np.savez(file, probs=np.concatenate(probs), classes=names, **own)  # type: ignore[arg-type]


def write_lines(file: IO[bytes], _: Path, calibration: RowCalibration, chunks: Chunks) -> None:
    """Write a JSON object a line, as logs are read: ``probs`` by class, and the label."""
    names = [str(c) for c in calibration.classes]
    for calibrated, rows in chunks:
        labels = [None] * len(calibrated) if rows.labels is None else rows.labels.tolist()
        for row, label in zip(calibrated.tolist(), labels, strict=True):
            # A class of exactly 0 is an option that the row does not have; NaN is a bad row.
            probs = {name: p for name, p in zip(names, row, strict=True) if p}
            record = {"probs": probs} | ({} if label is None else {"label": label})
            file.write(json.dumps(record).encode() + b"\n")


def write_table(
    writes: TableWriter, file: IO[bytes], path: Path, calibration: RowCalibration, chunks: Chunks
) -> None:
    """Write the columns of the source, with calibrated scores."""
    tables = (calibrated_table(calibration, *chunk) for chunk in chunks)
    first = next(tables, None)
    if first is None:
        raise PredictionFileError(f"{calibration.source.place.source} has no rows to write")
    writes(file, path, first.schema, chain([first], tables))


def calibrated_table(calibration: RowCalibration, calibrated: Floats, rows: Rows) -> pa.Table:
    """Return the columns of a chunk, with calibrated rows in place of its scores.

    Of arrays these are the labels, if there are any, and a column for each class.
    """
    import pyarrow as pa

    # Of a single column, which is that of the positive class, the last one is written.
    last = calibrated.astype(np.float64).T[-len(calibration.names) :]
    scores = zip(calibration.names, last, strict=True)
    columns = calibration.source.columns
    if columns is None:
        labels = {} if rows.labels is None else {"label": rows.labels}
        return pa.table(labels | {name: pa.array(p) for name, p in scores})
    table = pa.table({name: rows.beside[name] for name in columns.names})
    for place, name in enumerate(columns.names):
        if name in columns.scores:
            own, values = next(scores)
            table = table.set_column(place, own, pa.array(values))
    # By its metadata pandas knows that __index_level_0__ is the index, and no column.
    schema = getattr(rows.beside, "schema", table.schema)
    return table.replace_schema_metadata(schema.metadata)


def write_text(file: IO[bytes], path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    """Write tables as CSV or TSV."""
    import pyarrow as pa
    from pyarrow import csv

    for field in schema:
        if pa.types.is_nested(field.type):
            raise PredictionFileError(f"text cannot hold column {field.name!r}; write .parquet")
    options = csv.WriteOptions(delimiter=TEXT[suffix_of(path)], quoting_style="needed")
    with csv.CSVWriter(file, schema, write_options=options) as writer:
        for table in tables:
            writer.write(table)


def write_arrow(
    kind: str, file: IO[bytes], _: Path, schema: pa.Schema, tables: Iterator[pa.Table]
) -> None:
    """Write tables as a Parquet or Arrow file."""
    import pyarrow.parquet as pq
    from pyarrow import ipc

    opens = pq.ParquetWriter if kind == "parquet" else ipc.new_file
    with opens(file, schema) as writer:
        for table in tables:
            writer.write_table(table)


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all."""
    with replace_file(path) as file:
        if not is_zipped(path):
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield zipped  # type: ignore[misc]


def open_logs(path: Path, request: Request, files: Sequence[Path] = ()) -> Source:
    """Open a log, or those below a directory as one; a batch has its labels in another file."""
    known, labels, name = None, request.labels, request.label or "label"
    if labels is not None and holds(labels, "log"):
        known = {own.question: own.value(name, "--label-column") for own in read_records(labels)}
    elif labels is not None:
        table = open_table(labels)
        id_ = next((own for own in ID_FIELDS if own in table.names), ID_FIELDS[0])
        _, columns = read_table_columns(table, {id_: "--labels", name: "--labels"})
        pairs = zip(columns[id_].to_pylist(), columns[name].to_pylist(), strict=True)
        known = {str(own): label for own, label in pairs}
    return read_logs(path, request, files, known)


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files: how it is recognised, opened, and written, if it can be.

    Rows of tables have named columns and come in chunks, also from a directory; an array is mapped,
    an archive has several arrays and may have parts, and logs are read whole.
    """

    suffixes: tuple[str, ...]
    holds: Literal["table", "array", "archive", "log"]
    open: Callable[[Path, Request], Source]
    write: Writer | None = None
    open_table: Callable[[Path], OpenTable] | None = None
    write_tables: TableWriter | None = None


def table_format(
    suffixes: tuple[str, ...], opens: Callable[[Path], OpenTable], writes: TableWriter | None = None
) -> Format:
    """Return a format of tables: what opens one, and writes some of a schema one below another."""
    write = None if writes is None else partial(write_table, writes)
    return Format(suffixes, "table", partial(read_table, opens), write, opens, writes)


FORMATS = (
    Format((".npz",), "archive", read_npz, write_arrays),
    Format((".npy",), "array", read_npy, write_arrays),
    table_format((*TEXT, *(f"{s}.gz" for s in TEXT)), TextTable, write_text),
    table_format(
        (".parquet", ".pq"), partial(open_arrow, "parquet"), partial(write_arrow, "parquet")
    ),
    table_format(
        (".arrow", ".feather", ".ipc"), partial(open_arrow, "ipc"), partial(write_arrow, "ipc")
    ),
    Format((*LINES, *(f"{s}.gz" for s in LINES)), "log", open_logs, write_lines),
    Format((".json", ".eval"), "log", open_logs),
)
"""Every format; a new one is a row here. The first that knows a suffix is taken."""


def find_format(path: Path) -> Format | None:
    """Return the format of a file by its suffix, if it is known."""
    name = path.name.lower()
    return next((known for known in FORMATS if name.endswith(known.suffixes)), None)


def holds(path: Path, *kinds: str) -> bool:
    """Whether a path is that of a file which holds one of these."""
    known = find_format(path)
    return known is not None and known.holds in kinds


def suffixes_of(*kinds: str, to_write: bool = False) -> str:
    """Name the suffixes of files that hold one of these, or anything, and can be written."""
    usable = [own for own in FORMATS if own.write is not None or not to_write]
    known = [own for own in usable if not kinds or own.holds in kinds]
    return ", ".join(suffix for own in known for suffix in own.suffixes)


def open_table(path: Path) -> OpenTable:
    """Open a table of any format."""
    known = find_format(path)
    if known is None or known.open_table is None:
        raise PredictionFileError(f"{path} is not a table; use {suffixes_of('table')}")
    return known.open_table(path)


def save_table(path: Path, table: pa.Table) -> None:
    """Write a table, whole or not at all."""
    known = find_format(path)
    if known is None or known.write_tables is None:
        raise unknown_format(path, to_write=True)
    with open_output(path) as file:
        known.write_tables(file, path, table.schema, iter([table]))


def is_large(path: Path) -> bool:
    """Whether a path is a directory of tables, or a file that is too large to be read whole.

    Logs of language models and npz files are read whole, whatever their size.
    """
    if path.is_dir():
        return bool(files_below(path, "table"))
    return holds(path, "array", "table") and path.is_file() and path.stat().st_size > LARGE_BYTES


def unknown_format(path: Path, *, to_write: bool = False) -> PredictionFileError:
    """Return the error about a suffix that no format has, or none that can be written."""
    fault = "cannot be written" if to_write else "is not known"
    own, usable = "".join(path.suffixes[-2:]), suffixes_of(to_write=to_write)
    return PredictionFileError(f"{path}: {own!r} {fault}; use {usable}")


def read_prediction_file(path: str | os.PathLike[str], request: Request | None = None) -> Rows:
    """Read scores and labels whole."""
    return open_source(Path(path), request or Request()).read()


def open_source(path: Path, request: Request) -> Source:
    """Open a file of any format, or the tables or else the logs below a directory."""
    if path.is_dir():
        return _open_directory(path, request)
    check_file(path)
    known = find_format(path)
    if known is None:
        raise unknown_format(path)
    _refuse_options(path, request, known.holds)
    if request.labels is not None:
        check_file(request.labels)
    with decoding(path):
        return known.open(path, request)


def _refuse_options(path: Path, request: Request, holds: str) -> None:
    """Refuse options that are for files of another format."""
    if holds != "archive" and request.part is not None:
        raise PredictionFileError(f"{path} has no part {request.part!r}; leave out --part")
    if holds not in ("array", "log") and request.labels is not None:
        raise PredictionFileError(
            f"{path} is no npy file and no log; leave out --labels {request.labels}"
        )


def _open_directory(path: Path, request: Request) -> Source:
    """Open the tables below a directory as one, or else the logs."""
    _refuse_options(path, request, "directory")
    tables = files_below(path, "table")
    if not tables:
        logs = files_below(path, "log")
        if not logs:
            fault = f"is a directory without tables or logs ({suffixes_of('table', 'log')})"
            raise PredictionFileError(f"{path} {fault}")
        return open_logs(path, request, logs)
    return replace(join_tables(tables, str(path), request), note=name_others(path, tables))


def name_others(path: Path, tables: list[Path]) -> str:
    """Say which files of a directory are not read; nothing if there are none."""
    others = [str(file.relative_to(path)) for file in files_below(path) if file not in tables]
    read = number_of(len(tables), "table")
    return f"{path}: {read} read; ignored {some_in_words(others)}" if others else ""


def files_below(path: Path, kind: str | None = None) -> list[Path]:
    """Return the files with a suffix in a directory and below it, sorted; those of a kind alone.

    What begins with a dot or an underscore is not data: Spark and Dask write such files.
    """
    files = [file for file in sorted(path.rglob("*")) if file.suffix and file.is_file()]
    files = [file for file in files if not any(p[0] in "._" for p in file.relative_to(path).parts)]
    return [file for file in files if kind is None or holds(file, kind)]


def join_tables(files: Sequence[Path], name: str, request: Request) -> Source:
    """Open tables as one, with the columns of the first; their order may differ."""
    first = open_source(files[0], request)
    if first.columns is None:
        raise PredictionFileError(f"{files[0]} is not a table")
    columns = first.columns
    request = replace(request, label=columns.label, columns=columns.scores)

    def read() -> Iterator[Rows]:
        for file in files:
            for rows in open_source(file, request).chunks:
                yield replace(rows, are_columns_sure=columns.are_chosen)
                del rows

    return replace(first, place=Place(name, columns.scores), stream=read())


def read_columns(path: Path, named: Mapping[str, str], may_lack: str | None = None) -> Rows:
    """Read columns of a table, fields of records or arrays of an npz file, without any scores.

    ``named`` has the option that names each; records may lack one of them in some rows.
    """
    check_file(path)
    with decoding(path):
        if holds(path, "log"):
            place, columns = read_fields(path, named, may_lack)
        elif holds(path, "table"):
            place, columns = read_table_columns(open_table(path), named)
        elif holds(path, "archive"):
            archive, place = Archive(path), Place(str(path))
            columns = {name: archive.load_column(name, option) for name, option in named.items()}
        else:
            name, option = next(iter(named.items()))
            raise PredictionFileError(f"{path} is not a file with a column {name!r} ({option})")
    return Rows(np.empty((0, 0)), "", None, place, columns)


def copy_rows(path: Path, rows: Sequence[int], out: Path) -> None:
    """Write some rows of a table or a log as they are, to a file of the same kind."""
    kind = "log" if holds(path, "log") else "table"
    known = find_format(out)
    if known is None or known.holds != kind or known.write is None:
        writable = suffixes_of(kind, to_write=True)
        raise PredictionFileError(f"{out}: rows of {path} can be written to {writable}")
    if kind == "log":
        records = read_records(path)
        with open_output(out) as file:
            file.writelines(json.dumps(records[row].fields).encode() + b"\n" for row in rows)
        return
    import pyarrow as pa

    table = open_table(path)
    whole = pa.Table.from_batches(table.batches(table.names, ()))
    save_table(out, whole.take(pa.array(rows, pa.int64())))
