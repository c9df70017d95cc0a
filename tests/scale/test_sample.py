"""``RowSample``: which rows are kept, with which weights, whatever their order and chunks."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import errors
from calibrant._gate._simplex import check_batch
from calibrant.scale import RowSample
from conftest import refuses, simulate
from reference.row_sample import keep_rows


@st.composite
def calibration_rows(draw):
    """A few dozen rows of few distinct values, with labels and weights of all kinds."""
    k = draw(st.integers(2, 4))
    n = draw(st.integers(1, 40))
    cells = st.lists(st.integers(0, 3), min_size=k, max_size=k).filter(any)
    rows = np.array(draw(st.lists(cells, min_size=n, max_size=n)), dtype=float)
    labels = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    weights = draw(
        st.lists(st.sampled_from([0.0, 0.3, 1.0, 1.0, 2.0, 2.5, 7.0]), min_size=n, max_size=n)
    )
    return rows / rows.sum(axis=1, keepdims=True), np.array(labels), np.array(weights)


def as_dict(sample):
    batch = sample.batch()
    found = {}
    for scores, label, weight in zip(
        batch.scores.tolist(), batch.class_index.tolist(), batch.weight.tolist(), strict=True
    ):
        found[tuple(scores), label] = found.get((tuple(scores), label), 0.0) + weight
    return found


def same_bits(one, two):
    return all(
        getattr(one.batch(), name).tobytes() == getattr(two.batch(), name).tobytes()
        for name in ("scores", "class_index", "weight")
    )


def sampled(rows, labels, weights, max_cells):
    sample = RowSample(np.arange(rows.shape[1]), max_cells=max_cells)
    return sample.update(rows, labels, weights) if weights.any() else sample


@given(data=calibration_rows(), room=st.integers(1, 40))
@settings(max_examples=200)
def test_rows_and_weights_are_those_of_the_reference(data, room):
    rows, labels, weights = data
    if not weights.any():
        return
    k, used = rows.shape[1], weights > 0
    found = as_dict(sampled(rows, labels, weights, max(room, 1) * k))
    checked = check_batch(rows, labels, weights, classes=np.arange(k), is_chunk=True)
    room = max(room, 1)
    wanted = keep_rows(checked.scores.tolist(), labels[used].tolist(), weights[used], k, room)
    # Of a room for fewer rows than classes, every class keeps a row all the same.
    is_exact = room < k or found.keys() == wanted.keys()
    assert is_exact
    assert room < k or found == pytest.approx(
        {key: float(own) for key, own in wanted.items()}, rel=1e-12
    )
    totals = np.bincount(labels, weights, k)
    kept = np.zeros(k)
    for (_, label), weight in found.items():
        kept[label] += weight
    np.testing.assert_allclose(kept, totals, rtol=1e-12)


@given(data=calibration_rows(), room=st.integers(1, 40), seed=st.integers(0, 99))
@settings(max_examples=200)
def test_order_chunks_and_merges_change_no_bit(data, room, seed):
    rows, labels, weights = data
    rng, k = np.random.default_rng(seed), rows.shape[1]
    whole = sampled(rows, labels, weights, room * k)
    order = rng.permutation(len(rows))
    cuts = np.sort(rng.integers(0, len(rows), 3))
    parts = [
        sampled(rows[own], labels[own], weights[own], room * k) for own in np.split(order, cuts)
    ]
    rng.shuffle(parts)
    merged = RowSample(np.arange(k), max_cells=room * k)
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(part)))
    assert (merged.n_rows, merged.n_kept) == (whole.n_rows, whole.n_kept)
    assert merged.is_complete == whole.is_complete
    assert same_bits(merged, whole)


@pytest.mark.parametrize("digits", [None, 2])
@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_rows_that_are_dropped_early_are_those_that_are_dropped(factor, digits):
    """With numbers of rows that are right or wrong, of rows that repeat or not."""
    p, y = simulate(20_000, 4)
    if digits is not None:
        p = np.round(p, digits) + 1e-3
        p /= p.sum(axis=1, keepdims=True)
    y[y == 3], y[:30] = 0, 3
    counts = (np.bincount(y, minlength=4) * factor).astype(int)
    early, n_held = RowSample(range(4), max_cells=4000), 0
    bounds = early.expect(counts)
    for some in np.array_split(np.arange(len(y)), 20):
        part = RowSample(range(4), max_cells=4000)
        part.expect(counts)
        part.update(p[some], y[some])
        n_held += part.n_kept
        early.merge(part)
    whole = sampled(p, y, np.ones(len(y)), 4000)
    assert early.n_rows == whole.n_rows
    # Wrong numbers, or rows that repeat, are noticed; with right ones little is held.
    is_right = early.has_reached(bounds)
    assert is_right == (factor < 1.0 or (factor == 1.0 and digits is None))
    assert same_bits(early, whole) == is_right
    assert n_held < 2_000 or factor < 1.0
    assert (early.batch().class_index == 3).sum() <= 30


def test_a_whole_weight_is_a_repetition():
    p, y = simulate(300, 4)
    weight = np.random.default_rng(0).integers(0, 5, 300)
    repeated = np.repeat(np.arange(300), weight)
    for cells in (1 << 24, 400):
        one = sampled(p, y, weight.astype(float), cells)
        two = sampled(p[repeated], y[repeated], np.ones(len(repeated)), cells)
        assert same_bits(one, two)
    assert one.n_kept == 100


def test_a_rare_class_keeps_all_its_rows():
    """A tenth of the room, of 20,000 rows of which 30 are of the class: none is lost."""
    rng = np.random.default_rng(0)
    p = rng.random((20_000, 1))
    p = np.hstack([1 - p, p])
    y = np.zeros(20_000, dtype=int)
    y[rng.choice(20_000, 30, replace=False)] = 1
    sample = RowSample([0, 1], max_cells=2000).update(p, y)
    batch = sample.batch()
    assert (sample.n_kept, sample.n_rows, sample.is_complete) == (1000, 20_000, False)
    rare = batch.class_index == 1
    assert rare.sum() == 30
    assert set(batch.weight[rare]) == {1.0}
    assert batch.weight[~rare].sum() == pytest.approx(19_970, rel=1e-12)
    assert set(batch.unit[rare]) == {1.0}
    # An importance weight is no repetition: each row is in one fold.
    row, _, _ = batch.deal(5)
    assert len(row) == len(np.unique(row)) == 1000


def test_what_is_kept_is_a_random_part_of_each_class():
    p, y = simulate(20_000, 4)
    batch = RowSample(range(4), max_cells=8000).update(p, y).batch()
    for column in range(4):
        mean = np.average(batch.scores[:, column], weights=batch.weight)
        error = p[:, column].std() / np.sqrt(2000)
        assert abs(mean - p[:, column].mean()) < 4 * error


def test_decay_multiplies_what_came_before():
    p, y = simulate(400, 3)
    sample = RowSample(range(3)).update(p[:200], y[:200]).scale(0.5).update(p[200:], y[200:])
    expected = np.repeat([0.5, 1.0], 200)
    found, wanted = as_dict(sample), as_dict(sampled(p, y, expected, 1 << 24))
    assert found.keys() == wanted.keys()
    assert all(found[key] == pytest.approx(wanted[key]) for key in wanted)
    nothing = sample.scale(0.0)
    assert (nothing.n_kept, nothing.batch().n_rows) == (0, 0)
    with refuses("factor"):
        sample.scale(1.5)


def test_a_copy_goes_on_by_itself():
    p, y = simulate(400, 3)
    sample = RowSample(range(3), max_cells=600).update(p[:300], y[:300])
    before = pickle.dumps(sample)
    copy.copy(sample).update(p[300:], y[300:]).scale(0.3)
    assert pickle.dumps(sample) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [("scores", "logits"), ("max_cells", 99), ("normalize", "rows"), ("classes", [0, 1, 3])],
)
def test_samples_of_other_parameters_are_not_merged(name, value):
    with refuses(name):
        RowSample([0, 1, 2]).merge(RowSample(**({"classes": [0, 1, 2]} | {name: value})))


def test_rows_are_checked_and_a_refused_chunk_changes_nothing():
    p, y = simulate(50, 3)
    sample = RowSample(range(3)).update(p, y)
    before = pickle.dumps(sample)
    bad = p.copy()
    bad[3, 1] = np.nan
    with refuses("scores", errors.NonFiniteError, row=3, column=1):
        sample.update(bad, y)
    with refuses("y", errors.LabelError):
        sample.update(p, y + 1)
    assert pickle.dumps(sample) == before
    assert sample.update(p[:0], y[:0]).n_rows == 50
    with refuses("max_cells"):
        RowSample(range(3), max_cells=2)


@pytest.mark.parametrize(
    ("n_classes", "cells"),
    [(2, 1 << 24), (512, 1 << 24), (600, 64 * 600**2), (1000, 64 * 1000**2), (1500, 1 << 26)],
)
def test_the_room_is_of_64_rows_of_each_of_many_classes(n_classes, cells):
    sample = RowSample(np.arange(n_classes))
    assert sample.max_cells == cells
