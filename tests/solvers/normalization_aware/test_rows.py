"""Segments of a calibration set and the matrix C, sparse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._gate import _simplex as simplex
from calibrant._objectives.normalization_aware import segment_rows
from calibrant._solvers.flattened import pool_segments
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning")


def batch_of(rows, labels):
    return simplex.check_batch(rows, labels, classes=np.arange(np.shape(rows)[1]))


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 16, 10**6]))
def test_segments_are_those_of_fir(seed, grid):
    rng = np.random.default_rng(seed)
    masses = rng.integers(0, grid, (30, 4)) + (rng.random((30, 1)) < 0.5)
    masses[masses.sum(axis=1) == 0] = 1
    batch = batch_of(masses / masses.sum(axis=1, keepdims=True), rng.integers(0, 4, 30))
    rows = segment_rows(batch, fill_gaps=False)
    wanted = pool_segments(batch)
    least, largest = rows.bounds
    # The first segment starts at 0, the others at their first cell, all but rounding.
    np.testing.assert_allclose(wanted.values[1:], least[1:], rtol=2**-40)
    assert np.all(wanted.values <= least)
    np.testing.assert_array_equal(wanted.largest, largest)
    np.testing.assert_array_equal(rows.positives(rows.weight), wanted.positives)
    np.testing.assert_array_equal(rows.exposures(rows.weight), wanted.cells)


def test_rows_keep_their_cells_labels_and_weights():
    matrix, labels = simulate(100, 5)
    batch = batch_of(matrix, labels)
    rows = segment_rows(batch, fill_gaps=False)
    wanted = np.searchsorted(rows.starts, matrix[rows.order], side="right") - 1
    np.testing.assert_array_equal(rows.index, wanted)
    np.testing.assert_array_equal(rows.own, wanted[np.arange(100), labels[rows.order]])
    np.testing.assert_array_equal(rows.largest, matrix[rows.order].max(axis=1))
    own = matrix[np.arange(100), labels]
    assert np.all(np.diff(own[rows.order]) >= 0.0)


def test_filled_gaps_leave_no_segment_wider_than_an_octave():
    batch = batch_of(*simulate(60, 30))
    rows = segment_rows(batch, fill_gaps=True)
    cells = np.sort(batch.scores.ravel())
    part = np.searchsorted(rows.starts, cells, side="right") - 1
    for segment in range(rows.n_segments):
        inside = cells[part == segment]
        assert len(inside) > 0
        assert inside[-1] <= 2.0 * inside[0]


def test_many_segments_need_a_wider_index():
    rng = np.random.default_rng(0)
    top = rng.uniform(0.5, 1.0, 70_000)
    batch = batch_of(np.column_stack([top, 1.0 - top]), rng.integers(0, 2, 70_000))
    rows = segment_rows(batch, fill_gaps=False)
    assert rows.n_segments > 65_536
    assert rows.index.dtype == np.int32
    wanted = np.searchsorted(rows.starts, batch.scores[rows.order], side="right") - 1
    np.testing.assert_array_equal(rows.index, wanted)
