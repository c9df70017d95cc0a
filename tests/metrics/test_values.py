"""Values of metrics: exact fractions, scikit-learn, and the numbers that other programs print."""

import itertools
import math

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.utils.fixes import parse_version

from calibrant import metrics
from calibrant.metrics import (
    accuracy,
    brier_score,
    classwise_ece,
    confidence_ece,
    cumulative_differences,
    negative_log_likelihood,
    ranked_probability_score,
    reliability_curve,
    score_decomposition,
    thresholded_ece,
)
from metrics.cases import SCALARS, predictions, recorded, weighted
from reference import metrics as reference


def values(y, proba, w, n_bins=15, floor=1e-12):
    """Pairs of ours and the exact value, of every metric that has one."""
    own = {"sample_weight": w, "classes": np.arange(proba.shape[1])}
    exact = proba.tolist(), y.tolist(), w.tolist()
    bins = own | {"n_bins": n_bins}
    two = np.column_stack([1 - proba[:, 1], proba[:, 1]])
    yield accuracy(y, proba, **own), reference.accuracy(*exact)
    yield brier_score(y, proba, **own), reference.brier(*exact)
    yield ranked_probability_score(y, proba, **own), reference.ranked(*exact)
    loss = negative_log_likelihood(y, proba, min_probability=floor, **own)
    yield loss, reference.likelihood(*exact, floor)
    hits = (y == 1).astype(int).tolist()
    for norm, strategy in itertools.product(("l1", "l2", "max"), ("uniform", "quantile")):
        ours = classwise_ece(y, proba, norm=norm, **bins)
        yield ours, reference.classwise_error(*exact, n_bins, norm)
        ours = thresholded_ece(y, proba, norm=norm, **bins)
        yield ours, reference.thresholded_error(*exact, n_bins, norm)
        how = {"n_bins": n_bins, "strategy": strategy, "norm": norm}
        ours = confidence_ece(y, proba, **own, **how)
        yield ours, reference.confidence_error(*exact, **how)
        ours = metrics.positive_ece(y == 1, two, sample_weight=w, classes=[False, True], **how)
        yield ours, reference.positive_error(two.tolist(), hits, exact[2], **how)
    found = cumulative_differences(y, proba, **own)
    yield from zip(
        (found.kuiper, found.kolmogorov_smirnov), reference.cumulative_errors(*exact), strict=True
    )
    kept = [[cell for cell, weight in zip(part, w, strict=True) if weight > 0] for part in exact]
    parts = score_decomposition(y, proba, **own)
    ours = parts.score, parts.refinement, parts.uncertainty
    yield from zip(ours, reference.decomposition(*kept), strict=True)


@given(
    data=predictions(),
    n_bins=st.sampled_from([1, 2, 3, 10, 15]),
    floor=st.sampled_from([1e-12, 1e-3, 0]),
)
def test_equal_the_exact_references(data, n_bins, floor):
    proba, y, w = data
    for ours, expected in values(y, proba, w, n_bins, floor):
        assert ours == pytest.approx(float(expected), rel=1e-13, abs=1e-15)


def test_equal_the_exact_references_with_real_weights():
    proba, y, w = weighted(40)
    for ours, expected in values(y, proba, w):
        assert ours == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.7"),
    reason="whose Brier score is of two classes alone",
)
def test_agree_with_scikit_learn():
    """Whose Brier score sums over the classes, and of two does not."""
    proba, y, w = weighted()
    for weight in (None, w):
        own = {"sample_weight": weight}
        for ours, theirs in (
            (accuracy(y, proba, **own), accuracy_score(y, proba.argmax(axis=1), **own)),
            (negative_log_likelihood(y, proba, **own), log_loss(y, proba, **own)),
            (4 * brier_score(y, proba, **own), brier_score_loss(y, proba, **own)),
            (brier_score(y < 2, proba[:, 0], **own), brier_score_loss(y < 2, proba[:, 0], **own)),
        ):
            assert ours == pytest.approx(theirs, rel=1e-14)


def test_agree_with_other_programs():
    """Numbers of torchmetrics 1.9.0 with torch 2.13.0, whose sums are float32, and of netcal 1.4.0.

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

        from netcal.metrics import ACE, ECE
        print(ECE(15).measure(bold, y), ACE(15).measure(bold, y))
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
    assert confidence_ece(y, bold) == pytest.approx(0.1338739122420676, rel=1e-14)
    curve = reliability_curve(y, bold, n_resamples=0)
    gaps = np.abs(curve.mean_probability - curve.frequency)
    assert np.nanmean(gaps) == pytest.approx(0.17611063580524045, rel=1e-14)


@pytest.mark.parametrize("name", SCALARS)
def test_certain_and_right_is_perfect(name):
    y = np.arange(12) % 3
    expected = 1.0 if name == "accuracy" else 0.0
    assert SCALARS[name](y, np.eye(3)[y]) == pytest.approx(expected, abs=1e-12)


def test_certain_and_wrong_costs_the_floor_or_infinity():
    wrong, y = np.eye(3)[[1, 0, 2]], np.array([0, 1, 2])
    assert negative_log_likelihood(y, wrong) == pytest.approx(2 / 3 * 12 * math.log(10), rel=1e-14)
    assert negative_log_likelihood(y, wrong, min_probability=0) == np.inf
    assert brier_score(y, wrong) == pytest.approx(2 / 3 * 2 / 3, rel=1e-15)
    tiny = np.array([[1.0, 5e-324], [0.5, 0.5]])
    expected = (-math.log(5e-324) - math.log(0.5)) / 2
    assert negative_log_likelihood([1, 0], tiny, min_probability=0) == pytest.approx(expected)


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


@given(predictions())
def test_identity_and_signs(data):
    proba, y, w = data
    found = score_decomposition(y, proba, sample_weight=w, classes=range(proba.shape[1]))
    assert not any(math.isnan(value) for value in found.to_dict().values())
    assert found.miscalibration >= 0
    assert found.discrimination >= 0
    assert math.isfinite(found.refinement)
    assert found.score == pytest.approx(
        found.miscalibration - found.discrimination + found.uncertainty, abs=1e-15
    )
    assert found.score == pytest.approx(found.refinement + found.miscalibration, abs=1e-15)
