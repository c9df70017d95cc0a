"""What holds for a calibrator as a whole, for calibrators inside each other, and for its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._calibrators.composition import Composed
from calibrant._maps.base import CalibrationMap
from calibrant._one_column import ONE_COLUMN, two_column_kind
from calibrant._row_sample import RowSample
from calibrant.model_file import _format as limits
from calibrant.model_file._fields import parts_in, stored_values
from calibrant.model_file._format import require

if TYPE_CHECKING:
    from calibrant._calibrators.base import Calibrator

_WHATEVER = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an estimator's own checks may raise when a parameter is of the wrong type."""


def check_fitted(calibrator: Any) -> None:
    """Refuse a fitted calibrator that breaks a promise; its map was checked when it was made."""
    _check_labels(calibrator)
    k, map_, name = len(calibrator.classes_), calibrator.map_, type(calibrator).__name__
    require(calibrator.n_features_in_ == k, "n_features_in_ is not the number of classes")
    check_parameters(calibrator, k)
    require(isinstance(map_, CalibrationMap), f"map_ is a {type(map_).__name__}")
    require(map_.takes(k), f"{name}: the map does not take rows of {k} classes")
    expects = map_.kind == two_column_kind(calibrator.scores)
    require(expects, f"{name}: the map takes {map_.kind}, not {calibrator.scores}")
    if not isinstance(calibrator, Composed):
        return
    try:
        calibrator._compose(dict(vars(calibrator)))  # noqa: SLF001  (ours)
    except errors.ParameterError as error:
        raise errors.ModelFileError(f"{name}: {error}", "fitted") from None
    for part in parts_in(stored_values(calibrator)):
        same = part.classes_ is calibrator.classes_ or np.array_equal(
            part.classes_, calibrator.classes_
        )
        require(same, f"a part of {name} has other classes")
        require(not hasattr(part, "feature_names_in_"), f"a part of {name} has column names")


def _check_labels(calibrator: Any) -> None:
    """Refuse class labels or names of columns that no fitted calibrator has."""
    classes, names = calibrator.classes_, getattr(calibrator, "feature_names_in_", None)
    is_vector = isinstance(classes, np.ndarray) and classes.ndim == 1
    require(is_vector, "the classes are not a vector", "labels")
    k, most = len(classes), limits.MAX_CLASSES
    require(2 <= k <= most, f"there are {k} classes; a model has 2 to {most}", "labels")
    is_whole = classes.dtype.kind != "f" or np.all(classes == np.floor(classes))
    require(is_whole, "a class label is a fraction", "labels")
    require(len(set(classes.tolist())) == k, "a class label is repeated", "labels")
    is_named = names is None or (
        isinstance(names, np.ndarray)
        and names.shape == (1 if calibrator.scores in ONE_COLUMN else k,)
        and names.dtype == object
        and all(type(name) is str for name in names)
    )
    require(is_named, "feature_names_in_ does not have a name for each column", "labels")


def check_parameters(calibrator: Calibrator, n_classes: int = 2) -> None:
    """Refuse parameters that ``fit`` would refuse."""
    try:
        simplex.check_option("scores", calibrator.scores, simplex.KINDS)
        simplex.check_option("normalize", calibrator.normalize, (None, "rows"))
        simplex.check_floor(calibrator.min_probability, n_classes)
        calibrator._check_parameters()  # noqa: SLF001  (ours)
    except _WHATEVER as error:
        message = f"{type(calibrator).__name__}: {error}"
        raise errors.ModelFileError(message, "parameters") from None


def check_sample(calibrator: Any) -> dict[str, Any]:
    """Return the state of the rows of a calibrator; refuse rows that no calibrator of this has."""
    sample, name = calibrator.sample_, type(calibrator).__name__
    is_sample = type(sample) is RowSample
    require(is_sample, f"{name}: sample_ is a {type(sample).__name__}", "savable")
    own = calibrator.scores, calibrator.normalize
    require(
        np.array_equal(sample.classes, calibrator.classes_)
        and (sample.scores, sample.normalize) == own,
        f"{name}: sample_ has other classes, scores or normalize than the calibrator; fit again",
        "savable",
    )
    state: dict[str, Any] = sample.state()
    build_sample(state)
    return state


def build_sample(state: dict[str, Any]) -> RowSample:
    """Make the rows of a calibrator, and check everything."""
    try:
        return RowSample.from_state(state)
    except (errors.DataError, errors.ParameterError) as error:
        raise errors.ModelFileError(f"'sample': {error!s:.300}", "fitted") from None


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
        most = limits.MAX_NESTING
        require(depth <= most, f"calibrators are nested more than {most} deep", "parts")
        require(
            n_cells <= limits.MAX_CELLS,
            f"one row would have {n_cells} cells (parts times classes), but at most "
            f"{limits.MAX_CELLS} are allowed; save parts in separate files",
            "parts",
        )
