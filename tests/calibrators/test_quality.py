"""Defaults make no classifier worse: real ones, forests, few rows, no errors."""

from functools import cache

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from calibrant._calibrators.methods import make_calibrator
from calibrators.catalogue import quiet
from conftest import REAL_FILES, load_real, methods_alone, needs_collection, nll

pytestmark = quiet

# Mean and largest ratio of the NLL to that of temperature scaling; MNIST has few errors.
RATIOS = {
    "na-fir": (0.981, 1.05),
    "scir": (0.99, 1.05),
    "structured": (0.94, 1.12),
    "spline": (0.977, 1.05),
}


def judge(method, name):
    """NLL on the test part."""
    data = load_real(name)
    rows, labels = data["test"]
    calibrator = make_calibrator(method, classes=np.arange(rows.shape[1])).fit(*data["val"])
    return nll(calibrator.predict_proba(rows), labels)


@pytest.mark.slow
@needs_collection
@pytest.mark.parametrize("method", RATIOS)
def test_beside_temperature_scaling(method):
    ratios = [judge(method, name) / judge("ts", name) for name in REAL_FILES]
    mean, largest = RATIOS[method]
    assert np.mean(ratios) <= mean
    assert np.max(ratios) <= largest


RECOMMENDED = ("ts", "na-fir", "scir", "spline", "structured")
SPREADS = {0.98: 52.0, 0.996: 264.0}
"""Standard deviation of ten logits for an accuracy."""


def honest(accuracy, m, seed):
    """Rows from whose own probabilities the labels are drawn."""
    rng = np.random.default_rng(seed)
    p = softmax(rng.normal(0, SPREADS[accuracy], (m, 10)), axis=1)
    return p, (p.cumsum(axis=1) > rng.random((m, 1))).argmax(axis=1)


def harm(method, accuracy, sets):
    """Expected NLL of new rows over that of the truth, in the mean over calibration sets."""
    new, _ = honest(accuracy, 3000, 0)
    least = -np.mean(np.sum(new * np.log(np.maximum(new, 1e-300)), axis=1))
    losses = []
    for p, y in sets:
        out = make_calibrator(method, classes=np.arange(10)).fit(p, y).predict_proba(new)
        losses.append(-np.mean(np.sum(new * np.log(out), axis=1)))
    return np.mean(losses) / least


def without_errors(accuracy, m, n_sets):
    found, seed = [], 1
    while len(found) < n_sets:
        p, y = honest(accuracy, m, seed)
        seed += 1
        if np.all(p.argmax(axis=1) == y):
            found.append((p, y))
    return found


@pytest.mark.parametrize("method", RECOMMENDED)
@pytest.mark.parametrize("m", [20, 100])
def test_few_rows(method, m):
    assert harm(method, 0.98, [honest(0.98, m, seed) for seed in range(1, 31)]) < 1.08


@pytest.mark.parametrize("method", RECOMMENDED)
def test_no_errors(method):
    assert harm(method, 0.996, without_errors(0.996, 100, 5)) < 1.5


@cache
def forest():
    """Scores and labels of the calibration and the test part of ten trees."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model = RandomForestClassifier(10, random_state=0).fit(X[:600], y[:600])
    return model.predict_proba(X[600:1200]), y[600:1200], model.predict_proba(X[1200:]), y[1200:]


@pytest.mark.parametrize("method", [m for m in methods_alone() if m != "auto"])
def test_a_small_forest(method):
    """The forest's zeros get the floor that outputs have."""
    p, y, new, new_y = forest()
    plain = np.where(new.min(axis=1, keepdims=True) < 1e-12, 1e-12 + (1 - 1e-11) * new, new)
    out = make_calibrator(method, classes=np.arange(10)).fit(p, y).predict_proba(new)
    assert nll(out, new_y) / nll(plain, new_y) < (1.0 if method == "ts" else 1.01)
