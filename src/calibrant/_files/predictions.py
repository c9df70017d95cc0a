"""Formats of files of predictions: one registry, and the door through which all are opened."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files import writers
from calibrant._files.arrays import ARRAYS, check_array, load_npy, open_npz
from calibrant._files.columns import Request
from calibrant._files.logs import read_log
from calibrant._files.records import LINES, LOGS, field_of, files_in, read_records
from calibrant._files.source import RawPredictions, Source, kind_of
from calibrant._files.tables import ARROW, PARQUET, read_table, read_table_column
from calibrant._files.text import TEXT, Place, is_zipped, suffix_of
from calibrant._files.values import labels_of_archive, plain_values, read_labels, values_of
from calibrant._gate import ONE_COLUMN
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files: how it is recognised, opened, and written, if it can be.

    ``open(path, request, stack)`` returns a :class:`Source`, ``write`` is one of ``writers``. Rows
    of tables have named columns, and come in chunks, also from a directory; so do rows of arrays
    that are mapped. Archives may have parts, and logs are read whole.
    """

    suffixes: tuple[str, ...]
    open: Callable[[Path, Request, ExitStack], Source]
    write: writers.Writer | None = None
    is_table: bool = False
    is_log: bool = False
    is_archive: bool = False
    is_mapped: bool = False
    may_be_zipped: bool = False


def _open_npy(path: Path, request: Request, _: ExitStack) -> Source:
    for name, option in request.beside.items():
        raise PredictionFileError(f"{path} is not a table with a column {name!r} ({option})")
    scores = load_npy(path)
    n_columns = _n_columns(scores, str(path), request.kind)
    kind = kind_of(request.kind, n_columns, str(path))
    return _of_arrays(scores, None, kind, n_columns, Place(path, str(path)), {})


def _open_npz(path: Path, request: Request, stack: ExitStack) -> Source:
    archive = stack.enter_context(open_npz(path))
    name = archive.find_scores(request.part, request.usual_part, request.kind)
    prefix, sep, stem = name.rpartition("_")
    prefix += sep
    scores = archive.load(name)
    labels = archive.load(f"{prefix}labels") if f"{prefix}labels" in archive.names else None
    n_columns = _n_columns(scores, f"{path}: {name}", request.kind)
    kind = kind_of(request.kind, n_columns, str(path), ARRAYS[stem])
    classes = archive.load_classes(2 if kind in ONE_COLUMN else n_columns)
    beside = {
        own: archive.load_column(own, prefix, option, 2 if option == "--features" else 1)
        for own, option in request.beside.items()
    }
    for own, column in beside.items():
        if len(column) != len(scores):
            raise PredictionFileError(
                f"{path} has {len(scores)} rows, but {own!r} has {len(column)}"
            )
    place = Place(path, f"{path} ({prefix[:-1]})" if prefix else str(path), classes)
    return _of_arrays(scores, labels, kind, n_columns, place, beside)


def _of_arrays(
    scores: NDArray[Any],
    labels: NDArray[Any] | None,
    kind: str,
    n_columns: int,
    place: Place,
    beside: dict[str, NDArray[Any]],
) -> Source:
    """Return arrays of scores and labels as a file."""
    if labels is not None:
        _check_labels(labels, f"{place.path}: labels", len(scores))
        if labels.ndim == 1 and place.names is not None:
            labels = labels_of_archive(labels, place.names)
    matrix = scores.reshape(len(scores), n_columns)
    has_names = place.names is not None
    whole = RawPredictions(matrix, kind, labels, place, names_are_classes=has_names, beside=beside)
    return Source(place, kind, n_columns, scores.dtype, whole)


def _n_columns(scores: NDArray[Any], where: str, kind: str | None) -> int:
    """Return the number of columns of an array of scores; refuse what is none."""
    is_of_numbers = scores.dtype.kind in "fiub"
    if scores.ndim == 1 and is_of_numbers and kind not in ARRAYS.values():
        return 1
    needed = "write one row per sample and one column of numbers per class"
    fits = scores.ndim == 2 and is_of_numbers and scores.shape[1] > 0
    check_array(scores, where, fits, needed)
    return int(scores.shape[1])


def _check_labels(labels: NDArray[Any], where: str, n_rows: int) -> None:
    fits = labels.shape[:1] == (n_rows,) and labels.dtype.kind in "iufbUS"
    needed = f"write a number or a text for each of the {n_rows} rows of scores"
    check_array(labels, where, fits, needed)


def _open_log(path: Path, request: Request, _: ExitStack) -> Source:
    log = read_log(path, request)
    return Source(log.place, log.kind, log.scores.shape[1], log.scores.dtype, log)


FORMATS = (
    Format((".npz",), _open_npz, writers.write_npz, is_archive=True),
    Format((".npy",), _open_npy, writers.write_npy, is_mapped=True),
    Format(tuple(TEXT), read_table, writers.write_table, is_table=True, may_be_zipped=True),
    Format((*PARQUET, *ARROW), read_table, writers.write_table, is_table=True),
    Format(LINES, _open_log, writers.write_lines, is_log=True, may_be_zipped=True),
    Format(LOGS, _open_log, is_log=True),
)
"""Every format; a new one is a row here. The first that knows a suffix is taken."""


def find_format(path: Path) -> Format | None:
    """Return the format of a file by its suffix, or of a directory by what is in it, if known."""
    if path.is_dir():
        inside = [known for file in files_in(path) if (known := find_format(file))]
        tables = [known for known in inside if known.is_table]
        logs = [known for known in inside if known.is_log]
        if tables or logs:  # logs beside tables are ignored
            return (tables or logs)[0]
    for known in FORMATS:
        if suffix_of(path) in known.suffixes and (known.may_be_zipped or not is_zipped(path)):
            return known
    return None


def is_table(path: Path) -> bool:
    """Whether a path is that of a table, or of a directory with tables."""
    return (known := find_format(path)) is not None and known.is_table


def is_log(path: Path) -> bool:
    """Whether a path is that of records of JSON, or of a directory with such files, no tables."""
    return (known := find_format(path)) is not None and known.is_log


def has_parts(path: Path) -> bool:
    """Whether an archive has ``val_*`` or ``test_*`` arrays in place of plain ones."""
    known = find_format(path)
    if known is None or not known.is_archive:
        return False
    with open_npz(path) as file:
        return file.has_parts


def suffixes_of(formats: Iterable[Format]) -> str:
    """Return the suffixes of some formats in words."""
    return ", ".join(dict.fromkeys(s for known in formats for s in known.suffixes if s))


def unknown_format(path: Path, *, to_write: bool = False) -> PredictionFileError:
    """Return the error about a suffix that no format has, or none that can be written."""
    suffix = "".join(path.suffixes[-2:]) if is_zipped(path) else path.suffix.lower()
    fault = "cannot be written" if to_write else "is not known"
    usable = suffixes_of(known for known in FORMATS if known.write is not None or not to_write)
    return PredictionFileError(f"{path}: {suffix!r} {fault}; use {usable}, or .csv.gz")


def read_prediction_file(
    path: str | os.PathLike[str],
    request: Request | None = None,
    *,
    part: str | None = None,
    kind: str | None = None,
) -> RawPredictions:
    """Read scores and labels whole; ``part`` and ``kind`` are those of the request."""
    request = Request(part, kind=kind) if request is None else request
    with open_source(Path(path), request) as source:
        return source.read()


@contextmanager
def open_source(path: Path, request: Request) -> Iterator[Source]:
    """Open npz, npy, a table, or a log of JSON; ``-`` is CSV on standard input."""
    if str(path) != "-" and not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    known = find_format(path)
    if known is None:
        raise unknown_format(path)
    if not known.is_archive and request.part is not None:
        raise PredictionFileError(f"{path} has no part {request.part!r}; leave out --part")
    with ExitStack() as stack:
        source = known.open(path, request, stack)
        yield source if request.labels is None else _with_labels(source, request.labels)


def _with_labels(source: Source, path: Path) -> Source:
    """Return a file whose labels are in a file of their own, which is mapped."""
    whole, y = source.read(), load_npy(path)
    if whole.labels is not None:
        raise PredictionFileError(
            f"{source.place.path} has labels already; leave out --labels {path}"
        )
    _check_labels(y, str(path), len(whole.scores))
    return replace(source, whole=replace(whole, labels=np.asarray(y)), stream=None)


def read_column(path: Path, name: str, option: str) -> tuple[Any, Place]:
    """Return a column of a table, a field of records or an array of an npz file, as it is stored.

    The file may have no scores. ``option`` is what names the column.
    """
    known = find_format(path) if path.exists() else None
    if known is not None and known.is_log:
        records = list(read_records(path))
        place = Place(path, str(path), lines=[record.place for record in records])
        return [field_of(record, name, option) for record in records], place
    if known is not None and known.is_archive:
        with open_npz(path) as archive:
            return archive.load_column(name, "", option), Place(path, str(path))
    if known is None or not known.is_table:
        raise PredictionFileError(f"{path} is not a file with a column {name!r} ({option})")
    return read_table_column(path, name, option), Place(path, str(path))


def read_grades(path: Path, name: str, option: str) -> NDArray[Any]:
    """Read grades: numbers with fractions as they are, others as labels."""
    column, place = read_column(path, name, option)
    values = values_of(column)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1).any():
        return values
    texts = ["" if own is None else str(own) for own in plain_values(column)]
    return read_labels(np.array(texts, dtype=object), place)
