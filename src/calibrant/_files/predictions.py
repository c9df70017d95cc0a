"""Formats of files of predictions: one registry, and the door through which all are opened."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant._files import writers
from calibrant._files.arrays import ARRAYS, check_array, load_npy, open_npz
from calibrant._files.columns import Request
from calibrant._files.logs import read_log
from calibrant._files.records import LINES, field_of, read_records
from calibrant._files.source import RawPredictions, Source, kind_of
from calibrant._files.tables import ARROW, PARQUET, TEXT, Place, read_table, read_table_column
from calibrant._files.values import labels_of_archive, plain_values, read_labels, values_of
from calibrant._gate import ONE_COLUMN
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files: how it is recognised, opened, and written, if it can be.

    ``open(path, request, stack)`` returns a :class:`Source`, ``write`` is one of ``writers``. Rows
    of tables have named columns and come in chunks, also from a directory; an array is mapped, an
    archive has several arrays and may have parts, and logs are read whole.
    """

    suffixes: tuple[str, ...]
    holds: Literal["table", "array", "archive", "log"]
    open: Callable[[Path, Request, ExitStack], Source]
    write: writers.Writer | None = None


def _open_npy(path: Path, request: Request, _: ExitStack) -> Source:
    for name, option in request.beside.items():
        raise PredictionFileError(f"{path} is not a table with a column {name!r} ({option})")
    scores, labels = _as_matrix(load_npy(path), str(path), request.kind), None
    if request.labels is not None:
        labels = load_npy(request.labels)
        _check_labels(labels, str(request.labels), len(scores))
    kind = kind_of(request.kind, scores.shape[1], str(path))
    return Source.of(RawPredictions(scores, kind, labels, Place(path, str(path))))


def _open_npz(path: Path, request: Request, stack: ExitStack) -> Source:
    archive = stack.enter_context(open_npz(path))
    name = archive.find_scores(request.part, request.usual_part, request.kind)
    prefix, sep, stem = name.rpartition("_")
    prefix += sep
    scores = _as_matrix(archive.load(name), f"{path}: {name}", request.kind)
    kind = kind_of(request.kind, scores.shape[1], str(path), ARRAYS[stem])
    classes = archive.load_classes(2 if kind in ONE_COLUMN else scores.shape[1])
    labels = None
    if f"{prefix}labels" in archive.names:
        labels = archive.load(f"{prefix}labels")
        _check_labels(labels, f"{path}: labels", len(scores))
        labels = labels if classes is None else labels_of_archive(labels, classes)
    beside = {
        own: archive.load_column(own, prefix, option) for own, option in request.beside.items()
    }
    for own, column in beside.items():
        if len(column) != len(scores):
            raise PredictionFileError(
                f"{path} has {len(scores)} rows, but {own!r} has {len(column)}"
            )
    place = Place(path, f"{path} ({prefix[:-1]})" if prefix else str(path), classes)
    has_names = classes is not None
    return Source.of(
        RawPredictions(scores, kind, labels, place, names_are_classes=has_names, beside=beside)
    )


def _as_matrix(scores: NDArray[Any], where: str, kind: str | None) -> NDArray[Any]:
    """Return scores with a column for each class, or the only one; refuse what is none."""
    is_of_numbers = scores.dtype.kind in "fiub"
    if scores.ndim == 1 and is_of_numbers and kind not in ARRAYS.values():
        return scores.reshape(-1, 1)
    needed = "write one row per sample and one column of numbers per class"
    fits = scores.ndim == 2 and is_of_numbers and scores.shape[1] > 0
    check_array(scores, where, fits, needed)
    return scores


def _check_labels(labels: NDArray[Any], where: str, n_rows: int) -> None:
    fits = labels.shape == (n_rows,) and labels.dtype.kind in "iufbUS"
    needed = f"write a number or a text for each of the {n_rows} rows of scores"
    check_array(labels, where, fits, needed)


def _open_log(path: Path, request: Request, _: ExitStack) -> Source:
    return Source.of(read_log(path, request))


FORMATS = (
    Format((".npz",), "archive", _open_npz, writers.write_arrays),
    Format((".npy",), "array", _open_npy, writers.write_arrays),
    Format((*TEXT, *(f"{s}.gz" for s in TEXT)), "table", read_table, writers.write_table),
    Format((*PARQUET, *ARROW), "table", read_table, writers.write_table),
    Format((*LINES, *(f"{s}.gz" for s in LINES)), "log", _open_log, writers.write_lines),
    Format((".json", ".eval"), "log", _open_log),
)
"""Every format; a new one is a row here. The first that knows a suffix is taken."""

TABLES = ", ".join(s for known in FORMATS if known.holds == "table" for s in known.suffixes)


def find_format(path: Path) -> Format | None:
    """Return the format of a file by its suffix, if it is known."""
    name = path.name.lower()
    return next((known for known in FORMATS if name.endswith(known.suffixes)), None)


def is_table(path: Path) -> bool:
    """Whether a path is that of a table."""
    return (known := find_format(path)) is not None and known.holds == "table"


def is_log(path: Path) -> bool:
    """Whether a path is that of records of JSON."""
    return (known := find_format(path)) is not None and known.holds == "log"


def has_parts(path: Path) -> bool:
    """Whether an archive has ``val_*`` or ``test_*`` arrays in place of plain ones."""
    known = find_format(path)
    if known is None or known.holds != "archive":
        return False
    with open_npz(path) as file:
        return bool(file.parts) and "" not in file.parts


def unknown_format(path: Path, *, to_write: bool = False) -> PredictionFileError:
    """Return the error about a suffix that no format has, or none that can be written."""
    fault = "cannot be written" if to_write else "is not known"
    usable = [known for known in FORMATS if known.write is not None or not to_write]
    suffixes = ", ".join(dict.fromkeys(suffix for known in usable for suffix in known.suffixes))
    return PredictionFileError(f"{path}: {''.join(path.suffixes[-2:])!r} {fault}; use {suffixes}")


def read_prediction_file(
    path: str | os.PathLike[str], request: Request | None = None
) -> RawPredictions:
    """Read scores and labels whole."""
    with open_source(Path(path), request or Request()) as source:
        return source.read()


@contextmanager
def open_source(path: Path, request: Request) -> Iterator[Source]:
    """Open a file of any format."""
    if not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    known = find_format(path)
    if path.is_dir():
        raise PredictionFileError(f"{path} is a directory; name a file (logs can be joined by cat)")
    if known is None:
        raise unknown_format(path)
    if known.holds != "archive" and request.part is not None:
        raise PredictionFileError(f"{path} has no part {request.part!r}; leave out --part")
    if known.holds != "array" and request.labels is not None:
        raise PredictionFileError(f"{path} is no npy file; leave out --labels {request.labels}")
    with ExitStack() as stack:
        yield known.open(path, request, stack)


def read_column(path: Path, name: str, option: str) -> tuple[Any, Place]:
    """Return a column of a table, a field of records or an array of an npz file, as it is stored.

    The file may have no scores. ``option`` is what names the column.
    """
    known = find_format(path) if path.exists() else None
    place = Place(path, str(path))
    if known is not None and known.holds == "log":
        records = read_records(path)
        lines = [record.place for record in records]
        return [field_of(record, name, option) for record in records], replace(place, lines=lines)
    if known is not None and known.holds == "archive":
        with open_npz(path) as archive:
            return archive.load_column(name, "", option), place
    if known is None or known.holds != "table":
        raise PredictionFileError(f"{path} is not a file with a column {name!r} ({option})")
    return read_table_column(path, name, option), place


def read_grades(path: Path, name: str, option: str) -> NDArray[Any]:
    """Read grades: numbers with fractions as they are, others as labels."""
    column, place = read_column(path, name, option)
    values = values_of(column)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1).any():
        return values
    texts = ["" if own is None else str(own) for own in plain_values(column)]
    return read_labels(np.array(texts, dtype=object), place)
