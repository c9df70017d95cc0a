"""Maximal upper sets in interval form: the set of bits, one pass, the splitting, its proof."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numba_kernels import maximal_upper_set as kernels
from reference.bivariate_isotonic import (
    excess,
    lemma_upper_set,
    listing_upper_set,
    merge,
    min_max,
    split,
    upper_sets,
)


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


def find(points, y, w):
    """Maximal upper set by the kernels, and its excess times the total weight."""
    rank, labels, weight = arrays(points, y, w)
    n, top = len(rank), rank.max() + 1
    reach, gap, members = kernels.room_to_climb(n, top - 1)
    total, mass = labels.sum(), weight.sum()
    rise = kernels.climb(rank, labels, weight, total, mass, 0, n, reach, gap, members)
    assert not gap.any()
    assert not members.any()
    place = np.arange(n)
    spare = kernels.room_to_take(rank, labels, weight, place)
    start = kernels.take(rank, labels, weight, place, 0, n, reach, top, spare)
    assert np.all(np.diff(place[:start]) > 0)
    assert np.all(np.diff(place[start:]) > 0)
    return set(place[start:].tolist()), int(rise), int(mass)


@given(problem=problems())
def test_one_pass_finds_the_largest_excess_of_all_upper_sets(problem):
    points, y, w = problem
    taken, rise, mass = find(points, y, w)
    best = max(excess(members, y, w) for members in upper_sets(points))
    assert frozenset(taken) in upper_sets(points)
    assert excess(taken, y, w) == best
    assert rise == best * mass


def test_one_pass_agrees_with_the_lemma_on_larger_problems():
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem = random_problem(rng, 120, int(rng.integers(1, 9)))
        taken, _, _ = find(*problem)
        assert excess(taken, *problem[1:]) == excess(lemma_upper_set(*problem), *problem[1:])


def test_the_printed_listing_misses_the_maximum():
    """The point (5, 3) alone is the maximal upper set; the listing cannot leave (10, 1) out."""
    points, y, w = merge([(5, 3), (10, 1), (20, 2), (30, 2)], [1, 1, 0, 0], [1, 1, 1, 1])
    assert lemma_upper_set(points, y, w) == {0}
    assert find(points, y, w)[0] == {0}
    assert listing_upper_set(points, y, w) == {0, 1, 2, 3}
    assert excess({0}, y, w) > excess({0, 1, 2, 3}, y, w)
    assert split(points, y, w) == min_max(points, y, w)
    assert split(points, y, w, listing_upper_set) != min_max(points, y, w)


def test_the_printed_listing_gives_wrong_fits_that_are_isotonic():
    """So that no test of monotonicity can find the mistake."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(60):
        points, y, w = random_problem(rng, 6, 3)
        fitted = split(points, y, w, listing_upper_set)
        for i, a in enumerate(points):
            for j, b in enumerate(points):
                assert not (a[0] <= b[0] and a[1] <= b[1]) or fitted[i] <= fitted[j]
        wrong += fitted != min_max(points, y, w)
    assert wrong > 5


@pytest.mark.parametrize("size", [40, 3_000, 70_000])
def test_set_of_bits_is_a_set(size):
    rng = np.random.default_rng(size)
    members, plain = kernels.empty_set(size), set()
    for j in rng.integers(0, size + 1, 300).tolist():
        if rng.random() < 0.6:
            kernels.insert(members, j)
            plain.add(j)
        else:
            kernels.remove(members, j)
            plain.discard(j)
        for start in (0, j, j + 1, size, size + 1):
            later = [m for m in plain if m >= start]
            assert kernels.next_member(members, start) == (min(later) if later else -1)
    for j in plain:
        kernels.remove(members, j)
    assert not members.any()


@given(problem=problems(max_points=7))
def test_splitting_in_whole_numbers_and_in_real_numbers_is_the_min_max_formula(problem):
    points, y, w = problem
    expected = [float(v) for v in min_max(points, y, w)]
    for kind, solve in ((np.int64, kernels.split_whole), (np.float64, kernels.split_real)):
        rank, labels, weight = arrays(points, y, w)
        out = np.empty(len(rank))
        place = np.arange(len(rank))
        head, visits = solve(rank, labels.astype(kind), weight.astype(kind), place, 4, out)
        np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-15)
        assert np.all(np.diff(out[place]) >= 0)
        assert head[0]
        assert visits >= len(rank)


def test_the_proof_fails_for_blocks_that_are_not_the_fit():
    rank = np.array([1, 1, 1], dtype=np.int32)
    labels, weight = np.array([0.0, 1.0, 0.0]), np.ones(3)
    right = kernels.largest_excess(
        rank, labels, weight, np.array([0, 1, 3]), np.array([0.0, 0.5]), 1
    )
    pooled = kernels.largest_excess(rank, labels, weight, np.array([0, 3]), np.array([1 / 3]), 1)
    unbalanced = kernels.largest_excess(
        rank, labels, weight, np.array([0, 1, 3]), np.array([0.0, 0.6]), 1
    )
    assert right == 0.0
    assert pooled == pytest.approx(1 / 3)
    assert unbalanced == pytest.approx(0.2)


def test_compensated_sum_keeps_what_a_plain_sum_loses():
    values = np.array([1.0, 1e100, 1.0, -1e100])
    assert kernels.compensated_sum(values, 0, 4) == 2.0
    assert kernels.compensated_sum(values, 1, 3) == 1e100


def test_points_at_the_mean_to_rounding_have_no_excess():
    weight = np.random.default_rng(0).uniform(0.1, 3, 100)
    excesses = np.ones(100, dtype=np.int64)
    kernels.fixed_point(0.1 * weight, weight, 0.1, 0, 100, excesses)
    assert not excesses.any()


def test_kernels_run_without_the_compiler():
    """Compiled and uncompiled give the same bits."""
    code = (
        "import warnings, numpy as np\n"
        "warnings.simplefilter('ignore')\n"
        "from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic\n"
        "rng = np.random.default_rng(0)\n"
        "p = np.round(rng.dirichlet(np.ones(5), 40), 1) + 0.02\n"
        "p /= p.sum(axis=1, keepdims=True)\n"
        "fit = SortedCumulativeIsotonic(prior_share=0.2).fit\n"
        "for weight in (None, rng.uniform(0.5, 2, 40)):\n"
        "    fitted = fit(p, rng.integers(0, 5, 40), weight)\n"
        "    print(fitted.predict_proba(p).tobytes().hex())\n"
        "    print(fitted.step_function_.values.tolist())\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_DISABLE_JIT": flag},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for flag in "01"
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 1000
