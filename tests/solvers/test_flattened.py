import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._gate._simplex import check_batch
from calibrant._solvers.flattened import solve_flattened
from conftest import each_real_file, load_real, simulate
from reference.isotonic import flattened

pytestmark = pytest.mark.filterwarnings(
    "ignore::calibrant.errors.SmallSampleWarning", "ignore::calibrant.errors.SingleClassWarning"
)


def solve_steps(batch):
    found, report = solve_flattened(batch)
    return found.step_function, report


@st.composite
def small_problems(draw):
    """A few rows on a coarse grid, so that ties are common; sometimes with whole weights."""
    n_classes = draw(st.integers(2, 4))
    cells = st.lists(st.integers(0, 4), min_size=n_classes, max_size=n_classes).filter(any)
    rows = draw(st.lists(cells, min_size=1, max_size=5))
    p = np.array([np.array(row) / sum(row) for row in rows])
    y = draw(st.lists(st.integers(0, n_classes - 1), min_size=len(rows), max_size=len(rows)))
    weight = draw(st.lists(st.integers(1, 4), min_size=len(rows), max_size=len(rows)))
    return p, y, weight


@given(small_problems())
def test_equals_exact_isotonic_regression_of_all_cells_bit_for_bit(problem):
    p, y, weight = problem
    batch = check_batch(p, y, weight)
    step, _ = solve_steps(batch)
    for cell, value in flattened(batch.scores, batch.class_index, weight).items():
        assert step(cell) == float(value)


@each_real_file
def test_real_files_are_optimal(name):
    """Blocks balance, values increase, and no upper part of a block has the larger mean."""
    p, y = load_real(name)["val"]
    batch = check_batch(p, y)
    step, report = solve_steps(batch)
    cells = batch.scores.ravel()
    hits = np.zeros(batch.scores.shape)
    hits[np.arange(len(y)), batch.class_index] = 1
    order = np.argsort(cells, kind="stable")
    cells, hits = cells[order], hits.ravel()[order]
    edges = np.append(np.searchsorted(cells, step.thresholds), len(cells))
    distinct = np.append(True, np.diff(cells) > 1e-12 * (cells * (1 - cells))[1:])
    assert np.all(np.diff(step.values) > 0)
    assert report.n_blocks == len(step.values)
    for (start, stop), value in zip(pairwise(edges), step.values, strict=True):
        block = hits[start:stop]
        assert block.sum() / (stop - start) == value
        tails = np.cumsum(block[::-1])[::-1] - value * np.arange(stop - start, 0, -1)
        assert tails[distinct[start:stop]].max() <= 1e-6


def brier(g, y):
    return (g - y) ** 2


def log_score(g, y):
    return -math.log(g if y else 1 - g) if (g if y else 1 - g) > 0 else math.inf


def spherical(g, y):
    return -(g if y else 1 - g) / math.hypot(g, 1 - g)


@given(small_problems(), st.integers(0, 2**32 - 1))
def test_is_optimal_for_every_proper_scoring_rule(problem, seed):
    """The paper's appendix theorem, for three rules, against random monotone rivals."""
    p, y, weight = problem
    batch = check_batch(p, y, weight)
    step, _ = solve_steps(batch)
    cells = np.unique(batch.scores)
    rng = np.random.default_rng(seed)
    fitted = dict(zip(cells, step(cells), strict=True))
    rivals = [dict(zip(cells, np.sort(rng.random(len(cells))), strict=True)) for _ in range(5)]
    nudged = np.clip(step(cells) + 0.01 * np.sort(rng.normal(size=len(cells))), 0, 1)
    rivals.append(dict(zip(cells, np.maximum.accumulate(nudged), strict=True)))
    for rule in (brier, log_score, spherical):

        def total(g, rule=rule):
            return sum(
                w * rule(g[cell], j == label)
                for row, label, w in zip(batch.scores, batch.class_index, weight, strict=True)
                for j, cell in enumerate(row)
            )

        best = total(fitted)
        assert all(best <= total(rival) + 1e-12 for rival in rivals)


def test_objective_is_the_mean_squared_error_over_cells():
    p, y = simulate(400, 6)
    step, report = solve_steps(check_batch(p, y))
    assert report.objective == pytest.approx(np.mean((step(p) - np.eye(6)[y]) ** 2), rel=1e-12)
