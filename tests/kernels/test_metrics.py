from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels import metrics as kernels
from calibrant._kernels.fixed_point import totals
from calibrant._kernels.resampling import subtract_null_labels

unit = st.floats(0, 1)


@given(st.integers(1, 60), st.lists(unit, max_size=20))
def test_bins_of_equal_width_are_those_of_searchsorted(n_bins, values):
    edges = np.linspace(0, 1, n_bins + 1)
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), values])
    near = np.clip(near, 0, 1)
    found = np.empty(len(near), dtype=np.int32)
    kernels.find_bins(near, edges, found)
    np.testing.assert_array_equal(found, np.searchsorted(edges[1:-1], near))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.randoms())
def test_fixed_point_sums_are_exact_in_any_order(terms, random):
    results = set()
    for _ in range(3):
        random.shuffle(terms)
        sums = np.zeros((1, 1, 2), dtype=np.int64)
        kernels.add_weights(np.array(terms), sums)
        results.add(float(totals(sums)[0, 0]))
    assert len(results) == 1
    exact = sum(map(Fraction, terms))
    assert abs(Fraction(results.pop()) - exact) <= len(terms) * Fraction(1, 2**61) + abs(
        exact
    ) * Fraction(1, 2**52)


@given(st.lists(st.tuples(unit, st.booleans(), unit), min_size=1, max_size=20))
def test_residual_moments_are_those_of_fractions(rows):
    values, hits, weight = (np.array(part) for part in zip(*rows, strict=True))
    sums = np.zeros((4, 2, 3, 2), dtype=np.int64)
    kernels.add_residual_moments(values, hits, weight, sums)
    exact = np.full((4, 2, 3), Fraction(0))
    for value, hit, own in rows:
        cell = min(int(4 * value), 3)
        for m in range(3):
            residual = 1 - Fraction(value) if hit else Fraction(value)
            exact[cell, int(hit), m] += Fraction(own) * residual * (4 * Fraction(value) - cell) ** m
    np.testing.assert_allclose(totals(sums), exact.astype(float), rtol=0, atol=1e-14)


def test_fixed_point_sums_hold_four_billion_terms():
    """Of one each, and of the largest number below one each."""
    n = 2**32 - 1
    sums = np.array([[[n << 31, 0], [n * (2**31 - 1), n * (2**31 - 1)]]])
    assert totals(sums)[0].tolist() == [n, n]


def test_labels_drawn_have_a_positive_probability():
    rows = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]])
    for u in (0.0, 0.25, 0.5, 0.75, np.nextafter(1, 0)):
        gaps = np.zeros((5, 1))
        subtract_null_labels(
            rows.cumsum(axis=1),
            np.zeros((1, 5), dtype=np.int32),
            np.ones(1),
            np.zeros(1, dtype=np.int64),
            np.array([u]),
            gaps,
        )
        assert gaps[:, 0].tolist() == ([0, -1, 0, 0, 0] if u < 0.5 else [0, 0, 0, -1, 0])


def test_grid_keeps_mass_and_mean():
    sums = np.zeros((9, 2, 2), dtype=np.int64)
    values = np.array([0.0, 1 / 16, 0.3, 1.0])
    kernels.add_to_grid(values, np.array([True, False, True, True]), np.ones(4), sums)
    mass = totals(sums)
    nodes = np.linspace(0, 1, 9)
    np.testing.assert_allclose(mass.sum(axis=0), [4, 3], rtol=1e-15)
    np.testing.assert_allclose(nodes @ mass, [values.sum(), 1.3], rtol=1e-15)
    assert mass[-1].tolist() == [1.0, 1.0]
