"""Fit a method on one part, judge it on the other: in time, whatever it warns of or fails with."""

from __future__ import annotations

import platform
import warnings
from importlib.metadata import version
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from calibrant import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from calibrant._calibrators.base import Calibrator

    Prepared = tuple[Calibrator | None, Callable[[], Any] | None, tuple[Any, ...]]

UNCALIBRATED = "uncalibrated"  # the name, among methods, of the predictions as they came
COMPUTING_LIBRARIES = ("numpy", "scipy", "scikit-learn")
Judged = TypeVar("Judged")


class Trial(NamedTuple, Generic[Judged]):
    """What became of a method: what the judge says, or None and the error.

    Seconds are those of the fit, and of everything; warnings are without repetition.
    """

    result: Judged | None
    fit_seconds: float
    seconds: float
    error: Exception | None
    warnings: tuple[str, ...]


def fit_and_judge(prepare: Callable[[], Prepared], judge: Callable[..., Judged]) -> Trial[Judged]:
    """Fit a calibrator to one part and judge it by another; a failure is part of the result.

    ``prepare`` returns a calibrator and what fits it, both None where nothing is to be fitted, and
    the arguments of ``judge`` after the calibrator.
    """
    started = perf_counter()
    result, error, fit_seconds = None, None, 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            calibrator, fit, test = prepare()
            if fit is not None:
                began = perf_counter()
                fit()
                fit_seconds = perf_counter() - began
            result = judge(calibrator, *test)
        except Exception as failure:  # noqa: BLE001  (one method must not cost the others)
            error = failure
    return Trial(result, fit_seconds, perf_counter() - started, error, messages(caught))


def messages(caught: Iterable[warnings.WarningMessage]) -> tuple[str, ...]:
    """Return distinct warnings in the order in which they came."""
    return tuple(dict.fromkeys(str(warning.message) for warning in caught))


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python and of what computes."""
    result = {"calibrant": __version__, "Python": platform.python_version()}
    return result | {name: version(name) for name in COMPUTING_LIBRARIES}
