"""Tables of cells: keys in the order of the values, and bins that depend on the data alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.metrics import cell_table, mass_cells
from calibrant.metrics.cell_table import CellTable, collect, scores_of
from calibrant.metrics.chunk import DealtRows
from calibrant.metrics.mass_cells import ThresholdedCells, mass_bins
from conftest import simulate
from metrics.cases import weighted
from reference import metrics as reference

LIMIT = 40


def half_key(value):
    return int(np.array(value).view(np.uint64))


def key(value):
    """The key by its definition: bits up to 1/2, mirrored bits of 1 - p above."""
    return half_key(value) if value <= 0.5 else 2 * half_key(0.5) - half_key(1.0 - value)


def table_of(proba, y, weight, limit=LIMIT):
    """All cells of all classes."""
    table = CellTable(proba.shape[1], limit)
    none = np.zeros(len(y), dtype=np.int64)
    table.take(collect(proba, y, weight, none, 1, 0.0, table))
    return table


def bits(table):
    return {name: array.tobytes() for name, array in table.arrays().items()}


def test_keys_increase_and_tell_the_value():
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.random(500),
            10.0 ** -rng.uniform(0, 20, 200),
            1 - 10.0 ** -rng.uniform(0, 16, 200),
            [0.0, 1.0, 0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), np.nextafter(1, 0), 5e-324],
        ]
    )
    values = np.unique(values)
    rows = np.ascontiguousarray(np.column_stack([values, 1 - values]))
    found = table_of(rows, np.zeros(len(rows), dtype=np.int64), np.ones(len(rows)), 10**6).cells
    first = found.problem == 0
    assert found.key[first].tolist() == [key(v) for v in values]
    np.testing.assert_array_equal(scores_of(found.key[first]), values)
    assert np.all(np.diff(found.key[first].astype(object)) > 0)


def test_a_zero_with_a_sign_is_a_zero():
    rows = np.array([[-0.0, 1.0], [0.0, 1.0]])
    cells = table_of(rows, np.array([1, 1]), np.ones(2)).cells
    assert cells.key.tolist() == [0, 2 * half_key(0.5)]
    assert cells.high.tolist() == [[2, 0, 0], [2, 2, 2]]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_bins_are_those_of_the_first_shift_that_fits(is_weighted):
    proba, y, w = weighted(120, 3)
    weight = w if is_weighted else np.ones(120)
    cells = table_of(proba, y, weight).cells
    keys = [(c, key(v)) for row in proba for c, v in enumerate(row)]
    shift = next(s for s in range(64) if len({(c, k >> s) for c, k in keys}) <= LIMIT)
    assert shift > 30
    assert cells.shift == shift
    sums = {}
    for i, row in enumerate(proba):
        for c, v in enumerate(row):
            own = sums.setdefault((c, key(v) >> shift), np.zeros(3))
            own += weight[i] * np.array([1.0, y[i] == c, v])
    assert sorted(sums) == list(zip(cells.problem.tolist(), cells.key.tolist(), strict=True))
    np.testing.assert_allclose(
        cells.sums(), [sums[k] for k in sorted(sums)], rtol=1e-13, atol=1e-13
    )
    low, high = cells.edges()
    for c, k, smallest, largest in zip(cells.problem, cells.key, low, high, strict=True):
        inside = [v for v in proba[:, c] if key(v) >> shift == k]
        assert smallest <= min(inside) <= max(inside) <= largest


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_order_chunks_and_merges_change_no_bit(seed, n_parts):
    rng = np.random.default_rng(seed)
    proba, y, w = weighted(90, 3, seed % 7)
    proba[rng.integers(0, 90, 40)] = proba[0]
    expected = bits(table_of(proba, y, w))
    part = rng.integers(0, n_parts, 90)
    tables = []
    for p in range(n_parts):
        own = rng.permutation(np.flatnonzero(part == p))
        if len(own):
            tables.append(table_of(proba[own], y[own], w[own]))
    while len(tables) > 1:
        a, b = rng.choice(len(tables), 2, replace=False)
        tables[a].merge(tables[b])
        tables = [t for i, t in enumerate(tables) if i != b]
    assert bits(tables[0]) == expected


def test_many_cells_of_one_value_are_added_exactly():
    """More than a sum of 52 bits behind the point holds, had it not been cut into halves."""
    proba = np.full((5000, 2), 0.5)
    w = np.full(5000, 1 - 2.0**-52)
    y = np.zeros(5000, dtype=np.int64)
    table = table_of(proba, y, w, 1)  # both problems do not fit: nothing more can be dropped
    for _ in range(3):
        table.merge(table_of(proba, y, w, 1))
    total = Fraction(4 * 5000) * Fraction(w[0])
    for high, low in zip(table.cells.high[:, 0], table.cells.low[:, 0], strict=True):
        assert Fraction(int(high)) + Fraction(int(low), 2**52) == total


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(1, 20),
    st.sampled_from([1.0, 0.3, 2.0**-11, 123.456, 2.0**29]),
)
def test_bins_of_equal_mass_are_exact(counts, n_bins, unit):
    """Midpoints on an edge go to the bin above, also where a weight is no sum of few bits."""
    own = [Fraction(round(unit * 2**52), 2**52) * c for c in counts]
    high = np.array([int(x) for x in own])
    low = np.array([int((x - int(x)) * 2**52) for x in own])
    found = mass_bins(high, low, n_bins)
    assert found.tolist() == reference.mass_bins(range(len(own)), own, n_bins)


@pytest.mark.parametrize("limit", [25, 60, 200])
def test_the_error_of_binning_is_within_its_bound(limit, monkeypatch):
    monkeypatch.setattr(mass_cells, "MOST_CELLS", limit)
    largest = 0.0
    for seed in range(12):
        proba, y = simulate(400, 4, seed)
        group = np.zeros(400, dtype=np.int64)
        bins = ThresholdedCells(4, 5)
        bins.add_rows(DealtRows(proba, y, np.ones(400), group, 1))
        exact = float(reference.thresholded_error(proba.tolist(), y.tolist(), n_bins=5))
        off = abs(bins.value() - exact)
        assert 0.0 < off <= bins.binning_error()
        largest = max(largest, off / bins.binning_error())
    assert largest > 0.02  # the bound is not out of this world


def test_weights_can_be_scaled_and_empty_cells_are_dropped():
    proba, y, w = weighted(60, 3)
    w[:30] = 2.0**-40
    table = table_of(proba, y, w, 10**6)
    table.scale(2.0**-14)
    expected = table_of(proba[30:], y[30:], w[30:] * 2.0**-14, 10**6).cells
    assert table.cells.key.tolist() == expected.key.tolist()
    np.testing.assert_allclose(table.cells.sums(), expected.sums(), atol=2.0**-52)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shift", np.array([63])),
        ("shift", np.array([-1])),
        ("problem", np.array([0, 0, 1, 3])),
        ("problem", np.array([-1, 0, 1, 1])),
        ("problem", np.array([0, 1, 0, 1])),
        ("problem", np.array([0.0, 0.0, 1.0, 1.0])),
        ("key", np.array([5, 5, 5, 6], dtype=np.uint64)),
        ("key", np.array([6, 5, 5, 6], dtype=np.uint64)),
        ("key", np.array([5, 2**63, 5, 6], dtype=np.uint64)),
        ("key", np.array([5, 6, 5], dtype=np.uint64)),
        ("high", np.full((4, 3), -1)),
        ("high", np.ones((4, 2), dtype=np.int64)),
        ("low", np.full((4, 3), 2**52)),
        ("low", np.full((4, 3), -1)),
        ("low", np.ones((4, 3))),
    ],
)
def test_what_is_no_table_is_refused(name, value):
    good = {
        "shift": np.array([3]),
        "problem": np.array([0, 0, 1, 1]),
        "key": np.array([5, 6, 5, 6], dtype=np.uint64),
        "high": np.ones((4, 3), dtype=np.int64),
        "low": np.zeros((4, 3), dtype=np.int64),
    }
    CellTable(3, LIMIT).restore(good)
    with pytest.raises(ValueError, match=r"\w"):
        CellTable(3, LIMIT).restore(good | {name: value})
    with pytest.raises(ValueError, match="shapes"):
        CellTable(3, 2).restore(good)


def test_both_ways_to_sort_give_the_same_cells(monkeypatch):
    proba, y, w = weighted(300, 5)
    for weight in (w, np.ones(300)):
        found = []
        for few in (0, 10**9):
            monkeypatch.setattr(cell_table, "FEW", few)
            found.append(bits(table_of(proba, y, weight)))
        assert found[0] == found[1]
