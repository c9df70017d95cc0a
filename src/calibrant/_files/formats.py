"""Formats of files of predictions: one registry, and the door through which all are opened."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant._files import writers
from calibrant._files.align import groups_of, labels_of, texts_of, values_of
from calibrant._files.arrays import Archive, read_npy, read_npz
from calibrant._files.logs import LINES, read_field, read_log, read_logs, read_records
from calibrant._files.request import Request
from calibrant._files.source import Place, Rows, Source, check_file, decoding
from calibrant._files.tables import (
    ARROW,
    MISSING,
    PARQUET,
    TEXT,
    open_table,
    read_table_column,
    read_table_file,
)
from calibrant.errors import PredictionFileError, number_of, some_in_words

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._types import Bools, Labels, Wholes

LARGE_BYTES = 2 << 30
"""Size of a file above which it is read in chunks, and sampled if its rows are too many."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files: how it is recognised, opened, and written, if it can be.

    Rows of tables have named columns and come in chunks, also from a directory; an array is mapped,
    an archive has several arrays and may have parts, and logs are read whole.
    """

    suffixes: tuple[str, ...]
    holds: Literal["table", "array", "archive", "log"]
    open: Callable[[Path, Request], Source]
    write: writers.Writer | None = None


FORMATS = (
    Format((".npz",), "archive", read_npz, writers.write_arrays),
    Format((".npy",), "array", read_npy, writers.write_arrays),
    Format((*TEXT, *(f"{s}.gz" for s in TEXT)), "table", read_table_file, writers.write_table_file),
    Format((*PARQUET, *ARROW), "table", read_table_file, writers.write_table_file),
    Format((*LINES, *(f"{s}.gz" for s in LINES)), "log", read_log, writers.write_lines),
    Format((".json", ".eval"), "log", read_log),
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
    usable = [known for known in FORMATS if known.write is not None or not to_write]
    suffixes = ", ".join(suffix for known in usable for suffix in known.suffixes)
    return PredictionFileError(f"{path}: {''.join(path.suffixes[-2:])!r} {fault}; use {suffixes}")


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
        source = known.open(path, request)
    if source.stream is None:
        return source
    return replace(source, stream=_decoded(source.stream, path))


def _refuse_options(path: Path, request: Request, holds: str) -> None:
    """Refuse options that are for files of another format."""
    if holds != "archive" and request.part is not None:
        raise PredictionFileError(f"{path} has no part {request.part!r}; leave out --part")
    if holds not in ("array", "log") and request.labels is not None:
        raise PredictionFileError(
            f"{path} is no npy file and no log; leave out --labels {request.labels}"
        )


def _decoded(stream: Iterator[Rows], path: Path) -> Iterator[Rows]:
    """Yield rows, and say which file is damaged."""
    with decoding(path):
        yield from stream


def _open_directory(path: Path, request: Request) -> Source:
    """Open the tables below a directory as one, or else the logs."""
    _refuse_options(path, request, "directory")
    tables = files_below(path, "table")
    if not tables:
        logs = files_below(path, "log")
        if not logs:
            known = [s for own in FORMATS if own.holds in ("table", "log") for s in own.suffixes]
            raise PredictionFileError(
                f"{path} is a directory without tables or logs ({', '.join(known)})"
            )
        return read_logs(path, logs, request)
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


def _read_column(
    path: Path, name: str, option: str, *, may_lack: bool = False
) -> tuple[NDArray[Any], Place]:
    """Return a column of a table, a field of records or an array of an npz file.

    The file may have no scores. ``option`` is what names the column.
    """
    check_file(path)
    with decoding(path):
        if holds(path, "log"):
            return read_field(path, name, option, may_lack=may_lack)
        if holds(path, "archive"):
            return Archive(path).load_column(name, option), Place(str(path))
        if holds(path, "table"):
            return read_table_column(path, name, option)
    raise PredictionFileError(f"{path} is not a file with a column {name!r} ({option})")


def read_group_column(path: Path, name: str, option: str) -> Labels:
    """Return a column of groups, such as documents, as text."""
    return groups_of(*_read_column(path, name, option), option)


def read_grades(path: Path, name: str, option: str) -> NDArray[Any]:
    """Return a column of grades."""
    return grades_of(*_read_column(path, name, option))


def read_some_grades(path: Path, name: str, option: str) -> tuple[Bools, Labels]:
    """Return which rows have a grade in a column that may be blank, and these grades."""
    stored, place = _read_column(path, name, option, may_lack=True)
    is_graded = are_known(stored)
    if not is_graded.any():
        raise PredictionFileError(f"{path}: no row has a grade in {name!r} ({option})")
    return is_graded, grades_of(stored[is_graded], place.take(np.flatnonzero(is_graded)))


def are_known(stored: Labels) -> Bools:
    """Return which labels are there: neither blank nor a word for none, such as NA."""
    return np.array([MISSING.fullmatch(text) is None for text in texts_of(stored)], dtype=bool)


def copy_rows(path: Path, rows: Wholes, out: Path) -> None:
    """Write some rows of a table or a log as they are, to a file of the same kind."""
    is_log = holds(path, "log")
    if not holds(out, "log" if is_log else "table"):
        kind = ".jsonl" if is_log else ".csv, .tsv or .parquet"
        raise PredictionFileError(f"{out}: rows of {path} can be written to {kind}")
    if is_log:
        records = read_records(path)
        with writers.open_output(out) as file:
            file.writelines(json.dumps(records[row].fields).encode() + b"\n" for row in rows)
        return
    import pyarrow as pa

    table = open_table(path)
    writers.save_table(out, pa.Table.from_batches(table.batches(table.names, ())).take(rows))


def grades_of(stored: Labels, place: Place) -> NDArray[Any]:
    """Return grades: numbers with fractions as they are, others as labels."""
    values = values_of(stored)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1).any():
        return values
    return labels_of(np.array(texts_of(stored), dtype=object), place)
