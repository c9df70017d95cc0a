import math
from fractions import Fraction

import numpy as np
import pytest

from calibrant.metrics.result import Estimate
from calibrant.metrics.row_means import Bootstrap, exact_mean, not_negative

RNG = np.random.default_rng(0)
TERMS, WEIGHT = RNG.normal(0.3, 0.2, 400).clip(-1, 1), RNG.gamma(2.0, 0.1, 400).clip(0, 1)


def test_means_are_exact_in_any_order():
    exact = sum(map(Fraction.__mul__, map(Fraction, TERMS), map(Fraction, WEIGHT)))
    exact /= sum(map(Fraction, WEIGHT))
    order = RNG.permutation(400)
    assert exact_mean(TERMS, WEIGHT) == exact_mean(TERMS[order], WEIGHT[order])
    assert exact_mean(TERMS, WEIGHT) == pytest.approx(float(exact), rel=1e-14)


def test_intervals_are_those_of_the_normal_distribution():
    """Of a weighted mean: the root of the sum of w^2 (term - mean)^2, over the sum of w."""
    mean = exact_mean(TERMS, WEIGHT)
    spread = math.sqrt(np.sum((WEIGHT * (TERMS - mean)) ** 2)) / WEIGHT.sum()
    for level, factor in ((0.95, 1.96), (0.5, 0.674)):
        found = Bootstrap(4000, level, 0, None).estimates([mean], [TERMS], WEIGHT)[0]
        assert found.value == mean
        assert found.low == pytest.approx(mean - factor * spread, abs=0.1 * spread)
        assert found.high == pytest.approx(mean + factor * spread, abs=0.1 * spread)


def test_parts_are_drawn_together():
    one, other = TERMS, 1.0 - TERMS
    found = Bootstrap(50, 0.9, 0, None).estimates(
        [exact_mean(part, WEIGHT) for part in (one, other, one + other)],
        [one, other, one + other],
        WEIGHT,
    )
    assert found[0].low + found[1].high == pytest.approx(1.0, rel=1e-12)
    assert found[2] == pytest.approx((1.0, 1.0, 1.0), rel=1e-12)


def test_an_interval_holds_its_value():
    found = Bootstrap(20, 0.0, 0, None).estimates([0.9], [TERMS], WEIGHT)[0]
    assert found.low < 0.4
    assert found.high == 0.9


def test_what_cannot_be_negative_may_be_zero():
    assert not_negative(Estimate(-0.2, -0.3, -0.1)) == (-0.2, -0.3, 0.0)
    assert not_negative(Estimate(0.2, -0.1, 0.3)) == (0.2, -0.1, 0.3)
    assert math.isnan(not_negative(Estimate(0.2, math.nan, math.nan)).high)
