"""Rows that are kept: all while they fit, then a sample that only their content decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._simplex import SimplexBatch
from calibrant.scale._kept_rows import KeptRows, usual_limit

CLASSES = np.arange(3)


def batch_of(numbers, labels, weight=None):
    """Rows that are told apart by a number."""
    top = 0.5 + np.asarray(numbers, dtype=np.float64) / 1000
    rows = np.column_stack([top, (1 - top) / 4, 3 * (1 - top) / 4])
    weight = np.ones(len(rows)) if weight is None else np.asarray(weight, dtype=np.float64)
    return SimplexBatch(rows, "probabilities", np.asarray(labels, np.int64), weight, CLASSES)


def keep(batches, limit):
    """Rows kept of several batches."""
    kept = KeptRows(3, "probabilities", limit)
    for batch in batches:
        kept.add(batch)
    return kept


def hash_of(number):
    return int(keep([batch_of([number], [0])], 1)._witnesses.hashes[0])


def content(kept):
    """Everything that was kept."""
    return {name: array.tolist() for name, array in kept.arrays().items()}


rows = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=60
)


@given(rows, st.integers(1, 30), st.randoms(use_true_random=False), st.integers(1, 20))
def test_neither_order_nor_chunks_nor_merges_matter(found, limit, random, size):
    one = keep([batch_of(*zip(*found, strict=True))], limit)
    shuffled = found.copy()
    random.shuffle(shuffled)
    batches = [
        batch_of(*zip(*shuffled[i : i + size], strict=True)) for i in range(0, len(shuffled), size)
    ]
    assert content(keep(batches, limit)) == content(one)
    parts = [keep([batch], limit) for batch in batches]
    random.shuffle(parts)
    first, *others = parts
    for other in others:
        first.merge(other)
    assert content(first) == content(one)


@given(rows, st.integers(1, 30))
def test_of_distinct_rows_as_many_as_fit_with_all_their_weight(found, limit):
    kept = keep([batch_of(*zip(*found, strict=True))], limit)
    weights: dict[tuple[int, int], int] = {}
    for number, label, weight in found:
        weights[number, label] = weights.get((number, label), 0) + weight
    assert kept.is_complete == (kept.n_rows == len(weights))
    arrays = kept.arrays()
    numbers = np.rint((arrays["scores"][:, 0] - 0.5) * 1000).astype(int).tolist()
    for number, label, weight in zip(numbers, arrays["class_index"], arrays["weight"], strict=True):
        assert weights[number, label] == weight
    together = sum(number in numbers for number, _ in weights)
    assert kept.n_rows == together  # whatever their labels
    assert kept.n_rows <= max(limit, 3)
    largest = max(sum(number == other for other, _ in weights) for number, _ in weights)
    assert kept.n_rows > min(limit, len(weights)) - largest


def saturated(n_rows, seed=0):
    """Rows of which a quarter has one of three scores, and labels of all rows that differ."""
    rng = np.random.default_rng(seed)
    rows = np.maximum(rng.dirichlet(np.ones(3), size=n_rows), 1e-3)
    rows /= rows.sum(axis=1, keepdims=True)
    labels = (rows.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    rows[::4] = np.eye(3)[rows[::4].argmax(axis=1)]
    return SimplexBatch(rows, "probabilities", labels, np.ones(n_rows), CLASSES)


def weights_of_kinds(batch):
    """Weight of rows whose score is exactly 1 or not, and whose label has it or not."""
    is_right = batch.scores.argmax(axis=1) == batch.class_index
    kind = 2 * (batch.scores.max(axis=1) == 1.0) + is_right
    return np.bincount(kind, batch.weight, minlength=4)


@pytest.mark.parametrize("limit", [300, 2000])
def test_each_stratum_has_the_weight_that_it_has_among_all_rows(limit):
    """Also one that no kept row is of: scores that many rows share are kept or not."""
    batch = saturated(20_000)
    kept = keep([batch], limit)
    found = kept.batch(CLASSES)
    share = found.weight.sum() / 20_000
    assert share == pytest.approx(limit / 15_000, rel=0.2)  # of different scores
    np.testing.assert_allclose(weights_of_kinds(found), share * weights_of_kinds(batch), rtol=1e-9)
    several = [keep([batch.take(slice(i, i + 3000))], limit) for i in range(0, 20_000, 3000)]
    for other in several[1:]:
        several[0].merge(other)
    assert content(several[0]) == content(kept)


def test_what_the_sample_lacks_is_added_with_the_weight_of_one_row():
    batch = saturated(2700)
    batch = batch.take(np.flatnonzero(batch.scores.min(axis=1) > 0.0)[:2000])
    batch.class_index[:] = 0
    alone = keep([batch], 100).batch(CLASSES)
    lacking = np.flatnonzero(~np.isin(batch.scores[:, 0], alone.scores[:, 0]))[:4]
    batch.scores[lacking[:2]] = [[0.5, 0.5, 0.0], [1.0 - 1e-9, 0.5e-9, 0.5e-9]]
    batch.class_index[lacking[2:]] = 1, 2
    parts = [batch.take(slice(i, i + 300)) for i in range(0, 2000, 300)]
    found = keep(parts, 100).batch(CLASSES)
    assert set(found.class_index) == {0, 1, 2}
    assert np.any(found.scores == 0.0)
    assert found.scores[found.scores > 0.0].min() == 0.5e-9
    assert found.weight[found.class_index > 0] == pytest.approx([100 / 2000] * 2, rel=0.9)
    assert found.n_rows <= 100 + 2 * 16 + 4


def test_what_the_caller_changes_later_is_not_what_was_kept():
    batch = batch_of([1, 2], [0, 1])
    kept = keep([batch], 10)
    before = batch.scores.copy()
    batch.scores[:] = 0.0
    batch.class_index[:] = 2
    assert sorted(kept.batch(CLASSES).scores[:, 0]) == sorted(before[:, 0])
    assert sorted(kept.batch(CLASSES).class_index) == [0, 1]


def test_a_row_that_is_no_witness_costs_no_copy_of_them():
    """With a thousand classes there are thousands, of a thousand cells each."""
    kept = keep([batch_of(range(40), [0] * 40)], 5)
    before = kept._witnesses
    hashes = before.hashes.tolist()
    others = [n for n in range(40) if hash_of(n) not in hashes]
    kept.add(batch_of(others[:1], [0]))
    assert kept._witnesses is before


def test_less_weight_until_nothing_is_left():
    kept = keep([batch_of([1, 2], [0, 1], [1.0, 0.001])], 10)
    kept.scale(0.5)
    assert sorted(kept.batch(CLASSES).weight) == [0.0005, 0.5]
    kept.scale(0.0)
    assert kept.n_rows == 0


def test_negative_zeros_of_logits_are_zeros():
    rows = np.array([[0.0, 1.0, 2.0], [-0.0, 1.0, 2.0]])
    kept = KeptRows(3, "logits", 10)
    kept.add(SimplexBatch(rows, "logits", np.zeros(2, np.int64), np.ones(2), CLASSES))
    assert kept.n_rows == 1
    assert not np.signbit(kept.batch(CLASSES).scores).any()


def test_how_many_are_kept():
    assert usual_limit(2) == 1 << 19
    assert usual_limit(10) == (1 << 20) // 10
    assert usual_limit(1000) == 1 << 13
    assert usual_limit(10**8) == 1


def test_rows_dropped_before_a_merge_are_not_forgotten():
    empty = keep([], 5)
    empty.merge(keep([batch_of(range(9), [0] * 9)], 5))
    assert not empty.is_complete
