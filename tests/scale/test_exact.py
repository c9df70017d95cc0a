"""Sums of chunks do not depend on their order, and are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import WeightError
from calibrant.scale.exact import BITS, LARGEST, Sums, check_sizes

terms = st.lists(
    st.floats(-LARGEST, LARGEST, allow_nan=False, allow_subnormal=False), min_size=1, max_size=30
)


def rounded(value):
    """To the nearest 2**-32, ties to even."""
    return Fraction(round(Fraction(value) * 2**BITS), 2**BITS)


def exact(sums):
    """The sums as fractions."""
    high, low = sums.parts()
    return [
        int(h) + Fraction(int(w), 2**BITS) for h, w in zip(high.ravel(), low.ravel(), strict=True)
    ]


@given(terms)
def test_a_sum_is_that_of_the_rounded_terms_in_any_order(values):
    one, other, last = Sums((1,)), Sums((1,)), Sums((1,))
    one.add_rows(np.array(values)[:, None])
    for value in reversed(values):
        other.add(np.array([value]))
    last.add_at(np.zeros(len(values), dtype=np.int64), np.array(values))
    want = [sum(map(rounded, values))]
    assert exact(one) == exact(other) == exact(last) == want
    assert one.values()[0] == pytest.approx(float(want[0]), rel=1e-15, abs=2.0**-BITS)


@given(terms, st.integers(0, 30))
def test_parts_of_a_sum_merge(values, cut):
    whole, left, right = Sums(()), Sums(()), Sums(())
    whole.add_rows(np.array(values))
    left.add_rows(np.array(values[:cut]))
    right.add_rows(np.array(values[cut:]))
    left.merge(right)
    assert exact(left) == exact(whole)
    assert (left.low >= 0).all()
    assert (left.low < 2**BITS).all()


def test_more_terms_than_are_added_at_once():
    n = (1 << 20) + 5
    sums = Sums((2,))
    sums.add_at(np.arange(n) % 2, np.full(n, LARGEST))
    assert exact(sums) == [Fraction(n // 2 + 1) * 2**30, Fraction(n // 2) * 2**30]


@given(terms, st.floats(0.0, 1.0))
def test_a_factor_is_exact_to_the_last_place(values, factor):
    sums = Sums((1,))
    sums.add_rows(np.array(values)[:, None])
    want = float(exact(sums)[0]) * factor
    sums.scale(factor)
    assert float(exact(sums)[0]) == pytest.approx(want, rel=1e-12, abs=2.0**-31)


@pytest.mark.parametrize("weight", [1e-9, 2.0**31])
def test_weights_that_sums_cannot_hold_are_refused(weight):
    with pytest.raises(WeightError, match="multiply all of them by one number"):
        check_sizes(np.array([1.0, weight]))
