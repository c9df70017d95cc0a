"""Friedman and Nemenyi against scipy and Demšar's tables; the bootstrap against enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from calibrant.study import significance as sig

# Demšar (2006), Table 5: q of the two-tailed Nemenyi test for 2 to 10 classifiers.
DEMSAR = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}


def ranks_of(values):
    return stats.rankdata(values, axis=1)


@pytest.mark.parametrize("digits", [0, 1, 6])
@pytest.mark.parametrize("shape", [(3, 3), (12, 4), (47, 8), (15, 19)])
def test_friedman_is_that_of_scipy_with_ties_and_without(shape, digits):
    values = np.random.default_rng(digits).normal(size=shape).round(digits)
    values[:, 0] += 0.4
    test = sig.friedman_test(ranks_of(values))
    expected = stats.friedmanchisquare(*values.T)
    assert test.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert test.p_value == pytest.approx(expected.pvalue, rel=1e-8)


def test_friedman_by_hand():
    """Average ranks 1, 2.25, 2.75 of four rows: 12 * 4 / 12 * (1 + 0.0625 + 0.5625) = 6.5."""
    ranks = np.array([[1, 2, 3], [1, 2, 3], [1, 3, 2], [1, 2, 3]], dtype=np.float64)
    assert sig.friedman_test(ranks).statistic == pytest.approx(6.5)


def test_friedman_of_what_is_all_tied_finds_nothing():
    assert sig.friedman_test(np.full((5, 3), 2.0)).p_value == 1.0
    assert math.isnan(sig.friedman_test(np.ones((1, 3))).p_value)


@pytest.mark.parametrize("level", DEMSAR)
def test_quantiles_are_those_of_demsar(level):
    found = [
        sig.critical_difference(k, 1, level) / math.sqrt(k * (k + 1) / 6) for k in range(2, 11)
    ]
    np.testing.assert_allclose(found, DEMSAR[level], atol=1.1e-3)


def test_critical_difference_of_eight_methods():
    expected = 3.031 * math.sqrt(8 * 9 / (6 * 47))
    assert sig.critical_difference(8, 47) == pytest.approx(expected, abs=1e-3)
    q = stats.studentized_range.ppf(0.95, 8, np.inf) / math.sqrt(2)
    assert sig.critical_difference(8, 47) == pytest.approx(q * math.sqrt(72 / 282))


def test_critical_difference_of_demsar_s_example():
    """Four classifiers on fourteen data sets: 1.25 at 0.05 and 1.12 at 0.10."""
    assert round(sig.critical_difference(4, 14), 2) == 1.25
    assert round(sig.critical_difference(4, 14, 0.10), 2) == 1.12


def maximal_sets(average, width):
    """All maximal sets whose members are pairwise within the width, by brute force."""
    near = [
        set(c)
        for size in range(2, len(average) + 1)
        for c in itertools.combinations(range(len(average)), size)
        if np.ptp(average[list(c)]) <= width
    ]
    return {frozenset(c) for c in near if not any(c < other for other in near)}


@pytest.mark.parametrize("seed", range(30))
def test_groups_are_the_maximal_sets(seed):
    rng = np.random.default_rng(seed)
    average = rng.uniform(1, 7, 7).round(1)
    width = rng.uniform(0.1, 3.0)
    groups = sig.indistinct_groups(average, width)
    assert {frozenset(group) for group in groups} == maximal_sets(average, width)
    starts = [average[list(group)].min() for group in groups]
    assert starts == sorted(starts)


def test_groups_at_the_extremes():
    average = np.array([3.0, 1.0, 2.0])
    assert sig.indistinct_groups(average, 0.5) == []
    assert sig.indistinct_groups(average, 2.0) == [(1, 2, 0)]


def test_intervals_resample_whole_data_sets():
    """One data set can only be drawn as a whole: its average rank does not vary."""
    ranks = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    bounds = sig.rank_intervals(ranks, ["a", "a", "a"])
    np.testing.assert_allclose(bounds, [[4 / 3, 4 / 3], [5 / 3, 5 / 3]])


def test_draws_are_those_of_an_enumeration():
    """Two data sets: aa, ab, ba, bb with probability 1/4 each, classifiers counted once each."""
    ranks = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    draws = sig.resample_average_ranks(ranks, ["a", "a", "b"], n_resamples=20_000)
    values, counts = np.unique(draws[:, 0].round(9), return_counts=True)
    np.testing.assert_allclose(values, [1.0, 4 / 3, 2.0])
    np.testing.assert_allclose(counts / 20_000, [0.25, 0.5, 0.25], atol=0.015)
    np.testing.assert_allclose(draws.sum(axis=1), 3.0)


def test_intervals_hold_the_average_and_are_the_same_twice():
    ranks = ranks_of(np.random.default_rng(0).normal(size=(40, 6)))
    groups = [f"d{i % 9}" for i in range(40)]
    bounds = sig.rank_intervals(ranks, groups)
    average = ranks.mean(axis=0)
    assert (bounds[:, 0] < average).all()
    assert (average < bounds[:, 1]).all()
    np.testing.assert_array_equal(bounds, sig.rank_intervals(ranks, groups))
    assert (bounds != sig.rank_intervals(ranks, groups, seed=1)).any()


def test_more_data_sets_make_intervals_narrower():
    rng = np.random.default_rng(1)
    few, many = (
        sig.rank_intervals(ranks_of(rng.normal(size=(n, 5))), [f"d{i}" for i in range(n)])
        for n in (8, 200)
    )
    assert np.ptp(many, axis=1).max() < np.ptp(few, axis=1).min()
