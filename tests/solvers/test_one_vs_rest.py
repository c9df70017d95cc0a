import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant._gate._simplex import check_batch
from calibrant._solvers.one_vs_rest import (
    BinaryProblem,
    binary_problem,
    merge_reports,
    solve_isotonic,
    solve_isotonic_steps,
    solve_one_vs_rest,
)
from calibrant._solvers.report import SolverReport
from conftest import load_real, real_files
from reference.binary_maps import collect
from reference.isotonic import min_max


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
