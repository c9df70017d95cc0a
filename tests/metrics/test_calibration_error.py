import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from calibrant.metrics import classwise_ece, confidence_ece, thresholded_ece
from metrics.cases import weighted

close = {"rel": 1e-14, "abs": 1e-15}
each_norm = pytest.mark.parametrize("norm", ["l1", "l2", "max"])


def curve_error(y, p, n_bins):
    """ECE from scikit-learn's curve, which does not say how many rows a bin has."""
    share, mean = calibration_curve(y, p, n_bins=n_bins, strategy="uniform")
    bins = np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], p)
    counts = np.bincount(bins)
    return np.sum(np.abs(share - mean) * counts[counts > 0]) / len(p)


@pytest.mark.parametrize("n_bins", [3, 10, 15, 49])
def test_bins_are_those_of_scikit_learn_also_on_their_edges(n_bins):
    proba, y, _ = weighted()
    edges = np.linspace(0, 1, n_bins + 1)
    p = np.concatenate([proba[:, 0], edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    p = np.clip(p, 0, 1)
    hit = np.concatenate([y == 0, np.arange(3 * n_bins + 3) % 3 == 0])
    both = (curve_error(hit, p, n_bins) + curve_error(~hit, 1 - p, n_bins)) / 2
    assert classwise_ece(hit, p, n_bins=n_bins) == pytest.approx(both, rel=1e-13)
    top = np.maximum(p, 1 - p)
    right = hit == (p > 0.5)
    expected = curve_error(right, top, n_bins)
    assert confidence_ece(hit, p, n_bins=n_bins) == pytest.approx(expected, rel=1e-13)


def test_uniform_rows_count_in_the_thresholded_error_whatever_their_rounding():
    for k in range(2, 60):
        for dtype in (np.float64, np.float32):
            uniform = np.full((k, k), 1 / k, dtype=dtype)
            assert thresholded_ece(np.arange(k), uniform) == pytest.approx(0, abs=1e-15)
            one_class = thresholded_ece(np.zeros(k, int), uniform, classes=range(k))
            assert one_class == pytest.approx(2 * (k - 1) / k**2)  # 1 - 1/k once, 1/k for others


def test_classes_without_such_predictions_do_not_count_in_the_thresholded_error():
    proba = np.array([[0.6, 0.4 - 1e-3, 1e-3]] * 10)
    y = np.array([0] * 6 + [1] * 4)
    assert thresholded_ece(y, proba, classes=[0, 1, 2]) == pytest.approx(1e-3 / 2, rel=1e-9)
