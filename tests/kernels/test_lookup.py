import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels.lookup import add_cells, apply_step
from calibrant._kernels.tables import build_lookup

unit = st.floats(0, 1)


def blocks(thresholds, cells):
    """The block that each cell is added to."""
    lookup = build_lookup(thresholds)
    cells = np.ascontiguousarray(cells, dtype=float)[:, None]
    found = np.empty(len(cells), dtype=int)
    for i in range(len(cells)):
        out = np.zeros((len(thresholds), 2))
        one = cells[i : i + 1]
        add_cells(one, one.view(np.int64), np.ones(1), *lookup, out)
        assert out.sum(axis=0).tolist() == [1.0, one.item()]
        found[i] = np.argmax(out[:, 0])
    return found


def expected(thresholds, cells):
    return np.maximum(np.searchsorted(thresholds, cells, side="right") - 1, 0)


@given(st.sets(st.floats(0, 1, exclude_min=True), max_size=40), st.lists(unit, min_size=1))
def test_finds_the_block_that_searchsorted_finds(inner, cells):
    """Also at the thresholds themselves and one ulp to either side."""
    thresholds = np.array([0.0, *sorted(inner)])
    around = np.concatenate(
        [cells, thresholds, np.nextafter(thresholds, 0), np.nextafter(thresholds, 1)]
    )
    np.testing.assert_array_equal(blocks(thresholds, around), expected(thresholds, around))


@pytest.mark.parametrize("threshold", [0.5, np.nextafter(1, 0)])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_negative_zero_is_zero(zero, threshold):
    """Also where the table has a bucket for every double, up to one."""
    assert blocks(np.array([zero, threshold]), np.array([-0.0, 0.0])).tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (50, 2), (50, 5), (7, 1000)])
def test_apply_step_is_the_step_function_divided_by_the_sum(shape):
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(shape[1]), size=shape[0])
    thresholds, values = np.array([0.0, 1e-3, 0.1, 0.4]), np.array([0.01, 0.02, 0.2, 0.9])
    out = np.empty_like(rows)
    apply_step(rows, rows.view(np.int64), *build_lookup(thresholds), values, out)
    mapped = values[expected(thresholds, rows)]
    np.testing.assert_allclose(out, mapped / mapped.sum(axis=1, keepdims=True), rtol=1e-14)
