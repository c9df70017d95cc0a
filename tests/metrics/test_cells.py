"""Bins of equal mass of sorted cells, and tables of predictions that do not fit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.metrics import _cells as cells
from calibrant.metrics import evaluate, thresholded_ece
from calibrant.metrics._cells import SortedCells
from calibrant.scale._chunks import ArrayChunks
from conftest import simulate
from reference import metrics as reference


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=30),
    st.integers(1, 20),
    st.sampled_from([1.0, 0.3, 2.0**-11, 123.456, 2.0**29]),
)
def test_bins_of_equal_mass_equal_the_exact_reference(rows, n_bins, unit):
    """Midpoints on an edge go to the bin above, also where a weight is no sum of few bits."""
    values, mass = np.array(sorted(rows)).T.copy()
    none = np.zeros(len(mass), dtype=bool)
    found, distinct = SortedCells.of_rows(np.zeros(1, dtype=np.int64), values / 6, mass, none)
    assert distinct.tolist() == sorted(set((values / 6).tolist()))
    scaled = SortedCells(found.starts, found.sums * unit)
    bins = np.searchsorted(scaled.edges(n_bins)[0], np.arange(len(distinct)), side="right") - 1
    weights = [Fraction(int(m)) for m in mass]
    expected = reference.mass_bins(values.tolist(), weights, n_bins)
    assert [int(bins[list(distinct).index(v / 6)]) for v in values.tolist()] == expected


def test_problems_are_binned_apart():
    """The second has no weight, as of a class that was not drawn."""
    weight = np.array([1.0, 1.0, 0.0, 0.0, 3.0])
    sums = np.stack([weight, weight, weight / 2])
    found = SortedCells(np.array([0, 2, 4]), sums).bin_sums(2)
    assert found[..., 0].tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 3.0]]


@pytest.mark.parametrize("limit", [25, 60, 200])
def test_the_error_of_binning_is_within_its_bound_and_told(limit, monkeypatch):
    monkeypatch.setattr(cells, "MOST_CELLS_KEPT", limit)
    largest = 0.0
    for seed in range(12):
        proba, y = simulate(400, 4, seed)
        found = evaluate(None, ArrayChunks(proba, y, n_rows=100), n_bins=5, n_resamples=0)
        off = abs(found.thresholded_ece.value - thresholded_ece(y, proba, n_bins=5))
        assert 0.0 < off <= found.binning_error
        largest = max(largest, off / found.binning_error)
    assert largest > 0.02  # the bound is not out of this world


def test_values_that_share_a_cell_have_their_mean(monkeypatch):
    """Of one class all cells are made one: what is left is the mean against the frequency."""
    monkeypatch.setattr(cells, "MOST_CELLS_KEPT", 2)
    proba, y = simulate(300, 2)
    found = thresholded_ece(None, ArrayChunks(proba, y, n_rows=70), n_bins=1)
    gaps = [
        abs(proba[above, j].mean() - (y[above] == j).mean())
        for j in range(2)
        for above in [proba[:, j] >= 0.5]
    ]
    assert found == pytest.approx(np.mean(gaps), rel=1e-12)
