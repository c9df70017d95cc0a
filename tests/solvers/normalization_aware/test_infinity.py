"""Optima of NA-FIR that lie at infinity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._gate import _simplex as simplex
from calibrant._solvers.normalization_aware import minimise_likelihood
from calibrant._solvers.normalization_aware.infinity import scale_levels, split_levels
from calibrant._solvers.normalization_aware.prior import build_likelihood
from conftest import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning"),
]


def likelihood_of(rows, labels):
    classes = np.arange(np.shape(rows)[1])
    return build_likelihood(simplex.check_batch(rows, labels, classes=classes), 0.0)[0]


@given(st.integers(0, 2**32 - 1))
def test_levels_are_cut_where_no_row_has_its_label_below_and_a_cell_above(seed):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(3, 0.7), 12)
    labels = np.where(rng.random(12) < 0.7, rows.argmax(axis=1), rng.integers(0, 3, 12))
    likelihood = likelihood_of(rows, labels)
    first, row_start = split_levels(likelihood.rows)
    own = rows[np.arange(12), labels]
    wanted = [
        j
        for j, start in enumerate(likelihood.rows.starts)
        if j == 0 or np.all((own >= start) | (rows.max(axis=1) < start))
    ]
    np.testing.assert_array_equal(first, [*wanted, likelihood.rows.n_segments])
    for level in range(len(first) - 1):
        inside = likelihood.rows.own[row_start[level] : row_start[level + 1]]
        assert np.all((inside >= first[level]) & (inside < first[level + 1]))


def test_the_lowest_block_without_labels_is_zero():
    likelihood = likelihood_of(*simulate(500, 10))
    step, report = minimise_likelihood(likelihood)
    assert step.values[0] == 0.0
    assert step.values[1] > 0.0
    assert any("value is 0" in note for note in report.notes)


def test_a_classifier_that_is_always_right_is_certain():
    rows, _ = simulate(300, 6)
    step, report = minimise_likelihood(likelihood_of(rows, rows.argmax(axis=1)))
    fitted = step(rows) / step(rows).sum(axis=1, keepdims=True)
    assert report.converged
    assert report.objective == pytest.approx(0.0, abs=1e-8)
    assert np.all(fitted.max(axis=1) > 1 - 1e-8)
    assert np.all(np.isfinite(step.values))


def test_a_top_block_that_is_always_right_leaves_the_rest_alone():
    """Rows of 0.9 are always right, rows of 0.6 two times in three."""
    rows = np.array([[0.9, 0.1]] * 6 + [[0.6, 0.4]] * 6)
    labels = np.array([0] * 6 + [0] * 4 + [1] * 2)
    step, report = minimise_likelihood(likelihood_of(rows, labels))
    g = step([0.1, 0.4, 0.6, 0.9])
    assert g[2] / g[1] == pytest.approx(2.0, rel=1e-6)
    assert g[0] / g[3] < 1e-9
    assert any("levels" in note for note in report.notes)


def test_more_levels_than_floats_hold_are_reported():
    """Each row is right about a cell that the next row has as its second largest."""
    tops = np.linspace(0.1, 0.11, 60)
    rows = np.full((59, 20), 0.0)
    rows[:, 0], rows[:, 1] = tops[1:], tops[:-1]
    rows[:, 2:] = (1.0 - rows[:, :2].sum(axis=1, keepdims=True)) / 18
    step, report = minimise_likelihood(likelihood_of(rows, np.zeros(59, dtype=int)))
    assert np.all(np.isfinite(step.values))
    assert any("cut off" in note for note in report.notes)
    assert not report.converged


def test_levels_hide_what_is_below_them_and_no_more():
    # Level 0 has segments 0 and 1, level 1 segment 2, level 2 segment 3 (which meets nothing).
    index = np.array([[0, 1], [1, 2], [0, 2], [3, 3]])
    values = np.array([0.5, 1.0, 1.0, 1.0])
    cut = scale_levels(index, np.array([0, 1, 3, 4]), np.array([0, 2, 3, 4]), 1e-6, values)
    assert cut == 0
    np.testing.assert_allclose(values, [0.5e-6, 1e-6, 1.0, 1.0], rtol=1e-12)
