"""Pooling of violators; upper sets in interval form: one pass, its set of bits, its proof."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels import isotonic as kernels
from calibrant._kernels.isotonic import pool_adjacent_violators
from reference.bivariate_isotonic import (
    excess,
    lemma_upper_set,
    merge,
    split,
    upper_sets,
)
from reference.isotonic import min_max

pairs_of_sums = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=9)


def expanded(first, top, bottom, n):
    sizes = np.diff(np.append(first, n))
    return np.repeat(top / bottom, sizes)


@given(pairs_of_sums)
def test_equals_the_min_max_formula_exactly(pairs):
    b, a = (np.array(x, dtype=float) for x in zip(*pairs, strict=True))
    exact = min_max([Fraction(int(t), int(n)) for t, n in pairs], [n for _, n in pairs])
    fitted = expanded(*pool_adjacent_violators(b, a), len(b))
    assert fitted.tolist() == [float(v) for v in exact]


def test_values_increase_strictly_and_equal_means_pool():
    """1/3 and 2/6 are one block, although their running means could round apart."""
    first, top, bottom = pool_adjacent_violators(
        np.array([1.0, 2.0, 3.0]), np.array([3.0, 6.0, 6.0])
    )
    assert first.tolist() == [0, 2]
    assert (top / bottom).tolist() == [1 / 3, 0.5]


@st.composite
def problems(draw, max_points=6):
    """Points on a coarse grid, merged, with whole labels and weights."""
    n = draw(st.integers(1, max_points))
    points = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=n, max_size=n))
    labels = st.integers(-2, 3) if draw(st.booleans()) else st.integers(0, 1)
    y = draw(st.lists(labels, min_size=n, max_size=n))
    w = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    return merge(points, y, w)


def random_problem(rng, n, n_ranks):
    sums, ranks = rng.integers(0, 3 * n, n), rng.integers(1, n_ranks + 1, n)
    points = list(zip(sums.tolist(), ranks.tolist(), strict=True))
    return merge(points, rng.integers(0, 2, n).tolist(), rng.integers(1, 4, n).tolist())


def arrays(points, y, w):
    rank = np.array([r for _, r in points], dtype=np.int32)
    weight = np.array([int(v) for v in w])
    labels = np.array([int(v * u) for v, u in zip(y, w, strict=True)])
    return rank, labels, weight


def largest(points, y, w):
    """Largest excess of an upper set over the mean, times the total weight: a whole number."""
    rank, labels, weight = arrays(points, y, w)
    excesses = (weight.sum() * labels - labels.sum() * weight).astype(float)
    blocks = np.array([0, len(rank)]), np.zeros(1)
    found = kernels.largest_excess(rank, excesses, np.ones(len(rank)), *blocks, rank.max())
    assert abs(found - round(found)) < 1e-6
    return round(found)


def fit(points, y, w):
    """Value of each point by the kernel for whole numbers."""
    rank, labels, weight = arrays(points, y, w)
    out = np.empty(len(rank))
    kernels.split(rank, labels, weight, np.arange(len(rank), dtype=np.int32), rank.max(), out)
    return out.tolist()


@given(problem=problems())
def test_one_pass_finds_the_largest_excess_of_all_upper_sets(problem):
    points, y, w = problem
    best = max(excess(members, y, w) for members in upper_sets(points))
    assert largest(points, y, w) == best * sum(w)


def test_one_pass_and_the_splitting_agree_with_the_lemma_on_larger_problems():
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem = random_problem(rng, 120, int(rng.integers(1, 9)))
        _, y, w = problem
        assert largest(*problem) == excess(lemma_upper_set(*problem), y, w) * sum(w)
        assert fit(*problem) == [float(v) for v in split(*problem)]


@pytest.mark.parametrize("size", [40, 3_000, 70_000, 900_000])
def test_ranks_far_apart_change_nothing(size):
    """The set of bits finds the next gap in the same word, page or book, or in a later one."""
    rng = np.random.default_rng(size)
    for _ in range(30):
        points, y, w = random_problem(rng, 60, 9)
        near = np.sort(rng.choice(100, 5, replace=False))
        places = np.unique(np.append(rng.integers(1, size + 1, 5), near % size + 1))[:9]
        places = np.append(places, size + 1 + np.arange(9 - len(places)))
        apart = [(q, int(places[rank - 1])) for q, rank in points]
        assert largest(apart, y, w) == largest(points, y, w)
        assert fit(apart, y, w) == fit(points, y, w)


def test_the_proof_fails_for_blocks_that_are_not_the_fit():
    rank, labels, weight = np.ones(3, dtype=np.int32), np.array([0.0, 1.0, 0.0]), np.ones(3)
    for starts, values, wrong in (
        ([0, 1, 3], [0.0, 0.5], 0.0),
        ([0, 3], [1 / 3], 1 / 3),
        ([0, 1, 3], [0.0, 0.6], 0.2),
    ):
        blocks = np.array(starts), np.array(values)
        found = kernels.largest_excess(rank, labels, weight, *blocks, 1)
        assert found == pytest.approx(wrong, abs=1e-15)
