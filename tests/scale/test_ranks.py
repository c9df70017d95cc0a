"""The grid of (q, rank): what it counts, and that nothing but the rows decides it."""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.scale import ranks
from calibrant.scale.exact import UNIT
from calibrant.scale.ranks import Cells, RankGrid, usual_cells
from calibrant.simplex import SimplexBatch
from calibrant.solvers.sorted_cumulative.grid import decode
from conftest import simulate


def batch_of(rows, y, weight=None):
    """A checked batch."""
    rows = np.asarray(rows, dtype=np.float64)
    weight = np.ones(len(rows)) if weight is None else np.asarray(weight, dtype=np.float64)
    labels = np.asarray(y, dtype=np.int64)
    return SimplexBatch(rows, "probabilities", labels, weight, np.arange(rows.shape[1]))


def counted(batch, limit, n_ranks=None):
    """The grid of a batch."""
    grid = RankGrid(batch.n_classes, n_ranks or batch.n_classes - 1, limit)
    grid.add(batch)
    return grid


def content(grid):
    """Everything that was counted."""
    return {name: (array.dtype, array.tolist()) for name, array in grid.arrays().items()}


def bits(x):
    """The bits of a double, as a whole number."""
    return struct.unpack("<q", struct.pack("<d", x))[0]


def brute_force(batch, limit, n_ranks):
    """Cells by (rank, key), in exact fractions, with the fewest bits left out that do."""
    points = defaultdict(list)
    for row, label, weight in zip(batch.scores, batch.class_index, batch.weight, strict=True):
        ordered = sorted(row, reverse=True)
        first, tied = sum(x > row[label] for x in row) + 1, sum(x == row[label] for x in row)
        units, q = Fraction(round(weight * UNIT)), 0.0
        for r in range(1, len(row)):
            q = q + ordered[r - 1]
            inside = Fraction(min(max(r - first + 1, 0), tied), tied)
            at = min(q, 1.0)
            code = bits(at) if at <= 0.5 else 2 * bits(0.5) - bits(1.0 - at)
            points[min(r, n_ranks), code].append((units, Fraction(math.floor(units * inside)), at))
    for shift in range(64):
        cells = defaultdict(list)
        for (r, code), found in points.items():
            cells[r, code >> shift] += found
        if len(cells) <= limit:
            break
    return shift, {
        cell: (
            min(q for *_, q in found),
            sum(units for units, *_ in found),
            sum(inside for _, inside, _ in found),
            len({q for *_, q in found}) == 1,
        )
        for cell, found in sorted(cells.items())
    }


def as_fractions(grid):
    """Cells of a grid in the same form."""
    arrays = grid.arrays()
    rank = np.repeat(np.arange(1, grid.n_ranks + 1), np.diff(arrays["offsets"])).tolist()
    key = (arrays["code"] >> grid.shift).tolist()
    q = decode(arrays["code"]).tolist()
    sums = [
        [Fraction(h * 2**32 + low) for h, low in zip(a.tolist(), b.tolist(), strict=True)]
        for a, b in (
            (arrays["weight"], arrays["weight_rest"]),
            (arrays["labels"], arrays["labels_rest"]),
        )
    ]
    is_single = arrays["is_single"].astype(bool).tolist()
    values = zip(q, *sums, is_single, strict=True)
    return grid.shift, dict(zip(zip(rank, key, strict=True), values, strict=True))


n_classes, cells = st.integers(2, 5), st.integers(0, 6)


@st.composite
def batches(draw):
    """A few rows with many ties, zeros and weights that are no whole numbers."""
    k = draw(n_classes)
    rows = draw(st.lists(st.lists(cells, min_size=k, max_size=k), min_size=1, max_size=12))
    table = np.array(rows, dtype=np.float64)
    table[table.sum(axis=1) == 0] = 1.0
    table[::3, 0] += draw(st.sampled_from([0.0, 1e-3, 40.0, 1e9]))
    y = draw(st.lists(st.integers(0, k - 1), min_size=len(rows), max_size=len(rows)))
    weights = st.sampled_from([1.0, 2.0, 0.1, 1 / 3, 2.0**20 + 0.7])
    weight = draw(st.lists(weights, min_size=len(rows), max_size=len(rows)))
    return batch_of(table / table.sum(axis=1, keepdims=True), y, weight)


@given(batches(), st.integers(0, 30), st.integers(1, 4))
def test_cells_are_those_of_the_definition(batch, more, n_ranks):
    n_ranks = min(n_ranks, batch.n_classes - 1)
    grid = counted(batch, n_ranks + more, n_ranks)
    assert as_fractions(grid) == brute_force(batch, n_ranks + more, n_ranks)


@given(
    st.integers(1, 80), st.integers(3, 400), st.integers(1, 7), st.randoms(use_true_random=False)
)
def test_neither_order_nor_chunks_nor_merges_matter(n_rows, limit, n_chunks, random):
    rows, y = simulate(n_rows, 4, seed=random.randrange(5))
    weight = np.random.default_rng(n_rows).choice([1.0, 0.3], n_rows)
    want = counted(batch_of(rows, y, weight), limit)
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
    monkeypatch.setattr(ranks, "POINTS", 64)
    assert content(counted(batch_of(rows, y), 200)) == content(whole)


def test_the_grid_is_as_fine_as_its_limit_allows():
    rows, y = simulate(2000, 10)
    n_points = len(counted(batch_of(rows, y), 18_000).arrays()["code"])
    sizes = {}
    for limit in (9, 100, 1000, n_points - 1, n_points):
        grid = counted(batch_of(rows, y), limit)
        sizes[limit] = len(grid.arrays()["code"]), grid.shift
        assert limit / 3 < sizes[limit][0] <= limit
    assert sizes[n_points] == (n_points, 0)
    assert sizes[n_points - 1][1] > 0
    assert np.all(np.diff([shift for _, shift in sizes.values()]) < 0)


def test_the_total_of_every_rank_is_the_weight_of_the_rows():
    rows, y = simulate(500, 6)
    weight = np.random.default_rng(0).integers(1, 2**20, 500) / 2**10
    grid = counted(batch_of(rows, y, weight), 300).grid()
    for r in range(1, 6):
        assert math.fsum(grid.weight[grid.rank == r]) == math.fsum(weight)


def test_codes_keep_order_and_value():
    q = np.unique(
        np.concatenate(
            [
                [0.0, 5e-324, 1e-300, 0.1, 0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1)],
                1.0 - 2.0 ** -np.arange(2, 54),
                [np.nextafter(1.0, 0), 1.0, 0.3, 0.7],
                np.random.default_rng(0).random(100),
            ]
        )
    )
    rows = np.column_stack([q, 1.0 - q])
    rows = rows[q >= 0.5]
    arrays = counted(batch_of(rows, np.zeros(len(rows))), 10**4).arrays()
    assert decode(arrays["code"]).tolist() == rows[:, 0].tolist()
    low = np.array([bits(x) if x <= 0.5 else 2 * bits(0.5) - bits(1 - x) for x in q])
    assert np.all(np.diff(low) > 0)
    assert decode(low).tolist() == q.tolist()


def test_weights_are_scaled_and_what_has_none_is_dropped():
    rows, y = simulate(200, 4)
    grid = counted(batch_of(rows, y), 200)
    full = grid.grid()
    grid.scale(0.3)
    found = grid.grid()
    np.testing.assert_allclose(found.weight, 0.3 * full.weight, atol=2.0**-32)
    np.testing.assert_allclose(found.labels, 0.3 * full.labels, atol=2.0**-32)
    assert np.all(found.labels <= found.weight)
    grid.scale(2.0**-40)
    assert len(grid.grid().code) == 0
    grid.merge(counted(batch_of(rows, y), 200))
    np.testing.assert_array_equal(grid.grid().weight, full.weight)


def test_labels_stay_within_weights_that_are_rounded():
    """0.9 of 2**60 is rounded to 128: labels and the weight that holds them may trade places."""
    grid = RankGrid(2, 1, 5)
    arrays = counted(batch_of([[0.75, 0.25]], [0]), 5).arrays()
    arrays["weight"][:], arrays["weight_rest"][:] = 2**60 + 1, 0
    arrays["labels"][:], arrays["labels_rest"][:] = 2**60, 2**32 - 1
    grid.restore(arrays)
    for _ in range(20):
        grid.scale(0.9)
        found = grid.arrays()
        whole = found["weight"].astype(object) * 2**32 + found["weight_rest"]
        inside = found["labels"].astype(object) * 2**32 + found["labels_rest"]
        assert np.all(inside <= whole)


def test_a_grid_comes_back_from_its_arrays():
    grid = counted(batch_of(*simulate(300, 4)), 150)
    other = grid.empty()
    other.restore(grid.arrays())
    assert content(other) == content(grid)
    more = batch_of(*simulate(300, 4, seed=1))
    grid.add(more)
    other.add(more)
    assert content(other) == content(grid)
    nothing = RankGrid(4, 3, 150)
    nothing.restore(nothing.arrays())
    assert nothing.grid().n_ranks == 3
    assert len(nothing.grid().code) == 0


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
    "code": [
        lambda a: a[::-1],
        lambda a: a * 0,
        lambda a: a - a.max(),
        lambda a: np.where(a == a.max(), 2**63 - 1, a),
        lambda a: a[:-1],
        lambda a: a.astype(np.int32),
        lambda a: a.view(np.float64),
        lambda a: a[:, None],
    ],
    "weight": [lambda a: a * 0, lambda a: -a, lambda a: a * 2**61, lambda a: a.astype(np.uint64)],
    "weight_rest": [lambda a: a[1:], lambda a: a.astype(np.int64)],
    "labels": [lambda a: a * 0 - 1, lambda a: a + 10**6, lambda a: a.astype(float)],
    "labels_rest": [lambda a: a + 2**31, lambda a: a.astype(np.int64)],
    "is_single": [lambda a: a + 2, lambda a: a.astype(bool), lambda a: a[:0]],
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in HOSTILE.items() for change in changes]
)
def test_what_a_stranger_wrote_is_refused(name, change):
    grid = counted(batch_of(*simulate(300, 4)), 150)
    arrays = grid.arrays()
    arrays[name] = change(arrays[name]) if callable(change) else change
    other = grid.empty()
    with pytest.raises((ValueError, IndexError)):
        other.restore(arrays)
    assert len(other.grid().code) == 0


def test_more_cells_than_asked_for_are_refused():
    arrays = counted(batch_of(*simulate(300, 4)), 900).arrays()
    with pytest.raises(ValueError, match="cells of 3 ranks"):
        RankGrid(4, 3, 800).restore(arrays)
    del arrays["code"]
    with pytest.raises(KeyError):
        RankGrid(4, 3, 900).restore(arrays)


@pytest.mark.parametrize("settings", [(4, 4, 100), (4, 0, 100), (4, 3, 2)])
def test_a_grid_has_a_cell_for_every_rank(settings):
    with pytest.raises(ValueError, match="cells for"):
        RankGrid(*settings)


def test_cells_grow_with_the_ranks_and_within_bounds():
    assert usual_cells(1) == usual_cells(9) == 2**19
    assert 2**19 < usual_cells(99) < usual_cells(999) == 3 * 2**20
    assert usual_cells(10**7) == 10**7
    assert sum(np.dtype(t).itemsize for t in ranks.DTYPES) == 33
    assert len(Cells._fields) == len(ranks.DTYPES)
