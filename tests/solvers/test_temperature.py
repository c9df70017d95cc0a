import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from calibrant._gate._simplex import check_batch
from calibrant._objectives.temperature import LOWEST_ZERO
from calibrant._solvers.rows import AT_SCORES, REWEIGHTINGS
from calibrant._solvers.temperature import ZERO_LABELS, read_zero, solve_temperature
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def logits_batch(z, y, weight=None):
    return check_batch(z, y, weight, kind="logits", classes=np.arange(np.shape(z)[1]))


def mean_nll(logits, y, weight, beta):
    return -np.average(log_softmax(beta * logits, axis=1)[np.arange(len(y)), y], weights=weight)


def read_zeros(scores, beta, delta):
    """Logits in which an exact zero is ``delta`` below the smallest positive score."""
    smallest = np.log(scores[scores > 0].min())
    positive = np.where(scores > 0, scores, 1.0)
    return np.where(scores > 0, beta * np.log(positive), beta * smallest - delta)


def penalised(batch, strength, beta, delta):
    """The objective from its definition: labels, pseudo-labels and the half label of zeros."""
    z = log_softmax(read_zeros(batch.scores, beta, delta), axis=1)
    prior = strength / batch.weight.sum()
    own = z[np.arange(batch.n_rows), batch.class_index]
    expected = np.sum(batch.scores * z, axis=1)
    loss = -batch.weight @ (own + prior * expected) + ZERO_LABELS * delta
    return loss / (batch.weight.sum() + strength)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 1.0, 100.0]), st.integers(2, 6))
def test_agrees_with_a_general_solver(seed, scale, k):
    rng = np.random.default_rng(seed)
    z, weight = rng.normal(0, scale, (30, k)), rng.uniform(0.5, 2, 30)
    y = np.where(rng.random(30) < 0.6, z.argmax(axis=1), rng.integers(0, k, 30))
    found, report, *_ = solve_temperature(logits_batch(z, y, weight), prior_strength=0.0)
    other = minimize_scalar(
        lambda b: mean_nll(z, y, weight, b), bounds=(0, 50 / scale), method="bounded"
    )
    assert report.objective <= other.fun + 1e-12
    assert report.objective == pytest.approx(
        mean_nll(z, y, weight, found.inverse_temperature), rel=1e-11
    )


def coarse(rng, m, k, most=5):
    """Rows of small whole numbers, as of a forest: many exact zeros."""
    counts = rng.multinomial(most, rng.dirichlet(np.ones(k) / 2, m))
    return counts / most


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from([0.0, 5.0]))
def test_zeros_agree_with_a_general_solver_in_two_numbers(seed, k, strength):
    rng = np.random.default_rng(seed)
    p, weight = coarse(rng, 60, k), rng.uniform(0.5, 2, 60)
    y = np.where(rng.random(60) < 0.5, p.argmax(axis=1), rng.integers(0, k, 60))
    batch = check_batch(p, y, weight, classes=np.arange(k))
    found, report, *_ = solve_temperature(batch, prior_strength=strength)
    drawn = [float(note.split()[6]) for note in report.notes if "shrunk" in note]
    strength = drawn[0] if drawn else 0.0  # to three digits

    def value(x):
        return penalised(batch, strength, *x)

    other = minimize(value, [1.0, 1.0], bounds=[(0, None), (0, None)], tol=1e-12)
    delta = found.inverse_temperature * (np.log(p[p > 0].min()) - found.zero_logit)
    ours = value([found.inverse_temperature, delta])
    assert report.converged
    assert delta >= -1e-12
    assume(found.inverse_temperature > 0 and found.zero_logit > LOWEST_ZERO)
    assert ours <= other.fun + 1e-7
    assert ours == pytest.approx(report.objective, rel=1e-3)


def test_a_zero_is_read_as_its_labels_say():
    """One class in ten zeros is right; and a zero never outranks a positive score."""
    rng = np.random.default_rng(0)
    p = np.tile([0.6, 0.4, 0.0], (1000, 1))
    y = np.where(rng.random(1000) < 0.1, 2, (rng.random(1000) < 0.4).astype(int))
    found = solve_temperature(check_batch(p, y)).map
    out = found(p[:1])[0]
    assert out[2] == pytest.approx(np.mean(y == 2), abs=0.002)
    assert out[2] < out[1] < out[0]
    common = solve_temperature(check_batch(p, np.where(rng.random(1000) < 0.9, 2, y))).map
    assert np.all(np.diff(common(p[:1])[0]) <= 0)


def test_without_an_error_there_is_no_minimum_and_no_convergence():
    z = np.array([[2.0, 0.0], [0.0, 1.0]])
    for scale in (1.0, 1e-9, 1e90):
        found, report, *_ = solve_temperature(logits_batch(scale * z, [0, 1]), prior_strength=0.0)
        assert math.isfinite(found.inverse_temperature)
        assert found.inverse_temperature * scale > 15
        assert not report.converged
        assert "no finite minimum" in str(report.complaint)
    gaps = np.array([[1.0, 0.0], [1e-8, 0.0]])
    found, report, *_ = solve_temperature(logits_batch(gaps, [0, 0]), prior_strength=0.0)
    assert "no finite minimum" in report.notes[0]
    assert not report.converged
    found, report, *_ = solve_temperature(logits_batch(gaps, [0, 0]))
    assert report.converged


def test_the_pull_is_a_stationary_point_of_its_logarithm():
    """Near s / (1 + s D) pseudo-observations the slope of NLL + log(1 + s D) / W vanishes."""
    p, y = simulate(100, 5)
    batch = check_batch(p, y)
    found = solve_temperature(batch).map

    def value(beta):
        z = log_softmax(beta * np.log(p), axis=1)
        divergence = np.mean(np.sum(p * (np.log(p) - z), axis=1))
        return -np.mean(z[np.arange(100), y]) + np.log1p(AT_SCORES * divergence) / 100

    best = minimize_scalar(value, bounds=(0.05, 3), method="bounded", options={"xatol": 1e-10})
    assert REWEIGHTINGS == 3
    assert found.inverse_temperature == pytest.approx(best.x, rel=5e-3)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("zero_probability", [None, 1e-5])
@pytest.mark.parametrize("with_zeros", [False, True])
def test_zeros_are_read_as_by_the_fit(kind, zero_probability, with_zeros):
    p, y = simulate(200, 4)
    if with_zeros:
        p = np.where(p == p.min(axis=1, keepdims=True), 0.0, p)
        p /= p.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        scores = p if kind == "probabilities" else np.log(p)
    batch = check_batch(scores, y, kind=kind, classes=np.arange(4))
    found = solve_temperature(batch, zero_probability=zero_probability).map
    assert read_zero(batch, zero_probability) == found.zero_logit
