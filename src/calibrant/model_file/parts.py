"""What writer and reader share: the promises of a calibrator, and of calibrators inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex
from calibrant.calibrators.composition import Composed
from calibrant.maps.base import CalibrationMap
from calibrant.model_file import limits, vectors
from calibrant.model_file.fields import parts_in
from calibrant.model_file.schema import stored_values

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

_WHATEVER = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an estimator's own checks may raise when a parameter is of the wrong type."""


class Labels:
    """Checks class labels and names of columns, once however many calibrators share them."""

    def __init__(self) -> None:
        # With the vectors, so that their ids are not used again.
        self._classes: dict[int, Any] = {}
        self._names: dict[int, Any] = {}

    def check(self, calibrator: Any) -> None:
        """Refuse labels or names that no fitted calibrator has."""
        classes = calibrator.classes_
        if id(classes) not in self._classes:
            vectors.check_classes(classes)
            self._classes[id(classes)] = classes
        k = len(classes)
        names = getattr(calibrator, "feature_names_in_", None)
        if names is None or (id(names) in self._names and len(names) == k):
            return
        if not (
            isinstance(names, np.ndarray)
            and names.shape == (k,)
            and names.dtype == object
            and all(type(name) is str for name in names)
        ):
            raise errors.StoredClassesError(f"feature_names_in_ are not the names of {k} columns")
        self._names[id(names)] = names


def check_fitted(calibrator: Any, labels: Labels) -> None:
    """Refuse a fitted calibrator that breaks a promise; its map was checked when it was made."""
    labels.check(calibrator)
    k, found, name = len(calibrator.classes_), calibrator.map_, type(calibrator).__name__
    limits.require(calibrator.n_features_in_ == k, "n_features_in_ is not the number of classes")
    check_parameters(calibrator, k)
    limits.require(isinstance(found, CalibrationMap), f"map_ is a {type(found).__name__}")
    limits.require(found.takes(k), f"{name}: the map does not take rows of {k} classes")
    expects = found.kind == calibrator.scores
    limits.require(expects, f"{name}: the map takes {found.kind}, not {calibrator.scores}")
    if not isinstance(calibrator, Composed):
        return
    try:
        calibrator._compose(dict(vars(calibrator)))  # noqa: SLF001  (ours)
    except errors.ParameterError as error:
        raise errors.FittedValueError(f"{name}: {error}") from None
    for part in parts_in(stored_values(calibrator)):
        same = part.classes_ is calibrator.classes_ or np.array_equal(
            part.classes_, calibrator.classes_
        )
        limits.require(same, f"a part of {name} has other classes")
        named = hasattr(part, "feature_names_in_")
        limits.require(not named, f"a part of {name} has names of columns")


def check_parameters(calibrator: Calibrator, n_classes: int = 2) -> None:
    """Refuse parameters that ``fit`` would refuse."""
    try:
        simplex.check_option("scores", calibrator.scores, simplex.KINDS)
        simplex.check_option("normalize", calibrator.normalize, (None, "rows"))
        simplex.check_floor(calibrator.min_probability, n_classes)
        calibrator._check_parameters()  # noqa: SLF001  (ours)
    except _WHATEVER as error:
        raise errors.StoredParameterError(f"{type(calibrator).__name__}: {error}") from None


class Tree:
    """Counts how deep and how often calibrators are used inside each other, and their work."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, int, int]] = []
        self._n_maps = 0
        self._own = 0

    def count_numbers(self, n: int) -> None:
        """Count numbers of the calibrator that is added next."""
        self._own += n

    def count_maps(self, n: int) -> None:
        """Count binary maps of the calibrator that is added next."""
        self._n_maps += n
        self._own += n * limits.WORK_OF_MAP
        limits.require(
            self._n_maps <= limits.MAX_MAPS,
            f"more than {limits.MAX_MAPS} binary maps: with so many classes use a method that "
            "shares one map, such as NormalizationAwareIsotonic",
        )

    def add(self, children: list[int], work: int) -> None:
        """Add a calibrator with the parts it uses, and with what its classes cost."""
        inside = [self._seen[j] for j in children]
        depth = 1 + max((d for d, _, _ in inside), default=0)
        uses = 1 + sum(n for _, n, _ in inside)
        self._seen.append((depth, uses, work + self._own + sum(w for _, _, w in inside)))
        self._own = 0
        if depth > limits.MAX_NESTING:
            raise errors.NestingError(f"calibrators are nested more than {limits.MAX_NESTING} deep")
        if uses > limits.MAX_REFERENCES or len(self._seen) > limits.MAX_PARTS:
            raise errors.NestingError(
                f"more than {limits.MAX_PARTS} calibrators, or more than {limits.MAX_REFERENCES} "
                "counted as often as they are used"
            )

    def check_work(self, n_bytes: int) -> None:
        """Refuse a calibrator whose prediction costs more than a file of this size may."""
        work, most = self._seen[-1][2], limits.SMALL_WORK + limits.WORK_PER_BYTE * n_bytes
        if work > most:
            raise errors.NestingError(
                f"one row would take {work} steps, as parts and classes multiply; a file of "
                f"{n_bytes} bytes may take {most}. Save parts in files of their own"
            )
