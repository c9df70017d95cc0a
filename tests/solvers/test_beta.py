import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import minimize
from scipy.special import expit

from calibrant.simplex import check_batch
from calibrant.solvers.beta import solve_beta
from calibrant.solvers.one_vs_rest import solve_one_vs_rest
from conftest import load_real, real_files
from solvers.test_platt import GRID, any_problem, over_confident, problem_of


def features(x):
    return np.stack([np.log(x), -np.log1p(-x), np.ones_like(x)])


def gradient(x, y, weight, found):
    """Gradient of the mean NLL by its plain formula, in units of each feature."""
    f = features(x)
    theta = np.array([found.a, found.b, found.c])
    wrong = weight * (expit(theta @ f) - y) / weight.sum()
    return (f @ wrong) / np.sqrt(np.average(f**2, axis=1, weights=weight))


def test_agrees_with_betacal_and_netcal():
    """To 2e-4 and 2e-5: both stop early (scikit-learn's tol=1e-4 in betacal)."""
    # from betacal import BetaCalibration  # betacal 1.1.0, scikit-learn 1.9.1
    # BetaCalibration("abm").fit(x.reshape(-1, 1), y).predict(GRID.reshape(-1, 1))
    # from netcal.scaling import BetaCalibration  # netcal 1.4.0, torch 2.13.0
    # BetaCalibration(method="mle").fit(x, y, tensorboard=False).transform(GRID)
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
    netcal = [
        0.019459756938,
        0.174050847275,
        0.336888422036,
        0.454832671034,
        0.543604957689,
        0.631829547373,
        0.736574787298,
        0.89518816092,
    ]
    x, y = over_confident()
    found, report = solve_beta(problem_of(x, y))
    np.testing.assert_allclose(found(GRID), betacal, atol=2e-4)
    np.testing.assert_allclose(found(GRID), netcal, atol=2e-5)
    # ... and ours is the better optimum: betacal's (a, b, c) has the larger NLL.
    z = np.array([0.6008178548493449, 0.277598004510745, 0.228028495635]) @ features(x)
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


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_a_general_bounded_solver(seed):
    """The same convex problem by L-BFGS-B from another start; bounds are active in some."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.02, 0.98, 80)
    truth = [0.9 - 0.8 * x, x**3, 1 - (1 - x) ** 3, np.full(80, 0.3)][seed % 4]
    y = (rng.random(80) < truth).astype(float)
    weight = rng.uniform(0.5, 2, 80)
    f = features(x)

    def loss(theta):
        z = theta @ f
        wrong = weight * (expit(z) - y) / weight.sum()
        return np.average(np.logaddexp(0, z) - y * z, weights=weight), f @ wrong

    found, report = solve_beta(problem_of(x, y, weight))
    other = minimize(
        loss,
        [0.5, 0.5, 0.0],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None), (0, None), (None, None)],
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )
    assert report.objective <= other.fun + 1e-10
    np.testing.assert_allclose([found.a, found.b, found.c], other.x, atol=2e-4)


@pytest.mark.parametrize("seed", range(12))
def test_optimality_conditions_hold_with_bounds(seed):
    """Zero gradient where a parameter is free, pointing outwards where it is at its bound."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.02, 0.98, 50)
    y = (rng.random(50) < [1 - x, x**4, 1 - (1 - x) ** 4][seed % 3]).astype(float)
    found, report = solve_beta(problem_of(x, y))
    slope = gradient(x, y, np.ones(50), found)
    for value, g in zip((found.a, found.b), slope[:2], strict=True):
        assert value >= 0
        assert g >= -1e-8
        assert value == 0 or abs(g) <= 1e-8
    assert abs(slope[2]) <= 1e-8
    assert report.violation <= 1e-10


def test_one_negative_slope_is_dropped_as_betacal_does():
    """With a < 0 alone its way is right: the optimum is that of the other feature."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.02, 0.98, 500)
    y = (rng.random(500) < 0.2 + 0.6 * (x > 0.9)).astype(float)
    found, report = solve_beta(problem_of(x, y))
    f = features(x)[1:]
    other = minimize(
        lambda t: np.mean(np.logaddexp(0, t @ f) - y * (t @ f)), [0.5, 0.0], method="BFGS"
    )
    assert found.a == 0.0
    assert report.objective == pytest.approx(other.fun, abs=1e-9)
    np.testing.assert_allclose([found.b, found.c], other.x, atol=1e-4)


@given(any_problem())
def test_any_problem_is_solved_finite_and_never_decreases(data):
    found, report = solve_beta(problem_of(*data))
    out = found(np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 1 - 1e-16, 1.0]))
    assert report.converged
    assert np.all((out >= 0) & (out <= 1))
    assert np.all(np.diff(out) >= 0)
    assert found.a >= 0
    assert found.b >= 0


def test_separated_labels_are_certain_and_the_report_says_so():
    x = np.array([0.1, 0.2, 0.7, 0.8])
    found, report = solve_beta(problem_of(x, x > 0.5))
    assert "separates" in report.notes[0]
    np.testing.assert_allclose(found(x), x > 0.5, atol=1e-6)


@pytest.mark.parametrize("name", real_files("cifar10_r", "r52", "mnist_"))
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_real_files_are_certified(name):
    batch = check_batch(*load_real(name)["val"])
    found, report = solve_one_vs_rest(batch, solve_beta)
    assert report.violation <= 1e-10
    grid = np.linspace(0, 1, 101)
    assert all(np.all(np.diff(curve(grid)) >= 0) for curve in found.curves)
