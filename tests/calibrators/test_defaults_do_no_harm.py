"""With default settings no method makes a classifier worse: forests, few rows, no errors."""

from functools import cache

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier

from calibrant._calibrators.methods import make_calibrator
from conftest import methods_alone

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
RECOMMENDED = ("ts", "na-fir", "scir", "spline", "structured", "auto")
SPREADS = {0.55: 2.1, 0.82: 5.9, 0.98: 52.0, 0.996: 264.0}
"""Standard deviation of ten logits for an accuracy; ``test_spreads`` checks it."""


def nll(p, y):
    return -np.mean(np.log(p[np.arange(len(y)), y]))


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


@pytest.mark.parametrize("accuracy", SPREADS)
def test_spreads(accuracy):
    p, _ = honest(accuracy, 20_000, 0)
    assert p.max(axis=1).mean() == pytest.approx(accuracy, abs=0.05 * (1 - accuracy))


@pytest.mark.parametrize("method", RECOMMENDED[:-1])
@pytest.mark.parametrize("m", [20, 100])
def test_few_rows(method, m):
    assert harm(method, 0.98, [honest(0.98, m, seed) for seed in range(1, 31)]) < 1.08


@pytest.mark.parametrize("method", RECOMMENDED[:-1])
def test_no_errors(method):
    assert harm(method, 0.996, without_errors(0.996, 100, 5)) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("method", RECOMMENDED)
@pytest.mark.parametrize("m", [20, 50, 100, 400])
def test_few_rows_of_every_kind(method, m):
    for accuracy in (0.55, 0.82, 0.98):
        sets = [honest(accuracy, m, seed) for seed in range(1, 31)]
        assert harm(method, accuracy, sets) < 1.08, accuracy


@pytest.mark.slow
@pytest.mark.parametrize("method", RECOMMENDED)
@pytest.mark.parametrize(("accuracy", "m"), [(0.98, 100), (0.996, 100), (0.996, 400)])
def test_no_errors_in_sets_of_every_size(method, accuracy, m):
    assert harm(method, accuracy, without_errors(accuracy, m, 20)) < 1.5


@cache
def forest(data, n_trees):
    """Scores and labels of the calibration and the test part of a forest."""
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        X, y, n, m = X[order], y[order], 600, 600
    else:
        X, y = make_classification(
            6000, 30, n_informative=15, n_classes=int(data), flip_y=0.05, random_state=0
        )
        n, m = 2000, 1440
    model = RandomForestClassifier(n_trees, random_state=0).fit(X[:n], y[:n])
    rest = slice(n + m, None)
    return model.predict_proba(X[n : n + m]), y[n : n + m], model.predict_proba(X[rest]), y[rest]


def relative(method, data, n_trees):
    """NLL relative to that of the forest, whose zeros get the floor that outputs have."""
    p, y, new, new_y = forest(data, n_trees)
    k = p.shape[1]
    plain = np.where(new.min(axis=1, keepdims=True) < 1e-12, 1e-12 + (1 - k * 1e-12) * new, new)
    out = make_calibrator(method, classes=np.arange(k)).fit(p, y).predict_proba(new)
    return nll(out, new_y) / nll(plain, new_y)


@pytest.mark.parametrize("method", [m for m in methods_alone() if m != "auto"])
def test_a_small_forest(method):
    assert relative(method, "digits", 10) < (1.0 if method == "ts" else 1.01)


@pytest.mark.slow
@pytest.mark.parametrize("method", methods_alone())
@pytest.mark.parametrize("data", ["digits", "5", "10", "30"])
def test_forests(method, data):
    worst = max(relative(method, data, n_trees) for n_trees in (10, 50, 200, 500))
    assert worst < (1.0 if method == "ts" else 1.01)
