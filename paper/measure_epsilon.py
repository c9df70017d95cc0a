"""Measure what the small constant of the paper decides: ``python paper/measure_epsilon.py DIR``.

The paper adds "a small epsilon" to outputs and does not say which. The NLL of its methods on the
prediction files of DIR is printed for several, as a table.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from calibrant.study._cell import Cell, _prepare
from calibrant.study._files import find_files

EPSILONS = (1e-12, 1e-7, 1e-5, 1e-4, 1e-3)
METHODS = ("ts-paper", "na-fir-paper", "fir", "scir-paper", "ir-ovr-paper")


def losses(directory: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the NLL of every file, constant and method."""
    found = []
    for file in find_files(directory)[0]:
        line = []
        for method in METHODS:
            calibrator, fit, (labels, scores, classes) = _prepare(Cell(file, method, 0))
            if calibrator is None or fit is None:
                raise ValueError(method)
            fit()
            rows = calibrator.predict_proba(scores)
            own = rows[np.arange(len(rows)), np.searchsorted(np.asarray(classes), labels)]
            added = [(own + e) / (1.0 + e * rows.shape[1]) for e in EPSILONS]
            line.append([-np.log(one).mean() for one in added])
        found.append(np.transpose(line))
    return np.array(found)


def main() -> None:
    """Print the table."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    nll = losses(sys.argv[1])
    ratio = nll[:, :, 1:] / nll[:, :, :1]
    print(
        "| constant | NA-FIR | FIR | SCIR | IR-OvR | SCIR worse than TS | NA-FIR better than FIR |"
    )
    print("|---" + "|---:" * 6 + "|")
    for place, epsilon in enumerate(EPSILONS):
        means = " | ".join(f"{mean:.3f}" for mean in ratio[:, place].mean(axis=0))
        worse = int((ratio[:, place, 2] > 1.0).sum())
        better = int((nll[:, place, 1] < nll[:, place, 2]).sum())
        print(f"| {epsilon:.0e} | {means} | {worse} of {len(nll)} | {better} of {len(nll)} |")


if __name__ == "__main__":
    main()
