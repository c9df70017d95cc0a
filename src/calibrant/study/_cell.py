"""One cell of a study: fit a method on the val part of a file, judge it on the test part.

Finished cells are kept on disk: one small JSON file each, whole or not there at all.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from calibrant import _gate as gate
from calibrant import _trial as trial
from calibrant._atomic_file import replace_file
from calibrant._calibrators.methods import make_calibrator
from calibrant._files.align import align
from calibrant._trial import UNCALIBRATED, fit_and_judge
from calibrant.metrics import METRICS, LogLoss, Predictions

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._trial import Prepared
    from calibrant.study._files import StudyFile

N_BINS = 15
SMALLEST = float(np.finfo(np.float32).tiny)
"""Smallest probability of a label in ``log_loss``."""

OTHER_BINS = (10, 25)
_USED = [own for own in METRICS.values() if "study" in own.tables]
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
        """Name in messages, and of its record."""
        return f"{self.file.name}__{self.method}"


class Outcome(NamedTuple):
    """Result of a cell: every metric, with None where the method failed, and warnings.

    Seconds are those of the fit and of the prediction. ``log_loss`` is the NLL without our bound on
    probabilities, as CalArena has it.
    """

    metrics: dict[str, float | None] = dict.fromkeys(MEASURED)
    log_loss: float | None = None
    seconds: float | None = None
    predict_seconds: float | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()


def measure(cell: Cell) -> Outcome:
    """Compute a cell; whatever goes wrong becomes its error."""
    with threadpool_limits(1):  # in this process as in others: sums in the same order
        done = fit_and_judge(partial(_prepare, cell), _judge)
    if done.result is None:
        message = f"{type(done.error).__name__}: {done.error}"
        return Outcome(error=" ".join(message.split()))
    values, log_loss, predict_seconds = done.result
    return Outcome(
        {name: value if math.isfinite(value) else None for name, value in values.items()},
        log_loss,
        done.fit_seconds,
        predict_seconds,
        warnings=tuple(done.warnings),
    )


def _prepare(cell: Cell) -> Prepared:
    val = cell.file.read("val", cell.file.kind_for(cell.method))
    test = cell.file.read("test", val.kind)
    result, n_columns = align(val), val.scores.shape[1]
    classes = np.arange(n_columns) if result.classes is None else result.classes
    y, new_y = result.y, align(test).y
    new_scores = test.scores.astype(np.float64)
    if cell.method != UNCALIBRATED:
        calibrator = make_calibrator(cell.method, scores=val.kind, classes=classes)
        if "random_state" in calibrator.get_params(deep=False):
            calibrator.set_params(random_state=cell.seed)
        fit = partial(calibrator.fit, val.scores.astype(np.float64), y)
        return calibrator, fit, (new_y, new_scores, classes)
    if test.kind == "logits":
        new_scores = gate.softmax(gate.check_scores(new_scores, "logits"))
    return None, None, (new_y, new_scores, classes)


def _judge(
    calibrator: Calibrator | None, y: object, scores: object, classes: object
) -> tuple[dict[str, float], float, float]:
    """Return every metric by name, the log loss of CalArena, and the seconds of the prediction."""
    began = perf_counter()
    rows = scores if calibrator is None else calibrator.predict_proba(scores)
    seconds = 0.0 if calibrator is None else perf_counter() - began
    read, loss = Predictions.read(y, rows, classes=classes), LogLoss(SMALLEST)
    values = {name: metric.compute(read, n_bins) for name, (metric, n_bins) in MEASURED.items()}
    return values, loss.value(loss.sums(read)), seconds


@cache
def cell_versions() -> str:
    """Return the versions of what computes, "calibrant 1.0.0; Python 3.11.2; numpy 2.4.0; ..."."""
    return "; ".join(f"{name} {number}" for name, number in trial.versions().items())


_NO_NAME = re.compile(r'[<>:"/\\|?*%]')
"""Signs that some systems refuse in names of files; groups of HDF5 have a slash."""


class Records:
    """The cells that a study has finished, in a directory that is made if it is not there.

    A record counts only for the same bytes of the prediction file, the same seed and the same
    version of this package.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory

    def path(self, cell: Cell) -> Path:
        """Return the path of the record of a cell."""
        name = _NO_NAME.sub(lambda found: f"%{ord(found[0]):02X}", cell.name)
        return self.directory / f"{name}.json"

    def write(self, cell: Cell, outcome: Outcome) -> None:
        """Write the record of a cell."""
        content = {**_identity(cell), "versions": cell_versions(), **outcome._asdict()}
        with replace_file(self.path(cell)) as file:
            file.write(json.dumps(content, indent=1, allow_nan=False).encode())

    def read(self, cell: Cell) -> tuple[Outcome, str] | None:
        """Return the outcome and the versions of a finished cell; None if it must be run."""
        try:
            content = json.loads(self.path(cell).read_bytes())
            written = str(content["versions"])
            counts = (
                all(content[key] == value for key, value in _identity(cell).items())
                and written.partition(";")[0] == cell_versions().partition(";")[0]
                and content["metrics"].keys() == MEASURED.keys()
            )
            outcome = Outcome(**{name: content[name] for name in Outcome._fields})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # damaged: as if absent
            return None
        return (outcome, written) if counts else None


def _identity(cell: Cell) -> dict[str, object]:
    """Return what the numbers depend on, which must be the same for a record to count."""
    file = cell.file
    named = {"dataset": file.dataset, "model": file.model, "method": cell.method, "seed": cell.seed}
    return {"format": 1, **named, "file": {"bytes": file.n_bytes, "sha256": file.sha256}}
