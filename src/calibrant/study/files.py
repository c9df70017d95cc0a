"""Find the prediction files of a study: ``dataset_model.npz`` with a val and a test part."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.errors import PredictionFileError
from calibrant.files.arrays import decoding, open_npz

if TYPE_CHECKING:
    import os

    from calibrant.files.arrays import Archive

KINDS = ("probs", "logits")


@dataclass(frozen=True, slots=True)
class StudyFile:
    """What is known of a prediction file before its arrays are read.

    Its name before the first underscore and after it, the sizes of its two parts, and its
    fingerprint.
    """

    path: Path
    dataset: str
    model: str
    n_val: int
    n_test: int
    n_classes: int
    n_bytes: int
    sha256: str


def find_files(
    directory: str | os.PathLike[str],
) -> tuple[list[StudyFile], dict[Path, str]]:
    """Return the prediction files of a directory by name, and other npz files with the reason."""
    home = Path(directory)
    if not home.is_dir():
        raise PredictionFileError(f"{home} is not a directory")
    files, skipped = [], {}
    for path in sorted(home.glob("*.npz")):
        try:
            files.append(look_at(path))
        except PredictionFileError as error:
            skipped[path] = str(error)
    if not files:
        reasons = "".join(f"; {path.name}: {reason}" for path, reason in skipped.items())
        raise PredictionFileError(f"{home} has no prediction files dataset_model.npz{reasons}")
    return files, skipped


def look_at(path: Path) -> StudyFile:
    """Read names and sizes of the arrays of one file, and its fingerprint."""
    dataset, separator, model = path.stem.partition("_")
    if not (dataset and separator and model):
        raise PredictionFileError("its name is not dataset_model.npz")
    with open_npz(path) as archive:
        kind = _kind(set(archive.names))
        val, test = (_shape(archive, f"{part}_{kind}") for part in ("val", "test"))
    with decoding(path, "npz"), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        n_bytes = path.stat().st_size
    if len(val) != 2 or len(test) != 2 or val[1] != test[1]:
        raise PredictionFileError(f"val_{kind} is {val} and test_{kind} {test}")
    return StudyFile(path, dataset, model, val[0], test[0], val[1], n_bytes, digest)


def _kind(names: set[str]) -> str:
    """Probabilities where both parts have them, else logits."""
    if {"val_labels", "test_labels"} <= names:
        for kind in KINDS:
            if {f"val_{kind}", f"test_{kind}"} <= names:
                return kind
    raise PredictionFileError(
        "val_labels, test_labels and val_probs, test_probs (or val_logits, test_logits) are needed"
    )


def _shape(archive: Archive, name: str) -> tuple[int, ...]:
    """Shape of an array from its header alone."""
    with archive.open(name) as array:
        return array.shape
