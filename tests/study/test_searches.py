"""The paper's searches for NA-FIR as calibrators, on the blocks of PAVA; and those blocks."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from calibrant import NormalizationAwareIsotonic, model_file
from calibrant._gate import _simplex as simplex
from calibrant._kernels.annealing import anneal
from calibrant._solvers.normalization_aware import build_likelihood, minimise_likelihood
from calibrant.study import SLSQP, Annealing, Penalty, ProjectedGradient, TrustConstr
from calibrant.study._searches import pool_blocks, split_blocks
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

GOLDEN = Path(__file__).parent / "golden"
QUICK = Annealing(n_iterations=2000, random_state=0)
OTHERS = [ProjectedGradient(), SLSQP(), TrustConstr(), Penalty()]
each_other = pytest.mark.parametrize("search", OTHERS, ids=lambda own: own.search)
each_search = pytest.mark.parametrize("search", [QUICK, *OTHERS], ids=lambda own: own.search)


def minimise(likelihood, search, max_rounds=None):
    """Minimise an objective by a search, as ``fit`` does."""
    return minimise_likelihood(
        likelihood, max_rounds=max_rounds, minimise=search._minimise, name=search.search
    )


def likelihood_of(strength, n_rows=120, n_classes=4):
    return build_likelihood(simplex.check_batch(*simulate(n_rows, n_classes)), strength)[0]


@each_other
@pytest.mark.parametrize("strength", [0.0, 20.0])
def test_ends_between_the_start_and_the_optimum(search, strength):
    slow = isinstance(search, ProjectedGradient)
    likelihood = likelihood_of(strength, 400 if slow else 120)
    blocks = pool_blocks(likelihood)
    start, _ = blocks.loss_and_gradient(np.log(blocks.start))
    _, exact = minimise_likelihood(likelihood)
    step, report = minimise(likelihood, search)
    assert report.solver == search.search
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
    ("search", "loss_tol", "value_tol"),
    [
        (ProjectedGradient(), 1e-6, 1e-2),
        (SLSQP(), 1e-9, 1e-4),
        (TrustConstr(), 1e-8, 1e-3),
        (Penalty(), 1e-9, 1e-4),
    ],
)
def test_reaches_the_optimum_where_the_blocks_are_its_blocks(search, loss_tol, value_tol):
    """Rows of 0.7 are right in seven of ten cases and rows of 0.6 in six: nothing to pool."""
    rows = np.array([[0.7, 0.3]] * 50 + [[0.6, 0.4]] * 50)
    labels = np.array([0] * 35 + [1] * 15 + [0] * 30 + [1] * 20)
    likelihood, _ = build_likelihood(simplex.check_batch(rows, labels), 0.0)
    step, report = minimise(likelihood, search)
    _, exact = minimise_likelihood(likelihood)
    assert report.objective == pytest.approx(exact.objective, rel=loss_tol)
    values = step([0.3, 0.4, 0.6, 0.7])
    assert values[3] / values[0] == pytest.approx(7 / 3, rel=value_tol)
    assert values[2] / values[1] == pytest.approx(1.5, rel=value_tol)


def run(likelihood, seed=0, **options):
    return minimise(likelihood, Annealing(random_state=np.random.default_rng(seed), **options))


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


def test_blocks_are_split_where_there_are_too_few():
    likelihood = likelihood_of(0.0, 600, 6)
    options = {"n_iterations": 2000, "split_size_threshold": 1}
    whole, split = (run(likelihood, min_blocks=n, **options)[1] for n in (None, 200))
    n_blocks = [int(report.notes[-1].split()[1]) for report in (whole, split)]
    assert 2 * n_blocks[0] < n_blocks[1]  # but no more than there are segments with labels


def test_equal_seeds_give_equal_fits():
    likelihood = likelihood_of(0.0, 600, 6)
    one, other = run(likelihood, 1)[0], run(likelihood, 1)[0]
    np.testing.assert_array_equal(one.values, other.values)
    assert not np.array_equal(one.values, run(likelihood, 2)[0].values)


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


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 30), st.integers(1, 10))
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


@each_search
def test_a_search_is_a_calibrator_whose_report_tells_the_truth(search):
    rows, labels = simulate(150, 3)
    calibrator = clone(search).set_params(prior_strength=5.0)
    one, other = clone(calibrator).fit(rows, labels), clone(calibrator).fit(rows, labels)
    assert one.get_params() == calibrator.get_params()
    assert eval(repr(one)).get_params() == one.get_params()
    np.testing.assert_array_equal(one.step_function_.values, other.step_function_.values)
    best = NormalizationAwareIsotonic(prior_strength=5.0).fit(rows, labels).solver_report_
    reached = one.solver_report_
    assert reached.objective > best.objective + 1e-8  # so it has not found the optimum
    assert best.converged
    assert not reached.converged
    assert reached.violation > reached.tolerance == 1e-8


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.calibrant")), ids=lambda path: path.stem)
def test_files_that_have_it_as_a_solver_of_na_fir_load(path):
    """As 1.0.0 wrote them."""
    loaded, expected = model_file.load(path), json.loads(path.with_suffix(".json").read_text())
    assert loaded.prior_strength == 5.0
    found = loaded.predict_proba(expected["rows"])
    np.testing.assert_allclose(found, expected["predictions"], rtol=1e-12, atol=1e-15)
    assert getattr(loaded, "beta", 100.0) == 100.0
    again = model_file.loads(model_file.dumps(loaded))
    assert again.get_params() == loaded.get_params()


def test_a_file_of_a_search_loads_in_a_process_that_has_not_imported_the_study():
    code = "import sys; from calibrant import model_file as m; print(repr(m.load(sys.argv[1])))"
    command = [sys.executable, "-c", code, next(GOLDEN.glob("Penalty*.calibrant"))]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.startswith("Penalty(")
