"""Errors without bins: smoothed as much as there is error, and by kernel densities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from calibrant.metrics import kernel_density_ece, smooth_ece
from calibrant.metrics._smooth import N_MOMENTS, cosine_series, smoothed_size
from metrics.cases import predictions, recorded, weighted
from reference import metrics as reference


def miss(y, proba, weights=None):
    """By how much the literal error at this bandwidth differs from it.

    The error falls as the bandwidth rises, so the fixed point is not farther away than that.
    """
    value = smooth_ece(y, proba, sample_weight=weights, classes=range(proba.shape[1]))
    own = None if weights is None else weights.tolist()
    sigma = max(value, 1e-9)
    return reference.smoothed_error(proba.tolist(), y.tolist(), sigma, own) - value


@pytest.mark.parametrize("n_rows", [1, 2, 9, 40])
@pytest.mark.parametrize("has_weights", [False, True])
def test_is_the_fixed_point_of_the_literal_error(n_rows, has_weights):
    proba, y, w = weighted(n_rows, seed=n_rows)
    assert miss(y, proba, w if has_weights else None) == pytest.approx(0.0, abs=1e-13)


@settings(max_examples=10)
@given(predictions(6))
def test_is_the_fixed_point_with_ties_zeros_and_ones(data):
    proba, y, w = data
    kept = w > 0
    assert miss(y[kept], proba[kept], w[kept]) == pytest.approx(0.0, abs=1e-13)


def series(places, masses, n_cells=1 << 13):
    """Series of some point masses."""
    position = np.asarray(places) * n_cells
    cell = np.minimum(position.astype(int), n_cells - 1)
    moments = np.zeros((N_MOMENTS, n_cells))
    for m in range(N_MOMENTS):
        np.add.at(moments[m], cell, np.asarray(masses) * (2 * (position - cell) - 1) ** m)
    return cosine_series(moments)


@pytest.mark.parametrize("sigma", [0.002, 0.01, 0.07, 0.5, 1.5])
def test_every_bandwidth_equals_the_literal_sum(sigma):
    proba, y, _ = weighted(25, seed=3)
    residuals = proba.max(axis=1) - (proba.argmax(axis=1) == y)
    found = smoothed_size(series(proba.max(axis=1), residuals / 25), sigma)
    steps = max(1000, int(20 / sigma))
    expected = reference.smoothed_error(proba.tolist(), y.tolist(), sigma, n_steps=steps)
    assert found == pytest.approx(expected, abs=1e-13)


def test_two_roots_within_a_step_are_found():
    """Three masses whose sum dips below zero for less than a step of the grid.

    The dip has the width 0.0008 where steps have 1 / 256, and lies inside of one.
    """
    sigma, center = 0.1, 0.50195
    places = np.array([center - 0.25, center, center + 0.25])
    outer = 2 * math.exp(-(2.5**2) / 2)
    masses = np.array([1.0, -outer * (1 + 8e-6), 1.0])
    masses /= np.abs(masses).sum()
    t = np.linspace(center - 0.001, center + 0.001, 20_001)
    images = np.concatenate([places, -places, 2 - places])
    kernel = np.exp(-(((t[:, None] - images) / sigma) ** 2) / 2) / sigma / math.sqrt(2 * math.pi)
    smoothed = kernel @ np.tile(masses, 3)
    below = smoothed[smoothed < 0]
    assert 0.0003 < len(below) * 1e-7 < 0.0011
    missed = 2 * -below.sum() * 1e-7  # what one would be off without them
    found = smoothed_size(series(places, masses), sigma)
    assert missed > 1e-10
    assert found == pytest.approx(abs(masses.sum()) + missed, abs=missed / 50)


def test_agrees_with_the_authors_program():
    """Numbers of relplot 1.0.3, of rows below 0.995.

    ::

        config.smECE_mesh_pts = 20_000
        [smECE_sigma(top, right, s) for s in (0.02, 0.05, 0.1)]

    It spreads residuals over a grid of a thousand nodes, truncates the kernel, and counts what lies
    on the end nodes half: hence no rows near 1 here. On all rows it finds 0.1248 for ``smECE``,
    where the literal error has its fixed point at 0.1221.
    """
    bold, _, y = recorded()
    kept = bold.max(axis=1) < 0.995
    bold, y = bold[kept], y[kept]
    top, right = bold.max(axis=1), bold.argmax(axis=1) == y
    found = series(top, (top - right) / len(y))
    theirs = {0.02: 0.14489821269083566, 0.05: 0.13903566328419437, 0.1: 0.13592124921890883}
    for sigma, expected in theirs.items():
        assert smoothed_size(found, sigma) == pytest.approx(expected, abs=1e-5)
    # Its search of the bandwidth ends after ten halvings, its mesh has 200 points.
    assert smooth_ece(y, bold) == pytest.approx(0.1361980880277347, abs=1e-3)


def test_residuals_of_one_sign_have_their_mean_also_tiny_ones():
    """1 - 1e-4 and always right: all residuals are 1e-4."""
    p = np.array([0.6, 0.7, 0.95])
    assert smooth_ece([0, 0, 0], p, classes=[0, 1]) == pytest.approx(0.75, rel=1e-14)
    value = smooth_ece(np.ones(50, dtype=int), np.full(50, 1 - 1e-4), classes=[0, 1])
    assert value == pytest.approx(1e-4, rel=1e-9)


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
