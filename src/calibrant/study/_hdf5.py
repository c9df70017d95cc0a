"""HDF5 files in the layout of CalArena: a group ``dataset/model`` for each classifier.

A group holds ``probas_cal``, ``labels_cal``, ``probas_test`` and ``labels_test``. Rows are
probabilities, one column per class; a binary problem may have the positive class alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _extras as extras
from calibrant._files.source import Place, Rows, check_file, decoding
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    found, skipped = [], {}
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
                found.append(Experiment(dataset, model, len(val), len(test), n_classes, is_binary))
    return found, skipped


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

    found = {name: _own(group, name) for name in sorted(group)}
    return {name: one for name, one in found.items() if isinstance(one, h5py.Group)}


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

    found = _own(group, name)
    if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external:
        raise PredictionFileError(
            f"{where} has no array {name!r}; probas_cal, labels_cal, probas_test and labels_test "
            "are needed"
        )
    if found.dtype.kind not in "fiu" or found.ndim not in n_dimensions or 0 in found.shape[1:]:
        raise PredictionFileError(
            f"{where}: {name} has shape {found.shape} and dtype {found.dtype}; write numbers with "
            f"{' or '.join(map(str, n_dimensions))} dimensions"
        )
    return found
