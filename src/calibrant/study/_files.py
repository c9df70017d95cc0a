"""Find the classifiers of a study: files ``dataset_model.npz``, and groups of HDF5 files."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._files.arrays import Archive
from calibrant._files.formats import read_prediction_file
from calibrant._files.request import Request
from calibrant._files.source import decoding
from calibrant.errors import PredictionFileError
from calibrant.study._hdf5 import SUFFIXES, find_experiments, is_hdf5, read_experiment
from calibrant.study._methods import ON_LOGITS

if TYPE_CHECKING:
    import os

    from calibrant._files.source import Rows

KINDS = ("probs", "logits")


@dataclass(frozen=True, slots=True)
class StudyFile:
    """What is known of a classifier before its arrays are read.

    Of a npz file its name before the first underscore and after it, of an HDF5 file the names of
    a group and of the one around it; the sizes of the two parts, and the fingerprint of the file.
    """

    path: Path
    dataset: str
    model: str
    n_val: int
    n_test: int
    n_classes: int
    n_bytes: int
    sha256: str
    is_group: bool = False
    is_binary: bool = False
    has_logits: bool = False

    @property
    def name(self) -> str:
        """As in messages and in names of records."""
        return f"{self.dataset}/{self.model}" if self.is_group else self.path.stem

    def kind_for(self, method: str) -> str | None:
        """Return the kind of scores that a method is fitted to, or None for that of the file."""
        return "logits" if self.has_logits and method in ON_LOGITS else None

    def read(self, part: str, kind: str | None = None) -> Rows:
        """Read the val or the test part."""
        if self.is_group:
            return read_experiment(self.path, self.dataset, self.model, part)
        return read_prediction_file(self.path, Request(part=part, kind=kind))


def find_files(source: str | os.PathLike[str]) -> tuple[list[StudyFile], dict[str, str]]:
    """Return the classifiers of a directory or an HDF5 file, and what was skipped with reasons."""
    home = Path(source)
    if not (home.is_dir() or (is_hdf5(home) and home.exists())):
        raise PredictionFileError(
            f"{home} is not a directory of prediction files, nor an HDF5 file "
            f"({' or '.join(SUFFIXES)})"
        )
    result: dict[tuple[str, str], StudyFile] = {}
    skipped: dict[str, str] = {}
    for path in sorted(home.iterdir()) if home.is_dir() else [home]:
        try:
            files, others = look_into(path) if is_hdf5(path) else ([], {})
            if path.suffix == ".npz":
                files = [look_at(path)]
        except (PredictionFileError, ImportError) as error:
            if path == home:
                raise
            skipped[path.name] = str(error)
            continue
        skipped |= others
        for file in files:
            other = result.setdefault((file.dataset, file.model), file)
            if other is not file:
                raise PredictionFileError(
                    f"{file.dataset}/{file.model} is in {other.path} and in {file.path}; study "
                    "them separately, each with its own output directory"
                )
    if not result:
        reasons = "".join(f"; {name}: {reason}" for name, reason in skipped.items())
        wanted = "groups dataset/model" if home.is_file() else "prediction files dataset_model.npz"
        raise PredictionFileError(f"{home} has no {wanted}{reasons}")
    return list(result.values()), skipped


def look_into(path: Path) -> tuple[list[StudyFile], dict[str, str]]:
    """Read names and sizes of all groups of an HDF5 file, and its fingerprint."""
    result, skipped = find_experiments(path)
    where: dict[str, Any] = _fingerprint(path) if result else {}
    files = [StudyFile(path, **where, **asdict(one), is_group=True) for one in result]
    return files, {f"{path.name}: {name}": reason for name, reason in skipped.items()}


def look_at(path: Path) -> StudyFile:
    """Read names and sizes of the arrays of one file, and its fingerprint."""
    dataset, separator, model = path.stem.partition("_")
    if not (dataset and separator and model):
        raise PredictionFileError("its name is not dataset_model.npz")
    archive = Archive(path)
    names = set(archive.names)
    kind = _kind(names)
    val, test = (archive.load(f"{part}_{kind}").shape for part in ("val", "test"))
    if len(val) != 2 or len(test) != 2 or val[1] != test[1]:
        raise PredictionFileError(f"val_{kind} has shape {val}, but test_{kind} has {test}")
    sizes = val[0], test[0], val[1]
    has_logits = {"val_logits", "test_logits"} <= names
    result = _fingerprint(path)
    return StudyFile(path, dataset, model, *sizes, **result, has_logits=has_logits)


def _fingerprint(path: Path) -> dict[str, Any]:
    with decoding(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"n_bytes": path.stat().st_size, "sha256": digest}


def _kind(names: set[str]) -> str:
    """Probabilities where both parts have them, else logits."""
    if {"val_labels", "test_labels"} <= names:
        for kind in KINDS:
            if {f"val_{kind}", f"test_{kind}"} <= names:
                return kind
    raise PredictionFileError(
        "val_labels, test_labels and val_probs, test_probs (or val_logits, test_logits) are needed"
    )
