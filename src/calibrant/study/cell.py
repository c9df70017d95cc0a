"""One cell of a study: fit a method on the val part of a file, judge it on the test part."""

from __future__ import annotations

import platform
import warnings
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from calibrant import __version__
from calibrant.study.table import METRICS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.calibrators.base import Calibrator
    from calibrant.files.predictions import RawPredictions
    from calibrant.metrics.predictions import Accumulator

UNCALIBRATED = "uncalibrated"
BINNED = ("conf-ece", "cw-ece", "tece")
OTHER_BINS = (10, 25)
METRIC_NAMES = (*METRICS, *(f"{name}-{bins}" for name in BINNED for bins in OTHER_BINS))
"""Every metric of a cell; those without a number have 15 bins."""

LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


class Task(NamedTuple):
    """What a process needs to know to compute a cell."""

    path: str
    method: str
    seed: int


class Outcome(TypedDict):
    """What became of a cell.

    Attributes
    ----------
    values : dict of str to float
        Every metric; NaN if the method failed.
    seconds : float
        Of the fit.
    all_seconds : float
        Of everything: reading, fitting, judging.
    error : str or None
        What the method failed with.
    warnings : list of str
        What it warned of.
    """

    values: dict[str, float]
    seconds: float
    all_seconds: float
    error: str | None
    warnings: list[str]


def failed(error: str, all_seconds: float = np.nan) -> Outcome:
    """Return the outcome of a cell without numbers."""
    return Outcome(
        values=dict.fromkeys(METRIC_NAMES, np.nan),
        seconds=np.nan,
        all_seconds=all_seconds,
        error=error,
        warnings=[],
    )


def measure(task: Task) -> Outcome:
    """Compute a cell; whatever goes wrong becomes its error.

    Parameters
    ----------
    task : Task

    Returns
    -------
    outcome : Outcome
    """
    started = perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values, seconds = _fit_and_judge(task)
    except Exception as error:  # noqa: BLE001  (one cell must not cost the others)
        message = " ".join(f"{type(error).__name__}: {error}".split())
        return failed(message, perf_counter() - started)
    return Outcome(
        values=values,
        seconds=seconds,
        all_seconds=perf_counter() - started,
        error=None,
        warnings=list(dict.fromkeys(str(warning.message) for warning in caught)),
    )


def _fit_and_judge(task: Task) -> tuple[dict[str, float], float]:
    from calibrant import simplex
    from calibrant.files.predictions import read_prediction_file

    val = read_prediction_file(task.path, part="val")
    test = read_prediction_file(task.path, part="test", kind=val.kind)
    y, classes = _labels(val)
    new_y, _ = _labels(test)
    new_scores = test.scores.astype(np.float64)
    if task.method == UNCALIBRATED:
        if test.kind == "logits":
            new_scores = simplex.softmax(simplex.check_scores(new_scores, "logits"))
        return metrics_of(new_y, new_scores, classes), 0.0
    _warm_up(task.method, val.kind)
    scores = val.scores.astype(np.float64)
    calibrator = _make(task.method, task.seed, scores=val.kind, classes=classes)
    started = perf_counter()
    calibrator.fit(scores, y)
    seconds = perf_counter() - started
    return metrics_of(new_y, calibrator.predict_proba(new_scores), classes), seconds


def _labels(part: RawPredictions) -> tuple[NDArray[Any], Any]:
    """Labels of a part, and the label of each column, whether the part has it or not."""
    from calibrant.files.align import align

    found = align(part)
    n_columns = part.scores.shape[1]
    return found.y, np.arange(n_columns) if found.classes is None else found.classes


def _make(method: str, seed: int, **parameters: Any) -> Calibrator:
    from calibrant.calibrators.methods import make_calibrator

    calibrator = make_calibrator(method, **parameters)
    if "random_state" in calibrator.get_params(deep=False):
        calibrator.set_params(random_state=seed)
    return calibrator


@cache
def _warm_up(method: str, kind: str) -> None:
    """Compile first, so that the time of a fit is that of the fit."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), size=60)
    scores = rows if kind == "probabilities" else np.log(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(Exception):  # the fit itself will say it
            _make(method, 0, scores=kind).fit(scores, np.arange(60) % 3)


def metrics_of(y: Any, probabilities: Any, classes: Any) -> dict[str, float]:
    """Every metric by name, in the order of ``METRIC_NAMES``; all but TECE in one pass."""
    from calibrant.metrics.calibration_error import ClassBins, ConfidenceBins, ThresholdedBins
    from calibrant.metrics.predictions import read_predictions
    from calibrant.metrics.scores import LossMean, RowMean, chunk_hits, chunk_squares

    predictions = read_predictions(y, probabilities, None, classes)
    accumulators: dict[str, Accumulator] = {
        "accuracy": RowMean(chunk_hits),
        "nll": LossMean(),
        "brier": RowMean(chunk_squares),
    }
    values = {}
    for suffix, n_bins in (("", 15), *((f"-{bins}", bins) for bins in OTHER_BINS)):
        accumulators[f"conf-ece{suffix}"] = ConfidenceBins(n_bins)
        accumulators[f"cw-ece{suffix}"] = ClassBins(predictions.n_classes, n_bins)
        values[f"tece{suffix}"] = ThresholdedBins(predictions, n_bins).value()
    values |= zip(accumulators, predictions.measure(*accumulators.values()), strict=True)
    return {name: float(values[name]) for name in METRIC_NAMES}


@cache
def versions() -> str:
    """Of what computes the cells, as "calibrant 0.1.0; Python 3.11.2; numpy 2.4.0; ..."."""
    found = [("calibrant", __version__), ("Python", platform.python_version())]
    found += [(name, version(name)) for name in LIBRARIES]
    return "; ".join(f"{name} {number}" for name, number in found)
