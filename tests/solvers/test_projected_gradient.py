"""Projected gradient on the blocks of PAVA."""

import numpy as np
import pytest

from calibrant import simplex
from calibrant.solvers.normalization_aware import solve_normalization_aware
from calibrant.solvers.pooled_blocks import pool_blocks
from calibrant.solvers.prior_strength import build_likelihood
from calibrant.solvers.projected_gradient import solve_projected_gradient
from conftest import REAL_FILES, load_real, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning")


def likelihood_of(strength, n_rows=400, n_classes=4, seed=0):
    batch = simplex.check_batch(*simulate(n_rows, n_classes, seed))
    return build_likelihood(batch, strength)[0]


@pytest.mark.parametrize("strength", [0.0, 20.0])
def test_ends_between_the_start_and_the_optimum(strength):
    likelihood = likelihood_of(strength)
    blocks = pool_blocks(likelihood)
    start = blocks.loss(np.log(blocks.start))
    _, exact = solve_normalization_aware(likelihood)
    step, report = solve_projected_gradient(likelihood)
    assert report.solver == "projected-gradient"
    assert exact.objective <= report.objective + 1e-12
    assert report.objective - exact.objective < 0.999 * (start - exact.objective)
    loss, violation = likelihood.evaluate(step(likelihood.rows.starts))
    assert report.objective == pytest.approx(loss, rel=1e-9)
    assert report.violation == pytest.approx(violation, rel=1e-3, abs=1e-9)


def test_reaches_the_optimum_where_the_blocks_are_its_blocks():
    """Rows of 0.7 are right in seven of ten cases and rows of 0.6 in six: nothing to pool."""
    rows = np.array([[0.7, 0.3]] * 50 + [[0.6, 0.4]] * 50)
    labels = np.array([0] * 35 + [1] * 15 + [0] * 30 + [1] * 20)
    likelihood, _ = build_likelihood(simplex.check_batch(rows, labels), 0.0)
    step, report = solve_projected_gradient(likelihood)
    _, exact = solve_normalization_aware(likelihood)
    assert report.objective == pytest.approx(exact.objective, rel=1e-6)
    values = step([0.3, 0.4, 0.6, 0.7])
    assert values[3] / values[0] == pytest.approx(7 / 3, rel=1e-2)
    assert values[2] / values[1] == pytest.approx(1.5, rel=1e-2)


@pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning")
def test_a_single_block_needs_no_search():
    batch = simplex.check_batch(np.full((10, 2), 0.5), np.zeros(10, dtype=int), classes=[0, 1])
    step, report = solve_projected_gradient(build_likelihood(batch, 0.0)[0])
    np.testing.assert_array_equal(step.values, [1.0])
    assert report.objective == pytest.approx(np.log(2))


def test_a_limit_of_rounds_is_kept():
    few = solve_projected_gradient(likelihood_of(20.0), max_rounds=2)[1]
    many = solve_projected_gradient(likelihood_of(20.0), max_rounds=200)[1]
    assert few.rounds < many.rounds
    assert few.objective >= many.objective


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_FILES)
def test_never_below_the_optimum_on_real_data(name):
    rows, labels = load_real(name)["val"]
    batch = simplex.check_batch(rows, labels, classes=np.arange(rows.shape[1]))
    likelihood, _ = build_likelihood(batch, 0.0)
    _, exact = solve_normalization_aware(likelihood)
    _, report = solve_projected_gradient(likelihood)
    assert report.objective >= exact.objective - 1e-9 * exact.objective
