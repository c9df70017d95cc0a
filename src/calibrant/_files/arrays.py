"""Arrays in npy files, which are mapped into memory, and in npz archives; no pickle is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant._files.source import Place, Rows, Source, decoding, kind_of
from calibrant._gate import are_whole, n_classes_of, two_column_kind
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._files.source import Request
    from calibrant._types import Array, Labels

ARRAYS = {"probs": "probabilities", "logits": "logits"}
"""Names of arrays of scores in an npz file, and what they hold."""


def read_npy(path: Path, request: Request) -> Source:
    """Open the scores in a npy file, and the labels in another one."""
    for name, option in request.beside.items():
        raise PredictionFileError(f"{path} is not a table with a column {name!r} ({option})")
    scores, labels = _to_matrix(_map_npy(path), str(path), request.kind), None
    if request.labels is not None:
        labels = _map_npy(request.labels)
        _check_labels(labels, str(request.labels), len(scores))
    kind = kind_of(request.kind, scores.shape[1], str(path))
    return Source.of(Rows(scores, kind, labels, Place(str(path))))


def _map_npy(path: Path) -> Array:
    with decoding(path):
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(path: Path, request: Request) -> Source:
    """Read the scores in an npz file, and the labels and the columns that belong to them."""
    archive = Archive(path)
    prefix, stem = archive.find_scores(request)
    scores = _to_matrix(archive.load(prefix + stem), f"{path}: {prefix}{stem}", request.kind)
    n_rows, n_columns = scores.shape
    kind = kind_of(request.kind, n_columns, str(path), ARRAYS[stem])
    classes, labels = archive.load_classes(n_classes_of(kind, n_columns)), None
    if f"{prefix}labels" in archive.names:
        labels = archive.load(f"{prefix}labels")
        _check_labels(labels, f"{path}: labels", n_rows)
        labels = labels if classes is None else _labels_among(labels, classes)
    beside = {
        own: archive.load_column(own, option, prefix) for own, option in request.beside.items()
    }
    for own, column in beside.items():
        if len(column) != n_rows:
            raise PredictionFileError(f"{path} has {n_rows} rows, but {own!r} has {len(column)}")
    place = Place(f"{path} ({prefix[:-1]})" if prefix else str(path), classes)
    has_names = classes is not None
    return Source.of(Rows(scores, kind, labels, place, beside, names_are_classes=has_names))


class Archive:
    """An npz file, whose arrays are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with decoding(path), path.open("rb") as opened:
            file = np.load(opened, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise TypeError(type(file))
            self.names: list[str] = file.files

    def load(self, name: str) -> Array:
        """Read an array."""
        with decoding(f"{self.path}: {name}"), self.path.open("rb") as opened:
            array = np.load(opened, allow_pickle=False)[name]
            if not isinstance(array, np.ndarray):  # what has no header of numpy is bytes
                raise TypeError(type(array))
        return array

    def load_column(self, name: str, option: str, prefix: str = "") -> Array:
        """Return an array with a value for each row, of a part if there are parts."""
        known = [own for own in (f"{prefix}{name}", name) if own in self.names]
        if not known:
            has = some_in_words(self.names)
            raise PredictionFileError(f"{self.path} has no array {name!r} ({option}); it has {has}")
        column = self.load(known[0])
        needed = f"write a list with one value for each row ({option})"
        _check_array(column, f"{self.path}: {known[0]}", column.ndim == 1, needed)
        return column

    def load_classes(self, n_columns: int) -> list[str] | None:
        """Return the names of the columns, the array ``classes``."""
        if "classes" not in self.names:
            return None
        stored = self.load("classes")
        needed = f"write one text or number for each of the {n_columns} columns"
        fits = stored.shape == (n_columns,) and stored.dtype.kind in "iufbU"
        _check_array(stored, f"{self.path}: classes", fits, needed)
        texts: list[str] = stored.astype(str).tolist()
        if len(set(texts)) != len(texts):
            fault = "classes has the same name twice; give each column its own"
            raise PredictionFileError(f"{self.path}: {fault}")
        return texts

    def find_scores(self, request: Request) -> tuple[str, str]:
        """Return the name of the array of scores: of the part and of the kind asked for.

        It is the prefix of the part and the rest, and never of another part. Probabilities come
        first where no kind is asked for.
        """
        known = [p for p in ("", "val_", "test_") if {p + own for own in ARRAYS} & {*self.names}]
        part = request.part or request.usual_part
        is_plain = request.part is None and ("" in known or not known or part is None)
        prefix, kind = "" if is_plain else f"{part}_", request.kind
        stems = [own for own in ARRAYS if kind is None or two_column_kind(kind) == ARRAYS[own]]
        for stem in stems:
            if prefix + stem in self.names:
                return prefix, stem
        wanted = " or ".join(f"{prefix}{own}" for own in stems)
        others = " or ".join(own.rstrip("_") for own in known if own)
        remedy = f"write one, or choose {others} with --part" if others else "write one"
        raise PredictionFileError(
            f"{self.path} has no {wanted}, but {some_in_words(self.names)}; {remedy}"
        )


def _labels_among(labels: Labels, names: list[str]) -> Labels:
    """Return labels as classes are named: whole numbers beside classes of text are their places.

    So what a label means does not depend on which others are there.
    """
    if labels.dtype.kind == "f" and np.array_equal(labels, np.floor(labels)):
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "b":  # as the classes, whose names are text
        return labels.astype(str)
    if labels.dtype.kind not in "iu" or are_whole(names):
        return labels
    # A place of no class stays a number, which is refused by its row.
    texts = [names[j] if 0 <= j < len(names) else str(j) for j in labels.tolist()]
    return np.array(texts, dtype=str)


def _to_matrix(scores: Array, where: str, kind: str | None) -> Array:
    """Return scores with a column for each class, or the only one; refuse what is none."""
    is_of_numbers = scores.dtype.kind in "fiub"
    if scores.ndim == 1 and is_of_numbers and kind not in ARRAYS.values():
        return scores.reshape(-1, 1)
    needed = "write one row per sample and one column of numbers per class"
    fits = scores.ndim == 2 and is_of_numbers and scores.shape[1] > 0
    _check_array(scores, where, fits, needed)
    return scores


def _check_labels(labels: Labels, where: str, n_rows: int) -> None:
    fits = labels.shape == (n_rows,) and labels.dtype.kind in "iufbUS"
    needed = f"write a number or a text for each of the {n_rows} rows of scores"
    _check_array(labels, where, fits, needed)


def _check_array(array: Array, where: str, fits: bool, needed: str) -> None:
    """Refuse an array that is not what is needed."""
    if not fits:
        fault = f"has shape {array.shape} and dtype {array.dtype}"
        raise PredictionFileError(f"{where} {fault}; {needed}")
