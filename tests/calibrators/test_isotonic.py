"""NA-FIR and SCIR as estimators: what they survive, what they promise, how well they do."""

import numpy as np
import pytest

from calibrant import (
    FlattenedIsotonic,
    NormalizationAwareIsotonic,
    SortedCumulativeIsotonic,
    TemperatureScaling,
)
from calibrant._maps import steps
from calibrant.errors import ConvergenceWarning
from calibrators.test_hard_data import CASES, TURN
from conftest import nll, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


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
    with pytest.warns(ConvergenceWarning):
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


def test_zeros_survive_only_without_prior_and_floor():
    p, y = simulate(300, 6)

    def lowest(**parameters):
        return SortedCumulativeIsotonic(**parameters).fit(p, y).predict_proba(p).min()

    assert lowest(prior_share=0.0, min_probability=0.0) == 0.0
    assert lowest(prior_share=0.0) == pytest.approx(1e-12)
    assert lowest(prior_share=1e-3, min_probability=0.0) > 0.0
    assert lowest(min_probability=0.0) > 0.0


def test_share_of_one_is_temperature_scaling():
    p, y = simulate(500, 6)
    ours = SortedCumulativeIsotonic(prior_share=1.0).fit(p, y)
    theirs = TemperatureScaling().fit(p, y)
    assert ours.inverse_temperature_ == theirs.inverse_temperature_
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(p), rtol=1e-11)


def test_ranks_beyond_max_rank_depend_on_q_alone():
    p, y = simulate(500, 8)
    calibrator = SortedCumulativeIsotonic(max_rank=3).fit(p, y)
    assert calibrator.step_function_.n_ranks == 3
    many = SortedCumulativeIsotonic(max_rank=99).fit(p, y)
    plain = SortedCumulativeIsotonic().fit(p, y)
    assert many.step_function_.values.tobytes() == plain.step_function_.values.tobytes()
    out = calibrator.predict_proba(p)
    assert out.min() > 0
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-13)


def test_order_of_classes_may_change():
    """The paper's Table 1: SCIR does not promise order preservation."""
    p = np.array([[0.5, 0.45, 0.05]] * 100)
    y = np.repeat([0, 1], [40, 60])
    out = SortedCumulativeIsotonic(prior_share=0.0, classes=range(3)).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out[0], [0.4, 0.6, 0.0], atol=1e-11)


def test_keys_of_64_bits_sort_rows_as_those_of_32_do(monkeypatch):
    scores, y = simulate(300, 30)
    calibrator = SortedCumulativeIsotonic(prior_share=0.1).fit(scores, y)
    expected = calibrator.predict_proba(scores)
    monkeypatch.setattr(steps, "MOST_SHORT_KEYS", 2)
    assert calibrator.predict_proba(scores).tobytes() == expected.tobytes()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("max_rank", [None, 1, 2])
def test_the_top_classes_have_at_least_their_share(n_classes, max_rank):
    """The r largest hold r / k at a tie, so no less above it: nothing turns over at the tie."""
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 8.0), 400)  # close to ties, and wrong
    y = p.argmin(axis=1)
    model = SortedCumulativeIsotonic(prior_share=0.0, max_rank=max_rank, min_probability=0.0)
    out = model.fit(p, y).predict_proba(p)
    sums = np.take_along_axis(out, np.argsort(-p, axis=1), axis=1).cumsum(axis=1)
    ranks = np.arange(1, n_classes + 1)
    pooled = ranks if max_rank is None else np.minimum(ranks, max_rank)
    assert np.all(sums >= pooled / n_classes - 1e-15)
    assert any("raised" in note for note in model.solver_report_.notes)


def test_sorted_cumulative_where_predictions_are_all_right_wrong_or_tied():
    without = SortedCumulativeIsotonic(prior_share=0.0)
    soft = np.where(np.eye(4)[TURN] > 0, 0.7, 0.1)
    assert np.all(without.fit(soft, TURN).predict_proba(soft).max(axis=1) > 1 - 1e-9)
    out = without.fit(soft, (TURN + 1) % 4).predict_proba(soft)
    np.testing.assert_allclose(out, 1 / 4, rtol=1e-14)
    tied, y = CASES["all scores equal"]
    out = SortedCumulativeIsotonic().fit(tied, y).predict_proba(tied)
    np.testing.assert_allclose(out, 0.25, rtol=1e-14)
