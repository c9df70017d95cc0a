"""Methods as calibrators of probmetrics, for its users and as entries of CalArena."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from calibrant import _extras as extras
from calibrant._calibrators.methods import make_calibrator
from calibrant.study._calarena import NAME_PREFIX, ArenaCalibrator
from calibrant.study._methods import ALL_METHODS

try:
    from probmetrics import calibrators as theirs
except ImportError as error:
    raise extras.needed(error, "calibrant.study.probmetrics", "probmetrics") from error

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Floats, Labels

__all__ = ["calibrator", "calibrators"]


class ProbmetricsCalibrator(theirs.Calibrator):
    """An unfitted calibrator of this package as a ``probmetrics.calibrators.Calibrator``.

    ``fit``, ``predict_proba`` and their counterparts for tensors are those of probmetrics, which
    may not be overridden: they check what comes in and call what is here.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        self.calibrator = calibrator

    def _fit_impl(self, X: Floats, y: Labels) -> None:
        self.fitted_ = ArenaCalibrator(self.calibrator).fit(X, y)

    def _predict_proba_impl(self, X: Floats) -> Floats:
        return self.fitted_.predict_proba(X)


def calibrator(method: str = "auto", **parameters: object) -> ProbmetricsCalibrator:
    """Return a method as an unfitted calibrator of probmetrics.

    Parameters
    ----------
    method : str, default="auto"
        A key of ``methods()``.
    **parameters
        Passed to the constructor of the method.

    Returns
    -------
    calibrator : ProbmetricsCalibrator

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.study import probmetrics
    >>> p_cal, y_cal = simulated_scores(500)
    >>> probmetrics.calibrator("ts").fit(p_cal, y_cal).predict_proba(p_cal).shape
    (500, 3)
    """
    return ProbmetricsCalibrator(make_calibrator(method).set_params(**parameters))


def calibrators() -> dict[str, Callable[[], ProbmetricsCalibrator]]:
    """Return every method, as CalArena's ``custom_calibrators.py`` lists what it runs.

    Returns
    -------
    factories : dict
        By name, ``calibrant-`` and the method, what makes an unfitted calibrator.

    Examples
    --------
    >>> from calibrant.study import probmetrics
    >>> CUSTOM_CALIBRATORS = probmetrics.calibrators()
    >>> CUSTOM_CALIBRATORS["calibrant-auto"]()
    ProbmetricsCalibrator(calibrator=AutoCalibrator())
    """
    return {f"{NAME_PREFIX}{method}": partial(calibrator, method) for method in ALL_METHODS}


def __dir__() -> list[str]:
    return __all__
