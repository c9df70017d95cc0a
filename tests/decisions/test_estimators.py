"""Decisions by costs as a classifier, and split-conformal sets with their guarantee."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from calibrant import TemperatureScaling, errors
from calibrant.datasets import simulated_scores
from calibrant.decisions import ConformalSets, CostSensitive, cost_curve, expected_cost
from conftest import refuses
from reference import decisions as reference

SCORES, LABELS = simulated_scores(600)
PAIR = {"false_positive": 1, "false_negative": 4}
COSTS = [[0, 10, 10], [1, 0, 1], [1, 1, 0]]
RISK = pd.DataFrame([[0, 1], [5, 0]], index=["good", "bad"], columns=["good", "bad"])
SORTED, WORDS = np.array([[0.95, 0.05], [0.02, 0.98]]), ["bad", "good"]


def test_a_pair_is_a_threshold():
    model = CostSensitive(PAIR)
    assert model.threshold_ == 0.2
    positive = np.array([0.1, 0.19, 0.21, 0.9])
    for rows in (np.column_stack([1 - positive, positive]), positive, positive[:, None]):
        assert model.predict(rows).tolist() == [0, 0, 1, 1]
    assert CostSensitive([[-1, 0], [4, 0]]).threshold_ == 0.2
    assert CostSensitive([[0, 0], [1, 0]]).threshold_ == 0.0
    by_row = {"false_positive": 1, "false_negative": [5, 2]}
    for no_threshold in (COSTS, [[1, 0], [1, 0]], by_row):
        assert not hasattr(CostSensitive(no_threshold), "threshold_")


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
    with refuses("estimator"):
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
    with refuses("costs"):
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
        with refuses("costs", errors.LabelError):
            getattr(CostSensitive(PAIR, plain), use)(X, y)
    model = CostSensitive(PAIR, plain, pos_label="bad")
    bad = plain.predict_proba(X)[:, 0]
    np.testing.assert_array_equal(model.predict(X) == "bad", bad > 0.2)
    frame = pd.DataFrame([[0, 1], [4, 0]], ["good", "bad"], ["good", "bad"])
    assert model.score(X, y) == CostSensitive(frame, plain).score(X, y)
    with refuses("pos_label"):
        CostSensitive(frame, plain, pos_label="bad").fit(X, y)
    told = TemperatureScaling(scores="positive", classes=["good", "bad"]).fit(SCORES[:, 2], y)
    policy = CostSensitive(PAIR, told)
    np.testing.assert_array_equal(
        policy.predict([0.01, 0.99]), CostSensitive(frame, told).predict([0.01, 0.99])
    )
    assert policy.threshold_ == 0.2


# Sets of classes


def test_members_sizes_and_labels():
    labels = np.array(["a", "b", "c"])[LABELS]
    frame = pd.DataFrame(SCORES, columns=["a", "b", "c"])
    fitted = ConformalSets(0.8).fit(frame[:300], labels[:300])
    sets = fitted.predict_set(frame[300:])
    assert sets.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(sets.members, SCORES[300:] >= 1.0 - fitted.quantile_)
    assert [len(own) for own in sets.labels()] == sets.sizes.tolist()
    assert sets.labels()[0].tolist() == sets.classes[sets.members[0]].tolist()
    assert not sets.members.flags.writeable


@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.7, 0.8, 0.9]))
@pytest.mark.filterwarnings("ignore:.*needs more than")
def test_the_quantile_is_that_of_the_definition(seed, coverage):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 15))
    rows = rng.integers(1, 5, (n, 3)) / 1.0
    rows /= rows.sum(axis=1, keepdims=True)
    y = np.append([0, 1, 2], rng.integers(0, 3, n - 3))
    scores = [1.0 - row[j] for row, j in zip(rows, y, strict=True)]
    expected = reference.conformal_quantile(scores, coverage)
    found = ConformalSets(coverage).fit(rows, y).quantile_
    assert found == pytest.approx(math.inf if expected is None else expected, abs=1e-12)


def test_the_guarantee_holds_on_average():
    """Exchangeable rows, over-confident: 400 draws of 99 rows and one more."""
    rng = np.random.default_rng(3)
    scores, y = simulated_scores(40_000)
    places = rng.permutation(40_000).reshape(400, 100)
    held = 0
    for own in places:
        fitted = ConformalSets(0.8).fit(scores[own[:99]], y[own[:99]], classes=[0, 1, 2])
        held += int(fitted.predict_set(scores[own[99:]]).members[0, y[own[99]]])
    assert stats.binomtest(held, 400, 0.8, alternative="less").pvalue > 1e-3


def test_bad_input_is_refused():
    for wrong in (0, 90, "x", math.nan, None):
        with refuses("coverage"):
            ConformalSets(wrong).fit(SCORES, LABELS)
    with pytest.raises(errors.NotFittedError):
        ConformalSets().predict_set(SCORES)
    with refuses("y_proba", errors.ShapeError):
        ConformalSets().fit(SCORES, LABELS).predict_set(SCORES[:, :2])


@pytest.mark.parametrize("n_rows", [3, 6, 13, 1002])
def test_the_coverage_that_is_advised_is_one_that_so_many_rows_have(n_rows):
    scores, y = simulated_scores(n_rows)
    with pytest.warns(errors.SmallSampleWarning, match="or use coverage=") as told:
        fitted = ConformalSets(coverage=0.9999).fit(scores, y)
    assert fitted.predict_set(scores).members.all()
    advised = float(str(told[-1].message).rpartition("=")[2])
    assert np.isfinite(ConformalSets(coverage=advised).fit(scores, y).quantile_)
