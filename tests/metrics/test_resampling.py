"""Draws of rows, intervals of means over them, and p-values."""

import math

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from calibrant.metrics._predictions import exact_sum
from calibrant.metrics._resampling import Bootstrap, Estimate, Resamples, not_negative, p_value

RNG = np.random.default_rng(0)
TERMS, WEIGHT = RNG.normal(0.3, 0.2, 400).clip(-1, 1), RNG.gamma(2.0, 0.1, 400).clip(0, 1)


def mean_of(terms):
    return exact_sum(terms * WEIGHT) / exact_sum(WEIGHT)


def test_draws_can_be_repeated_in_any_order():
    first, second = Resamples(100, 3, 7), Resamples(100, 3, 7)
    later, again = ([draws.rows(r) for r in (2, 0, 1)] for draws in (second, first))
    np.testing.assert_array_equal(later, again)
    np.testing.assert_array_equal(first.uniforms(1, 9), second.uniforms(1, 9))
    assert not np.array_equal(first.rows(0), first.rows(1))
    assert not np.array_equal(first.rows(0), Resamples(100, 3, 8).rows(0))


def test_each_row_is_drawn_binomially():
    """Of n draws of n rows: how often a row is drawn is binomial(n, 1 / n)."""
    resamples = Resamples(20, 2000, 1)
    counts = np.array([np.bincount(resamples.rows(r), minlength=20) for r in range(2000)])
    assert set(counts.sum(axis=1)) == {20}
    seen = np.bincount(np.minimum(counts, 4).ravel(), minlength=5)
    expected = binom.pmf(np.arange(5), 20, 1 / 20)
    expected[4] = 1 - expected[:4].sum()
    assert chisquare(seen, expected * seen.sum()).pvalue > 0.001
    assert np.abs(counts.mean(axis=0) - 1).max() < 0.12
    np.testing.assert_array_equal(Resamples(6, 2, 0, replace=False).rows(1), np.arange(6))


def test_a_generator_moves_on_and_a_seed_does_not():
    generator = np.random.default_rng(3)
    first, second = Resamples(30, 1, generator), Resamples(30, 1, generator)
    assert not np.array_equal(first.rows(0), second.rows(0))
    one, same = (Resamples(30, 1, np.random.SeedSequence(5)).rows(0) for _ in range(2))
    np.testing.assert_array_equal(one, same)


def test_p_value_counts_ties_and_itself():
    null = np.array([0.1, 0.2, 0.2 * (1 + 1e-15), 0.3])
    assert p_value(0.2, null) == 4 / 5
    assert p_value(0.4, null) == 1 / 5
    assert p_value(0.0, np.zeros(9)) == 1.0


def test_intervals_are_those_of_the_normal_distribution():
    """Of a weighted mean: the root of the sum of w^2 (term - mean)^2, over the sum of w."""
    mean = mean_of(TERMS)
    spread = math.sqrt(np.sum((WEIGHT * (TERMS - mean)) ** 2)) / WEIGHT.sum()
    for level, factor in ((0.95, 1.96), (0.5, 0.674)):
        found = Bootstrap(4000, level, 0, None).estimates([mean], [TERMS], WEIGHT)[0]
        assert found.value == mean
        assert found.low == pytest.approx(mean - factor * spread, abs=0.1 * spread)
        assert found.high == pytest.approx(mean + factor * spread, abs=0.1 * spread)


def test_parts_are_drawn_together():
    one, other = TERMS, 1.0 - TERMS
    found = Bootstrap(50, 0.9, 0, None).estimates(
        [mean_of(part) for part in (one, other, one + other)],
        [one, other, one + other],
        WEIGHT,
    )
    assert found[0].low + found[1].high == pytest.approx(1.0, rel=1e-12)
    assert found[2] == pytest.approx((1.0, 1.0, 1.0), rel=1e-12)


def test_an_interval_holds_its_value_and_what_cannot_be_negative_may_be_zero():
    found = Bootstrap(20, 0.0, 0, None).estimates([0.9], [TERMS], WEIGHT)[0]
    assert found.low < 0.4
    assert found.high == 0.9
    assert not_negative(Estimate(-0.2, -0.3, -0.1)) == (-0.2, -0.3, 0.0)
    assert not_negative(Estimate(0.2, -0.1, 0.3)) == (0.2, -0.1, 0.3)
    assert math.isnan(not_negative(Estimate(0.2, math.nan, math.nan)).high)
