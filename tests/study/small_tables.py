"""Small tables of a study, and one whose names try to be markup."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from calibrant.study.outputs import write_outputs
from calibrant.study.table import StudyRow, StudyTable

METRICS = ("accuracy", "nll", "brier", "conf-ece", "cw-ece", "tece")
BINNED = tuple(f"{metric}-{n}" for metric in METRICS[3:] for n in (10, 25))
PAPER = ("uncalibrated", "na-fir", "scir", "fir", "ir-ovr", "ts", "vs", "ms")
EVIL_METHOD = "<b>a_b|100%</b>"
EVIL_DATASET = "</script><script>alert(1)</script>|x_y%"
EVIL_MODEL = '"><img src=x onerror=alert(2)> $\\alpha$ {{ 7 * 7 }}'


def table_of(values, methods, metric="nll", datasets=None, seconds=1.0):
    """A table from a matrix: rows are classifiers, named m0, m1, ... of the given data sets."""
    values = np.asarray(values, dtype=np.float64)
    names = datasets or [f"d{i}" for i in range(len(values))]
    return StudyTable.of(rows_of(values, methods, metric, names, seconds))


def rows_of(values, methods, metric, names, seconds=1.0):
    return [
        StudyRow(name, f"m{i}", method, metric, float(value), seconds)
        for i, (name, line) in enumerate(zip(names, values, strict=True))
        for method, value in zip(methods, line, strict=True)
    ]


def random_table(cases, methods, metrics=METRICS + BINNED, seed=0):
    rng = np.random.default_rng(seed)
    return StudyTable.of(
        StudyRow(d, m, k, metric, rng.uniform(0.1, 0.9), rng.uniform(0.01, 9.0), "calibrant 0; <i>")
        for d, m in cases
        for k in methods
        for metric in metrics
    )


@cache
def hostile_outputs():
    """(table, directory, paths) of a study in which a name is an attack and a method failed."""
    cases = [(EVIL_DATASET, EVIL_MODEL), ("r52", "nb"), ("r52", "logreg"), ("cifar10", "resnet18")]
    table = random_table(cases, ("uncalibrated", "na-fir", "ts", EVIL_METHOD))
    failed = [
        StudyRow("r52", "svm", k, metric, np.nan if k == "ts" else 0.5, 0.1, "calibrant 0; <i>")
        for k in table.methods
        for metric in METRICS + BINNED
    ]
    table = StudyTable.of([*table.rows, *failed])
    directory = Path(tempfile.mkdtemp()) / "not" / "there"
    return table, directory, write_outputs(table, directory)
