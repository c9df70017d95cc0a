"""The paired bootstrap and Holm's correction."""

import numpy as np
import pytest

from calibrant.report._judge import holm, paired_differences, paired_resamples

OPTIONS = {"n_resamples": 400, "level": 0.95, "random_state": 0}


def test_no_difference_is_certain():
    losses = np.random.default_rng(0).random(50)
    (found,) = paired_differences(losses[None], losses, np.ones(50), **OPTIONS)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)
    assert found.p_value == 1.0


def test_a_constant_difference_has_no_spread_and_the_least_p_value():
    losses = np.random.default_rng(0).random(50)
    (found,) = paired_differences(losses[None] + 0.25, losses, np.ones(50), **OPTIONS)
    assert found.value == pytest.approx(0.25)
    assert found.low == pytest.approx(0.25)
    assert found.p_value == pytest.approx(2 / 401)


def test_interval_is_that_of_a_mean():
    gaps = np.random.default_rng(1).normal(0.1, 1.0, 2000)
    (found,) = paired_differences(gaps[None], np.zeros(2000), np.ones(2000), **OPTIONS)
    error = gaps.std() / np.sqrt(2000)
    assert found.low == pytest.approx(gaps.mean() - 1.96 * error, abs=0.4 * error)
    assert found.high == pytest.approx(gaps.mean() + 1.96 * error, abs=0.4 * error)


def test_p_values_are_uniform_under_the_hypothesis():
    rng = np.random.default_rng(2)
    p = [
        paired_differences(
            rng.normal(size=(1, 100)),
            np.zeros(100),
            np.ones(100),
            n_resamples=100,
            level=0.95,
            random_state=i,
        )[0].p_value
        for i in range(200)
    ]
    assert 0.35 < np.mean(np.array(p) < 0.5) < 0.65
    assert np.mean(np.array(p) < 0.05) < 0.12


def test_weights_weigh_the_mean():
    gaps = np.array([[1.0, 0.0, 0.0, 0.0]])
    (found,) = paired_differences(gaps, np.zeros(4), np.array([3.0, 1.0, 1.0, 1.0]), **OPTIONS)
    assert found.value == pytest.approx(0.5)


def test_without_resamples_there_is_only_the_value():
    (found,) = paired_differences(
        np.ones((1, 3)), np.zeros(3), np.ones(3), n_resamples=0, level=0.95, random_state=0
    )
    assert found.value == pytest.approx(1.0)
    assert np.isnan([found.low, found.high, found.p_value, found.p_holm]).all()


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.02, 0.03, 0.005])) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert holm(np.array([])).tolist() == []


def test_many_rows_have_fewer_resamples():
    assert paired_resamples(1000, 20) == 2_000
    assert paired_resamples(1000, 200) == 5_000
    assert paired_resamples(100_000, 500) == 2_000
    assert paired_resamples(10**9, 200) == 1_000
    assert paired_resamples(1000, 0) == 0
