import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from calibrant.kernels import rows as kernels

masses = st.lists(st.floats(0, 1), min_size=2, max_size=30).filter(lambda v: sum(v) > 1e-3)


@given(masses, st.randoms(use_true_random=False))
def test_invariant_sum_does_not_depend_on_the_order(values, random):
    row = np.array(values)
    shuffled = values.copy()
    random.shuffle(shuffled)
    total = kernels.invariant_sum(row, row.sum())
    assert total == kernels.invariant_sum(np.array(shuffled), np.sum(shuffled))
    exact = sum(Fraction(v) for v in values)
    assert abs(Fraction(float(total)) - exact) <= exact * Fraction(len(values) + 32, 2**58)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e200])
def test_invariant_sum_of_any_size(scale):
    row = np.array([scale, scale, 2 * scale])
    assert kernels.invariant_sum(row, row.sum()) == 4 * scale


@given(masses)
def test_normalised_rows_sum_to_one_and_stay(values):
    """Normalising twice is normalising once."""
    row = np.array([values])
    once, twice = np.empty_like(row), np.empty_like(row)
    kernels.normalise_rows(row, once)
    kernels.normalise_rows(once, twice)
    assert abs(math.fsum(once[0]) - 1) <= 16 * 2**-52 * len(values) ** 0.5
    assert once.tobytes() == twice.tobytes()


def test_normalise_clips_and_has_no_negative_zero():
    out = np.empty((1, 3))
    kernels.normalise_rows(np.array([[-0.0, -1e-7, 1.0]]), out)
    assert out.tolist() == [[0, 0, 1]]
    assert not np.signbit(out).any()


def test_softmax_agrees_with_scipy_and_keeps_minus_infinity():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 30, (100, 8))
    z[3, 2] = -np.inf
    out = np.empty_like(z)
    kernels.softmax_rows(z, out)
    np.testing.assert_allclose(out, softmax(z, axis=1), rtol=1e-14)
    assert out[3, 2] == 0


@given(masses, st.floats(0, 0.03))
def test_floor_keeps_order_and_sum(values, floor):
    out = np.array([values])
    kernels.normalise_rows(out.copy(), out)
    before = out[0].copy()
    kernels.floor_rows(out, floor)
    assert out.min() >= floor * (1 - 1e-15)
    assert abs(math.fsum(out[0]) - 1) <= 1e-13
    order = np.argsort(before, kind="stable")
    assert np.all(np.diff(out[0][order]) >= 0)


def test_floor_leaves_rows_above_it_alone():
    out = np.array([[0.25, 0.75]])
    kernels.floor_rows(out, 1e-12)
    assert out.tolist() == [[0.25, 0.75]]


def test_logarithms_are_bounded():
    p = np.array([[0.0, 1e-20, 0.5]])
    out = np.empty_like(p)
    kernels.log_rows(p, math.log(1e-12), out)
    assert out[0].tolist() == [math.log(1e-12), math.log(1e-12), math.log(0.5)]
    z = np.array([[-np.inf, -50.0, 2.0]])
    kernels.bound_logits(z, -30.0, out)
    assert out[0].tolist() == [-28.0, -28.0, 2.0]
    assert kernels.deepest_logit(z) == -52.0
    assert kernels.smallest_positive(p) == 1e-20


def test_row_hashes_tell_content_apart_and_ignore_position():
    rng = np.random.default_rng(0)
    rows, label, weight = rng.random((500, 3)), rng.integers(0, 3, 500), rng.random(500)
    hashes = kernels.row_hashes(rows.view(np.int64), label, weight.view(np.int64))
    assert len(set(hashes.tolist())) == 500
    order = rng.permutation(500)
    again = kernels.row_hashes(
        rows[order].view(np.int64), label[order], weight[order].view(np.int64)
    )
    assert again.tolist() == hashes[order].tolist()


@pytest.mark.parametrize("name", ["normalise_rows", "softmax_rows"])
def test_compiled_and_plain_agree_bitwise(name):
    rows = np.random.default_rng(3).random((40, 6))
    fast, plain = np.empty_like(rows), np.empty_like(rows)
    getattr(kernels, name)(rows, fast)
    getattr(kernels, name).py_func(rows, plain)
    assert fast.tobytes() == plain.tobytes()
