from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from calibrant._kernels.isotonic import pool_adjacent_violators
from reference.isotonic import min_max

sums = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=9)


def expand(first, top, bottom, n):
    sizes = np.diff(np.append(first, n))
    return np.repeat(top / bottom, sizes)


@given(sums)
def test_equals_the_min_max_formula_exactly(pairs):
    b, a = (np.array(x, dtype=float) for x in zip(*pairs, strict=True))
    exact = min_max([Fraction(int(t), int(n)) for t, n in pairs], [n for _, n in pairs])
    fitted = expand(*pool_adjacent_violators(b, a), len(b))
    assert fitted.tolist() == [float(v) for v in exact]


def test_agrees_with_scipy():
    rng = np.random.default_rng(0)
    a = rng.uniform(0.1, 2, 2000)
    y = np.linspace(-1, 1, 2000) + rng.normal(size=2000)
    fitted = expand(*pool_adjacent_violators(y * a, a), len(y))
    np.testing.assert_allclose(fitted, isotonic_regression(y, weights=a).x, rtol=0, atol=1e-12)


def test_values_increase_strictly_and_equal_means_pool():
    """1/3 and 2/6 are one block, although their running means could round apart."""
    first, top, bottom = pool_adjacent_violators(
        np.array([1.0, 2.0, 3.0]), np.array([3.0, 6.0, 6.0])
    )
    assert first.tolist() == [0, 2]
    assert (top / bottom).tolist() == [1 / 3, 0.5]
