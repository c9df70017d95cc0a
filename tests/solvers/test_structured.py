import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from calibrant._gate._simplex import check_batch
from calibrant._solvers.rows import AT_TEMPERATURE
from calibrant._solvers.structured import PENALTIES, solve_structured
from calibrant._solvers.temperature import solve_temperature
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
FORMS = pytest.mark.parametrize("full", [False, True])


def temperature_of(batch):
    return solve_temperature(batch).map


def fit(batch, *, prior_strength=0.0, **options):
    """Structured scaling, without pseudo-observations unless they are asked for."""
    return solve_structured(batch, prior_strength=prior_strength, **options)[:2]


def features(z, scale, bound):
    q = np.log(softmax(scale * z, axis=1) + bound)
    return q - q.mean(axis=1, keepdims=True)


def literal_objective(batch, beta, scale, theta, *, full, strength, bound=0.02):
    """The penalised mean NLL as the module says it: (alpha, gamma, W, c), in rows."""
    z = np.log(batch.scores)
    k, m = batch.n_classes, batch.n_rows
    x = features(z, scale, bound)
    alpha, gamma, w, c = theta[0], theta[1], theta[2:-k], theta[-k:]
    w = w.reshape(k, k) if full else np.diag(w)
    logits = alpha * beta * z + gamma * x + x @ w.T + c
    loss = -np.mean(log_softmax(logits, axis=1)[np.arange(m), batch.class_index])
    on = np.diag(w)
    squares = [(alpha - 1) ** 2, gamma**2, on @ on, np.sum(w**2) - on @ on, c @ c]
    return loss + 0.5 * strength / m * float(PENALTIES @ squares)


@FORMS
def test_agrees_with_a_general_solver(full):
    """The same objective, written out, by BFGS with numerical gradients."""
    batch = check_batch(*simulate(150, 3))
    found, report = fit(batch, full=full, strength=1.0, tol=1e-9)
    beta = temperature_of(batch).inverse_temperature

    def objective(theta):
        return literal_objective(batch, beta, found.scale, theta, full=full, strength=1.0)

    other = minimize(objective, np.zeros(2 + (9 if full else 3) + 3), method="BFGS")
    assert report.converged
    assert report.objective <= other.fun + 1e-9
    assert report.objective == pytest.approx(other.fun, rel=1e-7)
    assert found.inverse_temperature == pytest.approx(other.x[0] * beta, abs=1e-3)
    np.testing.assert_allclose(found.intercept, other.x[-3:], atol=1e-3)


def test_the_evidence_shrinks_what_is_not_needed():
    """Simulated scores need a temperature and no more."""
    batch = check_batch(*simulate(3000, 10))
    fixed, _ = fit(batch, full=True, strength=1.0)
    found, report = fit(batch, full=True)
    off = ~np.eye(10, dtype=bool)
    assert np.abs(found.coef[off]).mean() < 0.5 * np.abs(fixed.coef[off]).mean()
    assert np.abs(found.intercept).mean() < np.abs(fixed.intercept).mean()
    assert "off-diagonal" in report.notes[0]


def test_the_evidence_lets_through_what_is_needed():
    p, y = simulate(3000, 4)
    p = p * [30.0, 1.0, 1.0, 0.1]
    batch = check_batch(p, y, normalize="rows")
    found, _ = fit(batch, full=False)
    order = np.argsort(found.intercept)
    assert order[0] == 0
    assert order[-1] == 3


@FORMS
def test_a_class_without_labels_is_shrunk_and_finite(full):
    p, y = simulate(800, 5)
    keep = y != 2
    batch = check_batch(p[keep], y[keep], classes=np.arange(5))
    found, report = fit(batch, full=full)
    assert report.converged
    out = found(p)
    assert 1e-4 < out[:, 2].mean() < p[:, 2].mean()


def test_the_common_slope_never_turns_negative():
    """Zeros that are read as 1e-12 are believed too much; the bounded logarithms take over."""
    rng = np.random.default_rng(0)
    shown = rng.integers(0, 4, 1000)
    y = np.where(rng.random(1000) < 0.3, rng.integers(0, 4, 1000), shown)
    batch = check_batch(np.eye(4)[shown], y)
    found, report = fit(batch, full=True, strength=1e-3)
    assert report.converged
    assert found.inverse_temperature >= 0.0


def test_terms_of_classes_are_not_held():
    """Only the common terms have pseudo-observations; a biased class is corrected all the same."""
    p, y = simulate(2000, 5)
    biased = p * [4.0, 1.0, 1.0, 1.0, 1.0]
    batch = check_batch(biased / biased.sum(axis=1, keepdims=True), y)
    free, _ = fit(batch, full=False)
    held, _ = fit(batch, full=False, prior_strength=AT_TEMPERATURE)
    np.testing.assert_allclose(held.intercept, free.intercept, atol=0.05)
