"""Bivariate isotonic regression: brute force, the lemma, scipy, properties, bad input."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from calibrant import errors
from calibrant._solvers import bivariate_isotonic
from calibrant._solvers.bivariate_isotonic import (
    bivariate_isotonic_regression,
    check_points,
    is_whole,
    solve_bivariate_isotonic,
)
from conftest import refuses
from reference.bivariate_isotonic import merge, min_max


def random_points(rng, max_points=7):
    """Few points with ties; labels and weights whole, real, or of all sizes."""
    n = int(rng.integers(1, max_points + 1))
    q, rank = rng.integers(0, 4, n) / 3, rng.integers(0, 4, n)
    kind = rng.integers(4)
    if kind == 0:
        return q, rank, rng.integers(0, 2, n), np.ones(n, dtype=int)
    if kind == 1:
        return q, rank, rng.integers(-3, 9, n), rng.integers(1, 5, n)
    if kind == 2:
        return q, rank, rng.normal(size=n), rng.uniform(0.1, 3, n)
    sizes = 10.0 ** rng.integers(-6, 6, n)
    return q, rank, rng.normal(size=n) * sizes, rng.uniform(0.1, 3, n) * rng.permutation(sizes)


def by_brute_force(q, rank, y, w):
    points = list(zip(np.asarray(q).tolist(), np.asarray(rank).tolist(), strict=True))
    merged, means, sums = merge(points, np.asarray(y).tolist(), np.asarray(w).tolist())
    fitted = dict(zip(merged, min_max(merged, means, sums), strict=True))
    return [fitted[p] for p in points]


@st.composite
def point_sets(draw, max_points=25):
    n = draw(st.integers(1, max_points))
    q = draw(st.lists(st.integers(0, 9).map(float), min_size=n, max_size=n))
    rank = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    labels = draw(st.sampled_from([st.integers(0, 1), st.floats(-1e3, 1e3)]))
    y = draw(st.lists(labels, min_size=n, max_size=n))
    return np.array(q), np.array(rank), np.array(y, dtype=float)


def test_equals_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(400):
        q, rank, y, w = random_points(rng)
        fitted, report = solve_bivariate_isotonic(check_points(q, rank, y, w))
        expected = by_brute_force(q, rank, y, w)
        assert report.converged
        whole = is_whole(check_points(q, rank, y, w))  # to the last bit then
        within = 0 if whole else 1e-13 * max(map(abs, y))
        for value, exact in zip(fitted.tolist(), expected, strict=True):
            assert abs(Fraction(value) - (Fraction(float(exact)) if whole else exact)) <= within


@pytest.mark.parametrize("whole", [True, False])
def test_equal_ranks_are_isotonic_regression(whole):
    rng = np.random.default_rng(0)
    q = rng.permutation(3000) / 3000
    y = rng.integers(0, 2, 3000) if whole else rng.normal(size=3000) + q
    w = rng.integers(1, 9, 3000) if whole else rng.uniform(0.1, 2, 3000)
    order = np.argsort(q)
    expected = isotonic_regression(y[order].astype(float), weights=w[order]).x
    fitted = bivariate_isotonic_regression(q, np.full(3000, 7), y, w)
    np.testing.assert_allclose(fitted[order], expected, atol=1e-12)


@given(data=point_sets(), seed=st.integers(0, 99))
def test_properties_of_a_fit(data, seed):
    """It rises in both, has the labels' mean, and knows no order and no direction."""
    q, rank, y = data
    rng = np.random.default_rng(seed)
    w, order = rng.uniform(0.1, 3, len(q)), rng.permutation(len(q))
    fitted = bivariate_isotonic_regression(q, rank, y, w)
    below = (q[:, None] <= q) & (rank[:, None] <= rank)
    assert np.all(fitted[:, None] <= fitted, where=below)
    assert np.average(fitted, weights=w) == pytest.approx(np.average(y, weights=w), abs=1e-9)
    again = bivariate_isotonic_regression(q[order], rank[order], y[order], w[order])
    assert fitted[order].tobytes() == again.tobytes()
    close = {"rtol": 1e-12, "atol": 1e-10}
    mirrored = -bivariate_isotonic_regression(-q, -rank, -y, w)
    np.testing.assert_allclose(mirrored, fitted, **close)
    traded = bivariate_isotonic_regression(rank, q, y, w)
    np.testing.assert_allclose(traded, fitted, **close)
    times = rng.integers(1, 4, len(q))
    repeated = bivariate_isotonic_regression(*(np.repeat(a, times) for a in (q, rank, y)))
    weighted = np.repeat(bivariate_isotonic_regression(q, rank, y, times), times)
    np.testing.assert_allclose(repeated, weighted, **close)


@pytest.mark.parametrize("whole", [True, False])
def test_report_proves_the_fit(whole):
    rng = np.random.default_rng(0)
    n = 20_000
    q, rank = rng.random(n), rng.integers(1, 50, n)
    y = rng.random(n) < q * 0.5 + rank / 100
    y = y if whole else y + 0.1 * rng.normal(size=n)
    fitted, report = solve_bivariate_isotonic(check_points(q, rank, y))
    assert report.violation < 1e-15
    assert report.n_blocks == len(np.unique(fitted)) > 50
    assert report.objective == pytest.approx(np.mean((y - fitted) ** 2))
    assert n <= report.rounds < 25 * n


def test_equal_labels_are_never_split_by_rounding():
    rng = np.random.default_rng(0)
    points = check_points(
        rng.random(5000), rng.integers(1, 9, 5000), np.full(5000, 0.1), rng.uniform(0.1, 3, 5000)
    )
    fitted, report = solve_bivariate_isotonic(points)
    np.testing.assert_allclose(fitted, 0.1, rtol=1e-15)
    assert report.n_blocks == 1


def test_few_points():
    """None at all; zero and minus zero are one."""
    assert bivariate_isotonic_regression([], [], []).tolist() == []
    assert bivariate_isotonic_regression([0.0, -0.0], [1, 1], [1.0, 0.0]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("arguments", "error", "argument", "row"),
    [
        (([1, 2], [1], [0, 1]), errors.ShapeError, "rank", None),
        (([[1]], [1], [0]), errors.ShapeError, "q", None),
        (([1, np.nan], [1, 1], [0, 1]), errors.NonFiniteError, "q", 1),
        (([1, 2], [1, 1], [0, np.inf]), errors.NonFiniteError, "y", 1),
        (([1, 2], [1, 1.5], [0, 1]), errors.RangeError, "rank", 1),
        (([1, 2], [1, 1], [0, 1], [1, 0]), errors.WeightError, "sample_weight", 1),
        (([1, 2], [1, 1], [0, 1], [1, -2]), errors.WeightError, "sample_weight", 1),
        (([1, 2], [1, 1], [0, 1], [1]), errors.ShapeError, "sample_weight", None),
        ((["a"], [1], [0]), errors.ContainerError, "q", None),
    ],
)
def test_bad_input_is_refused(arguments, error, argument, row):
    with refuses(argument, error, row=row):
        bivariate_isotonic_regression(*arguments)


def test_more_points_than_can_be_numbered_are_refused(monkeypatch):
    monkeypatch.setattr(bivariate_isotonic, "MOST_POINTS", 3)
    q, y = [0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]
    with pytest.raises(errors.MemoryLimitError):
        bivariate_isotonic_regression(q, [1, 1, 1, 1], y)
    found = bivariate_isotonic_regression([0.1, 0.1, 0.3, 0.4], [1, 1, 1, 1], y)
    assert found.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1.0])
