import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._gate._simplex import check_batch
from calibrant._solvers.one_vs_rest import binary_problem, pool_segments, solve_isotonic_steps
from calibrant.study._histogram import solve_histogram
from calibrant.study._shared_classwise import (
    group_classes,
    pool_cells,
    solve_shared_classwise,
)
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def batch_with(counts):
    """A batch in which class j has ``counts[j]`` labels."""
    y = np.repeat(np.arange(len(counts)), counts)
    return check_batch(simulate(len(y), len(counts))[0], y, classes=np.arange(len(counts)))


@pytest.mark.parametrize(
    ("counts", "n_groups", "groups"),
    [
        ([5, 1, 9, 2], 1, [0, 0, 0, 0]),
        ([5, 1, 9, 2], 2, [1, 0, 1, 0]),
        ([5, 1, 9, 2], 4, [2, 0, 3, 1]),
        ([5, 1, 9, 2], 99, [2, 0, 3, 1]),
        ([3, 3, 3, 8], 2, [0, 0, 0, 1]),
        ([4, 4, 4, 4], 3, [0, 0, 0, 0]),
        ([0, 0, 0, 7], 2, [0, 0, 0, 0]),
        ([0, 6, 0, 7], 4, [0, 0, 0, 1]),
    ],
)
def test_groups_by_hand(counts, n_groups, groups):
    """By frequency, of about equal size, equal ones together, none without a label."""
    assert group_classes(batch_with(counts), n_groups).tolist() == groups


@given(st.integers(0, 99), st.integers(2, 6), st.integers(1, 30))
def test_segments_give_the_isotonic_fit_of_all_cells(seed, k, m):
    """Also where labels lie outside the columns, and probabilities are tied."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 4, (m, k)) / 1.0
    batch = check_batch(
        p / p.sum(axis=1, keepdims=True), rng.integers(0, k, m), classes=np.arange(k)
    )
    columns = np.unique(np.append(batch.class_index[:1], rng.integers(0, k, 2)))
    few, _ = solve_isotonic_steps(pool_segments(batch, columns))
    many, _ = solve_isotonic_steps(pool_cells(batch, columns))
    np.testing.assert_array_equal(few(batch.scores), many(batch.scores))
    assert pool_segments(batch, columns).total == pool_cells(batch, columns).total


def test_groups_are_fitted_to_their_own_cells():
    batch = batch_with([20, 80, 30, 120])
    found, report = solve_shared_classwise(
        batch, kind="histogram", n_groups=2, n_bins=7, strategy="mass"
    )
    assert found.groups.tolist() == [0, 1, 0, 1]
    objective = 0.0
    for g, columns in enumerate(([0, 2], [1, 3])):
        hit = batch.class_index[:, None] == np.array(columns)
        cells = batch.scores[:, columns].ravel()
        problem = binary_problem(cells, hit.ravel().astype(float), np.ones(cells.size))
        wanted, part = solve_histogram(problem, n_bins=7)
        assert found.curves[g].values.tobytes() == wanted.values.tobytes()
        objective += part.objective / 2
    assert report.objective == pytest.approx(objective)
    assert report.solver == "histogram per group"
    assert report.n_blocks == 14
