"""Any method under the contract of CalArena: ``fit(p_cal, y_cal)``, ``predict_proba(p_test)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from calibrant import errors
from calibrant._calibrators.methods import make_calibrator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator

NAME_PREFIX = "calibrant-"
"""What the names of our methods begin with, among those of others."""


class ArenaCalibrator(BaseEstimator):
    """Calibrator for columns that are the classes 0, 1, ..., k - 1, as CalArena calls it.

    CalArena passes probabilities of k classes, or of the second of two classes alone, and column
    numbers as labels. Some of its calibration sets lack classes.

    Parameters
    ----------
    calibrator : str or Calibrator, default="auto"
        A key of ``methods()``, or an unfitted calibrator of probabilities.

    Attributes
    ----------
    calibrator_ : Calibrator
        The fitted one.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.study import ArenaCalibrator
    >>> p_cal, y_cal = simulated_scores(500)
    >>> seen = y_cal != 2
    >>> found = ArenaCalibrator("ts").fit(p_cal[seen].astype(np.float32), y_cal[seen])
    >>> found.predict_proba(p_cal).shape
    (500, 3)
    """

    def __init__(self, calibrator: str | Calibrator = "auto") -> None:
        self.calibrator = calibrator

    def fit(self, p_cal: object, y_cal: object) -> Self:
        """Fit to rows of probabilities and numbers of columns; returns itself."""
        rows = _columns(p_cal)
        own = self.calibrator
        made = make_calibrator(own) if isinstance(own, str) else clone(own)
        if made.scores != "probabilities":
            raise errors.ParameterError(
                f"calibrator has scores={made.scores!r}, but CalArena gives probabilities; use "
                "scores='probabilities'"
            )
        made.set_params(classes=np.arange(rows.shape[1]))
        self.calibrator_ = made.fit(rows, y_cal)
        return self

    def predict_proba(self, p_test: object) -> NDArray[Any]:
        """Return calibrated rows, also of a binary problem one column per class."""
        check_is_fitted(self)
        found: NDArray[Any] = self.calibrator_.predict_proba(_columns(p_test))
        return found


def _columns(scores: object) -> NDArray[Any]:
    """One column per class, in float64, where the second of two stands alone."""
    rows = np.asarray(scores, dtype=np.float64)
    if rows.ndim > 1 and rows.shape[1:] != (1,):
        return rows
    positive = rows.reshape(-1)
    return np.stack([1.0 - positive, positive], axis=1)
