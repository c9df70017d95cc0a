import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant._kernels.binary_problems import merge_cells, pool_into_line, take_columns
from reference.isotonic import min_max

ONE_ULP = 2.0**-53

value = st.one_of(
    st.sampled_from([0.0, -0.0, 5e-324, 0.5, 1.0]),
    st.floats(0, 1),
    st.integers(0, 400).map(lambda n: 1.0 - n * ONE_ULP),  # told apart by their last bits alone
)


def literal_sums(values, positives, cells):
    """One cell after the other, into a dictionary."""
    sums = {}
    for v, p, c in zip(values.tolist(), positives.tolist(), cells.tolist(), strict=True):
        top, bottom = sums.get(v, (0.0, 0.0))
        sums[v] = (top + p, bottom + c)
    return [(v, *sums[v]) for v in sorted(sums)]


def merged(values, positives, cells):
    return [*zip(*(part.tolist() for part in merge_cells(values, positives, cells)), strict=True)]


@given(st.lists(value, max_size=120), st.integers(0, 99))
def test_cells_are_merged_in_the_order_they_came_in(values, seed):
    values = np.array(values, dtype=float)
    positives, cells = np.random.default_rng(seed).uniform(0.1, 3, (2, len(values)))
    assert merged(values, positives, cells) == literal_sums(values, positives, cells)


@pytest.mark.parametrize("n", [1, 25, 1000, 70_000])
@pytest.mark.parametrize("spread", [0.0, 1e-300, 1e-15, 1e-9, 1.0])
def test_many_cells_that_are_nearly_equal(n, spread):
    """Beside one that is 0, so that only the last bits tell them apart."""
    rng = np.random.default_rng(n)
    values = np.append(1.0 - spread * rng.random(n), 0.0)
    positives, cells = rng.uniform(0.1, 3, (2, n + 1))
    assert merged(values, positives, cells) == literal_sums(values, positives, cells)


def test_minus_zero_is_zero():
    found = merge_cells(np.array([-0.0, 0.0, -0.0]), np.ones(3), np.ones(3))
    assert [part.tolist() for part in found] == [[0.0], [3.0], [3.0]]
    assert not np.signbit(found[0]).any()


def test_columns_become_rows():
    rows = np.arange(35.0).reshape(5, 7)
    out = np.empty((3, 5))
    take_columns(rows, 2, out)
    np.testing.assert_array_equal(out, rows[:, 2:5].T)


steps = st.tuples(st.integers(1, 9), st.integers(0, 4), st.integers(1, 4))


@given(st.lists(steps, min_size=1, max_size=9))
def test_the_line_goes_through_the_exact_isotonic_regression(found):
    """And a value between two is on the line, as in scikit-learn."""
    gaps, hits, more = (np.array(part, dtype=float) for part in zip(*found, strict=True))
    values, cells = np.cumsum(gaps) / 128, hits + more
    x, y, loss, n_blocks = pool_into_line(values, hits, cells, 1e-15)
    exact = [float(v) for v in min_max((hits / cells).tolist(), cells.tolist())]
    np.testing.assert_allclose(np.interp(values, x, y), exact, atol=1e-15)
    model = IsotonicRegression(out_of_bounds="clip").fit(values, hits / cells, cells)
    grid = np.linspace(0, 1, 99)
    np.testing.assert_allclose(np.interp(grid, x, y), model.predict(grid), atol=1e-14)
    assert n_blocks == len(np.unique(y))
    wrong = hits * (1 - np.array(exact)) ** 2 + (cells - hits) * np.array(exact) ** 2
    assert loss == pytest.approx(wrong.sum(), abs=1e-12)


def test_values_that_differ_by_rounding_are_one():
    """As in scikit-learn: between 1e-16 and 2e-16 the line would rise by a half."""
    values = np.array([1e-16, 2e-16, 0.3, 0.3 + 5e-16, 0.9])
    x, y, _, n_blocks = pool_into_line(values, np.array([0.0, 1, 2, 2, 2]), np.full(5, 2.0), 1e-15)
    assert x.tolist() == [1e-16, 0.3, 0.9]
    assert y.tolist() == [0.25, 1.0, 1.0]
    assert n_blocks == 2


def test_rounding_never_lets_the_line_fall():
    rng = np.random.default_rng(0)
    cells = rng.uniform(0.5, 1, 20_000)
    hits = cells / 3 * (1 + rng.uniform(-4e-16, 4e-16, 20_000))  # all the same, to rounding
    _, y, _, _ = pool_into_line(np.linspace(0, 1, 20_000), hits, cells, 1e-15)
    assert np.all(np.diff(y) >= 0)
