"""Every method on every real classifier: graphs of ONNX and PyTorch against ``predict_proba``."""

import warnings

import numpy as np
import pytest

from calibrant._calibrators.methods import make_calibrator, methods
from conftest import DATA, REAL_FILES, each_real_file
from export.cases import TOLERANCES, assert_same, beside
from export.rows_at_thresholds import rows_at_thresholds

ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

from calibrant.export import to_onnx, to_torch  # noqa: E402

MOST_CLASSES = {"ms": 60, "dirichlet": 60}
"""Matrices of more classes take long to fit; the slow test has them all."""

MOST_CELLS = 1 << 22


def scores_of(name, part, dtype, most):
    """Some rows of a file as it has them, probabilities if there are any."""
    with np.load(DATA / f"{name}.npz") as file:
        kind = "probs" if f"{part}_probs" in file else "logits"
        return file[f"{part}_{kind}"][:most].astype(dtype), kind


def check(calibrator, name, n_rows, n_thresholds):
    """On the rows of the fit, on new ones, and at thresholds, each with its neighbours."""
    for dtype in TOLERANCES:
        rows = [scores_of(name, part, dtype, n_rows)[0] for part in ("val", "test")]
        if calibrator.map_.kind == "probabilities":
            rows.append(beside(rows_at_thresholds(calibrator, n_thresholds), dtype))
        check_rows(calibrator, np.concatenate(rows), dtype)


def check_rows(calibrator, rows, dtype):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    model = to_onnx(calibrator, dtype=dtype)
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    module = to_torch(calibrator)
    step = max(1, MOST_CELLS // rows.shape[1])
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        (found,) = session.run(None, {calibrator.map_.kind: part})
        assert_same(found, calibrator, part, dtype)
        with torch.no_grad():
            found = module(torch.from_numpy(part)).numpy()
        assert_same(found, calibrator, part, dtype)


def fit(name, method, n_rows, most_classes=np.inf):
    scores, kind = scores_of(name, "val", np.float64, n_rows)
    with np.load(DATA / f"{name}.npz") as file:
        y = file["val_labels"][: len(scores)]
    if scores.shape[1] > most_classes:
        pytest.skip("too many classes")
    calibrator = make_calibrator(method).set_params(
        scores="logits" if kind == "logits" else "probabilities", classes=np.arange(scores.shape[1])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        return calibrator.fit(scores, y)


@each_real_file
@pytest.mark.parametrize("method", methods())
def test_every_method_on_every_file(method, name):
    check(fit(name, method, 400, MOST_CLASSES.get(method, np.inf)), name, 400, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_FILES)
@pytest.mark.parametrize("method", methods())
def test_every_row_of_every_file(method, name):
    check(fit(name, method, 40_000), name, 40_000, 10_000)
