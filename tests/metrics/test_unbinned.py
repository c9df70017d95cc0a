"""Errors without bins: smoothed, cumulative, and of the shares of classes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.integrate import quad

from array_chunks import ArrayChunks
from calibrant.metrics import class_shares, cumulative_differences, smooth_ece
from calibrant.metrics._unbinned import (
    N_MOMENTS,
    chances,
    cosine_series,
    holm,
    peak_exceeds,
    range_exceeds,
    smoothed_size,
)
from conftest import refuses, simulate
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


def test_the_curve_ends_at_the_mean_gap_and_has_the_statistics():
    proba, y, w = weighted()
    found = cumulative_differences(y, proba, sample_weight=w)
    right = proba.argmax(axis=1) == y
    gap = np.average(right - proba.max(axis=1), weights=w)
    assert found.difference[-1] == pytest.approx(gap, rel=1e-12)
    np.testing.assert_array_equal(found.probability, np.unique(proba.max(axis=1)))
    with_zero = np.append(found.difference, 0.0)
    assert found.kuiper == with_zero.max() - with_zero.min()
    assert found.kolmogorov_smirnov == np.abs(with_zero).max()
    assert found.to_dict()["difference"] == found.difference.tolist()


def test_a_class_of_its_own():
    proba, y, _ = weighted()
    found = cumulative_differences(y, proba, kind=2)
    binary = cumulative_differences(y == 2, proba[:, 2], kind=True)
    assert found.kind == 2
    np.testing.assert_array_equal(found.difference, binary.difference)
    with refuses("kind", value=7):
        cumulative_differences(y, proba, kind=7)


def test_distributions_have_the_means_of_brownian_motion():
    """Of the range sqrt(8 / pi), of the largest absolute value sqrt(pi / 2)."""
    for exceeds, seam, mean in (
        (range_exceeds, 2.0, math.sqrt(8 / math.pi)),
        (peak_exceeds, 1.2, math.sqrt(math.pi / 2)),
    ):
        area = quad(exceeds, 0, seam, limit=200)[0] + quad(exceeds, seam, 40)[0]
        assert area == pytest.approx(mean, rel=1e-9)
        values = [exceeds(x) for x in np.linspace(0, 12, 2000)]
        assert np.all(np.diff(values) <= 1e-12)
        assert values[0] == 1.0
        assert 0.0 < exceeds(30.0) < 1e-190
        assert exceeds(seam * (1 - 1e-15)) == pytest.approx(exceeds(seam), rel=1e-13)


def test_honest_predictions_are_rarely_rejected_and_bold_ones_always():
    rng = np.random.default_rng(0)
    rejected = np.zeros(2)
    for _ in range(200):
        honest = rng.dirichlet(np.ones(4), size=400)
        y = (honest.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
        found = cumulative_differences(y, honest)
        rejected += [found.kuiper_p_value < 0.05, found.kolmogorov_smirnov_p_value < 0.05]
    assert np.all(rejected / 200 < 0.08)
    bold, y = simulate(1000, 4)
    assert cumulative_differences(y, bold).kuiper_p_value < 1e-6


def test_certain_predictions_are_right_or_are_not():
    found = cumulative_differences([0, 1], [[1.0, 0.0], [0.0, 1.0]])
    assert (found.kuiper, found.scale, found.kuiper_p_value) == (0.0, 0.0, 1.0)
    found = cumulative_differences([0, 0], [[1.0, 0.0], [0.0, 1.0]], classes=[0, 1])
    assert (found.kuiper, found.kuiper_p_value) == (0.5, 0.0)
    assert found.kolmogorov_smirnov_p_value == 0.0


def exact_chance(p, count):
    """Two-sided: twice the tail of the Poisson binomial distribution from its mean on."""
    law = np.ones(1)
    for own in p:
        law = np.convolve(law, [1 - own, own])
    tail = law[count:].sum() if count > p.sum() else law[: count + 1].sum()
    return min(2 * tail, 1.0)


def found_chance(p, count):
    sums = np.array([p.sum()]), np.array([(p * p).sum()])
    return float(chances(p.sum() - count, *sums, sums[0], np.array([float(len(p))]))[0])


@pytest.mark.parametrize(
    "p",
    [
        np.full(1000, 1e-5),
        np.full(300, 0.01),
        np.linspace(0.01, 0.99, 200),
        np.full(50, 0.97),
        np.r_[np.full(100, 0.001), np.full(100, 0.999)],
    ],
    ids=["hardly any", "rare", "even", "nearly all", "sharp"],
)
def test_p_values_are_those_of_the_exact_law_or_larger(p):
    """Never smaller by half, however few rows are expected."""
    pairs = [(exact_chance(p, count), found_chance(p, count)) for count in range(len(p) + 1)]
    assert all(found > 0.4 * exact for exact, found in pairs if exact > 1e-12)
    p = np.linspace(0.01, 0.99, 200)  # of many rows they are those of the law
    for gap in (-3, -2, 2, 3):
        count = round(p.sum() + gap * math.sqrt((p * (1 - p)).sum()))
        assert 0.9 < found_chance(p, count) / exact_chance(p, count) < 2


def test_shares_and_weights_by_hand():
    proba = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    found = class_shares([0, 1, 2], proba, sample_weight=[2, 1, 1])
    np.testing.assert_allclose(found.predicted, [1.3 / 4, 1.6 / 4, 1.1 / 4])
    np.testing.assert_allclose(found.observed, [0.5, 0.25, 0.25])
    assert found.classes.tolist() == [0, 1, 2]
    assert (found.p_holm >= found.p_value).all()
    certain = class_shares([0, 1, 1], np.eye(2)[[0, 1, 1]])
    assert certain.p_value.tolist() == [1.0, 1.0]
    wrong = class_shares([0, 1, 1], np.eye(2)[[0, 0, 1]])
    assert wrong.p_value.tolist() == [0.0, 0.0]


def test_chunks_say_the_same():
    proba, y, w = weighted(500)
    w = np.maximum(w, 0.01)
    expected = class_shares(y, proba, sample_weight=w)
    found = class_shares(ArrayChunks(proba, y, w, n_rows=77))
    for name in ("predicted", "observed", "p_value", "p_holm"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


def test_of_many_rare_classes_none_is_named_by_chance():
    """Classes of which 0.01 rows are expected come once now and then: that is no error."""
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(10):
        proba = rng.dirichlet(np.full(500, 0.02), size=300)
        y = (proba.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
        named += bool((class_shares(y, proba, classes=range(500)).p_holm < 0.05).any())
    assert named <= 2


def test_a_class_that_rows_of_next_to_no_weight_are_predicted_to_be_has_a_p_value():
    """Squares of their weights are too small to be counted, and its p-value was NaN."""
    proba = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    found = class_shares([0, 1, 1, 0], proba, sample_weight=[1, 1, 1e-12, 1])
    assert found.p_holm.tolist() == [0.0, 0.0]  # of what was certain, some did not happen


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.02, 0.03, 0.005])) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert holm(np.array([])).tolist() == []
