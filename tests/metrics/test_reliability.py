import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from calibrant.metrics import _significance as null
from calibrant.metrics import calibration_test, confidence_ece, reliability_curve
from conftest import simulate
from metrics.cases import weighted


@pytest.mark.parametrize("n_bins", [5, 15])
def test_points_are_those_of_scikit_learn(n_bins):
    proba, y = simulate(700, 4)
    for kind, p, hit in (
        ("confidence", proba.max(axis=1), proba.argmax(axis=1) == y),
        (2, proba[:, 2], y == 2),
    ):
        curve = reliability_curve(y, proba, kind=kind, n_bins=n_bins, n_resamples=0)
        filled = curve.weight > 0
        share, mean = calibration_curve(hit, p, n_bins=n_bins)
        np.testing.assert_allclose(curve.frequency[filled], share, rtol=1e-14)
        np.testing.assert_allclose(curve.mean_probability[filled], mean, rtol=1e-14)
        np.testing.assert_array_equal(curve.edges, np.linspace(0, 1, n_bins + 1))
        assert np.isnan(curve.frequency[~filled]).all()
        assert curve.weight.sum() == 700
        assert np.isnan(curve.p_value)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_error_is_the_confidence_error(strategy):
    proba, y, w = weighted()
    curve = reliability_curve(y, proba, strategy=strategy, sample_weight=w, n_resamples=0)
    expected = confidence_ece(y, proba, strategy=strategy, sample_weight=w)
    assert curve.ece == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(curve.weight.sum(), w.sum(), rtol=1e-14)


def test_edges_of_equal_mass_tell_the_bins():
    proba, y = simulate(500, 3)
    curve = reliability_curve(y, proba, kind=1, strategy="quantile", n_bins=10, n_resamples=0)
    p = proba[:, 1]
    bins = np.searchsorted(curve.edges[1:-1], p)
    np.testing.assert_array_equal(np.bincount(bins, minlength=10), curve.weight)
    np.testing.assert_array_equal(curve.weight, np.full(10, 50))
    assert (curve.edges[0], curve.edges[-1]) == (0.0, 1.0)
    assert (np.diff(curve.edges) > 0).all()


def test_empty_bins_of_equal_mass_are_left_out():
    proba = np.array([[0.9, 0.1]] * 50 + [[0.6, 0.4]] * 10)
    options = {"strategy": "quantile", "n_resamples": 9}
    curve = reliability_curve(np.arange(60) % 2, proba, kind="confidence", **options)
    assert curve.n_bins == 2
    np.testing.assert_array_equal(curve.weight, [10, 50])
    np.testing.assert_array_equal(curve.edges, [0, 0.6, 1])
    curve = reliability_curve(np.arange(60) % 2, proba, **options)
    np.testing.assert_array_equal(curve.weight, [50, 10])
    np.testing.assert_array_equal(curve.edges, [0, 0.1, 1])


def test_p_value_is_that_of_the_calibration_test():
    proba, y, w = weighted(300)
    honest = proba**0.5 / (proba**0.5).sum(axis=1, keepdims=True)
    options = {"sample_weight": w, "n_resamples": 99, "random_state": 4}
    curve, test = reliability_curve(y, honest, **options), calibration_test(y, honest, **options)
    assert 0.02 < curve.p_value == test.p_value
    assert curve.ece == pytest.approx(test.statistic, rel=1e-12)


def test_consistency_bars_hold_95_percent_of_calibrated_frequencies():
    rng = np.random.default_rng(0)
    inside = total = 0
    for seed in range(60):
        p = rng.random(400)
        y = rng.random(400) < p
        options = {"n_bins": 8, "n_resamples": 200, "random_state": seed}
        curve = reliability_curve(y, p, kind=True, **options)
        held = (curve.consistency_low <= curve.frequency) & (
            curve.frequency <= curve.consistency_high
        )
        inside += held.sum()
        total += len(held)
    assert 0.93 < inside / total < 0.98


def test_many_rows_in_bins_of_equal_mass_are_not_drawn_one_by_one(monkeypatch):
    proba, y = simulate(3000, 2)
    expected = reliability_curve(y, proba, strategy="quantile")
    monkeypatch.setattr(null, "MOST_ROWS_DRAWN", 2999)
    found = reliability_curve(y, proba, strategy="quantile")
    assert found.ece == expected.ece
    np.testing.assert_array_equal(found.edges, expected.edges)
    np.testing.assert_allclose(found.consistency_low, expected.consistency_low, atol=0.03)
    assert found.p_value == pytest.approx(expected.p_value, abs=0.05)
