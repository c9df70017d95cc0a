"""NormalizationAwareIsotonic: what it promises as an estimator."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from calibrant import (
    SLSQP,
    Annealing,
    FlattenedIsotonic,
    NormalizationAwareIsotonic,
    Penalty,
    ProjectedGradient,
    TrustConstr,
)
from calibrant.errors import ParameterError
from calibrant.solvers.report import SolverReport
from conftest import REAL_FILES, load_real, needs_collection, simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.ColumnMismatchWarning"),
    # Real classifiers, and cases made to be hard, are biased by class, which this map cannot mend.
    pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning"),
]

STRENGTHS = [0, 20.0, "cv"]
WAYS = [
    Annealing(n_iterations=2000, random_state=0),
    ProjectedGradient(),
    SLSQP(),
    TrustConstr(),
    Penalty(),
]


def fitted(rows, labels, weight=None, **parameters):
    classes = np.arange(np.shape(rows)[1])
    return NormalizationAwareIsotonic(classes=classes, **parameters).fit(rows, labels, weight)


def nll(probabilities, labels):
    own = probabilities[np.arange(len(labels)), labels]
    return -np.mean(np.log(np.maximum(own, 1e-12)))


def assert_sound(calibrator, rows):
    """Finite, on the simplex, in order, and equal where the input is."""
    step, report = calibrator.step_function_, calibrator.solver_report_
    assert report.converged
    assert np.all(np.isfinite(step.values))
    assert step.values[-1] == 1.0
    assert np.isfinite(report.objective)
    new = np.random.default_rng(1).dirichlet(np.ones(np.shape(rows)[1]), 20)
    for given in (np.asarray(rows), new):
        out = calibrator.predict_proba(given)
        assert np.all(np.isfinite(out))
        assert np.all(out >= 0.0)
        np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-3 if out.itemsize == 4 else 1e-12)
        order = np.argsort(given, axis=1, kind="stable")
        assert np.all(np.diff(np.take_along_axis(out, order, axis=1), axis=1) >= 0.0)


def easy(n_rows=200, n_classes=4):
    return simulate(n_rows, n_classes)


def case_labels_all_equal():
    return easy()[0], np.zeros(200, dtype=int)


def case_every_prediction_right():
    return easy()[0], easy()[0].argmax(axis=1)


def case_every_prediction_wrong():
    return easy()[0], easy()[0].argmin(axis=1)


def case_all_scores_equal():
    return np.full((200, 4), 0.25), easy()[1]


def case_one_row():
    return easy()[0][:1], easy()[1][:1]


def case_two_equal_rows_with_different_labels():
    return np.array([[0.7, 0.3], [0.7, 0.3]]), np.array([0, 1])


def case_exact_zeros_and_ones():
    rows = np.eye(4)[np.arange(200) % 4]
    return rows, np.where(np.arange(200) % 7 == 0, (np.arange(200) + 1) % 4, np.arange(200) % 4)


def case_exact_zeros_and_ones_always_right():
    return np.eye(4)[np.arange(200) % 4], np.arange(200) % 4


def case_zeros_that_turn_out_true():
    rows, labels = easy()
    rows = np.where(rows < 0.05, 0.0, rows)
    return rows / rows.sum(axis=1, keepdims=True), labels


def case_probabilities_down_to_1e_minus_300():
    rng = np.random.default_rng(5)
    rows = 10.0 ** rng.uniform(-300, 0, (200, 4))
    return rows / rows.sum(axis=1, keepdims=True), rng.integers(0, 4, 200)


def case_subnormal_probabilities():
    rows = np.tile([[1.0, 5e-324, 0.0]], (100, 1))
    return rows, np.arange(100) % 3


def case_a_class_never_seen():
    rows, labels = easy()
    return rows, np.where(labels == 3, 0, labels)


def case_float16():
    rows, labels = simulate(300, 1000)
    return rows.astype(np.float16), labels


CASES = [value for name, value in sorted(globals().items()) if name.startswith("case_")]


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__[5:])
def test_survives(case, strength):
    rows, labels = case()
    assert_sound(fitted(rows, labels, prior_strength=strength), rows)


@pytest.mark.parametrize("solver", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__[5:])
def test_the_other_solvers_survive_too(case, solver):
    rows, labels = case()
    calibrator = fitted(rows, labels, solver=solver, prior_strength=1.0, max_rounds=5)
    assert_sound(calibrator, rows)
    assert calibrator.solver_report_.solver == solver.name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__[5:])
def test_never_above_fir_or_the_uncalibrated_rows(case):
    rows, labels = case()
    plain = fitted(rows, labels, prior_strength=0)
    rows = np.asarray(rows, dtype=np.float64)
    rows = rows / rows.sum(axis=1, keepdims=True)
    loss = nll(plain.predict_proba(rows), labels)
    flattened = FlattenedIsotonic(classes=np.arange(rows.shape[1])).fit(rows, labels)
    assert loss <= nll(flattened.predict_proba(rows), labels) + 1e-9
    assert loss <= nll(rows, labels) + 1e-9


def test_improves_on_new_rows():
    rows, labels = simulate(3000, 10)
    new, truth = simulate(3000, 10, seed=1)
    calibrator = fitted(rows, labels)
    flattened = FlattenedIsotonic().fit(rows, labels)
    loss = nll(calibrator.predict_proba(new), truth)
    assert loss < nll(new, truth) - 0.1
    assert loss < nll(flattened.predict_proba(new), truth)
    assert isinstance(calibrator.solver_report_, SolverReport)


def test_fitted_attributes():
    rows, labels = simulate(500, 5)
    calibrator = fitted(rows, labels)
    assert calibrator.calibration_map_ is calibrator.step_function_
    assert 10.0 <= calibrator.prior_strength_ <= 10000.0
    np.testing.assert_array_equal(calibrator.cv_results_["prior_strength"], [10, 100, 1000, 10000])
    losses = calibrator.cv_results_["negative_log_likelihood"]
    assert np.all((losses > 0.0) & (losses < 2.0))
    assert f"{calibrator.prior_strength_:g}" in calibrator.solver_report_.notes[0]
    assert calibrator.step_function_.sizes.sum() == 2500.0
    given = fitted(rows, labels, prior_strength=7)
    assert given.prior_strength_ == 7.0
    assert given.cv_results_ is None


def test_logits_are_the_same_as_their_softmax():
    rows, labels = simulate(500, 5)
    one = fitted(rows, labels, prior_strength=20)
    other = fitted(np.log(rows) + 3.0, labels, prior_strength=20, scores="logits")
    for name in ("thresholds", "values", "sizes"):
        np.testing.assert_allclose(
            getattr(one.step_function_, name), getattr(other.step_function_, name), rtol=1e-6
        )


def test_zero_weight_is_no_row():
    rows, labels = simulate(400, 5)
    weight = np.random.default_rng(0).integers(0, 3, 400).astype(float)
    for strength in STRENGTHS:
        one = fitted(rows, labels, weight, prior_strength=strength)
        kept = weight > 0
        other = fitted(rows[kept], labels[kept], weight[kept], prior_strength=strength)
        np.testing.assert_array_equal(one.step_function_.values, other.step_function_.values)


def test_twice_the_weight_changes_nothing_without_a_prior():
    rows, labels = simulate(400, 5)
    one = fitted(rows, labels, prior_strength=0)
    other = fitted(rows, labels, np.full(400, 2.0), prior_strength=0)
    np.testing.assert_array_equal(one.step_function_.values, other.step_function_.values)


@pytest.mark.parametrize("solver", ["exact", *WAYS], ids=str)
def test_every_solver_fits_and_clones(solver):
    rows, labels = simulate(150, 3)
    calibrator = NormalizationAwareIsotonic(prior_strength=5.0, max_rounds=50)
    calibrator.set_params(solver=solver)
    one, other = clone(calibrator).fit(rows, labels), clone(calibrator).fit(rows, labels)
    assert one.get_params() == calibrator.get_params()
    assert eval(repr(one)).solver == solver
    np.testing.assert_array_equal(one.step_function_.values, other.step_function_.values)
    best = fitted(rows, labels, prior_strength=5.0).solver_report_.objective
    assert one.solver_report_.objective >= best - 1e-9


@pytest.mark.parametrize(
    "random_state", [3, np.random.RandomState(3), np.random.default_rng(3), None]
)
def test_annealing_takes_any_source_of_random_numbers(random_state):
    rows, labels = simulate(150, 3)
    way = Annealing(random_state=random_state, n_iterations=200)
    assert fitted(rows, labels, solver=way).solver_report_.rounds == 200


def test_not_converging_is_a_warning():
    rows, labels = simulate(1500, 20)
    with pytest.warns(ConvergenceWarning, match="optimality violated"):
        fitted(rows, labels, prior_strength=20, max_rounds=1)


@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": "exakt"},
        {"prior_strength": -1.0},
        {"prior_strength": "best"},
        {"prior_strength": float("nan")},
        {"prior_strength": None},
        {"tol": 0.0},
        {"max_rounds": 0},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters):
    rows, labels = simulate(120, 3)
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        NormalizationAwareIsotonic(**parameters).fit(rows, labels)


@pytest.mark.parametrize(
    "options",
    [
        {"min_blocks": 2.5},
        {"split_size_threshold": 0},
        {"epsilon_change": 0.0},
        {"beta": -1.0},
        {"n_iterations": 0},
        {"n_iterations_no_change": -5},
    ],
    ids=str,
)
def test_bad_options_are_refused(options):
    rows, labels = simulate(120, 3)
    with pytest.raises(ParameterError, match=rf"solver\.{next(iter(options))}="):
        NormalizationAwareIsotonic(Annealing(**options)).fit(rows, labels)


@pytest.mark.parametrize(
    ("solver", "remedy"),
    [
        ("annealing", r"or solver=Annealing\(\)"),
        ("trust-constr", r"or solver=TrustConstr\(\)"),
        (Annealing, r"one of Annealing\(\), "),
        (None, r"Penalty\(\)$"),
    ],
)
def test_what_is_no_solver_is_refused_with_the_remedy(solver, remedy):
    rows, labels = simulate(120, 3)
    with pytest.raises(ParameterError, match=remedy):
        NormalizationAwareIsotonic(solver).fit(rows, labels)


def scaled(rows, beta):
    return softmax(beta * np.log(np.maximum(rows, 1e-12)), axis=1)


def best_temperature(rows, labels):
    """1 / T of least NLL, zeros read as 1e-12: what users of other packages have."""
    logits = np.log(np.maximum(rows, 1e-12))

    def loss(log_beta):  # of probabilities as they are: with a floor it would not be convex
        return -np.mean(
            log_softmax(np.exp(log_beta) * logits, axis=1)[np.arange(len(labels)), labels]
        )

    found = minimize_scalar(loss, bounds=(-6.0, 4.0), method="bounded", options={"xatol": 1e-9})
    return np.exp(found.x)


@pytest.mark.slow
@needs_collection
def test_quality_on_real_data():
    """Fitted on the calibration parts, judged on the test parts, beside the best T alone."""
    ratios, better = [], 0
    for name in REAL_FILES:
        files = load_real(name)
        classes = np.arange(files["val"][0].shape[1])
        rows, labels = files["test"]
        ours, flattened = (
            nll(method(classes=classes).fit(*files["val"]).predict_proba(rows), labels)
            for method in (NormalizationAwareIsotonic, FlattenedIsotonic)
        )
        ratios.append(ours / nll(scaled(rows, best_temperature(*files["val"])), labels))
        better += ours < flattened
    assert np.mean(ratios) <= 0.97
    assert np.max(ratios) <= 1.10
    assert better >= 0.75 * len(REAL_FILES)


def staircase(n_rows):
    """Every row is right, and each has a cell where the next has its label: a chain of levels."""
    steps = np.arange(n_rows + 1) / n_rows
    p = np.column_stack([1 + 0.9 * steps[1:], 1 + 0.9 * steps[:-1], 1 - 0.9 * steps[1:]]) / 3
    return p / p.sum(axis=1, keepdims=True), np.zeros(n_rows, dtype=int)


@pytest.mark.parametrize(
    ("strength", "n_steps"), [("cv", 0), ("cv", 100), (10.0, 50), (10.0, 100), (1e-6, 100)]
)
def test_the_optimum_is_finite_where_every_prediction_is_right(strength, n_steps):
    p = np.random.default_rng(0).dirichlet(np.ones(10), 1500)
    p, y = staircase(n_steps) if n_steps else (p, p.argmax(axis=1))
    model = NormalizationAwareIsotonic(prior_strength=strength, classes=np.arange(p.shape[1]))
    report = model.fit(p, y).solver_report_
    assert np.isfinite(report.objective)
    assert report.converged
    out = model.predict_proba(p)
    assert np.all(out.argmax(axis=1) == y)


def test_the_order_of_rows_whose_logits_differ_by_a_constant_changes_no_bit():
    """They have the same probabilities to the bit, and powers of these that differ in last bits."""
    rng = np.random.default_rng(1664)
    rng.integers(2, 300), rng.integers(2, 30), rng.choice(5)
    z = rng.normal(0, 0.1, (61, 27)).round(1)
    rng.random(4)
    z = np.repeat(z, 2, axis=0) + rng.normal(0, 1, (122, 1))
    q = np.exp(z - z.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(27, p=row) for row in q])
    rng.random()
    order = rng.permutation(len(y))
    one, two = (
        NormalizationAwareIsotonic(scores="logits", classes=range(27)).fit(*pair)
        for pair in ((z, y), (z[order], y[order]))
    )
    np.testing.assert_array_equal(one.predict_proba(z), two.predict_proba(z))


def test_no_value_rounds_below_its_lower_neighbour():
    """Rows with many exact zeros, without a prior or a floor: the map refused its own values."""
    rng = np.random.default_rng(21897)
    rng.choice(4), rng.choice(4), rng.integers(4)
    p = rng.random((60, 20)) ** rng.choice([4, 20, 60])
    p[rng.random(p.shape) < 0.8] = 0.0
    p[p.sum(axis=1) == 0.0] = 1.0
    p /= p.sum(axis=1, keepdims=True)
    drawn = rng.random() < 0.5
    y = rng.integers(0, 20, 60) if drawn else np.array([rng.choice(20, p=row) for row in p])
    options = {"prior_strength": 0, "min_probability": 0, "classes": range(20)}
    model = NormalizationAwareIsotonic(**options).fit(p, y)
    assert np.all(np.diff(model.step_function_.values) >= 0.0)
    assert model.solver_report_.converged
