"""Measure what the paper says of fits beyond its metrics: ``python paper/measure_fits.py DIR OUT``.

DIR holds prediction files ``dataset_model.npz``. OUT is a table of a study (``.csv``) that is
continued if it is there: one line for each classifier, method and quantity.

- ``mean-confidence``: mean of the largest probability of a row.
- ``miscalibration``, ``refinement``: the two parts of the Brier score (CORP); their sum is the
  ``brier`` of the study.
- ``p-value``: of the test that the confidence is calibrated (consistency resampling, as in the
  paper's Figure 1).
- ``low-inflated``, ``high-deflated``: of NA-FIR, the share of cells that FIR puts below 0.1 and
  NA-FIR higher, and of those that FIR puts above 0.9 and NA-FIR lower.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from calibrant.metrics import calibration_test, score_decomposition
from calibrant.study import StudyTable, read_table, write_table
from calibrant.study._cell import Cell, _prepare, cell_versions
from calibrant.study._files import find_files
from calibrant.study._methods import PAPER_ESTIMATORS, PAPER_METHODS
from calibrant.study._table import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

METHODS = tuple(dict.fromkeys((*PAPER_ESTIMATORS.values(), *PAPER_METHODS, "auto")))
FITS = ("mean-confidence", "miscalibration", "refinement", "p-value")
LOW, HIGH = 0.1, 0.9
N_RESAMPLES = 200


def predict(cell: Cell) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return labels and calibrated rows of the test part."""
    calibrator, fit, (labels, scores, classes) = _prepare(cell)
    index = np.asarray(np.searchsorted(np.asarray(classes), labels))
    if calibrator is None or fit is None:
        return index, scores / scores.sum(axis=1, keepdims=True)
    fit()
    return index, calibrator.predict_proba(scores)


def quantities(labels: NDArray[Any], rows: NDArray[np.float64]) -> Iterator[tuple[str, float]]:
    """Yield what is measured of every method."""
    classes = np.arange(rows.shape[1])
    yield "mean-confidence", float(rows.max(axis=1).mean())
    parts = score_decomposition(labels, rows, classes=classes)
    yield "miscalibration", parts.miscalibration
    yield "refinement", parts.refinement
    test = calibration_test(
        labels, rows, metric="confidence", n_resamples=N_RESAMPLES, classes=classes
    )
    yield "p-value", test.p_value


def shifts(fir: NDArray[np.float64], aware: NDArray[np.float64]) -> Iterator[tuple[str, float]]:
    """Yield how often awareness of the normalisation moves cells towards the middle."""
    low, high = fir < LOW, fir > HIGH
    yield "low-inflated", float((aware[low] > fir[low]).mean()) if low.any() else float("nan")
    yield "high-deflated", float((aware[high] < fir[high]).mean()) if high.any() else float("nan")


def measure(directory: str, out: Path) -> StudyTable:
    """Measure every classifier of a directory that ``out`` lacks; write after each."""
    done = read_table(out).frame if out.exists() else pd.DataFrame(columns=list(TYPES))
    files, _ = find_files(directory)
    for file in sorted(files, key=lambda one: one.n_classes * (one.n_val + one.n_test)):
        known = done[(done["dataset"] == file.dataset) & (done["model"] == file.model)]
        lines, fir = [], None
        for method in METHODS:
            if method in set(known["method"]) and known["versions"].eq(cell_versions()).all():
                continue
            labels, rows = predict(Cell(file, method, 0))
            found = list(quantities(labels, rows))
            if method.startswith("na-fir"):
                fir = predict(Cell(file, "fir", 0))[1] if fir is None else fir
                found += shifts(fir, rows)
            label = (file.dataset, file.model, method)
            lines += [(*label, name, value, np.nan, cell_versions()) for name, value in found]
        if lines:
            new = pd.DataFrame(lines, columns=list(TYPES))
            done = pd.concat([done, new]) if len(done) else new
            write_table(StudyTable(done), out)
            print(f"{file.name}: {len(lines)} numbers", flush=True)
    return StudyTable(done)


def main() -> None:
    """Measure what the command line names."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    measure(sys.argv[1], Path(sys.argv[2]))


if __name__ == "__main__":
    main()
