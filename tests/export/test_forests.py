"""Forests behind ONNX: steps lie between scores, so a forest in float32 does not jump them."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from conftest import every_method

onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

from calibrant.export import merge_onnx  # noqa: E402

N_TRAIN, N_VAL, N_TEST = 600, 900, 2000


@pytest.fixture(
    scope="module", params=[(60, 2, 1), (60, 5, 1), (200, 2, 1), (40, 26, 1), (100, 26, 5)], ids=str
)
def forest(request):
    """A forest, its graph, scores of a calibration set with labels, and rows for a test."""
    n_trees, n_classes, leaf = request.param
    X, y = make_classification(
        N_TRAIN + N_VAL + N_TEST, 12, n_informative=9, n_classes=n_classes, flip_y=0.1,
        random_state=n_classes,
    )  # fmt: skip
    X = X.astype(np.float32)
    kind = ExtraTreesClassifier if n_trees == 200 else RandomForestClassifier
    found = kind(n_trees, min_samples_leaf=leaf, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    graph = skl2onnx.to_onnx(found, X[:1], options={"zipmap": False}, target_opset=18)
    part = slice(N_TRAIN, N_TRAIN + N_VAL)
    return found, graph, found.predict_proba(X[part]), y[part], X[N_TRAIN + N_VAL :]


def run(model, X, name):
    return onnxruntime.InferenceSession(model.SerializeToString()).run([name], {"X": X})[0]


@pytest.mark.parametrize("method", ["na-fir", "scir", "fir", "hb-ovr", "bbq-ovr", "scw"])
def test_no_row_jumps_a_step(forest, method):
    found, graph, scores, y, X = forest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        calibrator = every_method()[method]().fit(scores, y)
    given = found.predict_proba(X)
    assert 0 < np.abs(run(graph, X, "probabilities") - given).max() < 1e-5  # by rounding alone
    calibrated = run(merge_onnx(graph, calibrator, output="probabilities"), X, "calibrated")
    wanted = calibrator.predict_proba(given)
    by_chance = found.min_samples_leaf > 1  # a new score may lie next to a threshold
    assert np.count_nonzero(np.abs(calibrated - wanted).max(axis=1) > 1e-5) <= by_chance
    # Scores that float32 rounds, or that were added up in another order, are the same scores.
    rounded = calibrator.predict_proba(given.astype(np.float32))
    assert np.count_nonzero(np.abs(rounded - wanted).max(axis=1) > 1e-5) <= by_chance
