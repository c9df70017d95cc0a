from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from calibrant._gate._simplex import check_batch
from calibrant._solvers.logistic import bounds_of_logs, solve_beta, solve_platt
from calibrant._solvers.one_vs_rest import binary_problem, solve_one_vs_rest
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


@pytest.mark.parametrize(
    ("weight", "slope", "intercept"),
    [
        (np.ones(400), 0.4600291468831817, -0.14447766976380955),
        (
            np.random.RandomState(2).randint(1, 4, 400).astype(float),
            0.46334128690764453,
            -0.08287547055169944,
        ),
    ],
)
def test_agrees_with_scikit_learn_on_log_odds(weight, slope, intercept):
    """To 1e-6, scikit-learn's tolerance; Platt's targets count weights, as its do."""
    # from sklearn.calibration import _SigmoidCalibration  # scikit-learn 1.9.1
    # model = _SigmoidCalibration().fit(np.log(x / (1 - x)), y, weight)
    # -model.a_, -model.b_
    found, report = solve_platt(problem_of(*over_confident(), weight))
    np.testing.assert_allclose([found.slope, found.intercept], [slope, intercept], atol=1e-6)
    assert report.converged


@st.composite
def any_problem(draw):
    """Scores of any size, exact 0 and 1 among them, with any labels."""
    score = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(0, 1), st.floats(1e-300, 1e-3))
    x = draw(st.lists(score, min_size=1, max_size=8))
    y = draw(st.lists(st.integers(0, 1), min_size=len(x), max_size=len(x)))
    return np.array(x), np.array(y, dtype=float)


@pytest.mark.parametrize(
    "solve", [solve_platt, partial(solve_platt, smooth_labels=False), solve_beta]
)
@given(data=any_problem())
def test_any_problem_is_solved_and_finite(solve, data):
    """To 1e-9: beside scores of 1e-300, rounding may leave a gradient of a few 1e-10."""
    found, report = solve(problem_of(*data))
    out = found(np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 1 - 1e-16, 1.0]))
    assert report.violation <= 1e-9
    assert np.all((out >= 0) & (out <= 1))
    slopes = (found.a, found.b) if solve is solve_beta else (found.slope,)
    assert np.all(np.diff(out) * np.sign(max(slopes, key=abs)) >= 0)
    assert solve is not solve_beta or min(slopes) >= 0


def test_bounds_lie_below_every_positive_probability():
    logs = bounds_of_logs(np.array([0.0, 1e-200, 0.5, 1.0]))
    assert (logs.low, logs.rest) == (1e-200, 1e-12)
    assert logs(np.array([0.0]))[0] == np.log(1e-200)
    assert bounds_of_logs(np.array([0.0, 1.0])).low == 1e-12


@pytest.mark.parametrize("solve", [partial(solve_platt, smooth_labels=False), solve_beta])
def test_separated_labels_are_certain_and_the_report_says_so(solve):
    x = np.array([0.1, 0.2, 0.7, 0.8])
    found, report = solve(problem_of(x, x > 0.5))
    assert report.converged
    assert "separates" in report.notes[0]
    np.testing.assert_allclose(found(x), x > 0.5, atol=1e-6)
    smoothed, report = solve_platt(problem_of(x, x > 0.5))
    assert report.notes == ()
    np.testing.assert_allclose(smoothed(x).sum(), 2)  # the targets are 3/4 and 1/4, twice each


@pytest.mark.parametrize("name", real_files("cifar10_r", "r52", "mnist_"))
@pytest.mark.parametrize(
    "solve", [solve_platt, partial(solve_platt, smooth_labels=False), solve_beta]
)
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_real_files_are_certified(name, solve):
    batch = check_batch(*load_real(name)["val"])
    _, report = solve_one_vs_rest(batch, solve)
    assert report.violation <= 1e-10
    assert report.rounds <= 40 * batch.n_classes


def beta_features(x):
    return np.stack([np.log(x), -np.log1p(-x), np.ones_like(x)])


def test_beta_agrees_with_betacal():
    """To 2e-4: it stops early (scikit-learn's tol=1e-4)."""
    # from betacal import BetaCalibration  # betacal 1.1.0, scikit-learn 1.9.1
    # BetaCalibration("abm").fit(x.reshape(-1, 1), y).predict(GRID.reshape(-1, 1))
    betacal = [
        0.019417035142,
        0.173988135588,
        0.336929785037,
        0.454949714406,
        0.543756733386,
        0.631983757372,
        0.736687039003,
        0.895201226477,
    ]
    x, y = over_confident()
    found, report = solve_beta(problem_of(x, y))
    np.testing.assert_allclose(found(GRID), betacal, atol=2e-4)
    # ... and ours is the better optimum: betacal's (a, b, c) has the larger NLL.
    z = np.array([0.6008178548493449, 0.277598004510745, 0.228028495635]) @ beta_features(x)
    assert report.objective < np.mean(np.logaddexp(0, z) - y * z)


def test_reversed_scores_give_a_constant_where_betacal_decreases():
    """Where betacal drops log x, fits again and keeps a slope of -0.756, which breaks b >= 0."""
    # BetaCalibration("abm").fit((1 - x).reshape(-1, 1), y).calibrator_.map_
    # [0, -0.7559513839045645, 0.6087196124711489]
    x, y = over_confident()
    found, report = solve_beta(problem_of(1 - x, y))
    assert (found.a, found.b) == (0.0, 0.0)
    np.testing.assert_allclose(found(GRID), y.mean(), atol=1e-9)
    assert report.converged
