import math

import numpy as np
import pytest

from calibrant import TemperatureScaling
from calibrant.metrics import confidence_ece, variational_errors
from calibrant.metrics._cross_fitted import _terms, directions
from metrics.cases import recorded, weighted
from metrics.test_cross_fitted import by_hand, honest_rows
from reference import metrics as reference

POWERS = [1.0, 1.5, 2.0, 7.0, math.inf]


def power_of(rows, power):
    return rows**power / (rows**power).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("has_weights", [False, True])
def test_equals_the_literal_losses_fold_by_fold(p, has_weights):
    proba, y, w = weighted(300)
    w = w if has_weights else None
    *given, weights = (
        part.tolist() for part in by_hand(y, proba, TemperatureScaling(classes=range(4)), w)
    )
    options = {"recalibrator": TemperatureScaling(), "sample_weight": w, "n_resamples": 0}
    found = variational_errors(y, proba, p=p, **options)
    expected = reference.variational_error(*given, p, weights)
    assert found.error.value == pytest.approx(expected, abs=1e-13)
    over, under = map(float, reference.confidence_sides(*given, weights))
    assert found.over_confidence.value == pytest.approx(over, abs=1e-13)
    assert found.under_confidence.value == pytest.approx(under, abs=1e-13)
    assert found.top_label.value == pytest.approx(over + under, abs=1e-13)
    assert (found.p, found.n_folds) == (p, 5)


def test_agrees_with_probmetrics():
    """Numbers of probmetrics 1.3.0, for the bold rows and the honest ones in place of a fit.

    ::

        loss = ProperLpLoss(p=p, binary_as_multiclass=True)
        loss.compute(y, bold, f_x=bold) - loss.compute(y, honest, f_x=bold)
    """
    bold, honest, y = recorded()
    theirs = {
        1.0: 0.2431013080008299,
        1.5: 0.17322139848338877,
        2.0: 0.14983754128887863,
        3.0: 0.13345192953364732,
        math.inf: 0.12245322196541686,
    }
    for p, expected in theirs.items():
        assert _terms(bold, honest, y, p)[0].mean() == pytest.approx(expected, abs=1e-14)


def test_sides_agree_with_probmetrics_for_two_classes():
    """As above, of ``TopClassLoss(OverConfidenceLoss(loss))``, and of under-confidence, at p = 1.

    It counts both classes, hence twice as much. Without ``binary_as_multiclass`` it subtracts one
    column from two, and finds 0.0825 where 0.0837 is right.
    """
    bold, honest, y = recorded()
    two_bold, two_honest = (
        np.column_stack([rows[:, :2].sum(axis=1), rows[:, 2:].sum(axis=1)])
        for rows in (bold, honest)
    )
    _, top, over, under = _terms(two_bold, two_honest, (y > 1).astype(np.int64), 1.0)
    assert 2 * top.mean() == pytest.approx(0.1673121637184497, abs=1e-14)
    assert 2 * over.mean() == pytest.approx(0.17162383780209223, abs=1e-14)
    assert 2 * under.mean() == pytest.approx(-0.004311674083642517, abs=1e-14)


@pytest.mark.parametrize("p", POWERS)
def test_directions_have_dual_norm_one_and_lie_along_the_gap(p):
    gaps = np.random.default_rng(0).normal(size=(50, 5))
    gaps[0], gaps[1] = 0.0, 1e-13
    found = directions(gaps, p)
    dual = {1.0: math.inf, math.inf: 1.0}.get(p, p / (p - 1) if p > 1 else None)
    np.testing.assert_allclose(np.linalg.norm(found[2:], ord=dual, axis=1), 1.0, rtol=1e-12)
    along = (found * gaps).sum(axis=1)
    np.testing.assert_allclose(along[2:], np.linalg.norm(gaps[2:], ord=p, axis=1), rtol=1e-12)
    assert not found[:2].any()  # what is only rounding has no direction


def test_equal_largest_gaps_share():
    found = directions(np.array([[0.25, -0.25, 0.0], [-0.2, 0.1, 0.1]]), math.inf)
    assert found.tolist() == [[0.5, -0.5, 0.0], [-1.0, 0.0, 0.0]]


@pytest.mark.parametrize(("power", "side"), [(2.0, "over_confidence"), (0.5, "under_confidence")])
def test_sides_are_told_apart(power, side):
    honest, y = honest_rows(np.random.default_rng(0), 3000)
    found = variational_errors(y, power_of(honest, power))
    other = {"over_confidence": "under_confidence", "under_confidence": "over_confidence"}[side]
    assert getattr(found, side).low > 0.05
    assert abs(getattr(found, other).value) < 0.003
    assert found.top_label.value == pytest.approx(getattr(found, side).value, abs=0.003)


def test_both_sides_at_once():
    """Rows below 1/2 too bold, those above too shy."""
    rng = np.random.default_rng(0)
    honest, y = honest_rows(rng, 6000, 3)
    top = honest.max(axis=1, keepdims=True)
    mixed = np.where(top < 0.6, power_of(honest, 2.5), power_of(honest, 0.6))
    found = variational_errors(y, mixed, recalibrator=TemperatureScaling())
    gap = mixed.max(axis=1) - honest[np.arange(6000), mixed.argmax(axis=1)]
    over, under = np.maximum(gap, 0).mean(), np.maximum(-gap, 0).mean()
    assert min(over, under) > 0.03
    assert found.over_confidence.low <= over
    assert found.under_confidence.low <= under


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_comes_close_to_the_true_error_from_below(p):
    honest, y = honest_rows(np.random.default_rng(1), 5000)
    bold = power_of(honest, 1.7)
    truth = np.linalg.norm(bold - honest, ord=p, axis=1).mean()
    found = variational_errors(y, bold, p=p)
    assert found.error.low <= truth
    assert found.error.value == pytest.approx(truth, rel=0.1)


def test_honest_predictions_have_no_error_on_average():
    """Where bins find one."""
    rng = np.random.default_rng(0)
    values, binned = [], []
    for _ in range(60):
        honest, y = honest_rows(rng, 200)
        options = {"recalibrator": TemperatureScaling(prior_strength=0), "n_resamples": 0}
        values.append(variational_errors(y, honest, classes=range(4), **options).top_label.value)
        binned.append(confidence_ece(y, honest, classes=range(4)))
    assert abs(np.mean(values)) < 3 * np.std(values) / math.sqrt(60)
    assert np.mean(binned) > 0.05


def test_one_row_has_no_direction():
    found = variational_errors([1], np.full((1, 2), 0.5), classes=[0, 1], n_resamples=10)
    assert found.n_folds == 1
    assert all(estimate == (0.0, 0.0, 0.0) for estimate in found.estimates())
