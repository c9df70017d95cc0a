"""The paper's Table 1, and the same of other methods: order kept, class names without effect."""

import numpy as np
import pytest

import calibrant
from calibrators.catalogue import TABLE, make
from conftest import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def tilted():
    """Predictions with a bias for class 0, which only a method that sees classes can remove."""
    p, y = simulate(3000, 4, seed=1)
    p = p * np.array([3.0, 1.0, 1.0, 0.5])
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("name", TABLE)
def test_order_preserving_as_the_table_says(name, tilted):
    p, y = tilted
    out = make(getattr(calibrant, name)).fit(p, y).predict_proba(p)
    order = np.argsort(p, axis=1)
    kept = bool(np.all(np.diff(np.take_along_axis(out, order, axis=1), axis=1) >= 0))
    assert kept is TABLE[name][0]


@pytest.mark.parametrize("name", TABLE)
def test_permutation_invariant_as_the_table_says(name, tilted):
    """Permuting the classes of a new row permutes its output."""
    p, y = tilted
    calibrator = make(getattr(calibrant, name)).fit(p, y)
    order = [2, 0, 3, 1]
    gap = np.abs(
        calibrator.predict_proba(p[:, order]) - calibrator.predict_proba(p)[:, order]
    ).max()
    assert bool(gap < 1e-12) is TABLE[name][1]
