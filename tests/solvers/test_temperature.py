import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from calibrant.errors import ConvergenceWarning
from calibrant.simplex import check_batch
from calibrant.solvers.temperature import minimise_temperature, solve_temperature
from conftest import REAL_FILES, load_real, simulate

pytestmark = pytest.mark.filterwarnings(
    "ignore::calibrant.errors.SmallSampleWarning", "ignore::calibrant.errors.SingleClassWarning"
)


def mean_nll(logits, y, weight, beta):
    return -np.average(log_softmax(beta * logits, axis=1)[np.arange(len(y)), y], weights=weight)


def slope(logits, y, beta):
    """Derivative of the mean NLL in beta: mean logit under the model minus the label's."""
    p = softmax(beta * logits, axis=1)
    return np.mean(np.sum(p * logits, axis=1) - logits[np.arange(len(y)), y])


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_files_reach_the_optimum(name):
    """The slope, recomputed here with numpy from the logits, is below 1e-8."""
    p, y = load_real(name)["val"]
    batch = check_batch(p, y)
    zero = batch.zero_logit()
    beta, report = solve_temperature(batch, zero)
    assert report.converged
    logits = np.log(np.maximum(batch.scores, np.exp(zero)))
    assert abs(slope(logits, batch.class_index, beta)) < 1e-8


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 1.0, 100.0]), st.integers(2, 6))
def test_agrees_with_a_general_solver(seed, scale, k):
    rng = np.random.default_rng(seed)
    z, weight = rng.normal(0, scale, (30, k)), rng.uniform(0.5, 2, 30)
    y = np.where(rng.random(30) < 0.6, z.argmax(axis=1), rng.integers(0, k, 30))
    beta, report = minimise_temperature(z, y, weight)
    other = minimize_scalar(
        lambda b: mean_nll(z, y, weight, b), bounds=(0, 50 / scale), method="bounded"
    )
    assert report.objective <= other.fun + 1e-12
    assert report.objective == pytest.approx(mean_nll(z, y, weight, beta), rel=1e-12)


def test_separable_data_stop_at_the_bound_or_where_the_slope_vanishes():
    z = np.array([[2.0, 0.0], [0.0, 1.0]])
    beta, report = minimise_temperature(z, np.array([0, 1]), np.ones(2))
    assert np.isfinite(beta)
    assert beta > 20
    assert report.converged
    close = np.array([[1e-9, 0.0], [0.0, 1e-9]])
    beta, report = minimise_temperature(close, np.array([0, 1]), np.ones(2))
    assert beta == 1e6
    assert "every prediction is right" in report.notes[0]
    assert report.converged


def test_useless_scores_give_the_uniform_distribution():
    z = np.array([[2.0, 0.0], [0.0, 1.0]])
    beta, report = minimise_temperature(z, np.array([1, 0]), np.ones(2))
    assert beta == 0.0
    assert "no information" in report.notes[0]


def test_equal_scores_are_no_problem():
    beta, report = minimise_temperature(np.zeros((4, 3)), np.array([0, 1, 2, 0]), np.ones(4))
    assert np.isfinite(beta)
    assert report.objective == pytest.approx(np.log(3))


def test_rounds_run_out_with_a_warning():
    p, y = simulate(200, 4)
    batch = check_batch(p, y)
    _, report = solve_temperature(batch, batch.zero_logit(), max_rounds=3)
    assert not report.converged
    assert isinstance(report.complaint, ConvergenceWarning)
    assert "3 rounds" in str(report.complaint)


def test_order_of_rows_and_scale_of_weights_change_no_bit():
    p, y = simulate(500, 7)
    weight = np.random.default_rng(0).random(500)
    order = np.random.default_rng(1).permutation(500)
    results = set()
    for rows, factor in ((np.arange(500), 1.0), (order, 1.0), (order, 4.0)):
        batch = check_batch(p[rows], y[rows], factor * weight[rows])
        results.add(solve_temperature(batch, batch.zero_logit())[0])
    assert len(results) == 1


def test_finds_the_temperature_of_the_simulation():
    p, y = simulate(20_000, 10)
    batch = check_batch(p, y)
    beta, _ = solve_temperature(batch, batch.zero_logit())
    assert beta == pytest.approx(0.5, abs=0.01)
