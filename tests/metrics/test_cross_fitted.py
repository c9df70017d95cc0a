"""Calibration errors by recalibration on held-out rows."""

import math

import numpy as np
import pytest
from sklearn.metrics import log_loss

from calibrant import FlattenedIsotonic, StructuredScaling, TemperatureScaling, metrics
from calibrant._row_order import deal_rows
from calibrant.metrics import cross_fitted_decomposition, variational_errors
from calibrant.metrics._cross_fitted import _terms, directions
from metrics.cases import recorded, weighted
from reference import metrics as reference

METRICS = ["negative_log_likelihood", "brier_score"]
SHORT = {"recalibrator": TemperatureScaling(prior_strength=0), "n_resamples": 0}


def deal(proba, y, weights=None, n_folds=5):
    """Rows by fold, without a look at labels: which they are, their folds, their weights."""
    w = np.ones(len(y)) if weights is None else weights
    index = y.astype(np.int64)
    return deal_rows(proba, "probabilities", index, w, n_folds, stratify=False)


def by_hand(y, proba, recalibrator, weights=None):
    """Rows by fold, and predictions of what was fitted to all others, by ``fit`` itself."""
    row, folds, w = deal(proba, y, weights)
    proba, y = proba[row], y[row]
    found = np.empty_like(proba)
    for fold in range(5):
        own = folds == fold
        recalibrator.fit(proba[~own], y[~own], w[~own])
        found[own] = recalibrator.predict_proba(proba[own])
    return proba, found, y, w


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("make", [TemperatureScaling, FlattenedIsotonic, StructuredScaling])
def test_equals_fits_fold_by_fold(make, has_weights):
    proba, y, w = weighted(400)
    w = w if has_weights else None
    *pair, labels, share = by_hand(y, proba, make(classes=range(4)), w)
    one_hot = np.eye(4)[labels]
    expected = {
        "negative_log_likelihood": [log_loss(labels, p, sample_weight=share) for p in pair],
        "brier_score": [np.average(((p - one_hot) ** 2).mean(axis=1), weights=share) for p in pair],
    }
    for metric, (score, refinement) in expected.items():
        found = cross_fitted_decomposition(
            y, proba, metric=metric, recalibrator=make(), sample_weight=w, n_resamples=0
        )
        assert found.score.value == pytest.approx(score, abs=1e-12)
        assert found.score.value == getattr(metrics, metric)(y, proba, sample_weight=w)
        assert found.refinement.value == pytest.approx(refinement, abs=1e-12)
        assert found.calibration.value == pytest.approx(score - refinement, abs=1e-12)
        assert (found.metric, found.n_folds) == (metric, 5)


def honest_rows(rng, n_rows, n_classes=4):
    honest = rng.dirichlet(np.ones(n_classes), size=n_rows)
    return honest, (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)


def test_nothing_is_gained_by_chance():
    """Honest predictions: on average a fit loses what it costs.

    Folds that are balanced by labels and scores would gain 0.0016 here.
    """
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(60):
        honest, y = honest_rows(rng, 150)
        found = cross_fitted_decomposition(y, honest, classes=range(4), **SHORT)
        gains.append(found.calibration.value)
    assert np.mean(gains) < -3 * np.std(gains) / math.sqrt(len(gains))


def test_folds_do_not_look_at_labels_and_are_balanced():
    proba, y, _ = weighted()
    folds = deal(proba, y)[1]
    assert np.bincount(folds).tolist() == [120] * 5
    np.testing.assert_array_equal(deal(proba, np.roll(y, 7))[1], folds)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_array_equal(deal(proba[order], y[order])[1], folds[order])
    swapped = np.ascontiguousarray(proba[:, [2, 0, 3, 1]])
    np.testing.assert_array_equal(deal(swapped, y)[1], folds)
    np.testing.assert_array_equal(deal(proba * (1 + 1e-15), y)[1], folds)


def test_what_is_wrong_with_tied_scores_is_found():
    """Five scores, each of which says more than happens; folds that held out whole scores lost it.

    Given as rows, or as ten rows with the number of times that they came.
    """
    rng = np.random.default_rng(0)
    level = rng.integers(0, 5, 5000)
    told, true = np.array([[0.02, 0.1, 0.3, 0.6, 0.9], [0.01, 0.05, 0.12, 0.25, 0.35]])
    y = (rng.random(5000) < true[level]).astype(int)
    divergence = true * np.log(true / told) + (1 - true) * np.log((1 - true) / (1 - told))
    found = cross_fitted_decomposition(y, told[level])
    assert found.n_folds == 5
    assert found.calibration.value == pytest.approx(divergence[level].mean(), rel=0.1)
    pairs, times = np.unique(np.column_stack([level, y]), axis=0, return_counts=True)
    counted = cross_fitted_decomposition(
        pairs[:, 1], told[pairs[:, 0]], sample_weight=times, n_resamples=0
    )
    assert counted.calibration.value == pytest.approx(found.calibration.value, rel=1e-9)


def test_a_better_recalibrator_finds_more():
    """A class that is favoured is no matter of temperature."""
    honest, y = honest_rows(np.random.default_rng(0), 2000)
    tilted = honest * [4.0, 1.0, 1.0, 1.0]
    tilted /= tilted.sum(axis=1, keepdims=True)
    usual, one = (
        cross_fitted_decomposition(y, tilted, recalibrator=own)
        for own in (None, TemperatureScaling())
    )
    truth = np.mean(np.sum(honest * np.log(honest / tilted), axis=1))
    assert one.calibration.high < usual.calibration.low < truth
    assert usual.calibration.value == pytest.approx(truth, rel=0.1)


def test_intervals_hold_the_true_parts_as_often_as_they_say():
    """Of 80 draws with a known temperature; the documentation has thousands."""
    rng = np.random.default_rng(0)
    options = {"recalibrator": TemperatureScaling(), "n_resamples": 200}
    population, _ = honest_rows(rng, 200_000)

    def sharpened(rows):
        return rows**2 / (rows**2).sum(axis=1, keepdims=True)

    entropy = -np.sum(population * np.log(population), axis=1).mean()
    divergence = np.sum(population * np.log(population / sharpened(population)), axis=1).mean()
    held, bounded = np.zeros(2), 0
    for _ in range(80):
        honest, y = honest_rows(rng, 500)
        found = cross_fitted_decomposition(y, sharpened(honest), classes=range(4), **options)
        parts = ((found.refinement, entropy), (found.calibration, divergence))
        held += [part.low <= truth <= part.high for part, truth in parts]
        bounded += found.calibration.low <= divergence
    assert np.all(held >= 70)
    assert bounded >= 76


def test_one_row_stays_as_it_is():
    found = cross_fitted_decomposition([1], [[0.5, 0.5]], classes=[0, 1], n_resamples=10)
    assert found.n_folds == 1
    assert found.calibration == (0.0, 0.0, 0.0)
    assert found.refinement.value == pytest.approx(math.log(2))
    few = cross_fitted_decomposition([0, 1, 1, 1], [0.2, 0.2, 0.7, 0.9], n_resamples=0)
    assert few.n_folds == 4


def test_the_recalibrator_is_copied_and_reads_probabilities():
    proba, y, _ = weighted()
    recalibrator = TemperatureScaling(scores="logits")
    found = cross_fitted_decomposition(y, proba, recalibrator=recalibrator, n_resamples=0)
    assert not hasattr(recalibrator, "map_")
    assert recalibrator.scores == "logits"
    assert found == cross_fitted_decomposition(
        y, proba, recalibrator=TemperatureScaling(), n_resamples=0
    )


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


def test_one_row_has_no_direction():
    found = variational_errors([1], np.full((1, 2), 0.5), classes=[0, 1], n_resamples=10)
    assert found.n_folds == 1
    assert found.error == found.top_label == found.over_confidence == (0.0, 0.0, 0.0)
