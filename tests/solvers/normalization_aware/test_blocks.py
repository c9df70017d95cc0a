"""The blocks that the paper's own solvers work on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import simplex
from calibrant.solvers.normalization_aware.prior import build_likelihood
from calibrant.solvers.normalization_aware.ways import pool_blocks, split_blocks
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning")


@pytest.fixture(params=[0.0, 20.0])
def likelihood(request):
    return build_likelihood(simplex.check_batch(*simulate(400, 5)), request.param)[0]


def test_loss_and_gradient_are_those_of_the_likelihood(likelihood):
    blocks = pool_blocks(likelihood)
    rng = np.random.default_rng(0)
    theta = np.sort(rng.normal(size=len(blocks.start)))
    loss, gradient = blocks.loss_and_gradient(theta)
    found, _ = likelihood.evaluate(blocks.on_segments(np.exp(theta)))
    assert found == pytest.approx(loss, rel=1e-12)
    direction = rng.normal(size=len(theta))
    up, down = (blocks.loss_and_gradient(theta + h * direction)[0] for h in (1e-5, -1e-5))
    assert (up - down) / 2e-5 == pytest.approx(gradient @ direction, rel=1e-5)


def test_split_blocks_as_in_the_example_of_the_paper():
    """Threshold 2 and six blocks wanted: the large block of ten cells gives most of them."""
    first = np.array([0, 10, 14, 15])
    split = split_blocks(first, np.ones(17), 6, 2)
    assert len(split) >= 6
    assert set(first) <= set(split)
    assert np.all(np.diff(np.append(split, 17))[np.isin(split, [0, 10])] >= 2)
    assert np.all(np.diff(np.append(split, 17)) >= 1)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.integers(1, 30),
    st.integers(1, 10),
)
def test_split_blocks_refine_into_parts_not_below_the_threshold(sizes, min_blocks, threshold):
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    split = split_blocks(first, np.ones(sum(sizes)), min_blocks, threshold)
    assert set(first) <= set(split)
    assert np.all(np.diff(split) > 0)
    parts = np.diff(np.append(split, sum(sizes)))
    is_split = ~np.isin(parts, sizes)
    assert np.all(parts[is_split] >= threshold - 1)  # parts end at whole cells
    possible = sum(max(1, size // threshold) for size in sizes)
    assert len(split) >= min(min_blocks, possible) - len(sizes)


def test_split_blocks_start_from_the_values_of_pava(likelihood):
    blocks, plain = pool_blocks(likelihood, min_blocks=200), pool_blocks(likelihood)
    assert len(blocks.first) > len(plain.first)
    assert set(plain.first) <= set(blocks.first)
    np.testing.assert_array_equal(np.unique(blocks.start), plain.start)
    assert blocks.target.sum() == pytest.approx(plain.target.sum())


def test_min_blocks_below_what_pava_has_changes_nothing(likelihood):
    blocks, plain = pool_blocks(likelihood, min_blocks=1), pool_blocks(likelihood)
    np.testing.assert_array_equal(blocks.first, plain.first)
