"""Tests of calibration, and diagrams: labels drawn row by row, or from sums over bins."""

import numpy as np
import pytest
from scipy.stats import kstest

from array_chunks import ArrayChunks
from calibrant import metrics
from calibrant.metrics import _significance as null
from calibrant.metrics import calibration_test
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


def test_chunks_are_tested_by_their_rows():
    proba, y = simulate(500, 3)
    chunks = ArrayChunks(proba, y, n_rows=99)
    found = calibration_test(chunks, random_state=3)
    expected = calibration_test(y, proba, random_state=3)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert found.null_mean == pytest.approx(expected.null_mean, rel=0.02)


def test_labels_are_drawn_row_by_row_where_there_are_too_many_covariances():
    proba, y = honest(np.random.default_rng(0), 200, 100)
    options = {"metric": "classwise", "classes": range(100), "n_resamples": 50}
    assert of_many(y, proba, **options) == calibration_test(y, proba, **options)
    few = of_many(y, proba, n_bins=10, **options)
    assert few.p_value > 0.01
    assert few.null_mean != calibration_test(y, proba, n_bins=10, **options).null_mean
