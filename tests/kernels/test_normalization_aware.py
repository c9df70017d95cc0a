"""The pieces of NA-FIR's likelihood, and passes over all cells, each against dense numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels import normalization_aware as kernels
from calibrant._objectives.normalization_aware import count_cells, sum_cells

N_SEGMENTS = 9


def cells_and_blocks(seed, n_blocks=4, dtype=np.uint16):
    """Random cells, blocks of segments (-1: left out), and C as a matrix."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, N_SEGMENTS, (40, 6)).astype(dtype)
    block_of = np.sort(rng.integers(-1, n_blocks, N_SEGMENTS)).astype(np.int32)
    dense = [[np.sum(block_of[row] == j) for j in range(n_blocks)] for row in index]
    return rng, index, block_of, np.array(dense)


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.uint16, np.int32]))
def test_counts_are_those_of_a_dense_matrix_in_order(seed, dtype):
    rng, index, block_of, dense = cells_and_blocks(seed, dtype=dtype)
    counts = count_cells(index, block_of, 4)
    np.testing.assert_array_equal(counts.matrix(4).toarray(), dense)
    for first, stop in zip(counts.pointers, counts.pointers[1:], strict=False):
        assert np.all(np.diff(counts.blocks[first:stop]) > 0)
    values = rng.random(4)
    totals = np.where(dense.any(axis=1), dense @ values, 1.0)  # 1 of rows without entries
    np.testing.assert_allclose(counts.totals(values), totals, rtol=1e-14)
    group_of = np.sort(rng.integers(0, 3, 4)).astype(np.int32)
    merged = counts.merge(group_of).matrix(3).toarray()
    np.testing.assert_array_equal(merged, dense @ np.eye(3)[group_of])
    plain = np.bincount(index.ravel(), minlength=N_SEGMENTS)
    np.testing.assert_array_equal(sum_cells(index, np.ones(40), N_SEGMENTS), plain)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_and_hessian_are_the_derivatives(seed):
    rng, index, _, _ = cells_and_blocks(seed)
    counts = count_cells(index, np.arange(N_SEGMENTS, dtype=np.int32), N_SEGMENTS)
    dense, weight = counts.matrix(N_SEGMENTS).toarray(), rng.random(40) + 0.1
    weight[:5] = 0.0  # rows that count for nothing
    values, vector = np.sort(rng.random(N_SEGMENTS)) + 0.01, rng.normal(size=N_SEGMENTS)
    gradient, diagonal, shares = counts.derivatives(weight, values, counts.totals(values))
    s = dense * values / (dense @ values)[:, None]
    hessian = np.diag(weight @ s) - (s * weight[:, None]).T @ s
    np.testing.assert_allclose(gradient, weight @ s, rtol=1e-12)
    np.testing.assert_allclose(diagonal, np.diag(hessian), rtol=1e-10, atol=1e-14)
    summed, product = np.zeros_like(hessian), np.zeros(N_SEGMENTS)
    kernels.add_hessian(counts.pointers, counts.blocks, shares, weight, summed)
    np.testing.assert_allclose(summed, np.tril(hessian), rtol=1e-10, atol=1e-13)
    kernels.add_hessian_product(counts.pointers, counts.blocks, shares, weight, vector, product)
    np.testing.assert_allclose(product, hessian @ vector, rtol=1e-10, atol=1e-13)
    # and by differences of the objective itself
    step = 1e-6 * vector
    up, down = (weight @ np.log(dense @ (values * np.exp(x))) for x in (step, -step))
    assert (up - down) / 2e-6 == pytest.approx(gradient @ vector, rel=1e-6, abs=1e-8)


either = pytest.mark.parametrize("dtype", [np.uint16, np.int32])


def simplex_rows(seed, n_rows=30, n_classes=5):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n_classes, 0.5), n_rows)
    return rng, rows


@either
@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0, 1e6])
def test_prior_mass_is_that_of_the_softmax(beta, dtype):
    rng, rows = simplex_rows(2)
    logits, order = np.log(rows), rng.permutation(30)
    index = rng.integers(0, 4, (30, 5)).astype(dtype)
    share = rng.random((30, 2))
    share[:7, 0] = 0.0
    mass, totals = np.zeros((2, 4)), np.empty(30)
    kernels.add_prior(logits, order, beta, share, index, mass, totals)
    powers = np.exp(beta * (logits[order] - logits[order].max(axis=1, keepdims=True)))
    powers += 2.0**-40
    np.testing.assert_allclose(totals, powers.sum(axis=1), rtol=1e-11)
    prior = powers / powers.sum(axis=1, keepdims=True)
    for part in range(2):
        weights = (share[:, part, None] * prior).ravel()
        np.testing.assert_allclose(mass[part], np.bincount(index.ravel(), weights), rtol=1e-10)
    assert mass.sum() == pytest.approx(share.sum())
