"""The table of a study as a file: CSV or Parquet, one row per number."""

from __future__ import annotations

import csv
import io
from dataclasses import astuple, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.atomic_file import replace_file
from calibrant.errors import DataError
from calibrant.study.table import StudyRow, StudyTable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

COLUMNS = tuple(field.name for field in fields(StudyRow))
NUMBERS = ("value", "seconds")


def write_table(table: StudyTable, path: str | os.PathLike[str]) -> Path:
    """Write a table to a ``.csv`` or ``.parquet`` file, whole or not at all.

    Parameters
    ----------
    table : StudyTable
    path : path-like
        Parquet needs pyarrow.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from calibrant.study import StudyRow, StudyTable, read_table, write_table
    >>> table = StudyTable.of([StudyRow("mnist", "lenet", "ts", "nll", 0.1 + 0.2, 0.01)])
    >>> path = write_table(table, Path(tempfile.mkdtemp()) / "study.csv")
    >>> read_table(path) == table
    True
    """
    path = Path(path)
    content = _to_parquet(table) if _is_parquet(path) else _to_csv(table)
    with replace_file(path) as file:
        file.write(content)
    return path


def read_table(path: str | os.PathLike[str]) -> StudyTable:
    """Read a table from a ``.csv`` or ``.parquet`` file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    table : StudyTable
        Bit for bit the one that was written.

    Raises
    ------
    DataError
        If the file is no such table.
    """
    path = Path(path)
    read = _read_parquet if _is_parquet(path) else _read_csv
    try:
        return StudyTable.of(map(_row, read(path)))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a table of a study: {error}") from error


def can_write_parquet() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def _is_parquet(path: Path) -> bool:
    if path.suffix not in {".csv", ".parquet"}:
        raise DataError(f"{path}: {path.suffix!r} is not known; use .csv or .parquet")
    return path.suffix == ".parquet"


def _row(record: Mapping[str, Any]) -> StudyRow:
    missing = [name for name in COLUMNS if record.get(name) is None]
    if missing:
        raise ValueError(f"a row has no {missing[0]}")
    texts = {name: str(record[name]) for name in COLUMNS if name not in NUMBERS}
    return StudyRow(**texts, value=float(record["value"]), seconds=float(record["seconds"]))


def _to_csv(table: StudyTable) -> bytes:
    text = io.StringIO(newline="")
    rows = map(astuple, table.rows)  # floats as repr has them: exact
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    return text.getvalue().encode()


def _read_csv(path: Path) -> Iterable[Mapping[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _to_parquet(table: StudyTable) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {name: pa.float64() if name in NUMBERS else pa.string() for name in COLUMNS}
    columns = {name: [getattr(row, name) for row in table.rows] for name in COLUMNS}
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns, schema=pa.schema(list(kinds.items()))), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_parquet(path: Path) -> Iterable[Mapping[str, Any]]:
    from pyarrow import parquet

    records: list[dict[str, Any]] = parquet.read_table(io.BytesIO(path.read_bytes())).to_pylist()
    return records
