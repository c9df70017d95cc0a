"""A sample that stands for all rows: it agrees with them in what is known, and leads as they do."""

import numpy as np
import pytest

from calibrant.scale.cells import CellCounts
from calibrant.scale.segments import Segments
from calibrant.simplex import check_batch
from calibrant.solvers.normalization_aware import by_sample
from calibrant.solvers.normalization_aware.by_sample import minimise_by_sample
from calibrant.solvers.normalization_aware.fit import minimise
from calibrant.solvers.normalization_aware.prior import add_pseudo_observations, temperature_prior
from calibrant.solvers.normalization_aware.rows import count_cells, place_cells, sum_cells
from calibrant.solvers.normalization_aware.sample import (
    Reference,
    estimate_prior,
    place_sample,
)
from calibrant.solvers.temperature import solve_temperature
from conftest import simulate

STRENGTH = 50.0


class Set:
    """All rows, with the optimum of their objective."""

    def __init__(self, n_rows=3000, n_classes=4, seed=0):
        p, y = simulate(n_rows, n_classes, seed)
        self.batch = check_batch(p, y)
        cells = CellCounts()
        cells.add(self.batch)
        self.segments = Segments.of(cells.bins())
        self.whole = self.segments.whole
        self.rows = place_cells(self.batch, p, self.whole.edges)
        prior = temperature_prior(self.batch, self.rows, self.rows.weight[:, None].copy())
        self.mass = prior.mass[0]
        weight, self.target = add_pseudo_observations(self.rows, prior, self.rows.weight, STRENGTH)
        self.weight, self.factor = weight, 1.0 + STRENGTH / n_rows
        exposures = self.rows.exposures(weight / prior.totals)
        self.best = minimise(
            self.rows.index, weight, self.target, exposures, tol=1e-12, max_rounds=100
        )

    def totals(self, values):
        blocks = np.arange(len(values), dtype=np.int32)
        return count_cells(self.rows.index, blocks, len(values)).totals(values)

    def reference(self, values):
        exposures = sum_cells(self.rows.index, self.rows.weight / self.totals(values), len(values))
        return Reference(values, values * exposures, exposures)

    def objective(self, values):
        loss = self.weight @ np.log(self.totals(values)) - self.target @ np.log(values)
        return loss / self.weight.sum()

    def sample(self, n_rows):
        return place_sample(self.batch.scores[:n_rows], self.batch.weight[:n_rows], self.whole)

    def improve(self, n_rows, reference, rounds=4):
        sample = self.sample(n_rows)
        return minimise_by_sample(sample, self.whole, reference, self.target, self.factor, rounds)


@pytest.fixture(scope="module")
def everything():
    return Set()


def test_segments_are_those_of_the_fit_in_memory(everything):
    assert everything.rows.n_segments == len(everything.whole.starts)
    assert everything.rows.positives(everything.rows.weight).tolist() == (
        everything.whole.labels.tolist()
    )
    assert everything.rows.exposures(everything.rows.weight).tolist() == (
        everything.whole.cells.tolist()
    )


def test_all_rows_as_a_sample_lead_to_the_optimum(everything):
    found = everything.improve(everything.batch.n_rows, everything.segments.scores, rounds=8)
    assert everything.objective(found.values) <= everything.objective(everything.best.values) + 2e-7
    again = everything.improve(everything.batch.n_rows, everything.reference(found.values))
    assert everything.objective(again.values) <= everything.objective(everything.best.values) + 1e-9


def test_the_optimum_of_all_rows_is_a_fixed_point_of_a_sample(everything):
    """Whatever the sample: it has the gradient of all rows at the reference."""
    best = everything.best.values
    matters = best > 1e-6
    for n_rows in (400, 1000):
        found = everything.improve(n_rows, everything.reference(best))
        assert np.allclose(np.log(found.values[matters]), np.log(best[matters]), atol=1e-4)
        assert everything.objective(found.values) <= everything.objective(best) + 1e-9


def test_a_sample_comes_nearer_with_every_reference(everything):
    least = everything.objective(everything.best.values)
    reference, gaps = everything.segments.scores, []
    for _ in range(4):
        found = everything.improve(500, reference)
        gaps.append(everything.objective(found.values) - least)
        reference = everything.reference(found.values)
    assert gaps[0] < 2e-3
    assert gaps[3] < 1e-6
    assert gaps == sorted(gaps, reverse=True)


def blocks(everything, n_rows, reference):
    first = np.arange(0, len(everything.whole.starts), 150)
    sample = everything.sample(n_rows)
    return by_sample._Blocks(
        sample, everything.whole, reference, everything.target, everything.factor, first
    )


@pytest.mark.parametrize("n_rows", [60, 300])
def test_a_sample_agrees_with_all_rows_in_what_is_known(everything, n_rows):
    reference = everything.reference(everything.best.values)
    problem = blocks(everything, n_rows, reference)
    first = problem.first
    tops = np.bincount(problem.top_block, problem.weight, minlength=len(first))
    np.testing.assert_allclose(tops, np.add.reduceat(everything.whole.tops, first), atol=1e-9)
    sizes, totals, reached = problem._match()
    sized = problem.counts.matrix(len(first)).toarray() * (problem.means * sizes)
    shares = (problem.weight / totals) @ sized
    np.testing.assert_allclose(shares, np.add.reduceat(reference.shares, first), rtol=1e-5)
    np.testing.assert_allclose(reached, shares, rtol=1e-5)


def test_blocks_without_a_cell_in_the_sample_have_rows_that_stand_in(everything):
    problem = blocks(everything, 40, everything.segments.scores)
    assert len(problem.index) > 40
    assert len(blocks(everything, 3000, everything.segments.scores).index) == 3000
    held = np.bincount(problem.block_of[problem.index].ravel(), minlength=len(problem.first))
    assert np.all(held[problem.tops > 0] > 0)
    assert np.array_equal(problem.index[:40], everything.sample(40).index)


def test_a_sample_that_cannot_stand_for_all_leaves_a_step_of_pava(everything, monkeypatch):
    reference = everything.segments.scores
    monkeypatch.setattr(by_sample._Blocks, "solve", lambda *_: None)
    found = everything.improve(100, reference)
    assert found.violation == 1.0
    identity = everything.batch.scores[everything.rows.order]
    start = everything.weight @ np.log(identity.sum(axis=1)) - everything.target @ np.log(
        reference.values
    )
    assert everything.objective(found.values) < start / everything.weight.sum()


def test_the_prior_of_all_rows_is_nearly_that_of_the_sample(everything):
    temperature, _ = solve_temperature(everything.batch)
    sample = everything.sample(500)
    few = everything.batch.take(np.arange(500))
    found = estimate_prior(sample, everything.whole, everything.segments.scores, few, temperature)
    assert found.sum() == pytest.approx(everything.mass.sum())
    for part in np.array_split(np.arange(len(found)), 8):
        assert found[part].sum() == pytest.approx(everything.mass[part].sum(), rel=0.2)
    same = estimate_prior(
        everything.sample(3000),
        everything.whole,
        everything.segments.scores,
        everything.batch,
        temperature,
    )
    for part in np.array_split(np.arange(len(found)), 8):
        assert same[part].sum() == pytest.approx(everything.mass[part].sum(), rel=0.02)
