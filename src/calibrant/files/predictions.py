"""Read a file of predictions whole: scores, labels and names of columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files import tables
from calibrant.files.arrays import Header, check_matrix, open_npz, read_npy
from calibrant.files.layout import Wish
from calibrant.files.places import Place

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from calibrant.files.arrays import Archive

KINDS = {"probs": "probabilities", "logits": "logits"}


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """What a file of predictions holds.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_columns)
    kind : {"probabilities", "logits"}
    labels : ndarray of shape (n_rows,) or None
        As they stand in the file.
    names : list of str or None
        Names of the columns, where the file has them.
    place : Place
        For messages about rows and columns.
    are_columns_sure : bool
        Whether every column is known to hold scores; of a table, all columns of numbers are here.
    """

    scores: NDArray[Any]
    kind: str
    labels: NDArray[Any] | None
    names: list[str] | None
    place: Place
    are_columns_sure: bool = True

    @property
    def source(self) -> str:
        """Where it came from."""
        return self.place.source

    def require_labels(self) -> NDArray[Any]:
        """Return the labels, or say where they could have been."""
        if self.labels is None:
            raise PredictionFileError(
                f"{self.source} has no labels; npz files need an array 'labels', tables a column "
                "'label' (--label-column), npy files --labels FILE (of TEST --test-labels)"
            )
        return self.labels


def read_prediction_file(
    path: str | os.PathLike[str],
    *,
    part: str | None = None,
    usual_part: str | None = None,
    kind: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    wish: Wish | None = None,
) -> PredictionFile:
    """Read scores and labels from npz, npy, CSV, TSV, Parquet or Arrow.

    Parameters
    ----------
    path : path-like
        ``-`` is CSV on standard input.
    part : {"val", "test"}, optional
        Which part of an npz file with ``val_*`` and ``test_*`` arrays; an error for other files.
    usual_part : {"val", "test"}, optional
        Which part to read of a file that has parts, where none is asked for.
    kind : {"probabilities", "logits"}, optional
        What the scores are. An npz file says it by the names of its arrays; other files hold
        probabilities unless this says otherwise.
    labels : path-like, optional
        A npy file with the labels, for scores in a npy file.
    wish : Wish, optional
        What the columns of a table are.

    Returns
    -------
    predictions : PredictionFile
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if str(path) != "-" and not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    if suffix == ".npz":
        found = _read_npz(path, part, usual_part, kind)
    else:
        refuse_part(path, part)
        if suffix == ".npy":
            found = _read_npy(path, kind)
        elif tables.is_table(path):
            found = _read_table(path, kind or "probabilities", wish or Wish())
        else:
            raise unknown_format(path)
    if labels is None:
        return found
    if found.labels is not None:
        raise PredictionFileError(f"{path} has labels of its own; leave out --labels {labels}")
    read = _one_per_row(read_npy(Path(labels)), found.scores, labels)
    return PredictionFile(
        found.scores, found.kind, read, found.names, found.place, found.are_columns_sure
    )


def unknown_format(path: Path) -> PredictionFileError:
    """Return the error about a suffix that no format has."""
    suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix.lower()
    return PredictionFileError(
        f"{path}: {suffix!r} is not known; use .npz, .npy, .csv, .tsv, .csv.gz, .parquet or .arrow"
    )


def refuse_part(path: Path, part: str | None) -> None:
    """Refuse a part of a file that has none."""
    if part is not None:
        raise PredictionFileError(f"{path} has no part {part!r}; leave out --part")


def _read_npy(path: Path, kind: str | None) -> PredictionFile:
    scores = read_npy(path)
    check_matrix(Header(scores.shape, False, scores.dtype), str(path))
    return PredictionFile(scores, kind or "probabilities", None, None, Place(path, str(path)))


def _read_npz(
    path: Path, part: str | None, usual_part: str | None, kind: str | None
) -> PredictionFile:
    with open_npz(path) as file:
        prefix = npz_prefix(file.names, part, usual_part, path)
        name = npz_scores(file.names, prefix, kind, path)
        with file.open(name) as (_, header):
            check_matrix(header, f"{path}: {name}")
        scores = file.read(name)
        labels = None
        if f"{prefix}labels" in file.names:
            labels = _one_per_row(file.read(f"{prefix}labels"), scores, f"{path}: {prefix}labels")
        names = npz_classes(file, scores.shape[1], path)
    source = f"{path} ({prefix[:-1]})" if prefix else str(path)
    place = Place(path, source, names)
    return PredictionFile(scores, KINDS[name.removeprefix(prefix)], labels, names, place)


def npz_classes(file: Archive, n_columns: int, path: Path) -> list[str] | None:
    """Names of the columns of an npz file: the array ``classes``."""
    if "classes" not in file.names:
        return None
    named = file.read("classes")
    if named.shape != (n_columns,):
        raise PredictionFileError(
            f"{path}: classes has shape {named.shape}; one name for each of {n_columns} columns is "
            "needed"
        )
    names = [c.decode(errors="replace") if isinstance(c, bytes) else str(c) for c in named.tolist()]
    if len(set(names)) != len(names):
        raise PredictionFileError(f"{path}: classes has a name twice; every column needs its own")
    return names


def _one_per_row(labels: NDArray[Any], scores: NDArray[Any], where: object) -> NDArray[Any]:
    """Return the labels of an array, if they can be."""
    if labels.ndim == 0 or len(labels) != len(scores) or labels.dtype.kind not in "iufbUS":
        raise PredictionFileError(
            f"{where} has shape {labels.shape} and dtype {labels.dtype}; a number or a text for "
            f"each of {len(scores)} rows of scores is needed"
        )
    return labels


def has_parts(path: Path) -> bool:
    """Whether a file is an npz file with ``val_*`` or ``test_*`` arrays in place of plain ones."""
    if path.suffix.lower() != ".npz":
        return False
    with open_npz(path) as file:
        plain, parts = _parts(file.names)
        return bool(parts) and not plain


def _parts(names: list[str]) -> tuple[bool, list[str]]:
    """Whether there are plain arrays, and the parts."""
    parts = [p for p in ("val", "test") if f"{p}_probs" in names or f"{p}_logits" in names]
    return "probs" in names or "logits" in names, parts


def npz_prefix(names: list[str], part: str | None, usual_part: str | None, path: Path) -> str:
    """Return "val_", "test_" or "" for the layout of an npz file; never another part."""
    is_plain, parts = _parts(names)
    if not parts and not is_plain:
        raise PredictionFileError(
            f"{path} has the arrays {', '.join(names[:6])}; 'probs' or 'logits' (and 'labels') are "
            "needed, or 'val_probs', 'test_probs', ..."
        )
    if is_plain and not (part and parts):
        refuse_part(path, part)
        return ""
    chosen = part or usual_part
    if chosen in parts:
        return f"{chosen}_"
    has = f"{path} has {' and '.join(f'{p}_* arrays' for p in parts)}"
    if chosen is None:
        raise PredictionFileError(f"{has}; choose one by --part")
    raise PredictionFileError(f"{has}, but no {chosen}_probs or {chosen}_logits; use --part")


def npz_scores(names: list[str], prefix: str, kind: str | None, path: Path) -> str:
    """Name of the array of scores: of the kind asked for, else probabilities first."""
    for short, long in KINDS.items():
        if f"{prefix}{short}" in names and kind in (None, long):
            return f"{prefix}{short}"
    raise PredictionFileError(f"{path} has no {kind} in its {prefix or 'plain '}arrays")


def _read_table(path: Path, kind: str, wish: Wish) -> PredictionFile:
    scores, labels = [], []
    n_rows = 0
    with tables.open_table(path, wish) as table:
        layout = table.layout
        for batch in table.batches:
            scores.append(tables.scores_of(batch, layout, path))
            if layout.label is not None:
                labels.append(tables.labels_of(batch, layout.label, path, n_rows))
            n_rows += batch.num_rows
    matrix = np.concatenate(scores) if scores else np.empty((0, len(layout.score_names)))
    read = np.concatenate(labels) if labels else None
    place = Place(path, str(path), layout.score_names)
    return PredictionFile(matrix, kind, read, layout.score_names, place, layout.is_chosen)
