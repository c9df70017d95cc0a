"""Measure settings of AutoCalibrator within validation parts alone; prints the table of auto.md.

    OMP_NUM_THREADS=1 python docs/measure_auto.py DIR [FIT_ROWS]

Three times, a third of the validation part of each file is judged by what was fitted to the rest,
or to FIT_ROWS rows of it. AutoCalibrator cross-validates within these, so nothing is judged by rows
that it was chosen on, and no test part is read. Half an hour on two cores.
"""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from calibrant import AutoCalibrator, TemperatureScaling
from calibrant._calibrators.auto import PATHS

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from measure import read_part

SETTINGS = {
    "default": {},
    "caution=0": {"caution": 0.0},
    "caution=10000": {"caution": 10_000.0},
    "prior_rows=0": {"prior_rows": 0.0},
    "without identity": {"candidates": [path for path in PATHS if path != "identity"]},
    "without structured-wide": {"candidates": [path for path in PATHS if "wide" not in path]},
    "and structured > spline": {"candidates": [*PATHS, "structured > spline"]},
    "without finish": {"finish": 1e12},
    "finish=0": {"finish": 0.0},
}
MOST_ROWS = 5000
FOLDS = 3


def nll(calibrator, p, y):
    own = calibrator.predict_proba(p)[np.arange(len(y)), y]
    return -np.mean(np.log(np.maximum(own, 1e-12)))


def measure(path, fit_rows):
    """NLL of every setting and of temperature scaling, for each third of a validation part."""
    warnings.simplefilter("ignore")
    p, y = read_part(path, "val")
    order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    p, y, classes = p[order], y[order], np.arange(p.shape[1])
    found = []
    for third in range(FOLDS):
        held = np.arange(len(y)) % FOLDS == third
        rows, labels = p[~held][:fit_rows], y[~held][:fit_rows]
        makes = [TemperatureScaling(classes=classes)]
        makes += [AutoCalibrator(classes=classes, **given) for given in SETTINGS.values()]
        found.append([nll(one.fit(rows, labels), p[held], y[held]) for one in makes])
    return np.array(found)


def main(folder, fit_rows=None):
    paths = sorted(Path(folder).glob("*.npz"))
    with ProcessPoolExecutor() as pool:
        found = np.array(list(pool.map(measure, paths, [fit_rows] * len(paths))))
    files = found.mean(axis=1)
    ratios, draws = files / files[:, :1], found / found[:, :, :1]
    print(f"| {len(paths)} classifiers | mean NLL / TS | worst | worst third |")
    print("|---|---:|---:|---:|")
    for i, name in enumerate(SETTINGS, start=1):
        ends = ratios[:, i].mean(), ratios[:, i].max(), draws[:, :, i].max()
        print(f"| {name} | " + " | ".join(f"{value:.4f}" for value in ends) + " |")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
