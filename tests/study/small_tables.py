"""Small tables of a study, and one whose names try to be markup."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from calibrant.study import StudyTable, write_outputs

METRICS = ("accuracy", "nll", "brier", "conf-ece", "cw-ece", "tece")
BINNED = tuple(f"{metric}-{n}" for metric in METRICS[3:] for n in (10, 25))
PAPER = ("uncalibrated", "na-fir", "scir", "fir", "ir-ovr", "ts", "vs", "ms")
COLUMNS = ["dataset", "model", "method", "metric", "value", "seconds", "versions"]
EVIL_METHOD = "<b>a_b|100%</b>"
EVIL_DATASET = "</script><script>alert(1)</script>|x_y%"
EVIL_MODEL = '"><img src=x onerror=alert(2)> $\\alpha$ {{ 7 * 7 }}'


def rows(lines):
    """A table from (dataset, model, method, metric, value, seconds, versions)."""
    return StudyTable(pd.DataFrame(list(lines), columns=COLUMNS))


def table_of(values, methods, metric="nll", datasets=None, seconds=1.0, first=0):
    """A table from a matrix: rows are classifiers, named m0, m1, ... of the given data sets."""
    names = datasets or [f"d{i}" for i in range(len(values))]
    return rows(
        (name, f"m{i}", method, metric, value, seconds, "")
        for i, (name, line) in enumerate(zip(names, values, strict=True), first)
        for method, value in zip(methods, line, strict=True)
    )


def join(*tables):
    return StudyTable(pd.concat([table.frame for table in tables]))


def random_table(cases, methods, metrics=METRICS + BINNED, seed=0):
    rng = np.random.default_rng(seed)
    return rows(
        (d, m, k, metric, rng.uniform(0.1, 0.9), rng.uniform(0.01, 9.0), "calibrant 0; <i>")
        for d, m in cases
        for k in methods
        for metric in metrics
    )


@cache
def hostile_outputs():
    """(table, directory, paths) of a study in which a name is an attack and a method failed."""
    cases = [(EVIL_DATASET, EVIL_MODEL), ("r52", "nb"), ("r52", "svm"), ("cifar10", "resnet18")]
    metrics = ("nll", "cw-ece", "cw-ece-10", "cw-ece-25")
    frame = random_table(cases, ("uncalibrated", "na-fir", "ts", EVIL_METHOD), metrics).frame
    frame.loc[(frame["model"] == "svm") & (frame["method"] == "ts"), "value"] = np.nan
    directory = Path(tempfile.mkdtemp()) / "not" / "there"
    return StudyTable(frame), directory, write_outputs(StudyTable(frame), directory)
