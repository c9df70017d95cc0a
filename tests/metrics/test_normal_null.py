"""Tests and diagrams of rows in chunks: chance from the means and variances of bins."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import errors
from calibrant.metrics import _significance as significance
from calibrant.metrics import calibration_test, classwise_ece, confidence_ece, reliability_curve
from calibrant.metrics._calibration_error import bin_edges, uniform_bins
from calibrant.metrics._predictions import read_predictions
from calibrant.metrics._significance import BinMoments, CellProducts, covariance
from calibrant.metrics._statistics import MetricStatistics
from calibrant.scale._chunks import ArrayChunks
from conftest import simulate
from metrics.cases import weighted
from metrics.test_significance import honest

each_metric = pytest.mark.parametrize("metric", ["confidence", "classwise"])


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
    with pytest.raises(errors.ParameterError, match=r"metric='confidence', take n_bins=10"):
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


def test_a_diagram_without_draws_has_no_bars():
    proba, y = simulate(100, 3)
    found = reliability_curve(None, ArrayChunks(proba, y, n_rows=50), n_resamples=0)
    assert np.isnan(found.consistency_low).all()
    assert np.isnan(found.p_value)
    with pytest.raises(errors.ParameterError, match="neither 'confidence' nor one of the classes"):
        reliability_curve(None, ArrayChunks(proba, y, n_rows=50), kind="top")


def test_bars_are_frequencies():
    proba, y = np.full((3, 2), 0.5), np.array([0, 1, 1])
    curve = reliability_curve(None, ArrayChunks(proba, y, n_rows=2), n_bins=1)
    assert (curve.consistency_low[0], curve.consistency_high[0]) == (0.0, 1.0)
