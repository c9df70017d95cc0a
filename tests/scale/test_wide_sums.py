from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.scale.wide_sums import WideSums

NUMBERS = st.floats(-1e300, 1e300) | st.floats(-10.0, 10.0) | st.floats(-1e-200, 1e-200)


@given(st.lists(NUMBERS, min_size=1, max_size=30), st.randoms())
def test_sums_are_right_to_ten_digits_of_every_term_in_any_order(numbers, random):
    sums = WideSums(1)
    sums.add_rows(np.array(numbers)[:, None], np.ones(len(numbers)))
    want = float(sum(map(Fraction, numbers)))
    size = float(sum(abs(Fraction(number)) for number in numbers))
    assert sums.values()[0] == pytest.approx(want, rel=0, abs=size * 2.0**-32 + 1e-307)
    random.shuffle(numbers)
    cut = random.randrange(len(numbers) + 1)
    one, other = WideSums(1), WideSums(1)
    one.add_rows(np.array(numbers[:cut])[:, None], np.ones(cut))
    other.add_rows(np.array(numbers[cut:])[:, None], np.ones(len(numbers) - cut))
    other.merge(one)
    np.testing.assert_array_equal(other.parts(), sums.parts())


def test_weights_that_fade():
    rng = np.random.default_rng(0)
    terms, weight = rng.normal(size=(50, 2)), rng.random(50)
    sums = WideSums(2)
    sums.add_rows(terms, weight)
    np.testing.assert_allclose(sums.values(), weight @ terms, rtol=0, atol=1e-8)
    sums.scale(0.25)
    np.testing.assert_allclose(sums.values(), weight @ terms / 4, rtol=0, atol=1e-8)


@pytest.mark.parametrize("change", [lambda a: a[:1], lambda a: a.astype(float), lambda a: a - 1])
def test_parts_of_a_stranger_are_refused(change):
    sums = WideSums(3)
    with pytest.raises(ValueError, match="sums"):
        sums.restore(change(sums.parts()))
