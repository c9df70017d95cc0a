import numpy as np
import pytest

from calibrant.metrics import kernel_density_ece
from metrics.cases import recorded, weighted
from reference import metrics as reference


@pytest.mark.parametrize("weights", [False, True])
def test_equals_the_sum_over_all_rows_and_images(weights):
    proba, y, w = weighted(150)
    w = w if weights else None
    expected = reference.density_error(
        proba.tolist(), y.tolist(), None if w is None else w.tolist(), n_steps=1500
    )
    assert kernel_density_ece(y, proba, sample_weight=w) == pytest.approx(expected, rel=1e-5)


def test_bandwidth_is_the_rule_of_the_hits():
    bold, _, y = recorded()
    top, right = bold.max(axis=1), bold.argmax(axis=1) == y
    rule = np.std(top[right]) * 2000**-0.2
    assert kernel_density_ece(y, bold, bandwidth=rule) == pytest.approx(
        kernel_density_ece(y, bold), rel=1e-12
    )
    assert kernel_density_ece(y, bold, bandwidth=3 * rule) != kernel_density_ece(y, bold)


@pytest.mark.parametrize(
    ("bandwidth", "expected", "tolerance"),
    [(0.0, 0.25, 1e-4), (0.01, 0.25, 1e-4), (0.3, 0.4, 0.1), (1.0, 0.5, 0.03)],
)
def test_mass_is_kept_at_any_bandwidth(bandwidth, expected, tolerance):
    """All right: the error is 1 - mean of z, and mirroring keeps z in [0, 1]."""
    p = np.full(50, 0.75)
    value = kernel_density_ece(np.ones(50, dtype=int), p, bandwidth=bandwidth, classes=[0, 1])
    assert value == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("p", [0.5, 0.6, 0.999, 1.0])
def test_equal_confidences_have_the_gap_itself(p):
    """No spread, so the narrowest kernel: |p - accuracy| up to its width."""
    proba = np.full(100, p)
    for n_right in (0, 37, 100):
        y = np.arange(100) < n_right
        right = n_right / 100 if p > 0.5 else 1 - n_right / 100  # column 0 wins the tie
        value = kernel_density_ece(y, proba, classes=[False, True])
        assert value == pytest.approx(abs(p - right), abs=1e-3)


def test_shift_of_the_confidence_is_found():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.7, 0.95, 200_000)
    y = rng.random(200_000) < p - 0.1
    assert kernel_density_ece(y, p) == pytest.approx(0.1, abs=0.005)
