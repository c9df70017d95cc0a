"""Segments of a calibration set and the matrix C, sparse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import _simplex as simplex
from calibrant._objectives.normalization_aware import count_cells, segment_rows, sum_cells
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
    np.testing.assert_array_equal(rows.starts[1:], wanted.values[1:])  # the first has cells
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


def test_counts_by_block_agree_with_a_dense_matrix():
    rng = np.random.default_rng(1)
    index = rng.integers(0, 12, (50, 7)).astype(np.uint16)
    block_of = np.sort(rng.integers(-1, 4, 12)).astype(np.int32)
    counts = count_cells(index, block_of, 4)
    dense = np.stack([[np.sum(block_of[row] == j) for j in range(4)] for row in index])
    np.testing.assert_array_equal(counts.matrix(4).toarray(), dense)
    values = rng.random(4)
    totals = dense @ values
    np.testing.assert_allclose(counts.totals(values), np.where(totals > 0, totals, 1.0))
    merged = counts.merge(np.array([0, 0, 1, 1], dtype=np.int32))
    np.testing.assert_array_equal(merged.matrix(2).toarray(), dense[:, ::2] + dense[:, 1::2])


def test_cells_of_a_segment_may_count_more_than_others():
    rng = np.random.default_rng(2)
    index = rng.integers(0, 12, (50, 7)).astype(np.uint16)
    block_of = np.sort(rng.integers(-1, 4, 12)).astype(np.int32)
    sizes = rng.integers(1, 9, 12) / 4.0
    counts = count_cells(index, block_of, 4, sizes)
    dense = [[np.sum(sizes[row][block_of[row] == j]) for j in range(4)] for row in index]
    np.testing.assert_array_equal(counts.matrix(4).toarray(), dense)
    wanted = sizes * sum_cells(index, np.ones(50), 12)
    np.testing.assert_array_equal(sum_cells(index, np.ones(50), 12, sizes), wanted)
