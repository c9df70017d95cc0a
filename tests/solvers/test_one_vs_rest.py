"""Binary problems of classes and of all cells: isotonic regression, Platt scaling, beta."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from calibrant._gate._simplex import check_batch
from calibrant._solvers.one_vs_rest import (
    BinaryProblem,
    binary_problem,
    bounds_of_logs,
    merge_reports,
    solve_beta,
    solve_flattened,
    solve_isotonic,
    solve_isotonic_steps,
    solve_one_vs_rest,
    solve_platt,
)
from calibrant._solvers.report import SolverReport
from conftest import each_real_file, load_real, real_files, simulate
from reference.binary_maps import collect
from reference.isotonic import flattened, min_max


@st.composite
def cells(draw):
    """A few cells on a coarse grid of short doubles, with labels and whole weights."""
    n = draw(st.integers(1, 8))
    values = draw(st.lists(st.integers(0, 8), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    return np.array(values) / 8, np.array(labels), np.array(weights, dtype=float)


def problem_of(values, labels, weights):
    return binary_problem(values, labels * weights, weights)


@given(cells())
def test_a_problem_sums_exact_ties(data):
    problem = problem_of(*data)
    exact = collect(*data)
    assert problem.values.tolist() == [float(v) for v, _, _ in exact]
    assert problem.positives.tolist() == [float(p) for _, p, _ in exact]
    assert problem.cells.tolist() == [float(c) for _, _, c in exact]


@pytest.mark.parametrize("spread", [0.0, 1e-300, 1e-15, 1e-9, 1.0])
def test_cells_that_are_nearly_equal_are_merged_where_they_are_equal(spread):
    """Beside zeros of both signs, so that only the last bits tell them apart."""
    rng = np.random.default_rng(0)
    values = np.append(1.0 - spread * rng.random(5000), [0.0, -0.0])
    problem = binary_problem(values, np.ones(5002), np.full(5002, 2.0))
    distinct, counts = np.unique(np.abs(values), return_counts=True)
    np.testing.assert_array_equal(problem.values, distinct)
    assert not np.signbit(problem.values).any()
    np.testing.assert_array_equal(problem.positives, counts)
    np.testing.assert_array_equal(problem.cells, 2 * counts)


@pytest.mark.parametrize(
    ("labels", "separates"),
    [([0, 0, 1], True), ([0, 1, 0], False), ([1, 0, 0], False), ([1, 1, 1], True)],
)
def test_separation_means_that_no_label_lies_below(labels, separates):
    problem = problem_of(np.array([0.1, 0.2, 0.3]), np.array(labels), np.ones(3))
    assert problem.separates is separates


def test_separation_allows_one_shared_value():
    shared = problem_of(np.array([0.1, 0.2, 0.2, 0.3]), np.array([0, 0, 1, 1]), np.ones(4))
    assert shared.separates


@given(cells())
def test_steps_equal_exact_isotonic_regression_bit_for_bit(data):
    problem = problem_of(*data)
    step, report = solve_isotonic_steps(problem)
    exact = collect(*data)
    fitted = min_max([p / c for _, p, c in exact], [c for _, _, c in exact])
    assert step(problem.values).tolist() == [float(v) for v in fitted]
    wrong = data[1] - step(data[0])
    assert report.objective == pytest.approx(np.average(wrong**2, weights=data[2]), abs=1e-15)


@given(cells())
def test_interpolated_isotonic_is_that_of_scikit_learn(data):
    values, labels, weights = data
    curve, report = solve_isotonic(problem_of(*data))
    model = IsotonicRegression(out_of_bounds="clip").fit(values, labels, sample_weight=weights)
    grid = np.linspace(0, 1, 50)
    np.testing.assert_allclose(curve(grid), model.predict(grid), atol=1e-14)
    wrong = labels - curve(values)
    assert report.objective == pytest.approx(np.average(wrong**2, weights=weights), abs=1e-14)


def test_values_that_differ_by_rounding_are_one():
    """As in scikit-learn: between 1e-16 and 2e-16 the line would rise by a half."""
    values = np.array([1e-16, 2e-16, 0.3, 0.3 + 5e-16, 0.9])
    problem = BinaryProblem(values, values, np.array([0.0, 1, 2, 2, 2]), np.full(5, 2.0))
    curve, report = solve_isotonic(problem)
    assert (curve.x.tolist(), curve.y.tolist()) == ([1e-16, 0.3, 0.9], [0.25, 1.0, 1.0])
    assert report.n_blocks == 2
    # Not from one to the next for ever: each is less than the resolution above the first.
    values = np.arange(1, 30) * 4e-16
    chain = BinaryProblem(values, values, np.arange(29.0), np.full(29, 29.0))
    assert solve_isotonic(chain)[0].x.tolist() == values[::3].tolist()


def test_rounding_never_lets_the_line_fall():
    rng = np.random.default_rng(0)
    cells = rng.uniform(0.5, 1, 20_000)
    hits = cells / 3 * (1 + rng.uniform(-4e-16, 4e-16, 20_000))  # all the same, to rounding
    values = np.linspace(0, 1, 20_000)
    curve, _ = solve_isotonic(BinaryProblem(values, values, hits, cells))
    assert np.all(np.diff(curve.y) >= 0)


@pytest.mark.parametrize("name", real_files("yelp", "hpc"))
def test_real_classes_are_fitted_one_by_one(name):
    p, y = load_real(name)["val"]
    batch = check_batch(p, y)
    found, report = solve_one_vs_rest(batch, solve_isotonic)
    fresh = load_real(name)["test"][0]
    for j, curve in enumerate(found.curves):
        model = IsotonicRegression(out_of_bounds="clip").fit(batch.scores[:, j], y == j)
        np.testing.assert_allclose(curve(fresh[:, j]), model.predict(fresh[:, j]), atol=1e-12)
    assert report.solver == "pava per class"
    assert report.n_blocks == sum(len(np.unique(curve.y)) for curve in found.curves)


def test_reports_merge_to_the_mean_objective_and_the_worst_violation():
    one = SolverReport("newton", 1.0, 1e-12, 1e-10, 4, 0.5, notes=("odd",))
    two = SolverReport("newton", 4.0, 1e-9, 1e-10, 5, 0.5, notes=("odd",))
    report = merge_reports([one, two, one], [1.0, 2.0, 1.0], "class", 3.0)
    assert report == SolverReport(
        "newton per class", 2.5, 1e-9, 1e-10, 13, 3.0, None, ("3 of 3, odd",)
    )
    assert not report.converged


GRID = np.array([0.001, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999])


def over_confident(n=400):
    """Scores whose log-odds are twice too large, and shifted."""
    rng = np.random.RandomState(0)
    z = rng.normal(-1.0, 1.5, n)
    y = (rng.uniform(size=n) < expit(z)).astype(float)
    return expit(2.0 * z + 0.4), y


def scored(x, y, weight=None):
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
    found, report = solve_platt(scored(*over_confident(), weight))
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
    found, report = solve(scored(*data))
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
    found, report = solve(scored(x, x > 0.5))
    assert report.converged
    assert "separates" in report.notes[0]
    np.testing.assert_allclose(found(x), x > 0.5, atol=1e-6)
    smoothed, report = solve_platt(scored(x, x > 0.5))
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
    found, report = solve_beta(scored(x, y))
    np.testing.assert_allclose(found(GRID), betacal, atol=2e-4)
    # ... and ours is the better optimum: betacal's (a, b, c) has the larger NLL.
    z = np.array([0.6008178548493449, 0.277598004510745, 0.228028495635]) @ beta_features(x)
    assert report.objective < np.mean(np.logaddexp(0, z) - y * z)


def test_reversed_scores_give_a_constant_where_betacal_decreases():
    """Where betacal drops log x, fits again and keeps a slope of -0.756, which breaks b >= 0."""
    # BetaCalibration("abm").fit((1 - x).reshape(-1, 1), y).calibrator_.map_
    # [0, -0.7559513839045645, 0.6087196124711489]
    x, y = over_confident()
    found, report = solve_beta(scored(1 - x, y))
    assert (found.a, found.b) == (0.0, 0.0)
    np.testing.assert_allclose(found(GRID), y.mean(), atol=1e-9)
    assert report.converged


pytestmark = pytest.mark.filterwarnings(
    "ignore::calibrant.errors.SmallSampleWarning", "ignore::calibrant.errors.SingleClassWarning"
)


def solve_steps(batch):
    found, report = solve_flattened(batch)
    return found.step_function, report


@st.composite
def small_problems(draw):
    """A few rows on a coarse grid, so that ties are common; sometimes with whole weights."""
    n_classes = draw(st.integers(2, 4))
    cells = st.lists(st.integers(0, 4), min_size=n_classes, max_size=n_classes).filter(any)
    rows = draw(st.lists(cells, min_size=1, max_size=5))
    p = np.array([np.array(row) / sum(row) for row in rows])
    y = draw(st.lists(st.integers(0, n_classes - 1), min_size=len(rows), max_size=len(rows)))
    weight = draw(st.lists(st.integers(1, 4), min_size=len(rows), max_size=len(rows)))
    return p, y, weight


@given(small_problems())
def test_equals_exact_isotonic_regression_of_all_cells_bit_for_bit(problem):
    p, y, weight = problem
    batch = check_batch(p, y, weight)
    step, _ = solve_steps(batch)
    for cell, value in flattened(batch.scores, batch.class_index, weight).items():
        assert step(cell) == float(value)


@each_real_file
def test_real_files_are_optimal(name):
    """Blocks balance, values increase, and no upper part of a block has the larger mean."""
    p, y = load_real(name)["val"]
    batch = check_batch(p, y)
    step, report = solve_steps(batch)
    cells = batch.scores.ravel()
    hits = np.zeros(batch.scores.shape)
    hits[np.arange(len(y)), batch.class_index] = 1
    order = np.argsort(cells, kind="stable")
    cells, hits = cells[order], hits.ravel()[order]
    edges = np.append(np.searchsorted(cells, step.thresholds), len(cells))
    distinct = np.append(True, np.diff(cells) > 1e-12 * (cells * (1 - cells))[1:])
    assert np.all(np.diff(step.values) > 0)
    assert report.n_blocks == len(step.values)
    for (start, stop), value in zip(pairwise(edges), step.values, strict=True):
        block = hits[start:stop]
        assert block.sum() / (stop - start) == value
        tails = np.cumsum(block[::-1])[::-1] - value * np.arange(stop - start, 0, -1)
        assert tails[distinct[start:stop]].max() <= 1e-6


def test_objective_is_the_mean_squared_error_over_cells():
    p, y = simulate(400, 6)
    step, report = solve_steps(check_batch(p, y))
    assert report.objective == pytest.approx(np.mean((step(p) - np.eye(6)[y]) ** 2), rel=1e-12)
