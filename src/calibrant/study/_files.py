"""Find the classifiers of a study: files ``dataset_model.npz``, and groups of HDF5 files.

A group ``dataset/model``, as CalArena has them, holds ``probas_cal``, ``labels_cal``,
``probas_test`` and ``labels_test``. Rows are probabilities, one column per class; a binary problem
may have the positive class alone.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


SUFFIXES = (".h5", ".hdf5")
PARTS = {"val": "cal", "test": "test"}
"""A part of a study, as CalArena names it."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A classifier on a data set; a binary problem is stored as the probability of one class."""

    dataset: str
    model: str
    n_val: int
    n_test: int
    n_classes: int
    is_binary: bool


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, by its name."""
    return path.suffix.lower() in SUFFIXES


def find_experiments(path: Path) -> tuple[list[Experiment], dict[str, str]]:
    """Return the classifiers of a file by name, and other groups ``a/b`` with the reason."""
    result, skipped = [], {}
    with _open(path) as file:
        for dataset, models in _groups(file).items():
            for model, group in _groups(models).items():
                where = f"{path}: {dataset}/{model}"
                try:
                    val, test = (_arrays(group, part, where)[0] for part in PARTS)
                    if val.shape[1:] != test.shape[1:]:
                        raise PredictionFileError(  # noqa: TRY301
                            f"{where}: probas_cal has shape {val.shape}, but probas_test has "
                            f"{test.shape}; both need the same columns"
                        )
                except PredictionFileError as error:
                    skipped[f"{dataset}/{model}"] = str(error)
                    continue
                is_binary = val.shape[1:] in {(), (1,)}
                n_classes = 2 if is_binary else val.shape[1]
                result.append(Experiment(dataset, model, len(val), len(test), n_classes, is_binary))
    return result, skipped


def read_experiment(path: Path, dataset: str, model: str, part: str) -> Rows:
    """Read the val or the test part of a classifier, both columns of a binary one."""
    where = f"{path}: {dataset}/{model}"
    with _open(path) as file:
        group = _groups(_groups(file).get(dataset, {})).get(model)
        if group is None:
            raise PredictionFileError(f"{where} does not exist")
        stored = _arrays(group, part, where)
        scores, labels = (np.asarray(array[()]) for array in stored)
    if scores.shape[1:] in {(), (1,)}:
        positive = scores.reshape(-1).astype(np.float64)
        scores = np.stack([1.0 - positive, positive], axis=1)
    return Rows(scores, "probabilities", labels, Place(f"{where} ({part})"))


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError as error:
        raise extras.needed(error, f"reading {path}", "hdf5") from error
    check_file(path)
    with decoding(path), h5py.File(path, "r") as file:
        yield file


def _own(group: Any, name: str) -> Any:
    """Return what a group itself holds; links into other files are not followed."""
    import h5py

    return group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None


def _groups(group: Any) -> dict[str, Any]:
    """Return the groups inside a group by name."""
    import h5py

    result = {name: _own(group, name) for name in sorted(group)}
    return {name: one for name, one in result.items() if isinstance(one, h5py.Group)}


def _arrays(group: object, part: str, where: str) -> tuple[Any, Any]:
    """Return the scores and labels of a part, unread."""
    names = [f"{what}_{PARTS[part]}" for what in ("probas", "labels")]
    scores, labels = map(_array, [group] * 2, names, [where] * 2, [(1, 2), (1,)])
    if len(scores) != len(labels):
        raise PredictionFileError(
            f"{where}: {names[0]} has {len(scores)} rows, but {names[1]} has {len(labels)}; each "
            "row needs a label"
        )
    return scores, labels


def _array(group: object, name: str, where: str, n_dimensions: tuple[int, ...]) -> Any:
    """Return an array that this file itself holds, unread."""
    import h5py

    result = _own(group, name)
    if not isinstance(result, h5py.Dataset) or result.is_virtual or result.external:
        raise PredictionFileError(
            f"{where} has no array {name!r}; probas_cal, labels_cal, probas_test and labels_test "
            "are needed"
        )
    if result.dtype.kind not in "fiu" or result.ndim not in n_dimensions or 0 in result.shape[1:]:
        raise PredictionFileError(
            f"{where}: {name} has shape {result.shape} and dtype {result.dtype}; write numbers "
            f"with {' or '.join(map(str, n_dimensions))} dimensions"
        )
    return result


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
