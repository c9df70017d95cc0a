import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant._solvers.prior_shift import solve_priors
from reference.prior_shift import best_on_grid, likelihood, responsibilities

TINY = [
    ([[0.5, 0.5], [0.25, 0.75], [0.875, 0.125]], [0.5, 0.5]),
    ([[0.75, 0.25], [0.625, 0.375], [0.875, 0.125]], [0.75, 0.25]),
    ([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0.125, 0.875]),  # counts: two thirds, one third
    (
        [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]],
        [0.25, 0.5, 0.25],
    ),
    (
        [[0.125, 0.375, 0.5], [0.25, 0.25, 0.5], [0.0, 0.5, 0.5]],
        [0.5, 0.25, 0.25],
    ),  # none of the first
]


def simulate(rng, n_rows, priors, from_priors, noise=1.0):
    """Exactly calibrated rows of normal classes that come with frequencies ``priors``."""
    k = len(priors)
    y = rng.choice(k, size=n_rows, p=priors)
    x = np.eye(k)[y] / noise + rng.normal(size=(n_rows, k))
    logits = x / noise + np.log(from_priors)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize(("rows", "from_priors"), TINY)
def test_nothing_on_a_grid_is_more_likely(rows, from_priors):
    priors, report = solve_priors(np.array(rows), np.array(from_priors))
    best = best_on_grid(rows, from_priors, 60)
    found = likelihood([q / sum(priors) for q in priors], rows, from_priors)
    assert report.converged
    assert float(found / likelihood(best, rows, from_priors)) >= 1 - 1e-7
    assert np.abs(priors - [float(q) for q in best]).max() <= 1 / 60


@pytest.mark.parametrize(("rows", "from_priors"), TINY)
def test_the_certificate_holds_in_exact_arithmetic(rows, from_priors):
    priors, _ = solve_priors(np.array(rows), np.array(from_priors))
    means = responsibilities(priors, rows, from_priors)
    assert max(means) <= 1 + 1e-7
    for q, mean in zip(priors, means, strict=True):
        assert q * abs(mean - 1) <= 1e-7


def test_it_finds_what_a_general_solver_finds():
    rng = np.random.default_rng(0)
    for _ in range(5):
        from_priors = rng.dirichlet(np.full(4, 3.0))
        rows, _ = simulate(rng, 80, rng.dirichlet(np.ones(4)), from_priors)
        weight = rng.integers(1, 4, size=80).astype(float)

        def loss(q, rows=rows, from_priors=from_priors, weight=weight):
            return -weight @ np.log(np.maximum(rows @ (q / from_priors), 1e-300)) / weight.sum()

        priors, _ = solve_priors(rows, from_priors, weight)
        general = minimize(
            loss,
            np.full(4, 0.25),
            method="SLSQP",
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert loss(priors) <= general.fun + 1e-9
        assert np.abs(priors - general.x).max() < 1e-3


def test_the_limit_of_expectation_maximisation():
    rng = np.random.default_rng(1)
    from_priors = np.array([0.2, 0.3, 0.5])
    rows, _ = simulate(rng, 200, [0.6, 0.3, 0.1], from_priors)
    priors, _ = solve_priors(rows, from_priors)
    q = from_priors
    for _ in range(20_000):  # Saerens, Latinne and Decaestecker, equation 2.8
        posterior = rows * q / from_priors
        q = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    assert priors == pytest.approx(q, abs=1e-6)


def test_rows_of_the_calibration_set_have_its_frequencies():
    """Of which the mean probabilities are the estimate that no row contradicts."""
    rng = np.random.default_rng(2)
    rows, _ = simulate(rng, 300, [0.2, 0.3, 0.5], [0.2, 0.3, 0.5])
    priors, report = solve_priors(rows, rows.mean(axis=0))
    assert priors == pytest.approx(rows.mean(axis=0), abs=1e-6)
    assert report.converged


def test_the_order_of_rows_changes_no_bit_and_weights_are_repetitions():
    rng = np.random.default_rng(3)
    rows, _ = simulate(rng, 50, [0.6, 0.3, 0.1], [0.2, 0.3, 0.5])
    weight = rng.integers(1, 4, size=50)
    priors, _ = solve_priors(rows, np.array([0.2, 0.3, 0.5]), weight.astype(float))
    repeated = rng.permutation(np.repeat(rows, weight, axis=0))
    assert np.array_equal(priors, solve_priors(repeated, np.array([0.2, 0.3, 0.5]))[0])


def test_a_class_that_was_never_there_stays_so():
    rng = np.random.default_rng(4)
    rows, _ = simulate(rng, 50, [0.6, 0.4], [0.5, 0.5])
    wide = np.insert(rows, 1, 0.0, axis=1)
    priors, report = solve_priors(wide, np.array([0.5, 0.0, 0.5]))
    assert priors[1] == 0
    assert report.converged
    assert priors[[0, 2]] == pytest.approx(solve_priors(rows, np.array([0.5, 0.5]))[0])
