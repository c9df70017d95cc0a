"""Every method on every real classifier: graphs of ONNX and PyTorch against ``predict_proba``."""

import warnings

import numpy as np
import pytest

from calibrant.calibrators.methods import make_calibrator, methods
from conftest import DATA, REAL_FILES
from export.cases import TOLERANCES, assert_same

ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

from calibrant.export import to_onnx, to_torch  # noqa: E402

ROWS_TO_FIT = {False: 400, True: 5000}
ROWS_TO_TRY = {False: 600, True: 3000}
MOST_CLASSES = {"ms": 60, "dirichlet": 60}
"""Matrices of more classes take minutes to fit, and are the same formula."""


def scores_of(name, part, dtype, most):
    """Some rows of a file as it has them, probabilities if there are any."""
    with np.load(DATA / f"{name}.npz") as file:
        kind = "probs" if f"{part}_probs" in file else "logits"
        return file[f"{part}_{kind}"][:most].astype(dtype), kind


def check(calibrator, rows, dtype):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    model = to_onnx(calibrator, dtype=dtype)
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {calibrator.map_.kind: rows})
    assert_same(found, calibrator, rows, dtype)
    with torch.no_grad():
        found = to_torch(calibrator)(torch.from_numpy(rows)).numpy()
    assert_same(found, calibrator, rows, dtype)


def fit(name, method, is_slow):
    scores, kind = scores_of(name, "val", np.float64, ROWS_TO_FIT[is_slow])
    with np.load(DATA / f"{name}.npz") as file:
        y = file["val_labels"][: len(scores)]
    if scores.shape[1] > MOST_CLASSES.get(method, np.inf):
        pytest.skip("too many classes")
    calibrator = make_calibrator(method).set_params(
        scores="logits" if kind == "logits" else "probabilities", classes=np.arange(scores.shape[1])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        return calibrator.fit(scores, y)


@pytest.mark.parametrize("is_slow", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", REAL_FILES)
@pytest.mark.parametrize("method", methods())
def test_every_method_on_every_file(method, name, is_slow):
    """On the rows of the fit, which are at its thresholds, and on new ones."""
    calibrator = fit(name, method, is_slow)
    for dtype in TOLERANCES:
        for part in ("val", "test"):
            rows, _ = scores_of(name, part, dtype, ROWS_TO_TRY[is_slow])
            check(calibrator, rows, dtype)
