"""Ranks, wins and standardised scores by hand; tests against scipy and Demšar's tables."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from calibrant.study import _ranks as ranks

NAN = np.nan
VALUES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.sampled_from([0.0, 0.1, 0.1 + 0.2, 0.3, 1.0, np.inf]),
)
# Demšar (2006), Table 5: q of the two-tailed Nemenyi test for 2 to 10 classifiers.
DEMSAR = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}


def frame(values, groups=None):
    """Values as a table of a study has them."""
    groups = ["d"] * len(values) if groups is None else groups
    cases = [(group, f"m{i}") for i, group in enumerate(groups)]
    return pd.DataFrame(values, index=pd.MultiIndex.from_tuples(cases, names=["dataset", "model"]))


@given(VALUES)
def test_ranks_of_a_row_add_up_and_accuracy_ranks_from_above(values):
    k = values.shape[1]
    found = ranks.rank_methods(frame(values), "nll")
    np.testing.assert_allclose(found.sum(axis=1), k * (k + 1) / 2)
    np.testing.assert_array_equal(ranks.rank_methods(frame(-values), "accuracy"), found)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.2, 0.1, 0.2, NAN, NAN], [2.5, 1.0, 2.5, 4.5, 4.5]),
        ([NAN, NAN, NAN, NAN, NAN], [3.0, 3.0, 3.0, 3.0, 3.0]),
        ([np.inf, NAN, 1.0], [2.5, 2.5, 1.0]),
    ],
)
def test_ties_share_ranks_and_failures_come_last(values, expected):
    np.testing.assert_array_equal(ranks.rank_methods(frame([values]), "nll"), [expected])


def test_all_that_reach_the_best_value_are_first_and_failures_never():
    values = [[0.1, 0.1, 0.3], [0.5, 0.2, NAN], [NAN, NAN, NAN], [np.inf, NAN, np.inf]]
    first = [[True, True, False], [False, True, False], [False] * 3, [True, False, True]]
    np.testing.assert_array_equal(ranks.mark_first(frame(values), "nll"), first)
    found = ranks.mark_first(frame([[0.9, 0.8, NAN]]), "accuracy")
    np.testing.assert_array_equal(found, [[True, False, False]])


def test_wins_by_hand():
    values = frame([[1.0, 2.0, NAN], [2.0, 2.0, 1.0], [3.0, 1.0, NAN], [1.0, 4.0, NAN]])
    expected = [[NAN, 0.5, 0.75], [0.25, NAN, 0.75], [0.25, 0.25, NAN]]
    np.testing.assert_array_equal(ranks.win_shares(values, "nll"), expected)
    flipped = ranks.win_shares(values[[0, 1]], "accuracy")
    np.testing.assert_array_equal(flipped, [[NAN, 0.25], [0.5, NAN]])


def test_standardised_within_a_data_set_and_not_across():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 3)) * [[1], [1], [1], [50], [50], [50]] + 7
    values[4, 1] = NAN
    out = ranks.standardize_within(frame(values, list("aaabbb"))).to_numpy()
    for part in (out[:3], out[3:]):
        assert np.nanmean(part) == pytest.approx(0.0, abs=1e-12)
        assert np.nanstd(part) == pytest.approx(1.0)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(values))
    # What is constant, infinite or empty spoils nothing.
    values = [[2.0, 2.0, 2.0], [NAN, NAN, NAN], [1.0, 3.0, np.inf]]
    expected = [[0.0, 0.0, 0.0], [NAN, NAN, NAN], [-1.0, 1.0, np.inf]]
    np.testing.assert_array_equal(ranks.standardize_within(frame(values, list("abc"))), expected)


@pytest.mark.parametrize("digits", [0, 1, 6])
@pytest.mark.parametrize("shape", [(3, 3), (12, 4), (47, 8), (15, 19)])
def test_friedman_is_that_of_scipy_with_ties_and_without(shape, digits):
    values = np.random.default_rng(digits).normal(size=shape).round(digits)
    values[:, 0] += 0.4
    test = ranks.friedman_test(ranks.rank_methods(frame(values), "nll"))
    expected = stats.friedmanchisquare(*values.T)
    assert test.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert test.p_value == pytest.approx(expected.pvalue, rel=1e-8)


@pytest.mark.parametrize("level", DEMSAR)
def test_critical_differences_are_those_of_demsar(level):
    """His example: four classifiers on fourteen data sets differ by 1.25 at 0.05, 1.12 at 0.10."""
    found = [
        ranks.critical_difference(k, 1, level) / math.sqrt(k * (k + 1) / 6) for k in range(2, 11)
    ]
    np.testing.assert_allclose(found, DEMSAR[level], atol=1.1e-3)
    example = {0.05: 1.25, 0.10: 1.12}[level]
    assert round(ranks.critical_difference(4, 14, level), 2) == example


def maximal_sets(average, width):
    """All maximal sets whose members are pairwise within the width, by brute force."""
    near = [
        set(c)
        for size in range(2, len(average) + 1)
        for c in itertools.combinations(range(len(average)), size)
        if np.ptp(average[list(c)]) <= width
    ]
    return {frozenset(c) for c in near if not any(c < other for other in near)}


@pytest.mark.parametrize("seed", range(10))
def test_groups_are_the_maximal_sets(seed):
    rng = np.random.default_rng(seed)
    average = rng.uniform(1, 7, 7).round(1)
    width = rng.uniform(0.1, 3.0)
    groups = ranks.indistinct_groups(average, width)
    assert {frozenset(group) for group in groups} == maximal_sets(average, width)
    starts = [average[list(group)].min() for group in groups]
    assert starts == sorted(starts)


def test_draws_are_those_of_an_enumeration():
    """Two data sets: aa, ab, ba, bb with probability 1/4 each, classifiers counted once each."""
    values = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    draws = ranks.resample_means(values, ["a", "a", "b"], n_resamples=20_000)
    found, counts = np.unique(draws[:, 0].round(9), return_counts=True)
    np.testing.assert_allclose(found, [1.0, 4 / 3, 2.0])
    np.testing.assert_allclose(counts / 20_000, [0.25, 0.5, 0.25], atol=0.015)
    np.testing.assert_allclose(draws.sum(axis=1), 3.0)
