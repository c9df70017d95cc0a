"""Rows as solvers take them: those of a choice, and of two classes as weighted points."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from calibrant import (
    AutoCalibrator,
    MonotoneSpline,
    NormalizationAwareIsotonic,
    OneVsRestIsotonic,
    SortedCumulativeIsotonic,
    StructuredScaling,
    TemperatureScaling,
    TwoClassScaling,
)
from calibrant._gate._simplex import check_batch
from calibrant._row_order import sample_rows
from calibrant._solvers import rows as solver_rows
from calibrant._solvers.rows import MOST_POINTS, to_points
from calibrant.metrics import negative_log_likelihood
from conftest import simulate


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(solver_rows, "CHOICE_CELLS", 1)
    monkeypatch.setattr(solver_rows, "LEAST_CHOICE_ROWS", 500)


def test_few_rows_are_all_looked_at():
    assert solver_rows.choice_rows(check_batch(*simulate(400, 3))) is None


@pytest.mark.usefixtures("few")
def test_many_rows_are_sampled_by_their_content():
    p, y = simulate(2000, 4)
    chosen = solver_rows.choice_rows(check_batch(p, y))
    assert chosen.sum() == 500
    rng = np.random.default_rng(0)
    order, columns = rng.permutation(len(y)), rng.permutation(4)
    place = np.empty(4, dtype=int)
    place[columns] = np.arange(4)
    other = solver_rows.choice_rows(check_batch(p[order][:, columns], place[y[order]]))
    np.testing.assert_array_equal(other, chosen[order])
    logits = solver_rows.choice_rows(check_batch(np.log(p) + 1.0, y, kind="logits"))
    np.testing.assert_array_equal(logits, chosen)


def test_equal_rows_are_all_in_or_all_out():
    p, _ = simulate(300, 4)
    twice = np.concatenate([p, p])
    chosen = sample_rows(twice, "probabilities", 100)
    assert chosen.sum() == 200
    np.testing.assert_array_equal(chosen[:300], chosen[300:])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "method", [NormalizationAwareIsotonic, SortedCumulativeIsotonic, MonotoneSpline]
)
def test_a_choice_on_some_rows_is_that_of_a_fit_to_them(method):
    """And the fit is that of all rows, with what was chosen."""
    p, y = simulate(1500, 3)
    chosen = solver_rows.choice_rows(check_batch(p, y))
    some = method().fit(p[chosen], y[chosen])
    name = {
        NormalizationAwareIsotonic: "prior_strength",
        SortedCumulativeIsotonic: "prior_share",
        MonotoneSpline: "strength",
    }[method]
    value = getattr(some, f"{name}_", None)
    if value is None:
        value = float(some.solver_report_.notes[0].split()[1])
    whole = method().fit(p, y).predict_proba(p)
    given = method(**{name: value}).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(whole, given, atol=1e-7)


def two_classes(n_rows, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.0, 2.0, n_rows)
    y = (rng.random(n_rows) < expit(z)).astype(int)
    one = expit(1.7 * z)
    if decimals is not None:
        one = np.round(one, decimals)
    return np.column_stack([1.0 - one, one]), y


def totals(batch):
    return np.bincount(batch.class_index, batch.weight, minlength=2)


def test_few_rows_and_more_classes_stay_what_they_are():
    few, many = (
        check_batch(*two_classes(200)),
        check_batch(np.full((90_000, 3), 1 / 3), np.arange(90_000) % 3),
    )
    assert to_points(few) is few
    assert to_points(many) is many
    logits = check_batch(np.log(two_classes(300)[0]), two_classes(300)[1], kind="logits")
    assert to_points(logits, 10) is logits


def test_few_distinct_scores_are_merged_exactly():
    p, y = two_classes(5000, decimals=2)
    points = to_points(check_batch(p, y), 150)
    levels = np.unique(p[:, 1])
    np.testing.assert_allclose(np.unique(points.scores[:, 1]), levels, rtol=1e-14)
    for label in (0, 1):
        own = points.class_index == label
        np.testing.assert_allclose(points.scores[own, 1], np.unique(p[y == label, 1]), rtol=1e-14)
        expected = np.unique(p[y == label, 1], return_counts=True)[1]
        np.testing.assert_array_equal(points.weight[own], expected)


def test_cells_keep_weights_and_means_and_are_narrow():
    p, y = two_classes(30_000)
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    batch = check_batch(p, y, weight)
    points = to_points(batch, 500)
    np.testing.assert_array_equal(totals(points), totals(batch))
    both = points.weight @ points.scores
    np.testing.assert_allclose(both, weight @ p, rtol=1e-12)
    np.testing.assert_allclose(points.scores.sum(axis=1), 1.0, rtol=1e-15)
    z = np.sort(np.unique(np.log(points.scores[:, 1] / points.scores[:, 0])))
    assert 400 < len(z) < 1200
    cell = np.searchsorted(0.5 * (z[1:] + z[:-1]), np.log(p[:, 1] / p[:, 0]))
    assert np.bincount(cell, weight).max() < 2.5 * weight.sum() / 500


def test_order_of_rows_and_repeats_make_no_difference():
    p, y = two_classes(6000, decimals=3)
    weight = np.random.default_rng(1).integers(1, 4, len(y))
    shuffled = np.random.default_rng(2).permutation(len(y))
    one = to_points(check_batch(p, y, weight), 100)
    repeated = np.repeat(shuffled, weight[shuffled])
    two = to_points(check_batch(p[repeated], y[repeated]), 100)
    np.testing.assert_array_equal(one.class_index, two.class_index)
    np.testing.assert_array_equal(one.weight, two.weight)
    np.testing.assert_allclose(one.scores, two.scores, rtol=1e-12)


def test_a_score_of_much_weight_is_a_cell_of_its_own():
    p, y = two_classes(10_000)
    p[2000:7000] = [0.25, 0.75]
    points = to_points(check_batch(p, y), 100)
    own = points.scores[:, 1] == 0.75
    assert points.weight[own].sum() == 5000


def test_zeros_stay_zeros():
    p, y = two_classes(5000)
    p[:30], p[30:80] = [1.0, 0.0], [0.0, 1.0]
    points = to_points(check_batch(p, y), 50)
    for column, n_rows in ((1, 30), (0, 50)):
        assert points.weight[points.scores[:, column] == 0.0].sum() == n_rows


def test_repeats_of_a_sample_stay_as_many():
    p, y = two_classes(4000)
    unit = np.where(y == 1, 1.0, 2.5)
    batch = replace(check_batch(p, y), weight=unit * (1 + np.arange(4000) % 3), unit=unit)
    points = to_points(batch, 60)
    np.testing.assert_allclose(points.unit, np.where(points.class_index == 1, 1.0, 2.5))
    assert (points.weight / points.unit).sum() == pytest.approx((batch.weight / unit).sum())


@pytest.mark.parametrize(
    "method",
    [
        TemperatureScaling,
        TwoClassScaling,
        StructuredScaling,
        NormalizationAwareIsotonic,
        SortedCumulativeIsotonic,
        AutoCalibrator,
    ],
)
def test_points_cost_next_to_nothing(monkeypatch, method):
    """Judged on new rows, beside the same fit to all rows."""
    p, y = two_classes(2 * MOST_POINTS + 10_000)
    new = two_classes(50_000, seed=1)
    losses = []
    for most in (MOST_POINTS, 0):
        monkeypatch.setattr(
            "calibrant._calibrators.base.to_points",
            lambda b, m, k=most: to_points(b, min(m, k)) if k else b,
        )
        monkeypatch.setattr(
            "calibrant._calibrators.auto_search.to_points",
            lambda b, m, k=most: to_points(b, min(m, k)) if k else b,
        )
        losses.append(negative_log_likelihood(new[1], method().fit(p, y).predict_proba(new[0])))
    assert losses[0] == pytest.approx(losses[1], rel=2e-5)


def test_isotonic_regression_is_of_all_rows():
    p, y = two_classes(2 * MOST_POINTS + 1000)
    fitted = OneVsRestIsotonic(prior_strength=0.0, min_probability=0.0).fit(p, y)
    theirs = IsotonicRegression().fit(p[:, 1], y).predict(p[:, 1])
    np.testing.assert_allclose(fitted.predict_proba(p)[:, 1], theirs, atol=1e-12)


def test_the_report_says_that_points_were_fitted():
    p, y = two_classes(2 * MOST_POINTS + 1000)
    notes = TemperatureScaling().fit(p, y).solver_report_.notes
    assert notes[-1].endswith(f" weighted points of {len(y):,} rows")
    few = TemperatureScaling().fit(p[:1000], y[:1000]).solver_report_.notes
    assert not any("points" in note for note in few)
