"""Thresholds: what acting from them on is worth, and promises that they keep."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant import errors
from calibrant.datasets import simulated_scores
from calibrant.decisions import (
    ConformalSets,
    decision_curve,
    expected_cost,
    risk_coverage,
    threshold_for,
)
from calibrant.metrics import Predictions
from conftest import each_real_file, load_real, refuses
from reference import decisions as reference

SCORES, LABELS = simulated_scores(900, power=1)
POSITIVE, EVENTS = SCORES[:, 0], (LABELS == 0).astype(int)


def two_columns(positive):
    return np.column_stack([1.0 - np.asarray(positive), positive])


def test_net_benefit_by_hand():
    """Of ten rows, four at or above 0.4: three events and one other, which costs 2/3."""
    positive = [0.9, 0.8, 0.7, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1, 0.1]
    y = [1, 1, 0, 1, 0, 1, 0, 0, 0, 0]
    curve = decision_curve(y, positive, thresholds=[0.4, 0.0])
    assert curve.thresholds.tolist() == [0.0, 0.4]
    assert curve.net_benefit == pytest.approx([0.4, 0.3 - 0.1 * 2 / 3])
    assert curve.treat_all == pytest.approx([0.4, 0.4 - 0.6 * 2 / 3])
    assert curve.prevalence == 0.4
    terms = np.array([1, 1, -2 / 3, 1] + 6 * [0])
    assert curve.spread[1] == pytest.approx(stats.sem(terms))


def test_the_spread_is_the_standard_error_of_a_mean_over_rows():
    """A row of weight 2 is one draw that counts double, as in all intervals."""
    weight = np.random.default_rng(2).random(900)
    curve = decision_curve(EVENTS, POSITIVE, thresholds=[0.3], sample_weight=weight)
    terms = np.where(POSITIVE >= 0.3, np.where(EVENTS == 1, 1.0, -0.3 / 0.7), 0.0)
    mean = np.average(terms, weights=weight)
    variance = (weight**2 @ (terms - mean) ** 2) * 900 / 899 / weight.sum() ** 2
    assert curve.net_benefit == pytest.approx([mean], rel=1e-12)
    assert curve.spread == pytest.approx([math.sqrt(variance)], rel=1e-12)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=7))
def test_risk_and_coverage_are_those_of_the_definition(rows):
    confidence = [0.5 + step / 10 for step, _ in rows]
    y = [int(not is_wrong) for _, is_wrong in rows]
    curve = risk_coverage(y, two_columns(confidence), classes=[0, 1])
    area, oracle = reference.aurc(confidence, [not label for label in y])
    assert curve.aurc == pytest.approx(float(area), abs=1e-13)
    assert curve.oracle == pytest.approx(float(oracle), abs=1e-13)
    assert curve.excess == pytest.approx(float(area - oracle), abs=1e-13)
    for threshold, coverage, risk in zip(curve.thresholds, curve.coverage, curve.risk, strict=True):
        kept = [1 - label for c, label in zip(confidence, y, strict=True) if c >= threshold - 1e-12]
        assert coverage == pytest.approx(len(kept) / len(rows))
        assert risk == pytest.approx(sum(kept) / len(kept))


def test_predictions_that_were_read_give_the_numbers_of_rows():
    read = Predictions.read(LABELS, SCORES)
    assert risk_coverage(read).aurc == risk_coverage(LABELS, SCORES).aurc
    assert threshold_for(read, accuracy=0.6) == threshold_for(LABELS, SCORES, accuracy=0.6)


@each_real_file
@pytest.mark.filterwarnings("ignore:no threshold")
def test_promises_hold_on_test_parts(name):
    """The chance of as few hits, if the promise is kept, is above one in ten thousand."""
    (val, y_val), (test, y_test) = load_real(name).values()
    classes = np.arange(val.shape[1])
    found = threshold_for(y_val, val, accuracy=0.9, classes=classes)
    kept = test.max(axis=1) >= found.threshold
    hits = (test.argmax(axis=1) == y_test)[kept].sum()
    assert stats.binom.cdf(hits, kept.sum(), 0.9) > 1e-4
    sets = ConformalSets(0.9).fit(val, y_val, classes=classes).predict_set(test)
    held = sets.members[np.arange(len(test)), y_test]
    n, rank = len(val), math.ceil((len(val) + 1) * 0.9 - 1e-9)
    assert stats.betabinom.cdf(held.sum(), len(held), rank, n + 1 - rank) > 1e-4


@pytest.mark.filterwarnings("ignore:no threshold")
@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.5, 0.7]), st.sampled_from([0.2, 0.4]))
def test_a_threshold_for_accuracy_is_that_of_the_definition(seed, wanted, error):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 30))
    confidence = rng.integers(51, 58, n) / 64  # with ties
    hits = rng.random(n) < 0.8
    rows, y = two_columns(confidence), hits.astype(int)
    found = threshold_for(y, rows, accuracy=wanted, confidence_level=1 - error, classes=[0, 1])
    n_starts = reference.number_of_starts(n, wanted, error)
    expected = reference.accurate_from(
        confidence.tolist(), hits.tolist(), wanted, 1 - (1 - error), n_starts
    )
    assert found.threshold == (math.inf if expected is None else expected)
    by_precision = threshold_for(
        y, confidence, precision=wanted, confidence_level=1 - error, classes=[0, 1]
    )
    assert by_precision.threshold == found.threshold


@pytest.mark.filterwarnings("ignore:no threshold")
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_promises_of_accuracy_are_kept(slope):
    """Of 500 draws, at most as many are broken as the confidence allows, and five sigma."""
    n_draws, n, error, broken = 500, 300, 0.1, 0
    rng = np.random.default_rng(7)
    for _ in range(n_draws):
        u = rng.random(n)
        hits = rng.random(n) < 0.88 - 0.1 * slope + 0.2 * slope * (u - 0.5)
        rows = two_columns(0.5 + u / 2)
        found = threshold_for(
            hits.astype(int), rows, accuracy=0.8, confidence_level=1 - error, classes=[0, 1]
        )
        low = max(2 * found.threshold - 1, 0.0)
        truth = 0.88 - 0.1 * slope + 0.2 * slope * ((1 + low) / 2 - 0.5)
        broken += math.isfinite(found.threshold) and truth < 0.8
    assert stats.binomtest(broken, n_draws, error, alternative="greater").pvalue > 1e-6


def test_recall_and_capacity_are_order_statistics():
    y, positive = EVENTS[:100], POSITIVE[:100]
    n, n_events = len(y), int(y.sum())
    found = threshold_for(y, positive, recall=0.6)
    rank = next(m for m in range(n_events) if reference.tail(m, n_events, 0.6) <= 0.05)
    assert found.threshold == np.sort(positive[y == 1])[::-1][rank - 1]
    assert found.reached == pytest.approx(rank / n_events)
    found = threshold_for(y, positive, capacity=0.2)
    rank = max(m for m in range(n) if 1 - reference.tail(m + 1, n, 0.2) <= 0.05)
    assert found.threshold == np.sort(positive)[::-1][rank - 1]
    assert found.coverage == found.reached == rank / n
    assert threshold_for(LABELS, SCORES, capacity=0.1).kind == "confidence"
    assert threshold_for(y, positive, capacity=1.0).coverage == 1.0
    with pytest.warns(errors.CalibrantWarning, match="no threshold"):
        assert threshold_for(0 * y, positive, recall=0.5, classes=[0, 1]).threshold == math.inf


def test_what_cannot_be_promised_is_told():
    for target in ({"accuracy": 0.99}, {"capacity": 0.001}):
        with pytest.warns(errors.CalibrantWarning, match="no threshold"):
            found = threshold_for(LABELS, SCORES, **target)
        assert math.isinf(found.threshold)
        assert math.isnan(found.reached)
        assert found.coverage == 0.0


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("", {}),
        ("", {"accuracy": 0.9, "recall": 0.9}),
        ("accuracy", {"accuracy": 95}),
        ("y_proba", {"precision": 0.9}),
        ("confidence_level", {"accuracy": 0.9, "confidence_level": 95}),
        ("sample_weight", {"accuracy": 0.9, "sample_weight": np.arange(900)}),
    ],
)
def test_bad_targets_are_refused(argument, options):
    with refuses(argument, ValueError):
        threshold_for(LABELS, SCORES, **options)


@pytest.mark.parametrize("thresholds", ["x", [], [-0.1], [1.0], [math.nan]])
def test_bad_thresholds_are_refused(thresholds):
    with refuses("thresholds"):
        decision_curve(EVENTS, POSITIVE, thresholds=thresholds)


@pytest.mark.parametrize(
    "function",
    [
        decision_curve,
        risk_coverage,
        lambda y, p: threshold_for(y, p, capacity=0.3),
        lambda y, p: expected_cost(y, p, {"false_positive": 1, "false_negative": 2}),
    ],
)
def test_chunks_are_refused(function):
    da = pytest.importorskip("dask.array")
    chunks = da.from_array(EVENTS, chunks=400), da.from_array(POSITIVE, chunks=400)
    with refuses("y_proba", errors.ContainerError):
        function(*chunks)
