"""One column of a file beside its scores: groups, times, grades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._columns import key
from calibrant._files import tables
from calibrant._files.align import LONGEST_LABEL, read_labels
from calibrant._files.arrays import decoding
from calibrant._files.records import is_log, read_records
from calibrant._files.text import (
    BLOCK_BYTES,
    Place,
    buffer_reader,
    decimal_point,
    explain,
    open_text,
    read_start,
    suffix_of,
)
from calibrant._simplex import check_memory
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.predictions import FileChunk, Source


GROUPS_REMEDY = "name the column with --groups"


def read_column(
    path: Path, name: str, remedy: str, part: str | None = None, *, as_stored: bool = False
) -> NDArray[Any]:
    """Return a column of a table, a field of records or an array of an npz file.

    Whole numbers are such, everything else is text, unless values are wanted ``as_stored``.
    ``remedy`` names the option to change.
    """
    values, stored, place = _read(path, name, remedy, part)
    if as_stored:
        return stored
    texts = np.array(["" if own is None else str(own) for own in values], dtype=object)
    return read_labels(texts, place)


def read_groups(
    path: Path, name: str, part: str | None = None, *, option: str = "--groups"
) -> NDArray[Any]:
    """Return the group of each row, always as text: no name depends on what else is there."""
    values, _, place = _read(path, name, f"name the column with {option}", part, as_text=True)
    return _as_groups(values, place, 0, option)


def group_reader(
    calibrator: Any, source: Source, name: str | None, part: str | None
) -> Callable[[FileChunk, int], NDArray[Any]]:
    """Return what tells the groups of a chunk of an open file, before which ``done`` rows came.

    A table has them in its chunks; of other files they are read at once.
    """
    path, n_rows = source.place.path, source.n_rows
    whole = None
    if name is not None and source.layout is None:
        whole = read_groups(path, name, part or "test")
        if len(whole) != n_rows:
            raise PredictionFileError(f"{path} has {n_rows} rows, but {name!r} has {len(whole)}")

    def read(chunk: FileChunk, done: int) -> NDArray[Any]:
        if whole is not None:
            return groups_like(whole[done : done + len(chunk.scores)], calibrator.groups_)
        if name not in chunk.batch.schema.names:
            raise PredictionFileError(f"{path} has no column {name!r}; {GROUPS_REMEDY}")
        values = chunk.batch.column(name).to_pylist()
        return groups_like(_as_groups(values, source.place, done), calibrator.groups_)

    return read


def groups_like(groups: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    """Return groups of a file as those of a model are: numbers, if it was fitted to such."""
    if known.dtype.kind not in "iufb":
        return groups
    by_text = {key(name).casefold(): name for name in known.tolist()}
    other = int(known.max()) + 1  # a group that is not there
    return np.array([by_text.get(key(name).casefold(), other) for name in groups.tolist()])


def _as_groups(
    values: list[Any], place: Place, done: int, option: str = "--groups"
) -> NDArray[Any]:
    """Return names as text, as they stand; refuse a row that has none."""
    texts = []
    for i, own in enumerate(values):
        is_missing = own is None or own != own  # noqa: PLR0124  (NaN)
        text = "" if is_missing else own.decode() if isinstance(own, bytes) else str(own)
        if not text.strip() or len(text) > LONGEST_LABEL:
            fault = "is missing; fill it, or drop the row"
            if text.strip():
                fault = f"has {len(text):,} characters; at most {LONGEST_LABEL:,} are allowed"
            raise PredictionFileError(f"{place.rows([done + i])}: the group {fault} ({option})")
        texts.append(text)
    check_memory(4 * len(texts) * max(map(len, texts), default=0), "the groups")
    return np.array(texts, dtype=str)


def _read(
    path: Path, name: str, remedy: str, part: str | None, *, as_text: bool = False
) -> tuple[list[Any], NDArray[Any], Place]:
    """Return the values of a column, the array of them, and their place."""
    if str(path) == "-":
        raise PredictionFileError(f"standard input is read once; name a file to read {name!r} from")
    lines: list[int] | None = None
    if is_log(path):
        records = list(read_records(path))
        for record in records:
            if name not in record.fields:
                raise PredictionFileError(f"{record.where} has no field {name!r}; {remedy}")
            value = record.fields[name]
            if not isinstance(value, str | int | float):
                held = "is null: the row has no value; drop it" if value is None else "is no value"
                raise PredictionFileError(f"{record.where}: the field {name!r} {held}, or {remedy}")
        values = [record.fields[name] for record in records]
        stored, lines = np.asarray(values), [record.place for record in records]
    elif path.suffix.lower() == ".npz":
        stored = _of_archive(path, name, part, remedy)
        values = stored.tolist()
    else:
        column = _of_table(path, name, remedy, as_text=as_text)
        stored, values = np.asarray(column), column.to_pylist()  # where whole numbers stay whole
    return values, stored, Place(path, str(path), lines=lines)


def _of_archive(path: Path, name: str, part: str | None, remedy: str) -> NDArray[Any]:
    with decoding(path, "npz"), np.load(path, allow_pickle=False) as archive:
        stored = [known for known in (f"{part}_{name}", name) if known in archive]
        if not stored:
            has = some_in_words([*archive])
            raise PredictionFileError(f"{path} has no array {name!r}; it has {has}; {remedy}")
        found: NDArray[Any] = archive[stored[0]]
    if found.ndim != 1:
        raise PredictionFileError(f"{path}: {name!r} has {found.ndim} dimensions, not 1; {remedy}")
    return found


def _of_table(path: Path, name: str, remedy: str, *, as_text: bool) -> Any:
    """Return a column of a table; the type of text is guessed unless it is to stay text."""
    import pyarrow as pa
    from pyarrow import csv, ipc, parquet

    suffix = suffix_of(path)
    if not tables.is_table(path) or not path.exists():
        raise PredictionFileError(f"{path} is not a table with a column {name!r}; {remedy}")
    with decoding(path, "a table"):
        if suffix in tables.PARQUET:
            table = parquet.read_table(path)
        elif suffix in tables.ARROW:
            table = ipc.open_file(path).read_all()
        else:
            with open_text(path) as file:
                start = read_start(file, path)
                types = {name: pa.string()} if as_text else {}
                point = decimal_point(start.cells.get(name, ()))
                how = (
                    csv.ReadOptions(
                        use_threads=False,  # to tell a row
                        block_size=BLOCK_BYTES,
                        column_names=start.names,
                    ),
                    csv.ParseOptions(delimiter=start.separator, newlines_in_values=True),
                    csv.ConvertOptions(column_types=types, decimal_point=point),
                )
                try:
                    table = csv.read_csv(buffer_reader(start.start + file.read()), *how)
                except pa.ArrowInvalid as error:
                    raise PredictionFileError(explain(path, start.names, str(error))) from error
    if name not in table.column_names:
        has = some_in_words(table.column_names)
        raise PredictionFileError(f"{path} has no column {name!r}; it has {has}; {remedy}")
    return table.column(name)
