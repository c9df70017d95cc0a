import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from calibrant.metrics import accuracy, brier_score, negative_log_likelihood
from metrics.cases import predictions, weighted
from reference import metrics as reference


@given(predictions())
def test_equal_the_exact_references(data):
    proba, y, w = data
    rows, kept = proba.tolist(), {"sample_weight": w, "classes": np.arange(proba.shape[1])}
    exact = (rows, y.tolist(), w.tolist())
    assert accuracy(y, proba, **kept) == pytest.approx(float(reference.accuracy(*exact)), rel=1e-15)
    assert brier_score(y, proba, **kept) == pytest.approx(float(reference.brier(*exact)), rel=1e-14)
    for floor in (1e-12, 1e-3, 0):
        expected = pytest.approx(reference.likelihood(*exact, floor), rel=1e-14)
        assert negative_log_likelihood(y, proba, min_probability=floor, **kept) == expected


def test_agree_with_scikit_learn():
    proba, y, w = weighted()
    for weight in (None, w):
        ours = {"sample_weight": weight}
        assert accuracy(y, proba, **ours) == pytest.approx(
            accuracy_score(y, proba.argmax(axis=1), **ours), rel=1e-14
        )
        assert negative_log_likelihood(y, proba, **ours) == pytest.approx(
            log_loss(y, proba, **ours), rel=1e-14
        )
        # Theirs sums over the classes.
        assert 4 * brier_score(y, proba, **ours) == pytest.approx(
            brier_score_loss(y, proba, **ours), rel=1e-14
        )


def test_binary_brier_is_that_of_scikit_learn_without_a_factor():
    proba, y, w = weighted()
    p = proba[:, :2].max(axis=1)
    expected = brier_score_loss(y < 2, p, sample_weight=w)
    assert brier_score(y < 2, p, sample_weight=w) == pytest.approx(expected, rel=1e-14)


def test_certain_and_right_is_perfect():
    y = np.array([0, 2, 1, 1])
    certain = np.eye(3)[y]
    assert accuracy(y, certain) == 1.0
    assert negative_log_likelihood(y, certain, min_probability=0) == 0.0
    assert brier_score(y, certain) == 0.0


def test_certain_and_wrong_costs_the_floor_or_infinity():
    wrong = np.eye(3)[[1, 0, 2]]
    y = np.array([0, 1, 2])
    assert negative_log_likelihood(y, wrong) == pytest.approx(2 / 3 * 12 * np.log(10), rel=1e-14)
    assert negative_log_likelihood(y, wrong, min_probability=0) == np.inf
    assert brier_score(y, wrong) == pytest.approx(2 / 3 * 2 / 3, rel=1e-15)


def test_smallest_double_has_a_finite_loss():
    tiny = np.array([[1.0, 5e-324], [0.5, 0.5]])
    expected = (-np.log(5e-324) - np.log(0.5)) / 2
    assert negative_log_likelihood([1, 0], tiny, min_probability=0) == pytest.approx(expected)


def test_sums_are_exact_over_many_rows():
    """A running sum of a million terms of 0.1 is off in the eleventh digit; this one is not."""
    p = np.full(1_000_000, 0.9)
    assert brier_score(np.ones(1_000_000, dtype=int), p, classes=[0, 1]) == pytest.approx(
        0.01, rel=1e-15
    )
