"""The pieces of NA-FIR's likelihood, each against dense numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels import normalization_aware as kernels

N_SEGMENTS = 9


def problem(seed, n_rows=40, n_classes=6, n_blocks=4, dtype=np.uint16):
    """Random cells, blocks of segments, and C as a matrix."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, N_SEGMENTS, (n_rows, n_classes)).astype(dtype)
    block_of = np.sort(rng.integers(0, n_blocks, N_SEGMENTS)).astype(np.int32)
    dense = np.zeros((n_rows, n_blocks))
    np.add.at(dense, (np.repeat(np.arange(n_rows), n_classes), block_of[index].ravel()), 1.0)
    return rng, index, block_of, dense


def collapse(index, block_of, n_blocks):
    pointers = np.empty(len(index) + 1, dtype=np.int64)
    blocks = np.empty(index.size, dtype=np.int32)
    counts = np.empty(index.size, dtype=np.float32)
    n = kernels.collapse_rows(index, block_of, np.empty(0), n_blocks, pointers, blocks, counts)
    return pointers, blocks[:n], counts[:n]


def to_dense(sparse, n_blocks):
    pointers, blocks, counts = sparse
    dense = np.zeros((len(pointers) - 1, n_blocks))
    dense[np.repeat(np.arange(len(dense)), np.diff(pointers)), blocks] = counts
    return dense


@given(st.integers(0, 2**32 - 1))
def test_collapsed_rows_are_the_counts_by_block_in_order(seed):
    _, index, block_of, dense = problem(seed)
    sparse = collapse(index, block_of, 4)
    np.testing.assert_array_equal(to_dense(sparse, 4), dense)
    for i in range(len(index)):
        assert np.all(np.diff(sparse[1][sparse[0][i] : sparse[0][i + 1]]) > 0)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_collapsed_rows_leave_out_negative_blocks(dtype):
    _, index, block_of, dense = problem(1, dtype=dtype)
    sparse = collapse(index, block_of - 1, 3)
    np.testing.assert_array_equal(to_dense(sparse, 3), dense[:, 1:])


@given(st.integers(0, 2**32 - 1))
def test_merged_entries_are_those_of_the_groups(seed):
    rng, index, _, _ = problem(seed)
    fine = np.arange(N_SEGMENTS, dtype=np.int32)
    group_of = np.sort(rng.integers(0, 3, N_SEGMENTS)).astype(np.int32)
    pointers, blocks, counts = collapse(index, fine, N_SEGMENTS)
    n = kernels.merge_entries(pointers, blocks, counts, group_of)
    merged = to_dense((pointers, blocks[:n], counts[:n]), 3)
    np.testing.assert_array_equal(merged, to_dense(collapse(index, group_of, 3), 3))


def shares_of(dense, values):
    shares = dense * values
    return shares / shares.sum(axis=1, keepdims=True)


def gradient_of(sparse, weight, values, totals):
    shares = np.zeros(len(sparse[1]))
    gradient, diagonal = np.zeros((2, len(values)))
    kernels.add_gradient(*sparse, weight, values, totals, shares, gradient, diagonal)
    return shares, gradient, diagonal


@pytest.mark.parametrize("seed", range(5))
def test_totals_gradient_and_hessian_are_the_derivatives(seed):
    rng, index, block_of, dense = problem(seed)
    sparse = collapse(index, block_of, 4)
    weight, values, vector = rng.random(40) + 0.1, np.sort(rng.random(4)), rng.normal(size=4)
    totals = np.empty(40)
    kernels.row_totals(*sparse, values, totals)
    np.testing.assert_allclose(totals, dense @ values, rtol=1e-14)
    shares, gradient, diagonal = gradient_of(sparse, weight, values, totals)
    s = shares_of(dense, values)
    hessian = np.diag(weight @ s) - (s * weight[:, None]).T @ s
    np.testing.assert_allclose(gradient, weight @ s, rtol=1e-12)
    np.testing.assert_allclose(diagonal, np.diag(hessian), rtol=1e-10, atol=1e-14)
    summed = np.zeros((4, 4))
    kernels.add_hessian(*sparse[:2], shares, weight, summed)
    np.testing.assert_allclose(summed, np.tril(hessian), rtol=1e-10, atol=1e-13)
    product = np.zeros(4)
    kernels.add_hessian_product(*sparse[:2], shares, weight, vector, product)
    np.testing.assert_allclose(product, hessian @ vector, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(hessian @ np.ones(4), 0.0, atol=1e-12)  # a Laplacian
    assert np.all(hessian - np.diag(np.diag(hessian)) <= 0.0)
    # and by differences of the objective itself
    step = 1e-6 * vector
    up, down = (weight @ np.log(dense @ (values * np.exp(x))) for x in (step, -step))
    assert (up - down) / 2e-6 == pytest.approx(gradient @ vector, rel=1e-6)


def test_rows_of_weight_zero_count_for_nothing():
    rng, index, block_of, _ = problem(3)
    weight, values = rng.random(40), np.sort(rng.random(4)) + 0.1
    weight[10:] = 0.0
    results = []
    for rows in (slice(None), slice(10)):
        sparse = collapse(index[rows], block_of, 4)
        totals = np.empty(len(index[rows]))
        kernels.row_totals(*sparse, values, totals)
        results.append(gradient_of(sparse, weight[rows], values, totals)[1:])
    np.testing.assert_array_equal(results[0], results[1])


def test_a_row_without_entries_has_the_total_one():
    pointers = np.array([0, 0, 1])
    out = np.empty(2)
    kernels.row_totals(
        pointers, np.zeros(1, np.int32), np.ones(1, np.float32), np.full(1, 0.3), out
    )
    np.testing.assert_array_equal(out, [1.0, 0.3])
