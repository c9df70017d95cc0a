"""Ranks, first places, wins and standardised scores, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.study import ranks
from study.small_tables import random_table, table_of

NAN = np.nan
VALUES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.sampled_from([0.0, 0.1, 0.1 + 0.2, 0.3, 1.0, np.inf]),
)


@given(VALUES)
def test_accuracy_ranks_from_above(values):
    np.testing.assert_array_equal(
        ranks.rank_methods(values, "accuracy"), ranks.rank_methods(-values, "nll")
    )


@given(VALUES)
def test_ranks_of_a_row_add_up(values):
    k = values.shape[1]
    np.testing.assert_allclose(ranks.rank_methods(values, "nll").sum(axis=1), k * (k + 1) / 2)


def test_ties_share_ranks_and_failures_come_last():
    values = np.array([[0.2, 0.1, 0.2, NAN, NAN], [NAN, NAN, NAN, NAN, NAN]])
    expected = [[2.5, 1.0, 2.5, 4.5, 4.5], [3.0, 3.0, 3.0, 3.0, 3.0]]
    np.testing.assert_array_equal(ranks.rank_methods(values, "nll"), expected)
    np.testing.assert_array_equal(ranks.rank_methods(-values, "accuracy"), expected)


def test_a_failure_comes_after_an_infinite_loss_only_by_a_tie():
    np.testing.assert_array_equal(
        ranks.rank_methods(np.array([[np.inf, NAN, 1.0]]), "nll"), [[2.5, 2.5, 1.0]]
    )


def test_all_that_reach_the_best_value_are_first_and_failures_never():
    values = np.array([[0.1, 0.1, 0.3], [0.5, 0.2, NAN], [NAN, NAN, NAN], [np.inf, NAN, np.inf]])
    first = [[True, True, False], [False, True, False], [False] * 3, [True, False, True]]
    np.testing.assert_array_equal(ranks.mark_first(values, "nll"), first)
    np.testing.assert_array_equal(
        ranks.mark_first(np.array([[0.9, 0.8, NAN]]), "accuracy"), [[True, False, False]]
    )


def test_wins_by_hand():
    values = np.array([[1.0, 2.0, NAN], [2.0, 2.0, 1.0], [3.0, 1.0, NAN], [1.0, 4.0, NAN]])
    expected = [[NAN, 0.5, 0.75], [0.25, NAN, 0.75], [0.25, 0.25, NAN]]
    np.testing.assert_array_equal(ranks.win_shares(values, "nll"), expected)
    flipped = ranks.win_shares(values[:, :2], "accuracy")
    np.testing.assert_array_equal(flipped, [[NAN, 0.25], [0.5, NAN]])


@given(VALUES)
def test_two_opposite_wins_and_the_ties_make_one(values):
    shares = ranks.win_shares(values, "nll")
    ties = (values[:, :, None] == values[:, None, :]).mean(axis=0)
    np.fill_diagonal(ties, NAN)
    np.testing.assert_allclose(shares + shares.T + ties, np.where(np.isnan(ties), NAN, 1.0))


def test_standardised_within_a_data_set_and_not_across():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 3)) * [[1], [1], [1], [50], [50], [50]] + 7
    values[4, 1] = NAN
    groups = ["a", "a", "a", "b", "b", "b"]
    out = ranks.standardize_within(values, groups)
    for part in (out[:3], out[3:]):
        assert np.nanmean(part) == pytest.approx(0.0, abs=1e-12)
        assert np.nanstd(part) == pytest.approx(1.0)
    assert np.isnan(out[4, 1])
    assert np.isnan(out).sum() == 1


def test_a_constant_data_set_is_zero_and_an_empty_one_stays_empty():
    values = np.array([[2.0, 2.0], [NAN, NAN]])
    np.testing.assert_array_equal(
        ranks.standardize_within(values, ["a", "b"]), [[0.0, 0.0], [NAN, NAN]]
    )


def test_an_infinite_score_does_not_spoil_its_data_set():
    out = ranks.standardize_within(np.array([[1.0, 3.0, np.inf]]), ["a"])
    np.testing.assert_array_equal(out, [[-1.0, 1.0, np.inf]])


def test_table_two_by_hand():
    values = [[0.3, 0.1, 0.2], [0.3, 0.1, 0.1], [0.1, NAN, 0.2]]
    table = table_of(values, ("uncalibrated", "ts", "vs"), datasets=["a", "a", "b"])
    groups, overall = ranks.summarize_ranks(table, "nll", ("ts", "vs", "uncalibrated"))
    assert {name: of.n_cases for name, of in groups.items()} == {"a": 2, "b": 1}
    np.testing.assert_allclose(groups["a"].ranks, [1.25, 1.75, 3.0])
    np.testing.assert_allclose(groups["b"].ranks, [3.0, 2.0, 1.0])
    np.testing.assert_allclose(groups["a"].firsts, [1.0, 0.5, 0.0])
    np.testing.assert_allclose(groups["b"].firsts, [0.0, 0.0, 1.0])
    np.testing.assert_allclose(overall.ranks, [5.5 / 3, 5.5 / 3, 7 / 3])
    np.testing.assert_allclose(overall.firsts, [2 / 3, 1 / 3, 1 / 3])
    assert ranks.best_of(overall.ranks).tolist() == [True, True, False]


def test_fewer_methods_are_ranked_among_themselves():
    table = table_of([[0.3, 0.1, 0.2]], ("uncalibrated", "ts", "vs"))
    _, overall = ranks.summarize_ranks(table, "nll", ("vs", "uncalibrated"))
    np.testing.assert_array_equal(overall.ranks, [1.0, 2.0])
    np.testing.assert_array_equal(overall.firsts, [1.0, 0.0])


def test_overall_is_the_average_weighted_with_cases():
    cases = [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1"), ("c", "2")]
    table = random_table(cases, ("ts", "vs", "fir", "ms"))
    groups, overall = ranks.summarize_ranks(table, "brier")
    n_cases, by_group, _ = zip(*groups.values(), strict=True)
    np.testing.assert_allclose(overall.ranks, np.average(by_group, axis=0, weights=n_cases))
    assert overall.ranks.sum() == pytest.approx(10)


def test_other_groups_than_data_sets():
    table = random_table([("a", "1"), ("b", "1"), ("c", "1")], ("ts", "vs"))
    groups, _ = ranks.summarize_ranks(table, "nll", groups=["x", "y", "x"])
    assert {name: of.n_cases for name, of in groups.items()} == {"x": 2, "y": 1}
