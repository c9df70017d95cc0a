"""The paired bootstrap and Holm's correction."""

import numpy as np
import pytest

from calibrant.report._judge import holm, paired_differences, paired_resamples

RNG = np.random.default_rng(1)
LOSSES, GAPS = RNG.random(50), RNG.normal(0.1, 1.0, 2000)


def compare_one(gaps, baseline=0.0, weight=None, n_resamples=400, seed=0):
    weight = np.ones(len(gaps)) if weight is None else weight
    options = {"n_resamples": n_resamples, "level": 0.95, "random_state": seed}
    (found,) = paired_differences((gaps + baseline)[None], baseline, weight, **options)
    return found


def test_a_constant_difference_has_no_spread_and_no_difference_is_certain():
    found = compare_one(np.zeros(50), LOSSES)
    assert (found.value, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)
    found = compare_one(np.full(50, 0.25), LOSSES)
    assert (found.value, found.low, found.p_value) == pytest.approx((0.25, 0.25, 2 / 401))


def test_interval_is_that_of_a_mean_and_weights_weigh_it():
    found, error = compare_one(GAPS), GAPS.std() / np.sqrt(2000)
    assert found.low == pytest.approx(GAPS.mean() - 1.96 * error, abs=0.4 * error)
    assert found.high == pytest.approx(GAPS.mean() + 1.96 * error, abs=0.4 * error)
    found = compare_one(np.array([1.0, 0, 0, 0]), weight=np.array([3.0, 1, 1, 1]), n_resamples=0)
    assert found.value == pytest.approx(0.5)
    assert np.isnan([found.low, found.high, found.p_value, found.p_holm]).all()


def test_p_values_are_uniform_under_the_hypothesis():
    draws = [compare_one(RNG.normal(size=100), n_resamples=100, seed=i) for i in range(200)]
    p = np.array([found.p_value for found in draws])
    assert 0.35 < np.mean(p < 0.5) < 0.65
    assert np.mean(p < 0.05) < 0.12


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.02, 0.03, 0.005])) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert holm(np.array([])).tolist() == []


@pytest.mark.parametrize(
    ("n_rows", "asked_for", "drawn"),
    [(1000, 20, 2000), (1000, 200, 5000), (10**5, 500, 2000), (10**9, 200, 1000), (1000, 0, 0)],
)
def test_many_rows_have_fewer_resamples(n_rows, asked_for, drawn):
    assert paired_resamples(n_rows, asked_for) == drawn
