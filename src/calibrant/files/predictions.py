"""Read a file of predictions whole: scores, labels and class names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from calibrant.errors import PredictionFileError
from calibrant.files import tables

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
        found = None if labels is None else load_npy(Path(labels))
        return Predictions(load_npy(path), kind or "probabilities", found, None, str(path))
    if suffix in tables.TEXT or suffix in tables.ARROW:
        return _read_table(path, kind or "probabilities", label_column)
    raise PredictionFileError(
        f"{path}: {suffix!r} is not known; use .npz, .npy, .csv, .tsv, .parquet or .arrow"
    )


def load_npy(path: Path) -> NDArray[Any]:
    """Load an array without ever unpickling."""
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise PredictionFileError(f"{path} is not a npy file of numbers: {error}") from error
    return array


def _read_npz(path: Path, part: str | None, kind: str | None) -> Predictions:
    try:
        with np.load(path, allow_pickle=False) as file:
            prefix = npz_prefix(file.files, part, path)
            name = npz_scores(file.files, prefix, kind, path)
            labels = file[f"{prefix}labels"] if f"{prefix}labels" in file.files else None
            classes = [str(c) for c in file["classes"]] if "classes" in file.files else None
            source = f"{path} ({prefix[:-1]})" if prefix else str(path)
            scores_kind = KINDS[name.removeprefix(prefix)]
            return Predictions(file[name], scores_kind, labels, classes, source)
    except (BadZipFile, ValueError, OSError, EOFError, KeyError) as error:
        if isinstance(error, PredictionFileError):
            raise
        raise PredictionFileError(f"{path} cannot be read as npz: {error}") from error


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
            part, label = tables.split(batch, columns, own_label)
            scores.append(part)
            if label is not None:
                labels.append(label)
    matrix = np.concatenate(scores) if scores else np.empty((0, len(columns)))
    read = np.concatenate(labels) if labels else None
    return Predictions(matrix, kind, read if own_label else None, columns, str(path))
