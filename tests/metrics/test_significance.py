import numpy as np
import pytest
from scipy.stats import kstest

from calibrant import _simplex as simplex
from calibrant import metrics
from calibrant.metrics import _resampling as resampling
from calibrant.metrics import calibration_test, reliability_curve
from calibrant.metrics._resampling import Resamples
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
def test_statistic_is_the_calibration_error(metric):
    proba, y, w = weighted()
    error = metrics.confidence_ece if metric == "confidence" else metrics.classwise_ece
    result = calibration_test(y, proba, metric=metric, sample_weight=w, n_bins=9, n_resamples=5)
    assert result.statistic == error(y, proba, sample_weight=w, n_bins=9)


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
