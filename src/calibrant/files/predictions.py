"""Read a file of predictions whole: scores, labels and class names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files import tables
from calibrant.files.arrays import Header, check_matrix, open_npz, read_npy

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

KINDS = {"probs": "probabilities", "logits": "logits"}


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a file of predictions holds.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_classes)
    kind : {"probabilities", "logits"}
    labels : ndarray of shape (n_rows,) or None
    classes : list of str or None
        Names of the columns, where the file has them.
    source : str
        Where it came from.
    """

    scores: NDArray[Any]
    kind: str
    labels: NDArray[Any] | None
    classes: list[str] | None
    source: str

    def require_labels(self) -> NDArray[Any]:
        """Return the labels, or say where they could have been."""
        if self.labels is None:
            raise PredictionFileError(
                f"{self.source} has no labels; npz files need an array 'labels', tables a column "
                "'label' (--label-column), npy files --labels FILE"
            )
        return self.labels


def read_predictions(
    path: str | os.PathLike[str],
    *,
    part: str | None = None,
    kind: str | None = None,
    label_column: str = "label",
    labels: str | os.PathLike[str] | None = None,
) -> Predictions:
    """Read scores and labels from npz, npy, CSV, TSV, Parquet or Arrow.

    Parameters
    ----------
    path : path-like
        ``-`` is CSV on standard input.
    part : {"val", "test"}, optional
        Which part of an npz file with ``val_*`` and ``test_*`` arrays.
    kind : {"probabilities", "logits"}, optional
        What the scores are. An npz file says it by the names of its arrays; other files hold
        probabilities unless this says otherwise.
    label_column : str, default="label"
        Name of the column with the labels in a table.
    labels : path-like, optional
        A npy file with the labels, for scores in a npy file.

    Returns
    -------
    predictions : Predictions
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if str(path) != "-" and not path.exists():
        raise PredictionFileError(f"{path} does not exist")
    if suffix == ".npz":
        return _read_npz(path, part, kind)
    if suffix == ".npy":
        scores = read_npy(path)
        check_matrix(Header(scores.shape, False, scores.dtype), str(path))
        found = None if labels is None else _one_per_row(read_npy(Path(labels)), scores, labels)
        return Predictions(scores, kind or "probabilities", found, None, str(path))
    if suffix in tables.TEXT or suffix in tables.ARROW:
        return _read_table(path, kind or "probabilities", label_column)
    raise PredictionFileError(
        f"{path}: {suffix!r} is not known; use .npz, .npy, .csv, .tsv, .parquet or .arrow"
    )


def _read_npz(path: Path, part: str | None, kind: str | None) -> Predictions:
    with open_npz(path) as file:
        prefix = npz_prefix(file.names, part, path)
        name = npz_scores(file.names, prefix, kind, path)
        with file.open(name) as (_, header):
            check_matrix(header, f"{path}: {name}")
        scores = file.read(name)
        labels = classes = None
        if f"{prefix}labels" in file.names:
            labels = _one_per_row(file.read(f"{prefix}labels"), scores, f"{path}: {prefix}labels")
        if "classes" in file.names:
            named = file.read("classes")
            if named.shape != scores.shape[1:]:
                raise PredictionFileError(
                    f"{path}: classes has shape {named.shape}; one name for each of "
                    f"{scores.shape[1]} columns is needed"
                )
            classes = [str(c) for c in named]
    source = f"{path} ({prefix[:-1]})" if prefix else str(path)
    return Predictions(scores, KINDS[name.removeprefix(prefix)], labels, classes, source)


def _one_per_row(labels: NDArray[Any], scores: NDArray[Any], where: object) -> NDArray[Any]:
    """Return the labels of an array, if they can be."""
    if labels.ndim == 0 or len(labels) != len(scores) or labels.dtype.kind not in "iufbUS":
        raise PredictionFileError(
            f"{where} has shape {labels.shape} and dtype {labels.dtype}; a number or a text for "
            f"each of {len(scores)} rows of scores is needed"
        )
    return labels


def npz_prefix(names: list[str], part: str | None, path: Path) -> str:
    """Return "val_", "test_" or "" for the layout of an npz file."""
    if "probs" in names or "logits" in names:
        return ""
    parts = [p for p in ("val", "test") if f"{p}_probs" in names or f"{p}_logits" in names]
    if not parts:
        raise PredictionFileError(
            f"{path} has the arrays {', '.join(names[:6])}; 'probs' or 'logits' (and 'labels') are "
            "needed, or 'val_probs', 'test_probs', ..."
        )
    chosen = part if part in parts else parts[0]
    return f"{chosen}_"


def npz_scores(names: list[str], prefix: str, kind: str | None, path: Path) -> str:
    """Name of the array of scores: of the kind asked for, else probabilities first."""
    for short, long in KINDS.items():
        if f"{prefix}{short}" in names and kind in (None, long):
            return f"{prefix}{short}"
    raise PredictionFileError(f"{path} has no {kind} in its {prefix or 'plain '}arrays")


def _read_table(path: Path, kind: str, label_column: str) -> Predictions:
    scores, labels = [], []
    with tables.batches(path, label_column) as (names, found):
        own_label = label_column if label_column in names else None
        columns = tables.score_names(names, own_label, path)
        for batch in found:
            part, label = tables.split(batch, columns, own_label, path)
            scores.append(part)
            if label is not None:
                labels.append(label)
    matrix = np.concatenate(scores) if scores else np.empty((0, len(columns)))
    read = np.concatenate(labels) if labels else None
    return Predictions(matrix, kind, read if own_label else None, columns, str(path))
