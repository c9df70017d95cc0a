import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from calibrant.metrics import classwise_ece, confidence_ece, thresholded_ece
from metrics.cases import predictions, recorded, weighted
from reference import metrics as reference

close = {"rel": 1e-14, "abs": 1e-15}
each_norm = pytest.mark.parametrize("norm", ["l1", "l2", "max"])


@each_norm
@given(data=predictions(), n_bins=st.sampled_from([1, 2, 3, 10, 15]))
def test_equal_the_exact_references(norm, data, n_bins):
    proba, y, w = data
    options = {"sample_weight": w, "classes": np.arange(proba.shape[1]), "norm": norm}
    exact = (proba.tolist(), y.tolist(), w.tolist(), n_bins)
    for ours, expected in (
        (confidence_ece(y, proba, n_bins=n_bins, **options), reference.confidence_error),
        (classwise_ece(y, proba, n_bins=n_bins, **options), reference.classwise_error),
        (thresholded_ece(y, proba, n_bins=n_bins, **options), reference.thresholded_error),
    ):
        assert ours == pytest.approx(float(expected(*exact, norm=norm)), **close)
    expected = reference.confidence_error(*exact, "quantile", norm)
    quantile = confidence_ece(y, proba, n_bins=n_bins, strategy="quantile", **options)
    assert quantile == pytest.approx(float(expected), **close)


def test_equal_the_references_with_real_weights():
    proba, y, w = weighted(120)
    exact = (proba.tolist(), y.tolist(), w.tolist())
    for ours, expected in (
        (confidence_ece, reference.confidence_error),
        (classwise_ece, reference.classwise_error),
        (thresholded_ece, reference.thresholded_error),
    ):
        value = ours(y, proba, sample_weight=w)
        assert value == pytest.approx(float(expected(*exact)), **close)


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


def test_a_perfect_calibrator_has_no_error_on_its_own_bins():
    """Each bin predicts its own share of labels."""
    rng = np.random.default_rng(0)
    proba, y = [], []
    for b in range(8, 15):  # in bin b of 15, 60 rows of which the share predicted is right
        right = round(60 * (b + 0.5) / 15)
        proba += [[right / 60, 1 - right / 60]] * 60
        y += [0] * right + [1] * (60 - right)
    order = rng.permutation(len(y))
    proba, y = np.array(proba)[order], np.array(y)[order]
    for error in (confidence_ece, classwise_ece):
        assert error(y, proba) <= 1e-16
    assert confidence_ece(y, proba, n_bins=7, strategy="quantile") <= 1e-16
    assert thresholded_ece(y, proba, n_bins=7) <= 1e-16


def test_agrees_with_torchmetrics():
    """Numbers of torchmetrics 1.9.0 with torch 2.13.0, whose sums are float32.

    ::

        from torchmetrics.functional.classification import (
            binary_calibration_error, multiclass_calibration_error)
        for norm in ("l1", "l2", "max"):
            for n_bins in (15, 10):
                print(multiclass_calibration_error(
                    torch.from_numpy(bold), torch.from_numpy(y), 4, n_bins, norm).item())
        print(np.mean([binary_calibration_error(
            torch.from_numpy(bold[:, j]), torch.from_numpy((y == j).astype(int)), 15).item()
            for j in range(4)]))
    """
    bold, _, y = recorded()
    for norm, n_bins, theirs in (
        ("l1", 15, 0.13387387990951538),
        ("l1", 10, 0.1303950846195221),
        ("l2", 15, 0.15062357485294342),
        ("l2", 10, 0.1328645944595337),
        ("max", 15, 0.6744270324707031),
        ("max", 10, 0.1738448143005371),
    ):
        ours = confidence_ece(y, bold, n_bins=n_bins, norm=norm)
        assert ours == pytest.approx(theirs, rel=2e-6)
    assert classwise_ece(y, bold) == pytest.approx(0.07061195829657048, rel=2e-6)


def test_agrees_with_netcal():
    """Numbers of netcal 1.4.0.

    ::

        from netcal.metrics import ECE, MCE
        print(ECE(15).measure(bold, y), MCE(15).measure(bold, y))
    """
    bold, _, y = recorded()
    assert confidence_ece(y, bold) == pytest.approx(0.1338739122420676, rel=1e-14)
    assert confidence_ece(y, bold, norm="max") == pytest.approx(0.6744270403529915, rel=1e-14)


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


def test_a_tie_is_never_split():
    """All predictions equal: one bin, whatever the labels' order."""
    proba = np.full((30, 2), 0.5)
    y = np.arange(30) % 2
    assert thresholded_ece(y, proba) == 0.0
    assert confidence_ece(y, proba, strategy="quantile") == 0.0


def test_more_bins_see_more():
    proba, y, _ = weighted()
    errors = [confidence_ece(y, proba, n_bins=n) for n in (1, 3, 9, 27)]
    assert errors == sorted(errors)
