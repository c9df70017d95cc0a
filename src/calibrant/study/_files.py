"""Find the classifiers of a study: files ``dataset_model.npz``, and groups of HDF5 files.

A group ``dataset/model``, as CalArena has them, holds ``probas_cal``, ``labels_cal``,
``probas_test`` and ``labels_test``. Rows are probabilities, one column per class; a binary problem
may have the positive class alone.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _extras as extras
from calibrant._files.arrays import Archive
from calibrant._files.formats import read_prediction_file
from calibrant._files.source import Place, Request, Rows, check_file, decoding
from calibrant.errors import PredictionFileError
from calibrant.study._methods import ON_LOGITS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import h5py

SUFFIXES = (".h5", ".hdf5")
PARTS = {"val": "cal", "test": "test"}
"""A part of a study, as CalArena names it."""

KINDS = ("probs", "logits")


@dataclass(frozen=True, slots=True)
class StudyFile:
    """A classifier whose arrays are not read yet.

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
        """Name in messages and of records."""
        return f"{self.dataset}/{self.model}" if self.is_group else self.path.stem

    def kind_for(self, method: str) -> str | None:
        """Return the kind of scores that a method is fitted to, or None for that of the file."""
        return "logits" if self.has_logits and method in ON_LOGITS else None

    def read(self, part: str, kind: str | None = None) -> Rows:
        """Read the val or the test part; of a binary group, both columns."""
        if not self.is_group:
            return read_prediction_file(self.path, Request(part=part, kind=kind))
        with _open(self.path) as file:
            where, group = f"{self.path}: {self.name}", file[self.dataset][self.model]
            scores, labels = (array[()] for array in _arrays(group, part, where))
        if self.is_binary:
            positive = scores.reshape(-1).astype(np.float64)
            scores = np.stack([1.0 - positive, positive], axis=1)
        return Rows(scores, "probabilities", labels, Place(f"{where} ({part})"))


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


def look_at(path: Path) -> StudyFile:
    """Read names and sizes of the arrays of one file, and its fingerprint."""
    dataset, _, model = path.stem.partition("_")
    if not (dataset and model):
        raise PredictionFileError("its name is not dataset_model.npz")
    archive = Archive(path)
    names = set(archive.names)
    # Probabilities where both parts have them, else logits.
    kinds = [kind for kind in KINDS if {f"val_{kind}", f"test_{kind}"} <= names]
    if not kinds or not {"val_labels", "test_labels"} <= names:
        raise PredictionFileError(
            "val_labels, test_labels and val_probs, test_probs (or val_logits, test_logits) are "
            "needed"
        )
    val, test = (archive.load(f"{part}_{kinds[0]}").shape for part in PARTS)
    if len(val) != 2 or len(test) != 2 or val[1] != test[1]:
        raise PredictionFileError(f"val_{kinds[0]} has shape {val}, but test_{kinds[0]} has {test}")
    print_of = _fingerprint(path)
    return StudyFile(
        path, dataset, model, val[0], test[0], val[1], *print_of, has_logits="logits" in kinds
    )


def _fingerprint(path: Path) -> tuple[int, str]:
    """Return the size of a file and its digest."""
    with decoding(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return path.stat().st_size, digest


# HDF5


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, by its name."""
    return path.suffix.lower() in SUFFIXES


def look_into(path: Path) -> tuple[list[StudyFile], dict[str, str]]:
    """Return the classifiers of a file by name, and other groups ``a/b`` with the reason."""
    result, skipped = [], {}
    with _open(path) as file:
        import h5py

        print_of = _fingerprint(path)
        for dataset, models in _own(file, h5py.Group).items():
            for model, group in _own(models, h5py.Group).items():
                where = f"{path}: {dataset}/{model}"
                try:
                    val, test = (_arrays(group, part, where)[0] for part in PARTS)
                    if val.shape[1:] != test.shape[1:]:
                        raise PredictionFileError(  # noqa: TRY301
                            f"{where}: probas_cal has shape {val.shape}, but probas_test has "
                            f"{test.shape}; both need the same columns"
                        )
                except PredictionFileError as error:
                    skipped[f"{path.name}: {dataset}/{model}"] = str(error)
                    continue
                is_binary = val.shape[1:] in {(), (1,)}
                sizes = len(val), len(test), 2 if is_binary else val.shape[1]
                result.append(
                    StudyFile(
                        path, dataset, model, *sizes, *print_of, is_group=True, is_binary=is_binary
                    )
                )
    return result, skipped


@contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    try:
        import h5py
    except ImportError as error:
        raise extras.needed(error, f"reading {path}", "hdf5") from error
    check_file(path)
    with decoding(path), h5py.File(path, "r") as file:
        yield file


def _own(group: h5py.Group, kind: type) -> dict[str, h5py.Group | h5py.Dataset]:
    """Return what a group itself holds of a kind; links into other files are not followed."""
    import h5py

    names = [name for name in group if isinstance(group.get(name, getlink=True), h5py.HardLink)]
    return {name: group[name] for name in sorted(names) if isinstance(group[name], kind)}


def _arrays(group: h5py.Group, part: str, where: str) -> tuple[h5py.Dataset, h5py.Dataset]:
    """Return the scores and labels of a part, unread."""
    import h5py

    arrays = _own(group, h5py.Dataset)
    names = f"probas_{PARTS[part]}", f"labels_{PARTS[part]}"
    for name, most in zip(names, (2, 1), strict=True):
        array = arrays.get(name)
        if array is None or array.is_virtual or array.external:  # which are in other files, too
            raise PredictionFileError(
                f"{where} has no array {name!r}; probas_cal, labels_cal, probas_test and "
                "labels_test are needed"
            )
        if array.dtype.kind not in "fiu" or not 0 < array.ndim <= most or 0 in array.shape[1:]:
            raise PredictionFileError(
                f"{where}: {name} has shape {array.shape} and dtype {array.dtype}; write numbers "
                f"with {'1 or 2' if most == 2 else '1'} dimensions"
            )
    scores, labels = (arrays[name] for name in names)
    if len(scores) != len(labels):
        raise PredictionFileError(
            f"{where}: {names[0]} has {len(scores)} rows, but {names[1]} has {len(labels)}; each "
            "row needs a label"
        )
    return scores, labels
