import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels import rows as kernels
from calibrant._maps.base import lift

masses = st.lists(st.floats(0, 1), min_size=2, max_size=30).filter(lambda v: sum(v) > 1e-3)


def divided(values):
    """Divide one row by its sum."""
    row = np.array([values])
    kernels.divide_by_sums(row, np.zeros_like(row))
    return row[0]


@given(masses, st.randoms(use_true_random=False))
def test_the_sum_of_a_row_does_not_depend_on_the_order(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    out = divided(values)
    assert divided([values[j] for j in order]).tobytes() == out[order].tobytes()
    exact = sum(Fraction(v) for v in values)
    bound = Fraction(len(values) + 32, 2**58) + Fraction(1, 2**53)  # of the sum, of the division
    for value, share in zip(values, out.tolist(), strict=True):
        wanted = Fraction(value) / exact
        assert abs(Fraction(share) - wanted) <= wanted * bound + Fraction(1, 2**1075)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e200, 4e307])
def test_the_sum_of_a_row_of_any_size(scale):
    assert divided([scale, scale, 2 * scale]).tolist() == [0.25, 0.25, 0.5]


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


@given(masses, st.floats(0, 0.03))
def test_floor_keeps_order_and_sum(values, floor):
    out = np.array([values])
    kernels.normalise_rows(out.copy(), out)
    before = out[0].copy()
    out = lift(out, floor, sums_to_one=True, given=before)
    assert out.min() >= floor * (1 - 1e-15)
    assert abs(math.fsum(out[0]) - 1) <= 1e-13
    order = np.argsort(before, kind="stable")
    assert np.all(np.diff(out[0][order]) >= 0)


@pytest.mark.parametrize("name", ["row_hashes", "symmetric_hashes"])
def test_hashes_tell_content_apart_and_move_with_rows(name):
    rng = np.random.default_rng(0)
    rows, label = rng.random((500, 3)), rng.integers(0, 3, 500)
    hashes = getattr(kernels, name)(rows.view(np.int64), label)
    assert len(set(hashes.tolist())) == 500
    order = rng.permutation(500)
    again = getattr(kernels, name)(rows[order].view(np.int64), label[order])
    assert again.tolist() == hashes[order].tolist()
    same = np.tile([[0.1, 0.2, 0.7]], (3, 1)).view(np.int64)
    assert len(np.unique(getattr(kernels, name)(same, np.arange(3)))) == 3


def test_symmetric_hashes_ignore_the_order_of_columns_and_hardly_collide():
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 30, (20_000, 6)) / 64.0  # few distinct values, many near-duplicates
    rows = np.unique(np.sort(rows, axis=1), axis=0)
    label, columns = rng.integers(0, 6, len(rows)), rng.permutation(6)
    hashes = kernels.symmetric_hashes(rows.view(np.int64), label)
    assert len(np.unique(hashes)) == len(
        np.unique(np.c_[rows, rows[np.arange(len(rows)), label]], axis=0)
    )
    moved = np.ascontiguousarray(rows[:, columns])
    again = kernels.symmetric_hashes(moved.view(np.int64), np.argsort(columns)[label])
    np.testing.assert_array_equal(again, hashes)


def test_rounded_gaps_do_not_see_last_bits_or_scale():
    rng = np.random.default_rng(1)
    p = np.concatenate([rng.dirichlet(np.ones(4), 200), np.full((1, 4), 0.25), np.eye(4)])
    p[:50] = np.round(p[:50], 1)
    p = np.maximum(p, 0) / p.sum(axis=1, keepdims=True)

    def codes(scores, is_logits):
        out = np.empty((len(scores), 5), dtype=np.int32)
        kernels.round_gaps(scores, is_logits, out)
        return out

    found = codes(p, False)
    assert found[-1].tolist() == [-1, -1, -1, 0, 0]
    assert found[-5].tolist() == [0] * 5
    with np.errstate(divide="ignore"):
        z = np.log(p)
    for other in (
        p * (1 + 1e-15 * rng.normal(size=p.shape)),
        np.nextafter(p, 0) * (p < 1) + (p == 1),
    ):
        np.testing.assert_array_equal(codes(other, False), found)
    np.testing.assert_array_equal(codes(z + 3.0, True), found)
    scaled = codes(1e40 * z, True)
    np.testing.assert_array_equal(scaled[:, :4], found[:, :4])


@pytest.mark.parametrize("n_classes", [1, 2, 5, 100])
def test_the_first_of_equal_largest_columns(n_classes):
    scores = np.random.default_rng(n_classes).integers(-2, 3, (200, n_classes)) / 4.0
    out = np.empty(len(scores), dtype=np.int64)
    kernels.first_top_columns(scores, out)
    np.testing.assert_array_equal(out, np.argmax(scores, axis=1))
