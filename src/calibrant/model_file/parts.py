"""What writer and reader share: the promises of a calibrator, and of calibrators inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex
from calibrant.model_file import limits, vectors

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator
    from calibrant.model_file.codecs import Codec

_WHATEVER = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an estimator's own checks may raise when a parameter is of the wrong type."""


def check_fitted(calibrator: Any, codec: Codec) -> None:
    """Refuse a fitted calibrator that breaks a promise of its method."""
    vectors.check_classes(calibrator.classes_)
    k = len(calibrator.classes_)
    limits.require(calibrator.n_features_in_ == k, "n_features_in_ is not the number of classes")
    names = getattr(calibrator, "feature_names_in_", None)
    if names is not None and not (
        isinstance(names, np.ndarray)
        and names.shape == (k,)
        and names.dtype == object
        and all(type(name) is str for name in names)
    ):
        raise errors.StoredClassesError(f"feature_names_in_ are not the names of {k} columns")
    check_parameters(calibrator, k)
    sizes = {"k": k}
    for name, kind in codec.fields.items():
        kind.check(getattr(calibrator, name), name, sizes)
    if codec.check is not None:
        codec.check(calibrator)


def check_parameters(calibrator: Calibrator, n_classes: int = 2) -> None:
    """Refuse parameters that ``fit`` would refuse."""
    try:
        simplex.check_option("scores", calibrator.scores, simplex.SCORES)
        simplex.check_option("normalize", calibrator.normalize, (None, "rows"))
        simplex.check_floor(calibrator.min_probability, n_classes)
        calibrator._check_parameters()  # noqa: SLF001  (ours)
    except _WHATEVER as error:
        raise errors.StoredParameterError(f"{type(calibrator).__name__}: {error}") from None


class Tree:
    """Counts how deep and how often calibrators are used inside each other."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, int]] = []

    def add(self, children: list[int]) -> None:
        """Add a calibrator with the parts it uses."""
        inside = [self._seen[j] for j in children]
        depth = 1 + max((d for d, _ in inside), default=0)
        uses = 1 + sum(n for _, n in inside)
        self._seen.append((depth, uses))
        if depth > limits.MAX_NESTING:
            raise errors.NestingError(f"calibrators are nested more than {limits.MAX_NESTING} deep")
        if uses > limits.MAX_REFERENCES or len(self._seen) > limits.MAX_PARTS:
            raise errors.NestingError(
                f"more than {limits.MAX_PARTS} calibrators, or more than {limits.MAX_REFERENCES} "
                "counted as often as they are used"
            )
