"""One column of a file beside its scores: groups, times, grades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files import tables
from calibrant._files.align import read_labels
from calibrant._files.arrays import decoding
from calibrant._files.records import is_log, read_records
from calibrant._files.text import TEXT, Place, open_text, suffix_of
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.predictions import FileChunk


def read_column(
    path: Path, name: str, remedy: str, part: str | None = None, *, as_stored: bool = False
) -> NDArray[Any]:
    """Return a column of a table, a field of records or an array of an npz file.

    Whole numbers are such, everything else is text, unless values are wanted ``as_stored``.
    ``remedy`` names the option to change.
    """
    if str(path) == "-":
        raise PredictionFileError(f"standard input is read once; name a file to take {name!r} from")
    lines: list[int] | None = None
    if is_log(path):
        records = list(read_records(path))
        for record in records:
            if not isinstance(record.fields.get(name), str | int | float):
                raise PredictionFileError(f"{record.where} has no field {name!r}; {remedy}")
        values = [record.fields[name] for record in records]
        stored, lines = np.asarray(values), [record.place for record in records]
    elif path.suffix.lower() == ".npz":
        stored = _of_archive(path, name, part, remedy)
        values = stored.tolist()
    else:
        column = _of_table(path, name, remedy)
        stored, values = np.asarray(column), column.to_pylist()  # where whole numbers stay whole
    if as_stored:
        return stored
    texts = np.array(["" if own is None else str(own) for own in values], dtype=object)
    return read_labels(texts, Place(path, str(path), lines=lines))


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


def _of_table(path: Path, name: str, remedy: str) -> Any:
    from pyarrow import csv, ipc, parquet

    suffix = suffix_of(path)
    if not tables.is_table(path) or not path.exists():
        raise PredictionFileError(f"{path} is no table with a column {name!r}; {remedy}")
    with decoding(path, "a table"):
        if suffix in tables.PARQUET:
            table = parquet.read_table(path)
        elif suffix in tables.ARROW:
            table = ipc.open_file(path).read_all()
        else:
            with open_text(path) as file:
                split = csv.ParseOptions(delimiter=TEXT[suffix])
                table = csv.read_csv(file, parse_options=split)
    if name not in table.column_names:
        has = some_in_words(table.column_names)
        raise PredictionFileError(f"{path} has no column {name!r}; it has {has}; {remedy}")
    return table.column(name)


def column_of(chunk: FileChunk, name: str, path: Path) -> NDArray[Any]:
    """Return a column of a chunk of a table, as :func:`read_column` does."""
    if chunk.batch is None or name not in chunk.batch.schema.names:
        raise PredictionFileError(f"{path} is no table with a column {name!r}; name it by --groups")
    values = ["" if own is None else str(own) for own in chunk.batch.column(name).to_pylist()]
    return read_labels(np.array(values, dtype=object), Place(path, str(path)))
