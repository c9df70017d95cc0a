"""NormalizationAwareIsotonic: what it promises as an estimator."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from calibrant import FlattenedIsotonic, NormalizationAwareIsotonic
from calibrant._solvers.report import SolverReport
from calibrators.test_hard_data import CASES
from conftest import nll, simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.ColumnMismatchWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.ScoresKindWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.ConstantFitWarning"),
    # Real classifiers, and cases made to be hard, are biased by class, which this map cannot mend.
    pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning"),
]


def fitted(rows, labels, weight=None, **parameters):
    classes = np.arange(np.shape(rows)[1])
    return NormalizationAwareIsotonic(classes=classes, **parameters).fit(rows, labels, weight)


# More classes than rows: the optimum is at infinity, and the floor counts.
@pytest.mark.parametrize("case", sorted(CASES.keys() - {"more classes than rows"}))
def test_never_above_fir_or_the_uncalibrated_rows(case):
    rows, labels = CASES[case]
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
    assert 10.0 <= calibrator.prior_strength_ <= 10000.0
    np.testing.assert_array_equal(calibrator.cv_results_["prior_strength"], [10, 100, 1000, 10000])
    losses = calibrator.cv_results_["negative_log_likelihood"]
    assert np.all((losses > 0.0) & (losses < 2.0))
    assert f"{calibrator.prior_strength_:g}" in calibrator.solver_report_.notes[0]
    assert calibrator.step_function_.sizes.sum() == 2500.0
    given = fitted(rows, labels, prior_strength=7)
    assert given.prior_strength_ == 7.0
    assert given.cv_results_ is None


def test_not_converging_is_a_warning():
    rows, labels = simulate(1500, 20)
    with pytest.warns(ConvergenceWarning, match="optimality violated"):
        fitted(rows, labels, prior_strength=20, max_rounds=1)


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
