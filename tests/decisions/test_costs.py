"""Costs: decisions, what they cost, and what calibration saves."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant import TemperatureScaling, errors
from calibrant.datasets import simulated_scores
from calibrant.decisions import CostSensitive, cost_curve, expected_cost, value_of_calibration
from calibrant.metrics import Predictions
from conftest import refuses
from reference import decisions as reference

PAIR = {"false_positive": 1, "false_negative": 4}
SCORES, LABELS = simulated_scores(600)
COSTS = [[0, 10, 10], [1, 0, 1], [1, 1, 0]]


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_costs_are_those_of_the_definition(seed, n_actions, abstains):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(3), size=7)
    labels = np.append([0, 1, 2], rng.integers(0, 3, 4))
    costs = rng.integers(-3, 9, (3, n_actions)).astype(float)
    weight = rng.integers(1, 4, 7)
    abstain = 0.5 if abstains else None
    found = expected_cost(labels, rows, costs, abstain=abstain, sample_weight=weight)
    whole = np.column_stack([costs, [[0.5]] * 3]) if abstains else costs
    checked = rows / rows.sum(axis=1, keepdims=True)
    realised, predicted = reference.mean_costs(
        checked.tolist(), labels.tolist(), whole.tolist(), weight.tolist()
    )
    assert found.realised.value == pytest.approx(float(realised), abs=1e-12)
    assert found.predicted.value == pytest.approx(float(predicted), abs=1e-12)


def test_predictions_that_were_read_cost_the_same():
    weight = np.arange(600) % 3
    read = Predictions.read(LABELS, SCORES, sample_weight=weight)
    found = expected_cost(read, costs=COSTS, abstain=0.3)
    assert found == expected_cost(LABELS, SCORES, COSTS, abstain=0.3, sample_weight=weight)
    names = np.array(["no", "yes"])[(LABELS == 2).astype(int)]
    words = Predictions.read(names, SCORES[:, 2], pos_label="yes")
    with refuses("costs", errors.LabelError):
        expected_cost(words, costs=PAIR)
    assert cost_curve(words, costs=PAIR, pos_label="yes").kind == "yes"
    found = expected_cost(words, costs=PAIR, pos_label="yes")
    assert found == expected_cost(names, SCORES[:, 2], PAIR, pos_label="yes")


def test_an_interval_is_that_of_students_distribution():
    """By its definition: a mean over rows and its standard error, with weights and without."""
    rng = np.random.default_rng(5)
    p = rng.beta(1, 3, 80)
    y = (rng.random(80) < p).astype(int)
    paid = np.where(p > 0.2, y == 0, 4 * (y == 1)).astype(float)
    found = expected_cost(y, p, PAIR, confidence_level=0.9).realised
    low, high = stats.t.interval(0.9, 79, paid.mean(), stats.sem(paid))
    assert found == pytest.approx((paid.mean(), low, high), rel=1e-12)
    weight = rng.random(80) + 0.1
    found = expected_cost(y, p, PAIR, sample_weight=weight).realised
    mean = np.average(paid, weights=weight)
    error = np.sqrt((weight**2 @ (paid - mean) ** 2) * 80 / 79) / weight.sum()
    n_equal = weight.sum() ** 2 / (weight @ weight)
    low, high = stats.t.interval(0.95, n_equal - 1, mean, error)
    assert found == pytest.approx((mean, low, high), rel=1e-12)
    alone = expected_cost([1], [0.3], PAIR, classes=[0, 1]).realised
    assert alone.value == 0.0
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)


def test_calibration_saves_what_both_cost():
    half = TemperatureScaling().fit(SCORES[:300], LABELS[:300]).predict_proba(SCORES[300:])
    y, raw = LABELS[300:], SCORES[300:]
    found = value_of_calibration(y, raw, half, COSTS, n_decisions=50)
    costs = [expected_cost(y, p, COSTS).realised for p in (raw, half)]
    assert found.before == pytest.approx(costs[0], rel=1e-12)
    assert found.after == pytest.approx(costs[1], rel=1e-12)
    assert found.total.low == 50 * found.per_row.low
    decided = [CostSensitive(COSTS).predict(p) for p in (raw, half)]
    assert found.changed == pytest.approx(np.mean(decided[0] != decided[1]), rel=1e-12)
    paid = [np.array(COSTS)[y, actions] for actions in decided]
    saved = paid[0] - paid[1]  # row by row
    interval = stats.t.interval(0.95, 299, saved.mean(), stats.sem(saved))
    assert found.per_row == pytest.approx((saved.mean(), *interval), rel=1e-12)


def test_the_curve_of_costs_is_that_of_decisions():
    y, positive = (LABELS == 2).astype(int), SCORES[:, 2]
    curve = cost_curve(y, positive, [[1, 3], [7, 2]], thresholds=[0.0, 0.3, 1.0])
    for threshold, cost in zip(curve.thresholds, curve.cost, strict=True):
        matrix = np.array([[1, 3], [7, 2]])
        assert cost == pytest.approx(matrix[y, (positive >= threshold).astype(int)].mean())
    assert curve.threshold == 2 / 7
    assert curve.best_cost == curve.cost.min()
    assert curve.kind == 1


@pytest.mark.parametrize(
    ("argument", "costs", "options"),
    [
        ("costs", [[0, 1], [1, 0]], {}),
        ("costs", None, {}),
        ("costs", [["a"], ["b"], ["c"]], {}),
        ("costs", [[0, 1], [1, math.nan], [1, 1]], {}),
        ("costs", PAIR, {}),
        ("abstain", COSTS, {"abstain": [1, 2, 3]}),
        ("abstain", COSTS, {"abstain": math.inf}),
        ("costs", pd.DataFrame(COSTS, index=[7, 8, 9]), {}),
        ("costs", pl.DataFrame({"good": [0, 5], "bad": [1, 0]}), {}),
    ],
)
def test_bad_costs_are_refused(argument, costs, options):
    with refuses(argument):
        expected_cost(LABELS, SCORES, costs, **options)
    with refuses(argument):
        value_of_calibration(LABELS, SCORES, SCORES, costs, **options)
    with refuses(argument):
        CostSensitive(costs, TemperatureScaling(), **options).fit(SCORES, LABELS)


def test_other_bad_input_is_refused():
    for options in ({"actions": [1, 1, 2]}, {"actions": ["abstain", "b", "c"], "abstain": 1}):
        with refuses("actions"):
            CostSensitive(COSTS, **options).predict(SCORES)
    with refuses("actions"):
        CostSensitive(RISK, classes=WORDS, actions=["lend", "refuse"]).predict(SORTED)
    with refuses("y_proba"):
        cost_curve(LABELS, SCORES, COSTS)
    for costs in ([[0, -1], [1, 0]], {"false_positive": [1, 1], "false_negative": [5, 2]}):
        with refuses("costs"):
            cost_curve([0, 1], [0.1, 0.9], costs)
    wider = np.hstack([SCORES, np.zeros((600, 1))])
    with refuses("y_calibrated", errors.ShapeError):
        value_of_calibration(LABELS, SCORES, wider, COSTS)
    broken = np.where(np.arange(600)[:, None] == 3, np.nan, SCORES)
    with pytest.raises(errors.NonFiniteError, match=r"y_calibrated\[3, 0\]"):
        value_of_calibration(LABELS, SCORES, broken, COSTS)
    with refuses("y_calibrated", errors.ShapeError):
        value_of_calibration(["a", "b"], [0.1, 0.9], [[0.9, 0.1], [0.1, 0.9]], RISK, pos_label="b")


RISK = pd.DataFrame([[0, 1], [5, 0]], index=["good", "bad"], columns=["good", "bad"])
SORTED, WORDS = np.array([[0.95, 0.05], [0.02, 0.98]]), ["bad", "good"]


def test_costs_that_differ_by_row_decide_each_row_by_its_own():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, 300)
    y = (rng.random(300) < p).astype(int)
    exposure, weight = rng.integers(1, 50, 300), rng.integers(0, 3, 300)
    by_name = {"false_positive": 3, "false_negative": exposure}
    table = np.zeros((300, 2, 2))
    table[:, 0, 1], table[:, 1, 0] = 3, exposure
    refused = p * exposure > (1 - p) * 3
    paid = np.where(refused, 3 * (y == 0), exposure * (y == 1))
    for costs in (by_name, table):
        assert CostSensitive(costs).predict(p).tolist() == refused.astype(int).tolist()
        found = expected_cost(y, p, costs, sample_weight=weight)
        assert found.realised.value == pytest.approx(np.average(paid, weights=weight))
        least = np.minimum(p * exposure, (1 - p) * 3)
        assert found.predicted.value == pytest.approx(np.average(least, weights=weight))
        assert found.realised.low < found.realised.value < found.realised.high
        saved = value_of_calibration(y, np.full(300, 0.5), p, costs, sample_weight=weight)
        always = np.where(exposure > 3, 3 * (y == 0), exposure * (y == 1))
        assert saved.per_row.value == pytest.approx(np.average(always - paid, weights=weight))
    same = expected_cost(y, p, np.tile([[0, 3], [9, 0]], (300, 1, 1)))
    assert same == expected_cost(y, p, {"false_positive": 3, "false_negative": 9})


@pytest.mark.parametrize(
    "costs",
    [
        {"false_positive": -1, "false_negative": 2},
        {"false_positive": 1, "false_negative": [5, 2]},
        {"false_positive": [1, 2], "false_negative": [5, 2, 2]},
        {"false_positive": 1, "false_negative": [5, 2, -1]},
        np.full((3, 2, 2), np.nan),
        np.zeros((3, 3, 2)),
    ],
)
def test_named_costs_and_costs_by_row_that_are_refused(costs):
    with refuses("costs"):
        expected_cost([0, 1, 1], [0.25, 0.5, 0.75], costs)
