from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from calibrant.simplex import check_batch
from calibrant.solvers.one_vs_rest import binary_problem, solve_one_vs_rest
from calibrant.solvers.platt import RIDGE, bounds_of_logs, solve_platt
from conftest import load_real, real_files

GRID = np.array([0.001, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999])


def over_confident(n=400):
    """Scores whose log-odds are twice too large, and shifted."""
    rng = np.random.RandomState(0)
    z = rng.normal(-1.0, 1.5, n)
    y = (rng.uniform(size=n) < expit(z)).astype(float)
    return expit(2.0 * z + 0.4), y


def problem_of(x, y, weight=None):
    weight = np.ones(len(x)) if weight is None else weight
    return binary_problem(np.asarray(x, float), np.asarray(y) * weight, weight)


def violation(x, targets, weight, found):
    """The certificate again: gradient of the mean NLL by its plain formula."""
    s = logit(x)
    wrong = weight * (expit(found.slope * s + found.intercept) - targets) / weight.sum()
    return max(abs(wrong @ s) / np.sqrt(np.average(s**2, weights=weight)), abs(wrong.sum()))


def test_agrees_with_scikit_learn_on_log_odds():
    """To 1e-7, scikit-learn's tolerance being 1e-6."""
    # from sklearn.calibration import _SigmoidCalibration  # scikit-learn 1.9.1
    # model = _SigmoidCalibration().fit(np.log(x / (1 - x)), y)
    # -model.a_, -model.b_
    # (0.4600291468831817, -0.14447766976380955)
    found, report = solve_platt(problem_of(*over_confident()))
    assert found.slope == pytest.approx(0.4600291468831817, abs=1e-7)
    assert found.intercept == pytest.approx(-0.14447766976380955, abs=1e-7)
    assert report.converged


def test_agrees_with_scikit_learn_on_weighted_log_odds():
    """Platt's targets count weights, as scikit-learn's do; weights from RandomState(2)."""
    # model = _SigmoidCalibration().fit(np.log(x / (1 - x)), y, weight)
    # -model.a_, -model.b_
    # (0.46334128690764453, -0.08287547055169944)
    x, y = over_confident()
    weight = np.random.RandomState(2).randint(1, 4, len(x)).astype(float)
    found, _ = solve_platt(problem_of(x, y, weight))
    assert found.slope == pytest.approx(0.46334128690764453, abs=1e-6)
    assert found.intercept == pytest.approx(-0.08287547055169944, abs=1e-6)


def test_agrees_with_netcal():
    """To 1e-5, netcal's optimiser being less exact; it has no targets of Platt's."""
    # from netcal.scaling import LogisticCalibration  # netcal 1.4.0, torch 2.13.0
    # LogisticCalibration(method="mle").fit(x, y, tensorboard=False).transform(GRID)
    recorded = [
        0.033066252753,
        0.179799354011,
        0.312791360939,
        0.418923081952,
        0.513258180694,
        0.625497979191,
        0.776182523295,
        0.956953180555,
    ]
    found, _ = solve_platt(problem_of(*over_confident()), smooth_labels=False)
    np.testing.assert_allclose(found(GRID), recorded, atol=1e-5)


def test_agrees_with_logistic_regression():
    x, y = over_confident()
    found, _ = solve_platt(problem_of(x, y), smooth_labels=False)
    other = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(logit(x)[:, None], y)
    assert found.slope == pytest.approx(other.coef_[0, 0], abs=1e-6)
    assert found.intercept == pytest.approx(other.intercept_[0], abs=1e-6)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_a_general_solver(smooth, seed):
    """The same convex problem by Nelder and Mead, without any derivative."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.05, 0.95, 60)
    y = (rng.random(60) < 0.3 + 0.4 * x).astype(float)
    weight = rng.uniform(0.5, 2, 60)
    ones, zeros = weight[y == 1].sum(), weight[y == 0].sum()
    targets = np.where(y == 1, (ones + 1) / (ones + 2), 1 / (zeros + 2)) if smooth else y

    def loss(theta):
        z = theta[0] * logit(x) + theta[1]
        return np.average(np.logaddexp(0, z) - targets * z, weights=weight)

    found, report = solve_platt(problem_of(x, y, weight), smooth_labels=smooth)
    other = minimize(
        loss, [0.3, 0.1], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15}
    )
    assert report.objective <= other.fun + 1e-12
    np.testing.assert_allclose([found.slope, found.intercept], other.x, atol=1e-6)
    assert violation(x, targets, weight, found) <= 10 * RIDGE  # which is not in the formula


def test_calibrated_scores_stay_as_they_are():
    """Slope 1 and intercept 0, which no sigmoid of the probability itself can be."""
    x = np.repeat([0.1, 0.25, 0.5, 0.8], [100, 100, 100, 100])
    y = np.concatenate([np.arange(100) < n for n in (10, 25, 50, 80)]).astype(float)
    found, _ = solve_platt(problem_of(x, y), smooth_labels=False)
    np.testing.assert_allclose([found.slope, found.intercept], [1.0, 0.0], atol=1e-10)
    np.testing.assert_allclose(found(GRID), GRID, atol=1e-10)


@st.composite
def any_problem(draw):
    """Scores of any size, exact 0 and 1 among them, with any labels."""
    score = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(0, 1), st.floats(1e-300, 1e-3))
    x = draw(st.lists(score, min_size=1, max_size=8))
    y = draw(st.lists(st.integers(0, 1), min_size=len(x), max_size=len(x)))
    return np.array(x), np.array(y, dtype=float)


@given(any_problem(), st.booleans())
def test_any_problem_is_solved_and_finite(data, smooth):
    found, report = solve_platt(problem_of(*data), smooth_labels=smooth)
    out = found(np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 1 - 1e-16, 1.0]))
    assert report.converged
    assert np.all(np.isfinite(out))
    assert np.all((out >= 0) & (out <= 1))
    assert np.all(np.diff(out) * np.sign(found.slope) >= 0)


@given(any_problem())
def test_weights_are_repetitions_to_the_bit(data):
    x, y = data
    times = 1 + np.arange(len(x)) % 3
    one, _ = solve_platt(problem_of(x, y, times.astype(float)))
    two, _ = solve_platt(problem_of(np.repeat(x, times), np.repeat(y, times)))
    assert astuple(one) == astuple(two)


def test_separated_labels_are_certain_and_the_report_says_so():
    x = np.array([0.1, 0.2, 0.7, 0.8])
    found, report = solve_platt(problem_of(x, x > 0.5), smooth_labels=False)
    assert report.converged
    assert "separates" in report.notes[0]
    np.testing.assert_allclose(found(x), x > 0.5, atol=1e-6)
    smoothed, report = solve_platt(problem_of(x, x > 0.5))
    assert report.notes == ()
    np.testing.assert_allclose(smoothed(x).sum(), 2)  # the targets are 3/4 and 1/4, twice each


def test_equal_scores_change_by_one_shift():
    """The slope is open; the ridge keeps the map nearest to the identity that fits the share."""
    found, report = solve_platt(
        problem_of(np.full(10, 0.2), np.arange(10) < 4), smooth_labels=False
    )
    assert report.converged
    assert found(np.array([0.2])) == pytest.approx(0.4, abs=1e-6)
    assert found.slope > 0
    assert RIDGE < 1e-8


def test_bounds_lie_below_every_positive_probability():
    logs = bounds_of_logs(np.array([0.0, 1e-200, 0.5, 1.0]))
    assert (logs.low, logs.rest) == (1e-200, 1e-12)
    assert logs(np.array([0.0]))[0] == np.log(1e-200)
    assert bounds_of_logs(np.array([0.0, 1.0])).low == 1e-12


@pytest.mark.parametrize("name", real_files("cifar10_r", "r52", "mnist_"))
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_real_files_are_certified(name, smooth):
    batch = check_batch(*load_real(name)["val"])
    _, report = solve_one_vs_rest(batch, lambda q: solve_platt(q, smooth_labels=smooth))
    assert report.violation <= 1e-10
    assert report.rounds <= 40 * batch.n_classes
