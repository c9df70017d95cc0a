"""The table of (problem, score): what it counts, and that nothing but the rows decides it."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels.tables import score_of_key
from calibrant._simplex import SimplexBatch
from calibrant.scale import _score_table as score_table
from calibrant.scale._isotonic import cells_of_ranks
from calibrant.scale._score_table import ScoreTable
from conftest import simulate


def batch_of(rows, y, weight=None):
    """A checked batch."""
    rows = np.asarray(rows, dtype=np.float64)
    weight = np.ones(len(rows)) if weight is None else np.asarray(weight, dtype=np.float64)
    labels = np.asarray(y, dtype=np.int64)
    return SimplexBatch(rows, "probabilities", labels, weight, np.arange(rows.shape[1]))


def counted(batch, limit, n_ranks=None, cumulative=True):
    """The table of a batch."""
    n_problems = (n_ranks or batch.n_classes - 1) if cumulative else 1
    table = ScoreTable(n_problems, limit, cumulative)
    table.add(batch)
    return table


def content(table):
    """Everything that was counted."""
    return {name: (array.dtype, array.tolist()) for name, array in table.arrays().items()}


def bits(x):
    """The bits of a double, as a whole number."""
    return int(np.float64(x).view(np.int64))


def key_of(p):
    """The key by its definition: bits up to 1/2, mirrored bits of 1 - p above."""
    return bits(p) if p <= 0.5 else 2 * bits(0.5) - bits(1.0 - p)


def points_of(batch, n_ranks, cumulative):
    """Yield problem, score, weight and label of each point, in exact fractions."""
    for row, label, weight in zip(batch.scores, batch.class_index, batch.weight, strict=True):
        weight = Fraction(float(weight))
        if not cumulative:
            for j, score in enumerate(row):
                yield 0, score, weight, weight * int(j == label)
            continue
        ordered = sorted(row, reverse=True)
        first, tied = sum(x > row[label] for x in row) + 1, sum(x == row[label] for x in row)
        q = 0.0
        for r in range(1, len(row)):
            q = q + ordered[r - 1]
            inside = Fraction(int(min(max(r - first + 1, 0), tied)), int(tied))
            yield min(r, n_ranks) - 1, min(q, 1.0), weight, weight * inside


def brute_force(batch, limit, n_ranks, cumulative):
    """Cells by (problem, key), with the fewest bits left out that do."""
    points = [*points_of(batch, n_ranks, cumulative)]
    for shift in range(64):
        cells = defaultdict(list)
        for problem, score, *sums in points:
            cells[problem, key_of(score) >> shift].append((score, *sums))
        if len(cells) <= limit or shift == 63:
            break
    found = {}
    for cell, inside in cells.items():
        starts = [p for p, _, label in inside if label > 0 and not cumulative]
        weight, labels = (float(sum(point[c] for point in inside)) for c in (1, 2))
        is_single = len({p for p, *_ in inside}) == 1
        found[cell] = min(starts or [p for p, *_ in inside]), weight, labels, is_single
    return shift, found


n_classes, entries = st.integers(2, 5), st.integers(0, 6)


@st.composite
def batches(draw):
    """A few rows with many ties, zeros and weights that are no whole numbers."""
    k = draw(n_classes)
    rows = draw(st.lists(st.lists(entries, min_size=k, max_size=k), min_size=1, max_size=12))
    table = np.array(rows, dtype=np.float64)
    table[table.sum(axis=1) == 0] = 1.0
    table[::3, 0] += draw(st.sampled_from([0.0, 1e-3, 40.0, 1e9]))
    y = draw(st.lists(st.integers(0, k - 1), min_size=len(rows), max_size=len(rows)))
    weights = st.sampled_from([1.0, 2.0, 0.1, 1 / 3, 2.0**20 + 0.7])
    weight = draw(st.lists(weights, min_size=len(rows), max_size=len(rows)))
    return batch_of(table / table.sum(axis=1, keepdims=True), y, weight)


@given(batches(), st.integers(0, 30), st.integers(1, 4), st.booleans())
def test_cells_are_those_of_the_definition(batch, more, n_ranks, cumulative):
    n_ranks = min(n_ranks, batch.n_classes - 1) if cumulative else 1
    table = counted(batch, n_ranks + more, n_ranks, cumulative)
    shift, want = brute_force(batch, n_ranks + more, n_ranks, cumulative)
    offsets, key, sums, is_single = table.cells()
    problem = np.repeat(np.arange(n_ranks), np.diff(offsets)).tolist()
    assert table.shift == shift
    assert [*zip(problem, (key >> shift).tolist(), strict=True)] == sorted(want)
    scores, weight, labels, single = zip(*(want[cell] for cell in sorted(want)), strict=True)
    assert score_of_key(key).tolist() == [*scores]
    assert is_single.tolist() == [*single]
    np.testing.assert_allclose(sums, np.column_stack([weight, labels]), rtol=1e-12)
    assert np.all(sums[:, 1] <= sums[:, 0])


@pytest.mark.parametrize("cumulative", [False, True])
@given(
    n_rows=st.integers(1, 80),
    limit=st.integers(3, 400),
    n_chunks=st.integers(1, 7),
    random=st.randoms(use_true_random=False),
)
def test_neither_order_nor_chunks_nor_merges_matter(cumulative, n_rows, limit, n_chunks, random):
    """Sums of quarters are exact; of other weights they agree to rounding."""
    rows, y = simulate(n_rows, 4, seed=random.randrange(5))
    weight = np.random.default_rng(n_rows).choice([1.0, 0.25], n_rows)
    want = counted(batch_of(rows, y, weight), limit, cumulative=cumulative)
    order = random.sample(range(n_rows), n_rows)
    parts = []
    for own in np.array_split(order, n_chunks):
        part = want.empty()
        for start in range(0, len(own), 11):
            some = own[start : start + 11]
            part.add(batch_of(rows[some], y[some], weight[some]))
        parts.append(part)
    while len(parts) > 1:
        random.shuffle(parts)
        other = parts.pop()
        before = content(other)
        parts[0].merge(other)
        assert content(other) == before
    assert content(parts[0]) == content(want)


def test_batches_that_are_cut_are_the_same(monkeypatch):
    rows, y = simulate(300, 5)
    whole = counted(batch_of(rows, y), 200)
    monkeypatch.setattr(score_table, "POINTS", 64)
    assert content(counted(batch_of(rows, y), 200)) == content(whole)


def test_the_table_is_as_fine_as_its_limit_allows():
    rows, y = simulate(2000, 10)
    n_points = counted(batch_of(rows, y), 18_000).cells().size
    sizes = {}
    for limit in (9, 100, 1000, n_points - 1, n_points):
        table = counted(batch_of(rows, y), limit)
        sizes[limit] = table.cells().size, table.shift
        assert limit / 3 < sizes[limit][0] <= limit
    assert sizes[n_points] == (n_points, 0)
    assert sizes[n_points - 1][1] > 0
    assert np.all(np.diff([shift for _, shift in sizes.values()]) < 0)


def test_keys_keep_order_and_value():
    near = [0.0, 5e-324, 1e-300, 0.1, 0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), 0.3, 0.7]
    edges = [1.0 - 2.0 ** -np.arange(2, 54), [np.nextafter(1.0, 0), 1.0]]
    p = np.unique(np.concatenate([near, *edges, np.random.default_rng(0).random(100)]))
    keys = np.array([key_of(x) for x in p])
    assert np.all(np.diff(keys) > 0)
    assert score_of_key(keys).tolist() == p.tolist()
    rows = np.column_stack([p, 1.0 - p])
    table = counted(batch_of(rows, np.zeros(len(rows))), 10**4, cumulative=False)
    assert set(p) <= set(table.cells().scores)
    signed = counted(batch_of([[-0.0, 1.0], [0.0, 1.0]], [1, 1]), 9, cumulative=False).cells()
    assert signed.key.tolist() == [0, key_of(1.0)]
    assert signed.sums.tolist() == [[2.0, 0.0], [2.0, 2.0]]


HOSTILE = {
    "shift": [np.array([-1]), np.array([64]), np.array([1.5]), np.array(3), np.array([0])],
    "offsets": [
        lambda a: a[:-1],
        lambda a: a + 1,
        lambda a: a[::-1],
        lambda a: a.astype(np.float64),
        lambda a: np.append(a[:-1], a[-1] + 10**12),
        lambda a: np.array([0, 10**15, a[2], a[3]]),
    ],
    "key": [
        lambda a: a[::-1],
        lambda a: a * 0,
        lambda a: a - a.max(),
        lambda a: np.where(a == a.max(), 2**63 - 1, a),
        lambda a: a[:-1],
        lambda a: a.astype(np.int32),
        lambda a: a.view(np.float64),
        lambda a: a[:, None],
    ],
    "sums": [lambda a: a * 0, lambda a: -a, lambda a: a * 2.0**61, lambda a: a[:, ::-1]],
    "is_single": [lambda a: a + 2, lambda a: a.astype(bool), lambda a: a[:0]],
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in HOSTILE.items() for change in changes]
)
def test_what_a_stranger_wrote_is_refused(name, change):
    table = counted(batch_of(*simulate(300, 4)), 150)
    arrays = table.arrays()
    arrays[name] = change(arrays[name]) if callable(change) else change
    other = table.empty()
    with pytest.raises((ValueError, IndexError)):
        other.restore(arrays)
    assert other.cells().size == 0


def test_more_cells_than_asked_for_are_refused():
    arrays = counted(batch_of(*simulate(300, 4)), 900).arrays()
    with pytest.raises(ValueError, match="cells of 3 problems"):
        ScoreTable(3, 800, True).restore(arrays)
    for settings in [(0, 100), (3, 2), (1.5, 100), (1, 9, 1)]:
        with pytest.raises(ValueError, match="cells for"):
            ScoreTable(*settings)


def test_cells_grow_with_the_ranks_and_within_bounds():
    assert cells_of_ranks(1) == cells_of_ranks(9) == 2**19
    assert 2**19 < cells_of_ranks(99) < cells_of_ranks(999) == 3 * 2**20
    assert cells_of_ranks(10**7) == 10**7
