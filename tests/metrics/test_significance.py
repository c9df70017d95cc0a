"""Tests of calibration, and diagrams: labels drawn row by row, or from sums over bins."""

import numpy as np
import pytest
from scipy.stats import kstest

from calibrant import _simplex as simplex
from calibrant import errors, metrics
from calibrant.metrics import _resampling as resampling
from calibrant.metrics import _significance as significance
from calibrant.metrics import calibration_test, classwise_ece, confidence_ece, reliability_curve
from calibrant.metrics._calibration_error import bin_edges, uniform_bins
from calibrant.metrics._predictions import read_predictions
from calibrant.metrics._resampling import Resamples
from calibrant.metrics._significance import BinMoments, CellProducts, covariance
from calibrant.metrics._statistics import MetricStatistics
from calibrant.scale._chunks import ArrayChunks
from conftest import simulate
from metrics.cases import weighted

each_metric = pytest.mark.parametrize("metric", ["confidence", "classwise"])
each_way = pytest.mark.parametrize("resample_rows", [True, False])


def honest(rng, n_rows, n_classes):
    proba = rng.dirichlet(np.ones(n_classes), n_rows)
    return proba, (proba.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)


def of_rows(y, proba, **options):
    return calibration_test(y, proba, **options)


def of_chunks(y, proba, **options):
    """From sums over chunks, which draw no rows."""
    return calibration_test(None, ArrayChunks(proba, y, n_rows=len(y) // 2), **options)


@each_metric
@pytest.mark.parametrize(
    ("test", "resample_rows"), [(of_rows, True), (of_rows, False), (of_chunks, None)]
)
def test_p_values_of_calibrated_predictions_are_uniform(metric, test, resample_rows):
    rng = np.random.default_rng(0)
    found = []
    for seed in range(150):
        proba, y = honest(rng, 300, 3)
        options = {"n_resamples": 99, "random_state": seed, "classes": [0, 1, 2]}
        result = test(y, proba, metric=metric, resample_rows=resample_rows, **options)
        found.append(result.p_value)
    assert kstest(found, "uniform").pvalue > 0.01
    assert 0.01 < np.mean(np.array(found) <= 0.05) < 0.1


@each_metric
@pytest.mark.parametrize("test", [of_rows, of_chunks])
def test_certain_predictions(metric, test):
    """That are right are no evidence; one that is wrong is impossible."""
    y = np.arange(60) % 3
    proba = np.eye(3)[y]
    result = test(y, proba, metric=metric, n_resamples=50)
    assert (result.statistic, result.p_value, result.null_mean) == (0.0, 1.0, 0.0)
    y[0] = 1
    assert test(y, proba, metric=metric, n_resamples=50).p_value == 1 / 51


@each_metric
@pytest.mark.parametrize("test", [of_rows, of_chunks])
def test_seed_decides(metric, test):
    proba, y = simulate(200, 3)
    one, same, other = (
        test(y, proba, metric=metric, n_resamples=20, random_state=s) for s in (1, 1, 2)
    )
    assert one == same
    assert one.null_mean != other.null_mean


@each_metric
@each_way
def test_null_errors_are_those_of_drawn_labels(metric, resample_rows, monkeypatch):
    """Redo every resample by hand, with the metric itself, over several chunks and blocks."""
    proba, y, w = weighted(90)
    monkeypatch.setattr(simplex, "CHUNK_BYTES", 8 * 4 * 40)
    monkeypatch.setattr(resampling, "BLOCK_BYTES", 8 * 4 * 15 * 3)
    result = calibration_test(
        y, proba, metric=metric, sample_weight=w, n_resamples=8, resample_rows=resample_rows
    )
    draws = Resamples(90, 8, 0, replace=resample_rows)
    by_hand = []
    for r in range(8):
        if metric == "confidence":
            rows = draws.rows(r)
            right = draws.uniforms(r, 90) < proba[rows].max(axis=1)
            top = proba[rows].argmax(axis=1)
            labels = np.where(right, top, (top + 1) % 4)  # any label but the top one
        else:
            inside = [draws.rows(r)[draws.rows(r) // 40 == c] for c in range(3)]
            rows = np.concatenate(inside)
            uniforms = [draws.uniforms(r, len(own), c) for c, own in enumerate(inside)]
            labels = (proba[rows].cumsum(axis=1) > np.concatenate(uniforms)[:, None]).argmax(axis=1)
        error = metrics.confidence_ece if metric == "confidence" else metrics.classwise_ece
        by_hand.append(error(labels, proba[rows], sample_weight=w[rows], classes=range(4)))
    assert result.null_mean == pytest.approx(np.mean(by_hand), rel=1e-12)
    assert dict(result.null_quantiles)[0.95] == pytest.approx(np.quantile(by_hand, 0.95), rel=1e-12)
    reached = sum(e >= result.statistic for e in by_hand)
    assert result.p_value == (1 + reached) / 9


@pytest.mark.parametrize("n_classes", [2, 4])
def test_many_rows_are_tested_from_sums(n_classes, monkeypatch):
    """No row is drawn, and the p-value is that of draws, but for chance."""
    proba, y = simulate(4000, n_classes)
    milder = proba**0.62
    milder /= milder.sum(axis=1, keepdims=True)
    expected = calibration_test(y, milder)
    curve = reliability_curve(y, milder)
    monkeypatch.setattr(resampling, "MOST_ROWS_DRAWN", 3999)
    monkeypatch.setattr(resampling, "null_bins", None)
    found = calibration_test(y, milder)
    assert (found.metric, found.statistic) == (expected.metric, expected.statistic)
    assert found.p_value == pytest.approx(expected.p_value, abs=0.05)
    assert found.null_mean == pytest.approx(expected.null_mean, rel=0.1)
    from_sums = reliability_curve(y, milder)
    assert from_sums.ece == curve.ece
    assert from_sums.p_value == pytest.approx(curve.p_value, abs=0.05)
    np.testing.assert_array_equal(from_sums.frequency, curve.frequency)
    full = curve.weight > 100
    wide = (curve.consistency_high - curve.consistency_low)[full]
    assert (from_sums.consistency_high - from_sums.consistency_low)[full] == pytest.approx(
        wide, rel=0.25
    )


def test_rows_are_kept_where_bins_hold_few():
    """Class-wise, honest predictions of 60 rows of ten classes: drawn rows reject a third."""
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(40):
        proba, y = honest(rng, 60, 10)
        options = {"metric": "classwise", "classes": range(10), "n_resamples": 99}
        test = calibration_test(y, proba, **options)
        assert test == calibration_test(y, proba, resample_rows=False, **options)
        rejected += test.p_value < 0.05
    assert rejected <= 6


def sums_of(body, proba, y, weight):
    predictions = read_predictions(y, proba, weight)
    return predictions.add_up({0: body})[0].total * predictions.unit**2


@pytest.mark.parametrize("column", [None, 2])
def test_moments_are_sums_over_the_bins(column):
    proba, y, w = weighted(200)
    w = np.maximum(w, 0.01)
    w[::9] *= 30.0
    p = proba.max(axis=1) if column is None else proba[:, column].copy()
    sums = sums_of(BinMoments(7, column), proba, y, w)
    found = sums[0, :, 0], sums[0, :, 2], sums[1, :, 2]
    bins = uniform_bins(p, bin_edges(7))
    for m in range(3):
        expected = np.bincount(bins, w**2 * p**m, minlength=7)
        np.testing.assert_allclose(found[m], expected, rtol=1e-9, atol=1e-15 * expected.max())


def test_covariances_are_those_of_drawn_labels():
    proba, y, w = weighted(150, 3)
    w = np.maximum(w, 0.01)
    w[::9] *= 30.0
    found = covariance(sums_of(CellProducts(3, 4), proba, y, w))
    cells = uniform_bins(proba, bin_edges(4)) + 4 * np.arange(3)
    expected = np.zeros((12, 12))
    for row, cell, weight in zip(proba, cells, w, strict=True):
        expected[np.ix_(cell, cell)] += weight**2 * (np.diag(row) - np.outer(row, row))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * expected.max())


@each_metric
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_null_is_that_of_drawn_labels(metric, is_weighted):
    proba, y, w = weighted(2000)
    w = np.maximum(w, 0.01) if is_weighted else None
    chunks = ArrayChunks(proba, y, w, n_rows=700)
    found = calibration_test(None, chunks, metric=metric)
    drawn = calibration_test(y, proba, sample_weight=w, metric=metric, resample_rows=False)
    assert found.null_mean == pytest.approx(drawn.null_mean, rel=0.03)
    for (_, error), (level, expected) in zip(
        found.null_quantiles, drawn.null_quantiles, strict=True
    ):
        assert error == pytest.approx(expected, rel=0.08), level
    assert found.p_value == drawn.p_value == 1 / 1001
    ece = confidence_ece if metric == "confidence" else classwise_ece
    assert found.statistic == pytest.approx(ece(y, proba, sample_weight=w), rel=1e-12)


def test_statistics_test_themselves():
    proba, y = simulate(500, 3)
    chunks = ArrayChunks(proba, y, n_rows=99)
    found = chunks.count(MetricStatistics(range(3)))
    assert found.calibration_test(random_state=3) == calibration_test(None, chunks, random_state=3)
    assert found.calibration_test(random_state=3) != found.calibration_test(random_state=4)


def test_too_many_covariances_are_refused():
    proba, y = honest(np.random.default_rng(0), 200, 100)
    chunks = ArrayChunks(proba, y, n_rows=200)
    with pytest.raises(errors.ParameterError, match=r"metric='confidence', n_bins=10"):
        calibration_test(None, chunks, metric="classwise", classes=range(100))
    result = calibration_test(None, chunks, metric="classwise", n_bins=10, classes=range(100))
    assert result.p_value > 0.01
    assert significance.MOST_COVARIANCES >= 100 * 10


@pytest.mark.parametrize("kind", ["confidence", 1])
@pytest.mark.parametrize("resample_rows", [False, True])
def test_the_diagram_is_that_of_arrays(kind, resample_rows):
    rng = np.random.default_rng(0)
    proba, y = honest(rng, 4000, 3)
    w = rng.gamma(2.0, 0.5, 4000) + 0.01
    options = {"kind": kind, "n_bins": 6, "resample_rows": resample_rows}
    found = reliability_curve(None, ArrayChunks(proba, y, w, n_rows=999), **options)
    expected = reliability_curve(y, proba, sample_weight=w, **options)
    for name in ("edges", "mean_probability", "frequency", "weight"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    assert found.ece == pytest.approx(expected.ece, rel=1e-12)
    assert found.p_value == pytest.approx(expected.p_value, abs=0.1)
    width = expected.consistency_high - expected.consistency_low
    for name in ("consistency_low", "consistency_high"):
        off = np.abs(getattr(found, name) - getattr(expected, name)) / width
        assert np.nanmax(off) < 0.12
