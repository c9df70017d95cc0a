"""Formats of files of predictions: one registry, and the door through which all are opened."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files import writers
from calibrant._files.arrays import check_array, load_npy, open_npz
from calibrant._files.columns import ColumnSelection
from calibrant._files.logs import open_log
from calibrant._files.records import LINES, LOGS, files_in, read_field
from calibrant._files.source import FileChunk, Source, kind_of
from calibrant._files.tables import ARROW, PARQUET, read_table, read_table_column
from calibrant._files.text import TEXT, Place, is_zipped, suffix_of
from calibrant._files.values import labels_of_archive, plain_values, read_labels, values_of
from calibrant._one_column import ONE_COLUMN, two_column_kind
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._files.arrays import Archive
    from calibrant._files.source import RawPredictions

ARRAYS = {"probs": "probabilities", "logits": "logits"}
"""Names of arrays of scores in an npz file, and what they hold."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks of a file, and says about it; see :func:`read_prediction_file`."""

    part: str | None = None
    usual_part: str | None = None
    kind: str | None = None
    selection: ColumnSelection = field(default_factory=ColumnSelection)
    classes: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files: how it is recognised, opened, and written, if it can be.

    ``open(path, request, stack)`` returns a :class:`Source`, ``write`` is one of ``writers``. Rows
    of ``is_table`` formats have named columns and can be read in chunks from a directory.
    """

    suffixes: tuple[str, ...]
    open: Callable[[Path, Request, ExitStack], Source]
    write: writers.Writer | None = None
    is_table: bool = False
    is_log: bool = False
    may_be_zipped: bool = False


def _open_npy(path: Path, request: Request, _: ExitStack) -> Source:
    for name, option in request.selection.beside.items():
        raise PredictionFileError(f"{path} is not a table with a column {name!r} ({option})")
    return _of_arrays(load_npy(path), None, str(path), request, Place(path, str(path)), {})


def _open_npz(path: Path, request: Request, stack: ExitStack) -> Source:
    archive = stack.enter_context(open_npz(path))
    names, kind = archive.names, request.kind
    prefix = _prefix(names, request.part, request.usual_part, path)
    name = _scores(names, prefix, kind, path)
    scores = archive.load(name)
    labels = archive.load(f"{prefix}labels") if f"{prefix}labels" in names else None
    n_columns = _shape(scores, f"{path}: {name}", kind)[1]
    kind = kind_of(kind, n_columns, str(path), ARRAYS[name.removeprefix(prefix)])
    classes = _classes(archive, 2 if kind in ONE_COLUMN else n_columns)
    place = Place(path, f"{path} ({prefix[:-1]})" if prefix else str(path), classes)
    part = request.part or request.usual_part
    beside = {
        own: load_column(archive, own, part, option)
        for own, option in request.selection.beside.items()
    }
    for own, column in beside.items():
        if len(column) != len(scores):
            raise PredictionFileError(
                f"{path} has {len(scores)} rows, but {own!r} has {len(column)}"
            )
    request = replace(request, kind=kind)
    return _of_arrays(scores, labels, f"{path}: {name}", request, place, beside)


def _open_table(path: Path, request: Request, stack: ExitStack) -> Source:
    is_single = None if request.kind is None else request.kind in ONE_COLUMN
    selection = replace(request.selection, is_single=is_single)
    return read_table(path, request.kind, selection, stack)


def _open_log(path: Path, request: Request, _: ExitStack) -> Source:
    return open_log(path, request.kind, request.selection, request.classes)


FORMATS = (
    Format((".npz",), _open_npz, writers.write_npz),
    Format((".npy",), _open_npy, writers.write_npy),
    Format(tuple(TEXT), _open_table, writers.write_table, is_table=True, may_be_zipped=True),
    Format(PARQUET, _open_table, writers.write_table, is_table=True),
    Format(ARROW, _open_table, writers.write_table, is_table=True),
    Format(LINES, _open_log, writers.write_lines, is_log=True, may_be_zipped=True),
    Format(LOGS, _open_log, is_log=True),
)
"""Every format; a new one is a row here. The first that knows a suffix is taken."""


def find_format(path: Path) -> Format | None:
    """Return the format of a file by its suffix, or of a directory by what is in it, if known."""
    if path.is_dir():
        inside = [known for file in files_in(path) if (known := find_format(file))]
        inside.sort(key=lambda known: (not known.is_table, not known.is_log))
        if inside and (inside[0].is_table or inside[0].is_log):  # logs beside tables are ignored
            return inside[0]
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


def unknown_format(path: Path, fault: str = "is not known") -> PredictionFileError:
    """Return the error about a suffix that no format has, or none that can be written."""
    suffix = "".join(path.suffixes[-2:]) if is_zipped(path) else path.suffix.lower()
    logs = "" if fault == "cannot be written" else ", .json and .eval for evaluations"
    return PredictionFileError(
        f"{path}: {suffix!r} {fault}; use .npz, .npy, .csv, .tsv, .csv.gz, .parquet, .arrow, "
        f".feather, or .jsonl{logs}"
    )


def read_prediction_file(
    path: str | os.PathLike[str],
    *,
    part: str | None = None,
    usual_part: str | None = None,
    kind: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    selection: ColumnSelection | None = None,
    classes: Sequence[Any] | None = None,
) -> RawPredictions:
    """Read scores and labels from npz, npy, tables or logs of JSON; ``-`` is CSV on stdin.

    ``part`` is "val" or "test" of an npz file with arrays of both, and an error for other files;
    ``usual_part`` is read where none is asked for. An npz file tells the kind of its scores by the
    names of its arrays; other files hold probabilities unless ``kind`` says otherwise, and a single
    column is of the positive class of two. ``labels`` is a npy file with the labels, for scores in
    a npy file; ``classes`` are those of a log.
    """
    with open_source(
        Path(path),
        part=part,
        usual_part=usual_part,
        kind=kind,
        labels=None if labels is None else Path(labels),
        selection=selection,
        classes=classes,
    ) as source:
        return source.read()


@contextmanager
def open_source(
    path: Path,
    *,
    part: str | None = None,
    usual_part: str | None = None,
    kind: str | None = None,
    labels: Path | None = None,
    selection: ColumnSelection | None = None,
    classes: Sequence[Any] | None = None,
) -> Iterator[Source]:
    """Open a file of predictions; the options are those of :func:`read_prediction_file`."""
    if str(path) != "-" and not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    known = find_format(path)
    if known is None:
        raise unknown_format(path)
    if known.suffixes != (".npz",):
        _refuse_part(path, part)
    request = Request(part, usual_part, kind, selection or ColumnSelection(), classes)
    with ExitStack() as stack:
        source = known.open(path, request, stack)
        yield source if labels is None else _with_labels(source, labels)


def _with_labels(source: Source, path: Path) -> Source:
    """Return a file whose labels are in a file of their own, which is mapped."""
    if source.has_labels:
        raise PredictionFileError(
            f"{source.place.path} has labels already; leave out --labels {path}"
        )
    y = load_npy(path)
    # A table has to be read to know the number of its rows.
    whole = source.join()
    _check_labels(y, str(path), len(whole.scores), "iufbUS")
    whole = replace(whole, read_labels=partial(np.asarray, y))
    return replace(source, has_labels=True, whole=whole, stream=None)


def _refuse_part(path: Path, part: str | None) -> None:
    if part is not None:
        raise PredictionFileError(f"{path} has no part {part!r}; leave out --part")


def _of_arrays(
    scores: NDArray[Any],
    labels: NDArray[Any] | None,
    where: str,
    request: Request,
    place: Place,
    beside: dict[str, NDArray[Any]],
) -> Source:
    """Return arrays of scores and labels as a file."""
    for name, option in request.selection.beside.items():
        if place.path.suffix.lower() == ".npy":
            raise PredictionFileError(
                f"{place.path} has no column {name!r}: it is no table ({option})"
            )
    n_rows, n_columns = _shape(scores, where, request.kind)
    kind = kind_of(request.kind, n_columns, str(place.path))
    if labels is not None:
        _check_labels(labels, f"{place.path}: labels", n_rows)
        if labels.ndim == 1 and place.names is not None:
            labels, _ = labels_of_archive(labels, place.names)
    read_labels = None if labels is None else partial(np.asarray, labels)
    whole = FileChunk(scores.reshape(n_rows, n_columns), read_labels, beside)
    return Source(place, kind, n_columns, scores.dtype, labels is not None, whole)


def _shape(scores: NDArray[Any], where: str, kind: str | None) -> tuple[int, ...]:
    is_of_numbers = scores.dtype.kind in "fiub"
    if scores.ndim == 1 and is_of_numbers and kind not in ARRAYS.values():
        return *scores.shape, 1
    is_matrix = scores.ndim == 2 and is_of_numbers and scores.shape[1] > 0
    needed = "write one row per sample and one column of numbers per class"
    check_array(scores, where, is_matrix, needed)
    return scores.shape


def _check_labels(labels: NDArray[Any], where: str, n_rows: int, kinds: str | None = None) -> None:
    are_right = labels.shape[:1] == (n_rows,) and (kinds is None or labels.dtype.kind in kinds)
    needed = f"write a number or a text for each of the {n_rows} rows of scores"
    check_array(labels, where, are_right, needed)


def _classes(archive: Archive, n_columns: int) -> list[str] | None:
    """Names of the columns of an npz file: the array ``classes``."""
    if "classes" not in archive.names:
        return None
    stored = archive.load("classes")
    needed = f"write one name for each of the {n_columns} columns"
    check_array(stored, f"{archive.path}: classes", stored.shape == (n_columns,), needed)
    named = stored.tolist()
    names = [c.decode(errors="replace") if isinstance(c, bytes) else str(c) for c in named]
    if len(set(names)) != len(names):
        raise PredictionFileError(
            f"{archive.path}: classes has the same name twice; give each column its own"
        )
    return names


def load_column(archive: Archive, name: str, part: str | None, option: str) -> NDArray[Any]:
    """Return an array of an npz file with a value for each row, of a part if there are parts."""
    known = [own for own in (f"{part}_{name}", name) if own in archive.names]
    if not known:
        has = some_in_words(archive.names)
        raise PredictionFileError(f"{archive.path} has no array {name!r} ({option}); it has {has}")
    column = archive.load(known[0])
    check_array(column, f"{archive.path}: {known[0]}", column.ndim == 1, f"write a list ({option})")
    return column


def has_parts(path: Path) -> bool:
    """Whether a file is an npz file with ``val_*`` or ``test_*`` arrays in place of plain ones."""
    if path.suffix.lower() != ".npz":
        return False
    with open_npz(path) as file:
        return "" not in (prefixes := _prefixes(file.names)) and bool(prefixes)


def _prefixes(names: list[str]) -> list[str]:
    """Return what stands before the names of scores: nothing, or a part."""
    return [p for p in ("", "val_", "test_") if {f"{p}{scores}" for scores in ARRAYS} & {*names}]


def _prefix(names: list[str], part: str | None, usual_part: str | None, path: Path) -> str:
    """Return "val_", "test_" or "" for the layout of an npz file; never another part."""
    prefixes = _prefixes(names)
    if not prefixes:
        raise PredictionFileError(
            f"{path} has the arrays {', '.join(names[:6])}; 'probs' or 'logits' (and 'labels') are "
            "needed, or 'val_probs', 'test_probs', ..."
        )
    if prefixes == [""] or ("" in prefixes and part is None):
        _refuse_part(path, part)
        return ""
    chosen = part or usual_part
    if f"{chosen}_" in prefixes:
        return f"{chosen}_"
    has = f"{path} has {' and '.join(f'{p}* arrays' for p in prefixes if p)}"
    if chosen is None:
        raise PredictionFileError(f"{has}; choose one with --part")
    raise PredictionFileError(f"{has}, but no {chosen}_probs or {chosen}_logits; use --part")


def _scores(names: list[str], prefix: str, kind: str | None, path: Path) -> str:
    """Name of the array of scores: of the kind asked for, else probabilities first."""
    for short, long in ARRAYS.items():
        if f"{prefix}{short}" in names and (kind is None or two_column_kind(kind) == long):
            return f"{prefix}{short}"
    raise PredictionFileError(f"{path} has no {kind} in its {prefix or 'plain '}arrays")


def read_column(path: Path, name: str, option: str) -> tuple[Any, Place]:
    """Return a column of a table, a field of records or an array of an npz file, as it is stored.

    The file may have no scores. ``option`` is what names the column.
    """
    if str(path) == "-":
        raise PredictionFileError(f"standard input is read once; name a file to read {name!r} from")
    known = find_format(path) if path.exists() else None
    if known is not None and known.is_log:
        values, lines = read_field(path, name, option)
        return values, Place(path, str(path), lines=lines)
    if known is not None and known.suffixes == (".npz",):
        with open_npz(path) as archive:
            return load_column(archive, name, None, option), Place(path, str(path))
    if known is None or not known.is_table:
        raise PredictionFileError(f"{path} is not a table with a column {name!r} ({option})")
    return read_table_column(path, name, option), Place(path, str(path))


def read_grades(path: Path, name: str, option: str) -> NDArray[Any]:
    """Read grades: numbers with fractions as they are, others as labels."""
    column, place = read_column(path, name, option)
    values = values_of(column)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1).any():
        return values
    texts = ["" if own is None else str(own) for own in plain_values(column)]
    return read_labels(np.array(texts, dtype=object), place)
