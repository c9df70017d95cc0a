"""The paper's other ways, on the blocks of PAVA; its Algorithm 1 has tests of its own."""

import numpy as np
import pytest

from calibrant import SLSQP, Penalty, ProjectedGradient, TrustConstr, simplex
from calibrant.solvers.normalization_aware import minimise_likelihood
from calibrant.solvers.normalization_aware.prior import build_likelihood
from calibrant.solvers.normalization_aware.ways import pool_blocks
from conftest import each_real_file, load_real, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning")

WAYS = [ProjectedGradient(), SLSQP(), TrustConstr(), Penalty()]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
ENOUGH = {"projected-gradient": None, "slsqp": 60, "trust-constr": 30, "penalty": 50}
"""Rounds on real data."""


def likelihood_of(strength, n_rows=120):
    return build_likelihood(simplex.check_batch(*simulate(n_rows, 4)), strength)[0]


@every_way
@pytest.mark.parametrize("strength", [0.0, 20.0])
def test_ends_between_the_start_and_the_optimum(way, strength):
    slow = isinstance(way, ProjectedGradient)
    likelihood = likelihood_of(strength, 400 if slow else 120)
    blocks = pool_blocks(likelihood)
    start, _ = blocks.loss_and_gradient(np.log(blocks.start))
    _, exact = minimise_likelihood(likelihood)
    step, report = minimise_likelihood(likelihood, way)
    assert report.solver == way.name
    assert report.notes[-1] == f"on {len(blocks.start)} blocks of PAVA"
    assert exact.objective <= report.objective + 1e-12
    left = (report.objective - exact.objective) / (start - exact.objective)
    assert left < (0.999 if slow else 0.01)
    loss, violation = likelihood.evaluate(step(likelihood.rows.starts))
    assert report.objective == pytest.approx(loss, rel=1e-9)
    assert report.violation == pytest.approx(violation, rel=1e-3, abs=1e-9)
    assert report.converged  # on all segments nothing was asked for


@pytest.mark.parametrize(
    ("way", "loss_tol", "value_tol"),
    [
        (ProjectedGradient(), 1e-6, 1e-2),
        (SLSQP(), 1e-9, 1e-4),
        (TrustConstr(), 1e-8, 1e-3),
        (Penalty(), 1e-9, 1e-4),
    ],
)
def test_reaches_the_optimum_where_the_blocks_are_its_blocks(way, loss_tol, value_tol):
    """Rows of 0.7 are right in seven of ten cases and rows of 0.6 in six: nothing to pool."""
    rows = np.array([[0.7, 0.3]] * 50 + [[0.6, 0.4]] * 50)
    labels = np.array([0] * 35 + [1] * 15 + [0] * 30 + [1] * 20)
    likelihood, _ = build_likelihood(simplex.check_batch(rows, labels), 0.0)
    step, report = minimise_likelihood(likelihood, way)
    _, exact = minimise_likelihood(likelihood)
    assert report.objective == pytest.approx(exact.objective, rel=loss_tol)
    values = step([0.3, 0.4, 0.6, 0.7])
    assert values[3] / values[0] == pytest.approx(7 / 3, rel=value_tol)
    assert values[2] / values[1] == pytest.approx(1.5, rel=value_tol)


@every_way
@pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning")
def test_a_single_block_needs_no_search(way):
    batch = simplex.check_batch(np.full((10, 2), 0.5), np.zeros(10, dtype=int), classes=[0, 1])
    step, report = minimise_likelihood(build_likelihood(batch, 0.0)[0], way)
    np.testing.assert_array_equal(step.values, [1.0])
    assert report.objective == pytest.approx(np.log(2))


@every_way
def test_a_limit_of_rounds_is_kept(way):
    likelihood = likelihood_of(20.0)
    few, many = (minimise_likelihood(likelihood, way, max_rounds=n)[1] for n in (2, 200))
    assert few.rounds < many.rounds
    assert few.objective >= many.objective


@pytest.mark.slow
@every_way
@each_real_file
def test_never_below_the_optimum_on_real_data(way, name):
    rows, labels = load_real(name)["val"]
    batch = simplex.check_batch(rows, labels, classes=np.arange(rows.shape[1]))
    likelihood, _ = build_likelihood(batch, 0.0)
    _, exact = minimise_likelihood(likelihood)
    _, report = minimise_likelihood(likelihood, way, max_rounds=ENOUGH[way.name])
    assert report.objective >= exact.objective - 1e-9 * exact.objective
