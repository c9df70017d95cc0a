"""The error without bins: smoothed as much as there is error."""

import numpy as np
import pytest
from hypothesis import given, settings

from calibrant.metrics import smooth_ece
from calibrant.metrics._unbinned import N_MOMENTS, cosine_series, smoothed_size
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
