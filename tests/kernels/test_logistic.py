import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels.logistic import bounded_logs
from calibrant._solvers.one_vs_rest import RIDGE, minimise_logistic

FREE = -np.inf


def logs(x, low=5e-324):
    out = np.empty((2, len(x)))
    bounded_logs(x, low, 1e-300, *out)
    return out[0]


def test_logarithms_are_within_one_ulp_of_the_exact_value():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random(3000), np.logspace(-323.2, 0, 2000), 1 - np.logspace(-16, 0)])
    x = x[x > 0]
    with mpmath.workdps(40):
        exact = np.array([float(mpmath.log(mpmath.mpf(float(v)))) for v in x])
    np.testing.assert_array_max_ulp(logs(x), exact, maxulp=1)


def literal(features, positives, negatives):
    """Mean NLL with the ridge, and its gradient, by their plain formulas in 30 digits."""
    weight = positives + negatives
    share = weight / weight.sum()
    centred = features - (features @ share)[:, None]
    units = np.maximum(np.sqrt(centred**2 @ share), 1e-8)
    ridge = RIDGE * np.append(np.maximum(units, 1) ** 2, 1)
    middle = (features @ share).sum()

    def value(theta):
        z = [mpmath.mpf(t) for t in theta[:-1] @ features + theta[-1]]
        with mpmath.workdps(30):
            loss = mpmath.fsum(
                p * mpmath.log1p(mpmath.exp(-v)) + n * mpmath.log1p(mpmath.exp(v))
                for v, p, n in zip(z, positives, negatives, strict=True)
            )
            wrong = [
                float(n / (1 + mpmath.exp(-v)) - p / (1 + mpmath.exp(v)))
                for v, p, n in zip(z, positives, negatives, strict=True)
            ]
        at_mean = theta[-1] + theta[:-1] @ (features @ share)
        away = np.append(theta[:-1] - 1, at_mean - middle)
        slopes = np.append(centred @ wrong, np.sum(wrong)) / weight.sum() + ridge * away
        return float(loss) / weight.sum(), slopes / np.append(units, 1)

    return value


@st.composite
def problems(draw):
    """One or two features of a few cells, equal ones among them, with or without bounds."""
    n, d = draw(st.integers(1, 7)), draw(st.integers(1, 2))
    number = st.one_of(st.integers(-3, 3).map(float), st.floats(-40, 40))
    features = draw(st.lists(st.lists(number, min_size=n, max_size=n), min_size=d, max_size=d))
    counts = draw(st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=n, max_size=n))
    positives, negatives = np.array(counts, dtype=float).T.copy()
    positives[0] += positives.sum() + negatives.sum() == 0
    lower = draw(st.lists(st.sampled_from([0.0, FREE]), min_size=d, max_size=d))
    return np.array(features), positives, negatives, np.array([*lower, FREE])


@given(problems())
def test_the_optimality_condition_holds_by_its_plain_formula(problem):
    features, positives, negatives, lower = problem
    theta, report = minimise_logistic(*problem)
    expected, slopes = literal(features, positives, negatives)(theta)
    assert report.objective == pytest.approx(expected, rel=1e-6, abs=1e-14)
    assert report.converged
    assert np.all(theta >= lower)
    held = theta == lower
    assert np.all(slopes[held] >= -1e-9)
    np.testing.assert_allclose(slopes[~held], 0, atol=1e-9)
