"""What holds for a calibrator as a whole, and for calibrators inside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._calibrators.composition import Composed
from calibrant._maps.base import CalibrationMap
from calibrant._one_column import two_column_kind
from calibrant.model_file import _format as limits
from calibrant.model_file._fields import parts_in, stored_values
from calibrant.model_file._format import require
from calibrant.model_file._labels import check_labels

if TYPE_CHECKING:
    from calibrant._calibrators.base import Calibrator

_WHATEVER = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an estimator's own checks may raise when a parameter is of the wrong type."""


def check_fitted(calibrator: Any) -> None:
    """Refuse a fitted calibrator that breaks a promise; its map was checked when it was made."""
    check_labels(calibrator)
    k, found, name = len(calibrator.classes_), calibrator.map_, type(calibrator).__name__
    require(calibrator.n_features_in_ == k, "n_features_in_ is not the number of classes")
    check_parameters(calibrator, k)
    require(isinstance(found, CalibrationMap), f"map_ is a {type(found).__name__}")
    require(found.takes(k), f"{name}: the map does not take rows of {k} classes")
    expects = found.kind == two_column_kind(calibrator.scores)
    require(expects, f"{name}: the map takes {found.kind}, not {calibrator.scores}")
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
        require(same, f"a part of {name} has other classes")
        require(not hasattr(part, "feature_names_in_"), f"a part of {name} has column names")


def check_parameters(calibrator: Calibrator, n_classes: int = 2) -> None:
    """Refuse parameters that ``fit`` would refuse."""
    try:
        simplex.check_option("scores", calibrator.scores, simplex.KINDS)
        simplex.check_option("normalize", calibrator.normalize, (None, "rows"))
        simplex.check_floor(calibrator.min_probability, n_classes)
        calibrator._check_parameters()  # noqa: SLF001  (ours)
    except _WHATEVER as error:
        raise errors.StoredParameterError(f"{type(calibrator).__name__}: {error}") from None


class Nesting:
    """How deep each calibrator is nested, and how many cells it has, with those inside it."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, int]] = []

    def add(self, children: list[int], calibrator: Any, *, fitted: bool) -> None:
        """Add a calibrator, with the places of those that it uses."""
        inside = [self._seen[j] for j in children]
        depth = 1 + max((d for d, _ in inside), default=0)
        n_cells = 1000 + sum(n for _, n in inside)
        if fitted:
            n_curves = len(getattr(calibrator.map_, "curves", ()))
            n_cells += calibrator.n_features_in_ + 200 * n_curves
        self._seen.append((depth, n_cells))
        if depth > limits.MAX_NESTING:
            raise errors.NestingError(f"calibrators are nested more than {limits.MAX_NESTING} deep")
        if n_cells > limits.MAX_CELLS:
            raise errors.NestingError(
                f"one row would have {n_cells} cells (parts times classes), but at most "
                f"{limits.MAX_CELLS} are allowed; save parts in separate files"
            )
