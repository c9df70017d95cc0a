"""Tests of calibration, and diagrams: labels drawn row by row, or from sums over bins."""

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.calibration import calibration_curve

from calibrant import metrics
from calibrant.metrics import _significance as null
from calibrant.metrics import calibration_test, confidence_ece, reliability_curve
from calibrant.metrics._significance import Draws
from conftest import simulate
from metrics.cases import weighted

each_metric = pytest.mark.parametrize("metric", ["confidence", "classwise"])


def honest(rng, n_rows, n_classes):
    proba = rng.dirichlet(np.ones(n_classes), n_rows)
    return proba, (proba.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)


def of_rows(y, proba, **options):
    return calibration_test(y, proba, **options)


def of_many(y, proba, **options):
    """As of many rows: labels in bins are normal."""
    most, null.MOST_ROWS_DRAWN = null.MOST_ROWS_DRAWN, 10
    try:
        return calibration_test(y, proba, **options)
    finally:
        null.MOST_ROWS_DRAWN = most


@each_metric
@pytest.mark.parametrize("test", [of_rows, of_many])
def test_p_values_of_calibrated_predictions_are_uniform(metric, test):
    rng = np.random.default_rng(0)
    found = []
    for seed in range(150):
        proba, y = honest(rng, 300, 3)
        options = {"n_resamples": 99, "random_state": seed, "classes": [0, 1, 2]}
        found.append(test(y, proba, metric=metric, **options).p_value)
    assert kstest(found, "uniform").pvalue > 0.01
    assert 0.01 < np.mean(np.array(found) <= 0.05) < 0.1


@each_metric
@pytest.mark.parametrize("test", [of_rows, of_many])
def test_certain_predictions(metric, test):
    """That are right are no evidence; one that is wrong is impossible."""
    y = np.arange(60) % 3
    proba = np.eye(3)[y]
    result = test(y, proba, metric=metric, n_resamples=50)
    assert (result.statistic, result.p_value, result.null_mean) == (0.0, 1.0, 0.0)
    y[0] = 1
    assert test(y, proba, metric=metric, n_resamples=50).p_value == 1 / 51


@each_metric
def test_null_errors_are_those_of_drawn_labels(metric):
    """Redo every resample by hand, with the metric itself."""
    proba, y, w = weighted(90)
    result = calibration_test(y, proba, metric=metric, sample_weight=w, n_resamples=8)
    if metric == "confidence":  # whose draws are of rows in the order of their confidence
        order = np.argsort(proba.max(axis=1))
        proba, w = proba[order], w[order]
    draws = Draws(90, 8, 0, replace=metric == "confidence")
    by_hand = []
    for r in range(8):
        rows, uniforms = draws.rows_and_uniforms(r)
        if metric == "confidence":
            right = uniforms < proba[rows].max(axis=1)
            top = proba[rows].argmax(axis=1)
            labels = np.where(right, top, (top + 1) % 4)  # any label but the top one
        else:
            labels = (proba[rows].cumsum(axis=1) > uniforms[:, None]).argmax(axis=1)
        error = metrics.confidence_ece if metric == "confidence" else metrics.classwise_ece
        by_hand.append(error(labels, proba[rows], sample_weight=w[rows], classes=range(4)))
    assert result.null_mean == pytest.approx(np.mean(by_hand), rel=1e-12)
    reached = sum(e >= result.statistic for e in by_hand)
    assert result.p_value == (1 + reached) / 9


def test_rows_are_kept_where_bins_hold_few():
    """Class-wise, honest predictions of 60 rows of ten classes: drawn rows reject a third."""
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(40):
        proba, y = honest(rng, 60, 10)
        options = {"metric": "classwise", "classes": range(10), "n_resamples": 99}
        test = calibration_test(y, proba, **options)
        rejected += test.p_value < 0.05
    assert rejected <= 6


@each_metric
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_normal_null_is_that_of_drawn_labels(metric, is_weighted):
    proba, y, w = weighted(2000)
    own = {"sample_weight": np.maximum(w, 0.01) if is_weighted else None, "metric": metric}
    found, drawn = of_many(y, proba, **own), calibration_test(y, proba, **own)
    assert found.null_mean == pytest.approx(drawn.null_mean, rel=0.05)
    assert found.p_value == drawn.p_value == 1 / 1001
    assert found.statistic == drawn.statistic


def test_labels_are_drawn_row_by_row_where_there_are_too_many_covariances():
    proba, y = honest(np.random.default_rng(0), 200, 100)
    options = {"metric": "classwise", "classes": range(100), "n_resamples": 50}
    assert of_many(y, proba, **options) == calibration_test(y, proba, **options)
    few = of_many(y, proba, n_bins=10, **options)
    assert few.p_value > 0.01
    assert few.null_mean != calibration_test(y, proba, n_bins=10, **options).null_mean


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


def test_edges_of_equal_mass_tell_the_bins_and_empty_ones_are_left_out():
    proba, y = simulate(500, 3)
    curve = reliability_curve(y, proba, kind=1, strategy="quantile", n_bins=10, n_resamples=0)
    bins = np.searchsorted(curve.edges[1:-1], proba[:, 1])
    np.testing.assert_array_equal(np.bincount(bins, minlength=10), np.full(10, 50))
    np.testing.assert_array_equal(curve.weight, np.full(10, 50))
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
