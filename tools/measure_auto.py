"""Measure settings of AutoCalibrator within validation parts alone; prints the table of auto.md.

    OMP_NUM_THREADS=1 python tools/measure_auto.py DIR [SETTING ...]

DIR has ``.npz`` files of networks, and folders ``tabular`` and ``llm``. A third of each validation
part is judged by what was fitted to the rest, to 200 rows of it, and to these 200 with labels that
are drawn from the scores: then nothing can be gained. AutoCalibrator cross-validates within what it
is fitted to, so nothing is judged by rows that it was chosen on, and no test part is read. Files of
two classes have a page of their own; those of more than 60 take most of the time, and are left out.
Without SETTING all are measured, in about half an hour on one core.
"""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from calibrant import AutoCalibrator, TemperatureScaling
from calibrant._calibrators import auto

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from measure import read_part


def without(*paths):
    return {"candidates": [path for path in auto.PATHS if path not in paths]}


SETTINGS = {
    "default": ({}, {}),
    "caution=0": ({"caution": 0.0}, {}),
    "prior_rows=0": ({"prior_rows": 0.0}, {}),
    "no share of the scores": ({}, {"UNPROVEN": 0.0}),
    "no share for few mistakes": ({}, {"MANY_NATS": 0.0}),
    "without structured-wide": (without("structured-wide"), {}),
    "without structured-loose": (without("structured-loose"), {}),
    "without na-fir and scir": (without("na-fir", "scir"), {}),
    "without finish": ({"finish": 1e12}, {}),
    "finish=50": ({"finish": 50.0}, {}),
}
COLLECTIONS = {"networks": ".", "tabular": "tabular", "language models": "llm"}
MOST_ROWS, FEW_ROWS, MOST_CLASSES = 5000, 200, 60
LEAST_NLL = 1e-3  # of a mean: of less, ratios tell nothing


def nll(calibrator, p, y):
    """Mean NLL; without labels what is expected of it if the scores are honest."""
    q = np.maximum(calibrator.predict_proba(p), 1e-12)
    return -np.mean(np.log(q[np.arange(len(p)), y]) if y is not None else (p * np.log(q)).sum(1))


def measure(names, path):
    """NLL of temperature scaling, or of honest scores, and of each setting, fitted three ways."""
    warnings.simplefilter("ignore")
    p, y = read_part(path, "val")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))[:MOST_ROWS]
    p, y, classes = p[order], y[order], np.arange(p.shape[1])
    held = np.arange(len(y)) % 3 == 0
    rows, labels = p[~held], y[~held]
    few = rows[:FEW_ROWS]
    drawn = (few.cumsum(axis=1) > rng.random((len(few), 1))).argmax(axis=1)
    found = []
    for fit, to, judged in (
        (rows, labels, y[held]),
        (few, labels[:FEW_ROWS], y[held]),
        (few, drawn, None),
    ):
        makes = [
            (
                TemperatureScaling(
                    classes=classes, prior_strength=120 if judged is not None else 1e12
                ),
                {},
            )
        ]
        makes += [
            (AutoCalibrator(classes=classes, **SETTINGS[n][0]), SETTINGS[n][1]) for n in names
        ]
        for one, constants in makes:
            with patch.dict(vars(auto), constants):
                found.append(nll(one.fit(fit, to), p[held], judged))
    return np.reshape(found, (3, -1))


def main(folder, *names):
    names = names or tuple(SETTINGS)
    columns = {}
    with ProcessPoolExecutor() as pool:
        for title, place in COLLECTIONS.items():
            paths = [
                path
                for path in sorted((Path(folder) / place).glob("*.npz"))
                if 2 < classes_of(path) <= MOST_CLASSES
            ]
            found = np.array(list(pool.map(partial(measure, names), paths)))
            found = np.maximum(found, LEAST_NLL)
            ratios = found[:, :, 1:] / found[:, :, :1]
            many, few, honest = ratios.transpose(1, 0, 2)
            columns[f"{len(paths)} {title}"] = many.mean(axis=0)
            columns[f"{title}, worst"] = many.max(axis=0)
            columns[f"{title}, 200 rows"] = few.mean(axis=0)
            if title == "networks":
                columns["worst of 200 rows"] = few.max(axis=0)
                columns["honest, 200 rows"] = honest.mean(axis=0)
                columns["above 1.02, %"] = 100 * (honest > 1.02).mean(axis=0)
                columns["worst honest"] = honest.max(axis=0)
    print("| setting | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    for i, name in enumerate(names):
        values = (
            f"{column[i]:.1f}" if "%" in title else f"{column[i]:.4f}"
            for title, column in columns.items()
        )
        print(f"| {name} | " + " | ".join(values) + " |")


def classes_of(path):
    """Number of classes; 0 of a file without scores."""
    with np.load(path) as file:
        parts = [name for name in ("val_probs", "val_logits") if name in file]
        return file[parts[0]].shape[1] if parts else 0


if __name__ == "__main__":
    main(*sys.argv[1:])
