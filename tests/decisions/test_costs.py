"""Costs: decisions, what they cost, and what calibration saves."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from calibrant import TemperatureScaling, errors
from calibrant.datasets import simulated_scores
from calibrant.decisions import CostSensitive, cost_curve, expected_cost, value_of_calibration
from calibrant.metrics import Predictions
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
    with pytest.raises(errors.LabelError, match="which of the classes 'no', 'yes' is positive"):
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


def test_a_pair_is_a_threshold():
    model = CostSensitive(PAIR)
    assert model.threshold_ == 0.2
    positive = np.array([0.1, 0.19, 0.21, 0.9])
    for rows in (np.column_stack([1 - positive, positive]), positive, positive[:, None]):
        assert model.predict(rows).tolist() == [0, 0, 1, 1]
    assert CostSensitive([[-1, 0], [4, 0]]).threshold_ == 0.2
    assert CostSensitive([[0, 0], [1, 0]]).threshold_ == 0.0
    with pytest.raises(AttributeError, match="two classes"):
        _ = CostSensitive(COSTS).threshold_
    with pytest.raises(AttributeError, match="never more expensive"):
        _ = CostSensitive([[1, 0], [1, 0]]).threshold_
    with pytest.raises(AttributeError, match="costs differ by row, so there is no threshold"):
        _ = CostSensitive({"false_positive": 1, "false_negative": [5, 2]}).threshold_


def test_labels_actions_and_abstaining():
    y = np.array(["no", "yes"])[(LABELS[:300] == 2).astype(int)]
    X = np.log(SCORES[:300] + 1e-6)
    model = CostSensitive(PAIR, LogisticRegression(), abstain=0.55, pos_label="yes").fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.actions_.tolist() == ["no", "yes", "abstain"]
    found = model.predict(X)
    positive = model.estimator_.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(found == "abstain", (positive > 0.1375) & (positive < 0.45))
    frame = pd.DataFrame([[4, 0, 1], [0, 1, 1]], index=["yes", "no"], columns=["off", "on", "ask"])
    named = CostSensitive(frame, model.estimator_).predict(X)
    assert {*named} == {"off", "on"}
    np.testing.assert_array_equal(named == "on", positive > 0.2)
    turned = pd.DataFrame([[0, 4], [1, 0]], index=["yes", "no"], columns=["yes", "no"])
    assert CostSensitive(turned, model.estimator_).threshold_ == 0.2
    assert cost_curve(y, model.estimator_.predict_proba(X), turned).threshold == 0.2
    assert CostSensitive(np.zeros((2, 3)), model.estimator_, actions=[7, 8, 9]).predict(X)[0] == 7
    assert CostSensitive(PAIR, abstain=0.1).predict([[0.5, 0.5]]).tolist() == ["abstain"]


def test_a_fitted_calibrator_needs_no_fit():
    fitted = TemperatureScaling().fit(SCORES, LABELS)
    model = CostSensitive(COSTS, fitted)
    again = pickle.loads(pickle.dumps(clone(model).fit(SCORES, LABELS)))
    np.testing.assert_array_equal(model.predict(SCORES), again.predict(SCORES))
    expected = fitted.predict_proba(SCORES) @ np.array(COSTS)
    np.testing.assert_array_equal(model.predict(SCORES), expected.argmin(axis=1))
    with pytest.raises(errors.NotFittedError):
        CostSensitive(COSTS, TemperatureScaling()).predict(SCORES)
    with pytest.raises(errors.ParameterError, match="without an estimator there is nothing to fit"):
        CostSensitive(COSTS).fit(SCORES, LABELS)


def test_the_score_is_minus_the_mean_cost():
    model = CostSensitive(COSTS, TemperatureScaling(), abstain=0.3).fit(SCORES, LABELS)
    rows = model.estimator_.predict_proba(SCORES)
    found = expected_cost(LABELS, rows, COSTS, abstain=0.3)
    assert model.score(SCORES, LABELS) == -found.realised.value
    words = CostSensitive(PAIR, classes=["no", "yes"])
    assert words.predict([0.1, 0.9]).tolist() == ["no", "yes"]
    assert words.score([0.1, 0.9], ["yes", "no"]) == -2.5
    assert words.score([0.1, 0.9], ["yes", "no"], [0, 1]) == -1.0
    search = GridSearchCV(model, {"abstain": [0.0, 9.0]}, cv=3).fit(SCORES, LABELS)
    assert search.best_params_ == {"abstain": 0.0}


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
    ("costs", "options", "words"),
    [
        ([[0, 1], [1, 0]], {}, r"shape \(2, 2\) but there are 3 classes.*rows are true classes"),
        (None, {}, r"shape \(\) but there are 3 classes"),
        ([["a"], ["b"], ["c"]], {}, "are not all numbers .rows are true classes"),
        ([[0, 1], [1, math.nan], [1, 1]], {}, r"costs\[1, 1\] is nan.*rows are true classes"),
        (PAIR, {}, "for 3 classes.*rows are true classes"),
        (COSTS, {"abstain": [1, 2, 3]}, r"abstain=\[1, 2, 3\] must be a finite number"),
        (COSTS, {"abstain": math.inf}, "abstain=inf must be a finite number"),
        (pd.DataFrame(COSTS, index=[7, 8, 9]), {}, "rows 7, 8, 9 but the classes are 0, 1, 2"),
        (pl.DataFrame({"good": [0, 5], "bad": [1, 0]}), {}, "polars, whose rows have no names"),
    ],
)
def test_bad_costs_are_refused(costs, options, words):
    with pytest.raises(errors.ParameterError, match=words):
        expected_cost(LABELS, SCORES, costs, **options)
    with pytest.raises(errors.ParameterError, match=words):
        value_of_calibration(LABELS, SCORES, SCORES, costs, **options)
    with pytest.raises(errors.ParameterError, match=words):
        CostSensitive(costs, TemperatureScaling(), **options).fit(SCORES, LABELS)


def test_other_bad_input_is_refused():
    with pytest.raises(errors.ParameterError, match=r"actions=\[1, 1, 2\].*columns are actions"):
        CostSensitive(COSTS, actions=[1, 1, 2]).predict(SCORES)
    with pytest.raises(
        errors.ParameterError, match=r"actions=.*not 'abstain' together with abstain="
    ):
        CostSensitive(COSTS, actions=["abstain", "b", "c"], abstain=1).predict(SCORES)
    with pytest.raises(errors.ParameterError, match="the columns of costs are named"):
        CostSensitive(RISK, classes=WORDS, actions=["lend", "refuse"]).predict(SORTED)
    with pytest.raises(errors.ParameterError, match="3 classes, but a cost curve needs two"):
        cost_curve(LABELS, SCORES, COSTS)
    with pytest.raises(errors.ParameterError, match="never more expensive"):
        cost_curve([0, 1], [0.1, 0.9], [[0, -1], [1, 0]])
    wider = np.hstack([SCORES, np.zeros((600, 1))])
    with pytest.raises(errors.ShapeError, match="pass predictions of the same classes"):
        value_of_calibration(LABELS, SCORES, wider, COSTS)
    broken = np.where(np.arange(600)[:, None] == 3, np.nan, SCORES)
    with pytest.raises(errors.NonFiniteError, match=r"y_calibrated\[3, 0\]"):
        value_of_calibration(LABELS, SCORES, broken, COSTS)
    with pytest.raises(errors.ShapeError, match="pass the same columns of both"):
        value_of_calibration(["a", "b"], [0.1, 0.9], [[0.9, 0.1], [0.1, 0.9]], RISK, pos_label="b")


RISK = pd.DataFrame([[0, 1], [5, 0]], index=["good", "bad"], columns=["good", "bad"])
SORTED, WORDS = np.array([[0.95, 0.05], [0.02, 0.98]]), ["bad", "good"]


def test_names_of_rows_and_columns_are_found():
    assert CostSensitive(RISK, classes=WORDS).predict(SORTED).tolist() == ["bad", "good"]
    assert CostSensitive(RISK, classes=WORDS).threshold_ == 5 / 6  # of good, the second class
    named = pd.DataFrame(SORTED, columns=WORDS)
    for frame in (named, named[["good", "bad"]]):
        assert CostSensitive(RISK).predict(frame).tolist() == ["bad", "good"]
    assert CostSensitive(RISK).score(SORTED, WORDS) == 0.0
    numbers = pd.DataFrame(COSTS).loc[[2, 0, 1]]  # names of files are texts
    numbers = numbers.set_axis(["2", "0", "1"]).assign(ask=0.3)
    model = CostSensitive(numbers)
    assert model.actions_.tolist() == [0, 1, 2, "ask"]
    assert model.predict([[0.5, 0.5, 0.0], [0.0, 0.1, 0.9]]).tolist() == ["ask", 2]
    with pytest.raises(errors.ParameterError, match=r"rows 'good', 'bad'.*or pass classes="):
        CostSensitive(RISK).predict(SORTED)


def test_actions_of_named_costs_are_for_the_negative_and_the_positive_class():
    named = {"false_positive": 1, "false_negative": 5}
    pair = CostSensitive(named, actions=["lend", "refuse"], classes=WORDS, pos_label="bad")
    assert pair.predict(SORTED).tolist() == ["refuse", "lend"]
    assert pair.threshold_ == pytest.approx(1 / 6)  # of bad, which is positive
    assert pair.score(SORTED, ["good", "good"]) == -0.5


def test_an_estimator_tells_the_positive_class_or_is_told():
    y = np.where(LABELS == 2, "bad", "good")
    X = np.log(SCORES + 1e-6)
    plain = LogisticRegression().fit(X, y)
    for use in ("fit", "score"):
        with pytest.raises(errors.LabelError, match=r"pass pos_label=.*as a data frame"):
            getattr(CostSensitive(PAIR, plain), use)(X, y)
    model = CostSensitive(PAIR, plain, pos_label="bad")
    bad = plain.predict_proba(X)[:, 0]
    np.testing.assert_array_equal(model.predict(X) == "bad", bad > 0.2)
    frame = pd.DataFrame([[0, 1], [4, 0]], ["good", "bad"], ["good", "bad"])
    assert model.score(X, y) == CostSensitive(frame, plain).score(X, y)
    with pytest.raises(errors.ParameterError, match="costs is a table"):
        CostSensitive(frame, plain, pos_label="bad").fit(X, y)
    told = TemperatureScaling(scores="positive", classes=["good", "bad"]).fit(SCORES[:, 2], y)
    policy = CostSensitive(PAIR, told)
    np.testing.assert_array_equal(
        policy.predict([0.01, 0.99]), CostSensitive(frame, told).predict([0.01, 0.99])
    )
    assert policy.threshold_ == 0.2


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
    ("costs", "message"),
    [
        ({"false_positive": -1, "false_negative": 2}, "'false_positive'.* has -1.0; pass a finite"),
        ({"false_positive": 1, "false_negative": [5, 2]}, "costs are for 2 rows, but there are 3"),
        ({"false_positive": [1, 2], "false_negative": [5, 2, 2]}, "costs has 2 and 3 numbers"),
        ({"false_positive": 1, "false_negative": [5, 2, -1]}, r"'false_negative'\] has -1"),
        (np.full((3, 2, 2), np.nan), r"costs\[0, 0, 0\] is nan"),
        (np.zeros((3, 3, 2)), "there are 2 classes"),
    ],
)
def test_named_costs_and_costs_by_row_that_are_refused(costs, message):
    with pytest.raises(errors.ParameterError, match=message):
        expected_cost([0, 1, 1], [0.25, 0.5, 0.75], costs)
