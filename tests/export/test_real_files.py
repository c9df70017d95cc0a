"""Every method on every real classifier: what is exported against ``predict_proba``."""

import importlib.util
import math
import warnings

import numpy as np
import pytest

from calibrant._calibrators.methods import make_calibrator
from conftest import DATA, each_real_file, methods_alone
from export.backends import RUN, WAYS
from export.cases import CASES, assert_same, beside, rows_at_thresholds

MOST_CLASSES = {"ms": 60, "dirichlet": 60}
"""Matrices of more classes take long to fit."""

MOST_CELLS = 1 << 22

HERE = [way for way in WAYS if way[0] == "numpy" or importlib.util.find_spec(way[0])]


@each_real_file
@pytest.mark.parametrize("method", [method for method in methods_alone() if method in CASES])
def test_every_method_on_every_file(method, name):
    """On the rows of the fit, on new ones, and at thresholds, each with its neighbours."""
    with np.load(DATA / f"{name}.npz") as file:
        kind = "probabilities" if "val_probs" in file else "logits"
        stem = kind.replace("abilities", "s")
        val, test, y = (file[key][:400] for key in (f"val_{stem}", f"test_{stem}", "val_labels"))
    if val.shape[1] > MOST_CLASSES.get(method, math.inf):
        pytest.skip("too many classes")
    calibrator = make_calibrator(method, scores=kind, classes=np.arange(val.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        calibrator.fit(val.astype(np.float64), y)
    for backend, dtype in HERE:
        parts = [val.astype(dtype), test.astype(dtype)]
        if kind == "probabilities":
            parts.append(beside(rows_at_thresholds(calibrator, 5), dtype))
        rows = np.concatenate(parts)
        for some in np.array_split(rows, math.ceil(rows.size / MOST_CELLS)):
            assert_same(RUN[backend](calibrator, some, kind), calibrator, some, dtype)
