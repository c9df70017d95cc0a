"""The paper's own ways, on the blocks of PAVA; and those blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import SLSQP, Annealing, Penalty, ProjectedGradient, TrustConstr
from calibrant import _simplex as simplex
from calibrant._kernels.annealing import anneal
from calibrant._solvers.normalization_aware import minimise_likelihood
from calibrant._solvers.normalization_aware.prior import build_likelihood
from calibrant._solvers.normalization_aware.ways import pool_blocks, split_blocks
from conftest import each_real_file, load_real, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning")

WAYS = [ProjectedGradient(), SLSQP(), TrustConstr(), Penalty()]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
ENOUGH = [(ProjectedGradient(), None), (SLSQP(), 60), (TrustConstr(), 30), (Penalty(), 50)]
"""Rounds on real data."""


def likelihood_of(strength, n_rows=120, n_classes=4):
    return build_likelihood(simplex.check_batch(*simulate(n_rows, n_classes)), strength)[0]


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
    loss, violation = likelihood.evaluate(step(likelihood.rows.bounds[0]))
    assert report.objective == pytest.approx(loss, rel=1e-9)
    assert report.violation == pytest.approx(violation, rel=1e-3, abs=1e-9)
    assert report.tolerance == exact.tolerance
    assert report.converged == (violation <= report.tolerance)


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


@pytest.mark.slow
@pytest.mark.parametrize(("way", "rounds"), [*ENOUGH, (Annealing(random_state=0), None)])
@each_real_file
def test_never_below_the_optimum_on_real_data(way, rounds, name):
    rows, labels = load_real(name)["val"]
    batch = simplex.check_batch(rows, labels, classes=np.arange(rows.shape[1]))
    likelihood, _ = build_likelihood(batch, 0.0)
    _, exact = minimise_likelihood(likelihood)
    _, report = minimise_likelihood(likelihood, way, max_rounds=rounds)
    assert report.objective >= exact.objective - 1e-9 * exact.objective


def run(likelihood, seed=0, **options):
    way = Annealing(random_state=np.random.default_rng(seed), **options)
    return minimise_likelihood(likelihood, way)


@pytest.mark.parametrize("strength", [0.0, 20.0])
def test_approaches_the_optimum_from_above(strength):
    likelihood = likelihood_of(strength, 600, 6)
    start = pool_blocks(likelihood)
    _, exact = minimise_likelihood(likelihood)
    losses = [start.loss_and_gradient(np.log(start.start))[0]]
    for n_iterations in (2000, 20_000, 100_000):
        _, report = run(likelihood, n_iterations=n_iterations, epsilon_change=1e-2)
        losses.append(report.objective)
    assert np.all(np.diff(losses) <= 1e-12)  # the same random numbers, only more of them
    assert losses[-1] >= exact.objective
    assert losses[-1] - exact.objective < 0.6 * (losses[0] - exact.objective)


def test_equal_seeds_give_equal_fits():
    likelihood = likelihood_of(0.0, 600, 6)
    one, other = run(likelihood, 1)[0], run(likelihood, 1)[0]
    np.testing.assert_array_equal(one.values, other.values)
    assert not np.array_equal(one.values, run(likelihood, 2)[0].values)


def test_stops_when_the_best_does_not_improve():
    _, report = run(likelihood_of(0.0, 600, 6), epsilon_change=1e-12, n_iterations_no_change=50)
    assert report.rounds < 100_000
    _, report = run(
        likelihood_of(0.0, 600, 6), beta=0.0, epsilon_change=0.1, n_iterations_no_change=7
    )
    assert report.rounds < 100


def test_the_best_has_to_beat_the_best():
    """Line 10 of the listing would take any step up from a bad place for the best."""
    pointers, rows = np.array([0, 2, 4]), np.array([0, 1, 0, 1])
    counts, weight, target = np.ones(4, np.float32), np.ones(2), np.array([0.5, 1.5])
    values, best = np.array([0.25, 0.75]), np.array([0.25, 0.75])
    state = np.zeros(3)
    # Two that would cross; two steps down (accepted: beta is 0), one up: not the best again.
    anneal(
        pointers, rows, counts, weight, target, 0.0, 100,
        np.array([0, 1, 1, 1, 1]), np.array([0.6, -0.6, -0.1, -0.1, 0.1]), np.zeros(5),
        values, np.array([1.0, 1.0]), best, state,
    )  # fmt: skip
    np.testing.assert_allclose(values, [0.25, 0.65])
    np.testing.assert_array_equal(best, [0.25, 0.75])
    assert state[0] < 0.0 == state[1]
    assert state[2] == 5.0


def test_progress_is_said_if_asked_for(capsys):
    run(likelihood_of(0.0, 600, 6), n_iterations=3000, verbose=True)
    said = "annealing: 1 of 2, from step 1\nannealing: 2 of 2, from step 2001\n"
    assert capsys.readouterr().err == said
    run(likelihood_of(0.0, 600, 6), n_iterations=3000)
    assert capsys.readouterr().err == ""


@pytest.fixture(params=[0.0, 20.0])
def likelihood(request):
    return build_likelihood(simplex.check_batch(*simulate(400, 5)), request.param)[0]


def test_loss_and_gradient_are_those_of_the_likelihood(likelihood):
    blocks = pool_blocks(likelihood)
    rng = np.random.default_rng(0)
    theta = np.sort(rng.normal(size=len(blocks.start)))
    loss, gradient = blocks.loss_and_gradient(theta)
    found, _ = likelihood.evaluate(blocks.on_segments(np.exp(theta)))
    assert found == pytest.approx(loss, rel=1e-12)
    direction = rng.normal(size=len(theta))
    up, down = (blocks.loss_and_gradient(theta + h * direction)[0] for h in (1e-5, -1e-5))
    assert (up - down) / 2e-5 == pytest.approx(gradient @ direction, rel=1e-5)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.integers(1, 30),
    st.integers(1, 10),
)
def test_split_blocks_refine_into_parts_not_below_the_threshold(sizes, min_blocks, threshold):
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    split = split_blocks(first, np.ones(sum(sizes)), min_blocks, threshold)
    assert set(first) <= set(split)
    assert np.all(np.diff(split) > 0)
    parts = np.diff(np.append(split, sum(sizes)))
    is_split = ~np.isin(parts, sizes)
    assert np.all(parts[is_split] >= threshold - 1)  # parts end at whole cells
    possible = sum(max(1, size // threshold) for size in sizes)
    assert len(split) >= min(min_blocks, possible) - len(sizes)


def test_split_blocks_start_from_the_values_of_pava(likelihood):
    blocks, plain = pool_blocks(likelihood, min_blocks=200), pool_blocks(likelihood)
    assert len(blocks.first) > len(plain.first)
    assert set(plain.first) <= set(blocks.first)
    np.testing.assert_array_equal(np.unique(blocks.start), plain.start)
    assert blocks.target.sum() == pytest.approx(plain.target.sum())
