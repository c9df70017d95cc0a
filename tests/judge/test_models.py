"""Several models and a judge: means and differences, pairs of answers, plans of labels."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_expit

from calibrant import errors
from calibrant._result import Estimate
from calibrant.judge import calibrate_judge, compare_judged, judge_pairs, plan_labels
from calibrant.judge._models import subtract
from conftest import refuses


def draw_models(seed=0, n_items=400, share=0.25):
    """Right or wrong answers of two models to the same questions, which humans grade in part."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(0, 2, n_items)
    right = (rng.random((2, n_items)) < 1 / (1 + np.exp(hard - [[0.0], [0.7]]))).astype(float)
    judged = np.where(rng.random(right.shape) < 0.85, right, 1 - right).ravel()
    model, item = np.repeat(["a", "b"], n_items), np.tile(np.arange(n_items), 2)
    human = np.where(np.tile(rng.random(n_items) < share, 2), right.ravel(), np.nan)
    return human, judged, model, item, right.ravel()


def draw_pairs(seed=0, n_rows=600, n_models=4):
    rng = np.random.default_rng(seed)
    strength = np.linspace(0.9, -0.9, n_models)
    first = rng.integers(0, n_models, n_rows)
    second = (first + rng.integers(1, n_models, n_rows)) % n_models
    wins = rng.random(n_rows) < 1 / (1 + np.exp(strength[second] - strength[first]))
    truth = np.where(wins, "first", "second").astype(object)
    truth[rng.random(n_rows) < 0.1] = "tie"
    judged = np.where(rng.random(n_rows) < 0.7, truth, "first")
    names = np.array([f"model {i}" for i in range(n_models)])
    return names[first], names[second], truth, judged


# One table with blanks


def test_blanks_are_rows_without_a_label():
    human, judged, *_ = draw_models()
    is_graded = ~np.isnan(human)
    whole = calibrate_judge(human, judged)
    parts = calibrate_judge(human[is_graded], judged[is_graded], judged[~is_graded])
    assert repr(whole) == repr(parts)
    words = np.where(is_graded, np.where(human == 1, "yes", "no"), "").astype(object)
    named = calibrate_judge(pd.Series(words), judged, classes=["no", "yes"], values=[0, 1])
    assert named.mean == whole.mean
    assert named.n_labelled == is_graded.sum()


# Groups


def test_one_group_has_the_mean_of_calibrate_judge():
    human, judged, *_ = draw_models()
    alone = calibrate_judge(human, judged)
    found = compare_judged(human, judged, np.zeros(len(judged), int))
    assert found.means == (alone.mean,)
    assert found.pairs == ()


def test_means_and_differences_hold_the_truth_and_items_make_differences_narrower():
    hits, widths = [], []
    for seed in range(60):
        human, judged, model, item, truth = draw_models(seed)
        found = compare_judged(human, judged, model, items=item)
        assert set(found.groups) == {"a", "b"}
        exact = {name: truth[model == name].mean() for name in found.groups}
        for name, mean in zip(found.groups, found.means, strict=True):
            hits.append(mean.low <= exact[name] <= mean.high)
        (pair,), (gap,) = found.pairs, found.differences
        hits.append(gap.low <= exact[pair[0]] - exact[pair[1]] <= gap.high)
        (other,) = compare_judged(human, judged, model).differences
        widths.append((gap.high - gap.low) / (other.high - other.low))
    assert 0.9 <= np.mean(hits) <= 1.0
    assert np.median(widths) < 1.0


def test_a_difference_of_equal_means_with_perfect_correlation_is_certain():
    a = Estimate(0.5, 0.4, 0.6)
    assert subtract(a, a, 1.0) == pytest.approx((0.0, 0.0, 0.0))
    assert subtract(a, a, 0.0) == pytest.approx((0.0, -(0.02**0.5), 0.02**0.5))


def test_groups_and_items_that_cannot_be_compared_are_refused():
    human, judged, model, item, _ = draw_models()
    with refuses("items", errors.ShapeError):
        compare_judged(human, judged, model, items=item[1:])
    with refuses("human", errors.ShapeError):
        compare_judged(human[1:], judged, model)
    human[np.flatnonzero(model == "b")[5:]] = np.nan
    with refuses("human", errors.ShapeError, value="b"):
        compare_judged(human, judged, model)


# Pairs


def test_strengths_with_all_verdicts_are_those_of_a_general_solver():
    first, second, truth, _ = draw_pairs()
    report = judge_pairs(first, second, truth, truth)
    names = sorted({*first})
    games = np.array([(first == n).astype(float) - (second == n) for n in names]).T
    worth = np.array([{"first": 1.0, "tie": 0.5, "second": 0.0}[v] for v in truth])

    def loss(beta):
        z = games @ beta
        return -(worth @ log_expit(z) + (1 - worth) @ log_expit(-z)) + 0.25 * beta @ beta

    exact = minimize(loss, np.zeros(len(names)), tol=1e-12).x
    found = dict(zip(report.models, (s.value for s in report.strengths), strict=True))
    np.testing.assert_allclose([found[n] for n in names], exact - exact.mean(), atol=1e-5)
    assert all(s.low == s.value == s.high for s in report.strengths)  # nothing is unknown


def test_strengths_and_position_bias_hold_the_truth():
    hits = []
    for seed in range(40):
        first, second, truth, judged = draw_pairs(seed)
        exact = judge_pairs(first, second, truth, truth)
        values = dict(zip(exact.models, (s.value for s in exact.strengths), strict=True))
        drawn = np.random.default_rng(seed).permutation(len(truth))[:120]
        human = np.full(len(truth), None, dtype=object)
        human[drawn] = truth[drawn]
        report = judge_pairs(first, second, human, judged)
        for name, (_, low, high) in zip(report.models, report.strengths, strict=True):
            hits.append(low <= values[name] <= high)
        worth = {"first": 1.0, "tie": 0.5, "second": 0.0}
        bias = np.mean([worth[j] - worth[t] for j, t in zip(judged, truth, strict=True)])
        hits.append(report.position_bias.low <= bias <= report.position_bias.high)
        assert report.position_bias.low > 0.0  # 30 % of the verdicts are for the first
    assert 0.92 <= np.mean(hits) <= 1.0


def test_verdicts_are_read_as_files_write_them():
    first, second, truth, judged = draw_pairs()
    human = np.where(np.arange(len(truth)) % 4 == 0, truth, None)
    exact = judge_pairs(first, second, human, judged)
    words = {"first": "model_a", "second": "[[B]]", "tie": "tie (bothbad)", None: ""}
    own = [np.array([words[verdict] for verdict in given], object) for given in (human, judged)]
    assert repr(judge_pairs(first, second, *own)) == repr(exact)


def test_probabilities_of_the_judge_and_both_orders():
    first, second, truth, judged = draw_pairs()
    columns = {"first": [0.8, 0.1, 0.1], "second": [0.1, 0.8, 0.1], "tie": [0.2, 0.2, 0.6]}
    rows = np.array([columns[verdict] for verdict in judged])
    human = np.where(np.arange(len(truth)) % 4 == 0, truth, None)
    report = judge_pairs(first, second, human, rows)
    assert ((report.win_probability > 0) & (report.win_probability < 1)).all()
    turned = {"first": "second", "second": "first", "tie": "tie"}
    both = [np.concatenate(pair) for pair in ((first, second), (second, first))]
    again = np.concatenate([judged, [turned[v] for v in judged]])
    items = np.tile(np.arange(len(first)), 2)
    report = judge_pairs(*both, np.concatenate([human, human]), again, items=items)
    assert report.consistency == 1.0
    biased = np.concatenate([judged, judged])  # the place decides, not the answer
    report = judge_pairs(*both, np.concatenate([human, human]), biased, items=items)
    assert report.consistency == pytest.approx(np.mean(judged == "tie"))
    assert "judged in both orders" in repr(report)


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("first", lambda f, _, h, j: (f, f, h, j)),
        ("first", lambda f, s, h, j: (f[1:], s, h, j)),
        ("judged", lambda f, s, h, j: (f, s, h, np.full(len(j), "X"))),
        ("judged", lambda f, s, h, j: (f, s, h, np.full((len(j), 2), 0.5))),
    ],
)
def test_pairs_that_cannot_be_read_are_refused(argument, change):
    with refuses(argument, errors.DataError):
        judge_pairs(*change(*draw_pairs(n_rows=60)))


# Plans


def test_a_plan_begins_with_a_pilot_and_ends_at_the_width():
    rng = np.random.default_rng(1)
    grade = rng.integers(1, 6, 4000).astype(float)
    judged = np.clip(grade + rng.integers(0, 2, 4000), 1, 5)
    human, scale = np.full(4000, np.nan), [1, 2, 3, 4, 5]
    pilot = plan_labels(human, judged, 0.1, classes=scale)
    assert len(pilot.rows) == len(np.unique(pilot.rows)) == pilot.n_needed == 100
    assert "Then plan again" in repr(pilot)
    human[pilot.rows] = grade[pilot.rows]
    plan = plan_labels(human, judged, 0.1, classes=scale)
    assert np.isnan(human[plan.rows]).all()
    assert plan.n_needed == 100 + len(plan.rows)
    assert plan.expected_width == pytest.approx(0.1, rel=0.02)
    human[plan.rows] = grade[plan.rows]
    done = calibrate_judge(human, judged, classes=scale).mean
    assert done.high - done.low == pytest.approx(0.1, rel=0.2)
    finished = plan_labels(human, judged, 0.2, classes=scale)
    assert len(finished.rows) == 0
    assert "no more labels" in repr(finished)


def test_rows_of_a_plan_are_spread_over_the_grades_of_the_judge():
    judged = np.repeat([1.0, 2.0, 3.0], [2000, 1000, 1000])
    counts = np.zeros(3)
    for seed in range(20):
        rows = plan_labels(np.full(4000, np.nan), judged, 0.1, random_state=seed).rows
        counts += np.bincount(judged[rows].astype(int), minlength=4)[1:]
    np.testing.assert_allclose(counts / counts.sum(), [0.5, 0.25, 0.25], atol=0.005)


def test_a_plan_that_needs_every_row_says_so():
    rng = np.random.default_rng(0)
    grade = rng.integers(0, 2, 300).astype(float)
    human = np.where(np.arange(300) < 150, grade, np.nan)
    plan = plan_labels(human, rng.integers(0, 2, 300), 1e-6)
    assert plan.n_needed == 300
    assert plan.expected_width == 0.0
