"""The paper's Algorithm 1."""

import numpy as np
import pytest

from calibrant import simplex
from calibrant.kernels.annealing import anneal
from calibrant.solvers.normalization_aware import minimise_likelihood
from calibrant.solvers.normalization_aware.prior import build_likelihood
from calibrant.solvers.normalization_aware.ways import Annealing, pool_blocks
from conftest import each_real_file, load_real, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning")


def likelihood_of(strength=0.0, n_rows=600, n_classes=6):
    return build_likelihood(simplex.check_batch(*simulate(n_rows, n_classes)), strength)[0]


def run(likelihood, seed=0, **options):
    way = Annealing(random_state=np.random.default_rng(seed), **options)
    return minimise_likelihood(likelihood, way)


@pytest.mark.parametrize("strength", [0.0, 20.0])
def test_approaches_the_optimum_from_above(strength):
    likelihood = likelihood_of(strength)
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
    likelihood = likelihood_of()
    one, other = run(likelihood, 1)[0], run(likelihood, 1)[0]
    np.testing.assert_array_equal(one.values, other.values)
    assert not np.array_equal(one.values, run(likelihood, 2)[0].values)


def test_stops_when_the_best_does_not_improve():
    _, report = run(likelihood_of(), epsilon_change=1e-12, n_iterations_no_change=50)
    assert report.rounds < 100_000
    _, report = run(likelihood_of(), beta=0.0, epsilon_change=0.1, n_iterations_no_change=7)
    assert report.rounds < 100


def test_splitting_blocks_gives_more_of_them():
    likelihood = likelihood_of()
    _, plain = run(likelihood, n_iterations=2000)
    _, split = run(likelihood, n_iterations=2000, min_blocks=200, split_size_threshold=1)
    assert split.n_blocks > plain.n_blocks


def test_the_best_has_to_beat_the_best():
    """Line 10 of the listing would take any step up from a bad place for the best."""
    pointers, rows = np.array([0, 2, 4]), np.array([0, 1, 0, 1])
    counts, weight, target = np.ones(4, np.float32), np.ones(2), np.array([0.5, 1.5])
    values, best = np.array([0.25, 0.75]), np.array([0.25, 0.75])
    state = np.zeros(3)
    # Two steps down (accepted: beta is 0), one up again: better than before, but not the best.
    anneal(
        pointers, rows, counts, weight, target, 0.0, 100,
        np.array([1, 1, 1]), np.array([-0.1, -0.1, 0.1]), np.zeros(3),
        values, np.array([1.0, 1.0]), best, state,
    )  # fmt: skip
    np.testing.assert_allclose(values, [0.25, 0.65])
    np.testing.assert_array_equal(best, [0.25, 0.75])
    assert state[0] < 0.0 == state[1]
    assert state[2] == 3.0


def test_incremental_likelihood_is_the_likelihood():
    likelihood = likelihood_of(20.0, 200, 4)
    step, report = run(likelihood, n_iterations=20_000)
    loss, _ = likelihood.evaluate(step(likelihood.rows.starts))
    assert report.objective == pytest.approx(loss, rel=1e-10)
    assert np.all(np.diff(step.values) > 0.0)


def test_values_that_would_cross_are_refused():
    pointers, rows = np.array([0, 1, 2]), np.array([0, 0])
    values, best, state = np.array([0.4, 0.6]), np.array([0.4, 0.6]), np.zeros(3)
    n = anneal(
        pointers, rows, np.ones(2, np.float32), np.ones(1), np.ones(2), 1e9, 100,
        np.array([0, 1, 0]), np.array([0.3, -0.3, -0.4]), np.zeros(3),
        values, np.ones(1), best, state,
    )  # fmt: skip
    assert n == 3
    np.testing.assert_array_equal(values, [0.4, 0.6])


def test_progress_is_said_if_asked_for(capsys):
    run(likelihood_of(), n_iterations=3000, verbose=True)
    said = "annealing: 1 of 2, from step 1\nannealing: 2 of 2, from step 2001\n"
    assert capsys.readouterr().err == said
    run(likelihood_of(), n_iterations=3000)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@each_real_file
def test_never_passes_the_optimum_on_real_data(name):
    rows, labels = load_real(name)["val"]
    batch = simplex.check_batch(rows, labels, classes=np.arange(rows.shape[1]))
    likelihood, _ = build_likelihood(batch, 0.0)
    _, exact = minimise_likelihood(likelihood)
    for epsilon_change in (1e-4, 1e-3, 1e-2):
        _, report = run(likelihood, epsilon_change=epsilon_change)
        assert report.objective >= exact.objective
