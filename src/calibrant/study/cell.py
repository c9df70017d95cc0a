"""One cell of a study: fit a method on the val part of a file, judge it on the test part."""

from __future__ import annotations

import math
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from calibrant import simplex, trial
from calibrant.calibrators.methods import make_calibrator
from calibrant.files.align import align
from calibrant.metrics.predictions import read_predictions
from calibrant.metrics.scores import LogLoss
from calibrant.metrics.table import METRICS
from calibrant.trial import UNCALIBRATED, fit_and_judge

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator
    from calibrant.files.predictions import RawPredictions
    from calibrant.study.files import StudyFile
    from calibrant.trial import Prepared

N_BINS = 15
SMALLEST = float(np.finfo(np.float32).tiny)
"""What a label's probability counts as at least in ``log_loss``."""

OTHER_BINS = (10, 25)
_USED = [
    metric
    for metric in METRICS.values()
    if metric.id != "kernel_density_ece" and metric.n_classes is None
]
MEASURED = {metric.short: (metric, N_BINS) for metric in _USED} | {
    f"{metric.short}-{n_bins}": (metric, n_bins)
    for metric in _USED
    if metric.is_binned
    for n_bins in OTHER_BINS
}
"""Every metric of a cell, with its number of bins; names without a number have 15."""


class Cell(NamedTuple):
    """A method on a prediction file."""

    file: StudyFile
    method: str
    seed: int

    @property
    def name(self) -> str:
        """As in messages and in the name of its record."""
        return f"{self.file.name}__{self.method}"


class Outcome(TypedDict):
    """What became of a cell: every metric, NaN if the method failed, with what, and warnings.

    Seconds are those of the fit, of the prediction, and of everything: reading, fitting, judging.
    ``log_loss`` is the NLL without our bound on probabilities, as CalArena has it.
    """

    values: dict[str, float]
    log_loss: float
    seconds: float
    predict_seconds: float
    all_seconds: float
    error: str | None
    warnings: list[str]


def failed(error: str, all_seconds: float = math.nan) -> Outcome:
    """Return the outcome of a cell without numbers."""
    return Outcome(
        values=dict.fromkeys(MEASURED, math.nan),
        log_loss=math.nan,
        seconds=math.nan,
        predict_seconds=math.nan,
        all_seconds=all_seconds,
        error=error,
        warnings=[],
    )


def measure(cell: Cell) -> Outcome:
    """Compute a cell; whatever goes wrong becomes its error."""
    done = fit_and_judge(partial(_prepare, cell), _judge)
    if done.found is None:
        message = f"{type(done.error).__name__}: {done.error}"
        return failed(" ".join(message.split()), done.seconds)
    return Outcome(
        values=done.found.values,
        log_loss=done.found.log_loss,
        seconds=done.fit_seconds,
        predict_seconds=done.found.predict_seconds,
        all_seconds=done.seconds,
        error=None,
        warnings=list(done.warnings),
    )


def _prepare(cell: Cell) -> Prepared:
    val = cell.file.read("val")
    test = cell.file.read("test", val.kind)
    (y, classes), (new_y, _) = _labels(val), _labels(test)
    new_scores = test.scores.astype(np.float64)
    if cell.method != UNCALIBRATED:
        calibrator = _make(cell.method, cell.seed, scores=val.kind, classes=classes)
        return calibrator, (val.scores.astype(np.float64), y), (new_y, new_scores, classes)
    if test.kind == "logits":
        new_scores = simplex.softmax(simplex.check_scores(new_scores, "logits"))
    return None, (), (new_y, new_scores, classes)


def _labels(part: RawPredictions) -> tuple[Any, Any]:
    """Labels of a part, and the label of each column, whether the part has it or not."""
    found = align(part)
    n_columns = part.scores.shape[1]
    return found.y, np.arange(n_columns) if found.classes is None else found.classes


def _make(method: str, seed: int, **parameters: Any) -> Calibrator:
    calibrator = make_calibrator(method, **parameters)
    if "random_state" in calibrator.get_params(deep=False):
        calibrator.set_params(random_state=seed)
    return calibrator


class _Judged(NamedTuple):
    values: dict[str, float]
    log_loss: float
    predict_seconds: float


def _judge(calibrator: Calibrator | None, y: Any, scores: Any, classes: Any) -> _Judged:
    """Every metric by name, and how long the prediction took."""
    began = perf_counter()
    rows = scores if calibrator is None else calibrator.predict_proba(scores)
    seconds = 0.0 if calibrator is None else perf_counter() - began
    read = read_predictions(y, rows, None, classes)
    *found, log_loss = read.measure(
        *(metric.body(read.n_classes, n_bins) for metric, n_bins in MEASURED.values()),
        LogLoss(SMALLEST),
    )
    values = {name: float(value) for name, value in zip(MEASURED, found, strict=True)}
    return _Judged(values, float(log_loss), seconds)


@cache
def versions() -> str:
    """Of what computes the cells, as "calibrant 0.1.0; Python 3.11.2; numpy 2.4.0; ..."."""
    return "; ".join(f"{name} {number}" for name, number in trial.versions().items())
