"""``evaluate``: values, intervals, chunks, groups and ordered classes."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from array_chunks import ArrayChunks
from calibrant import errors, metrics
from calibrant.metrics import Predictions, evaluate
from calibrant.metrics import _intervals as intervals
from calibrant.metrics._scores import RowMean
from calibrant.metrics._table import METRICS, headline, metrics_of
from calibrant.metrics._unbinned import holm
from calibrant.scale import RowSample
from conftest import needs_pages, simulate
from metrics.cases import weighted

ROW_MEANS = {name: own.measure for name, own in METRICS.items() if isinstance(own.measure, RowMean)}
DEFAULTS = {"scores": "probabilities", "normalize": None}


@pytest.mark.parametrize("n_classes", [2, 4])
def test_values_are_those_of_the_functions(n_classes):
    proba, y, w = weighted(500, n_classes)
    result = evaluate(y, proba, sample_weight=w, n_bins=9, n_resamples=3)
    for name, estimate in result.estimates().items():
        bins = {"n_bins": 9} if METRICS[name].is_binned else {}
        expected = getattr(metrics, name)(y, proba, sample_weight=w, **bins)
        assert estimate.value == pytest.approx(expected, rel=1e-14)
    assert list(result.estimates()) == list(metrics_of(n_classes))
    assert (result.n_rows, result.n_classes, result.n_bins) == (500, n_classes, 9)


@needs_pages
def test_the_documentation_lists_every_metric():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "metrics.md").read_text()
    first_table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE).group()
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|[^|]*\|", first_table, re.MULTILINE)))
    alone = ["smooth_ece"]
    assert listed == [*METRICS, *alone]
    functions = {name for name in metrics.__all__ if name.islower()}
    assert functions - set(re.findall(r"`(\w+)", text)) == set()


@pytest.mark.parametrize("n_classes", [2, 5])
def test_means_and_the_error_that_is_tested_have_intervals(n_classes):
    for seed in range(4):
        proba, y = simulate(300, n_classes, seed)
        for name, (value, low, high) in evaluate(y, proba).estimates().items():
            has_interval = name in ROW_MEANS or METRICS[name] is headline(n_classes)
            assert math.isnan(low) == math.isnan(high) == (not has_interval), name
            assert not has_interval or 0.0 <= low < high
            assert name not in ROW_MEANS or low < value < high


def test_the_interval_of_a_mean_by_hand():
    """Student's on the scale of the logarithm: 0.2 +- 2.0930 standard errors of 0.02."""
    found = intervals.log_interval(0.2, 0.02, 20.0, 0.95, 1.0)
    reach = math.exp(2.0930240544 * 0.1)
    assert found == pytest.approx((0.2, 0.2 / reach, 0.2 * reach))
    assert math.isnan(intervals.log_interval(0.2, 0.21, 20.0, 0.95, 1.0).low)
    assert math.isnan(intervals.log_interval(0.0, 0.0, 20.0, 0.95, 1.0).low)
    # Wilson's interval of 90 of 100 rows
    assert intervals.share_interval(0.9, 100, 0.95) == pytest.approx((0.9, 0.8256343, 0.9447708))


@pytest.mark.parametrize("name", ROW_MEANS)
def test_terms_are_the_column_of_the_label_in_the_table(name):
    """What a row would cost with every label is what the modelled variance is made of."""
    proba, y = simulate(200, 4)
    rows = Predictions.read(y, proba)
    table, terms = ROW_MEANS[name].table(rows), ROW_MEANS[name].terms(rows)
    np.testing.assert_allclose(table[np.arange(200), y], terms, rtol=1e-12, atol=1e-15)


def test_standard_errors_of_means_are_those_of_the_bootstrap():
    proba, y, w = weighted(2000)
    rows = Predictions.read(y, proba, sample_weight=w)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, rows.n_rows, (400, rows.n_rows))
    for statistic in ROW_MEANS.values():
        terms = statistic.terms(rows)
        means = [np.average(terms[own], weights=rows.weight[own]) for own in draws]
        _, error, _ = intervals.mean_and_error(statistic, statistic.sums(rows), None, None)
        assert error == pytest.approx(np.std(means), rel=0.15)


def test_few_rows_without_an_error_have_the_variance_of_the_predictions():
    """Nineteen in twenty are right, and these all happen to be: the loss is not known well."""
    rng = np.random.default_rng(0)
    p = np.where(rng.random(80) < 0.5, 0.05, 0.95)
    found = evaluate((p > 0.5).astype(int), p, n_resamples=100)
    assert found.negative_log_likelihood.high > 2 * found.negative_log_likelihood.value
    assert found.accuracy.low == pytest.approx(0.954, abs=1e-3)
    assert math.isnan(found.positive_ece.low)
    assert "too few errors" in found.missing[0]


def test_the_interval_of_an_error_holds_zero_unless_it_is_more_than_chance():
    rng = np.random.default_rng(0)
    for seed in range(10):
        p = rng.random(400)
        for said in (p, np.sqrt(p)):
            y = rng.random(400) < p
            found = evaluate(y, said, random_state=seed).positive_ece
            test = metrics.calibration_test(y, said, random_state=seed)
            clear = abs(test.error_p_value - 0.05) > 0.02
            assert not clear or (found.low == 0.0) == (test.error_p_value > 0.05)


@pytest.mark.parametrize("n_resamples", [0, 20])
def test_table_lines_up_and_has_no_intervals_without_resamples(n_resamples):
    proba, y = simulate(200, 3)
    result = evaluate(y, proba, n_resamples=n_resamples)
    *table, caption = [line for line in str(result).splitlines() if not line.startswith("No ")]
    assert ("interval" in str(result)) == (n_resamples > 0) == (not np.isnan(result.accuracy.low))
    assert "nan" not in str(result)
    assert {len(line) for line in table} <= {20, 43}
    titles = [metric.title for metric in metrics_of(3).values()]
    assert [line.split()[0] for line in table] == ["metric", *titles]
    points = {tuple(i for i, c in enumerate(line) if c == ".") for line in table[1:]}
    assert points <= {(14,), (14, 26, 37)}
    assert caption == "200 rows, 3 classes"


def test_chunks_are_evaluated_from_all_rows_and_what_needs_an_order_from_a_sample(monkeypatch):
    proba, y = simulate(3000, 4)
    whole, chunks = evaluate(y, proba), ArrayChunks(proba, y, n_rows=700)
    found = evaluate(chunks)
    assert (found.n_rows, found.n_sampled) == (3000, None)
    for name, own in found.estimates().items():
        assert own.value == pytest.approx(getattr(whole, name).value, rel=1e-12), name
    monkeypatch.setattr(RowSample.__init__, "__kwdefaults__", {"max_cells": 4000} | DEFAULTS)
    monkeypatch.setattr(ArrayChunks.sample, "__kwdefaults__", {"max_cells": 4000} | DEFAULTS)
    found = evaluate(chunks)
    assert (found.n_rows, found.n_sampled) == (3000, 1000)
    assert "of 1,000 rows, sampled by content" in str(found)
    for name in ("accuracy", "negative_log_likelihood", "confidence_ece", "classwise_ece"):
        assert getattr(found, name).value == pytest.approx(getattr(whole, name).value, rel=1e-12)
    assert found.thresholded_ece.value == pytest.approx(whole.thresholded_ece.value, rel=0.2)
    with pytest.raises(errors.ContainerError):
        evaluate(chunks, groups=y)


P, Y = simulate(900, 3, 0)
HONEST = np.random.default_rng(1)
LABELS = (P.cumsum(axis=1) > HONEST.uniform(size=(900, 1))).argmax(axis=1)
GROUPS = np.repeat(["big", "middle", "small"], [600, 260, 40])
QUICKLY = {"n_resamples": 20}


def test_a_group_has_the_numbers_of_its_rows_alone():
    weight = np.random.default_rng(2).integers(0, 3, len(Y)).astype(float)
    found = evaluate(Y, P, sample_weight=weight, groups=GROUPS, classes=[0, 1, 2], **QUICKLY)
    whole = evaluate(Y, P, sample_weight=weight, classes=[0, 1, 2], **QUICKLY)
    assert found.estimates() == whole.estimates()
    assert {row.group for row in found.by_group} == {"big", "middle", "small"}
    for row in found.by_group:
        mine = row.group == GROUPS
        told = {"sample_weight": weight[mine], "classes": [0, 1, 2]}
        alone = evaluate(Y[mine], P[mine], **told, **QUICKLY)
        assert row.n_rows == alone.n_rows == (weight[mine] > 0).sum()
        assert row.estimates == {name: getattr(alone, name) for name in row.estimates}
        test = metrics.calibration_test(Y[mine], P[mine], **told)
        assert row.p_value == pytest.approx(test.p_value, abs=0.1)
        assert row.excess == pytest.approx(test.statistic - test.null_mean, abs=0.02)
    plain = found.to_dict()["by_group"]
    assert (plain["worst"], plain["rows"][0]["group"]) == (found.by_group.worst,) * 2
    p_values = np.array([row.p_value for row in found.by_group])
    assert [row.adjusted_p_value for row in found.by_group] == holm(p_values).tolist()


def test_the_worst_group_is_the_one_that_is_wrong_beyond_chance():
    bold = P**3 / (P**3).sum(axis=1, keepdims=True)
    mixed = np.where((GROUPS == "middle")[:, None], bold, P)
    table = evaluate(LABELS, mixed, groups=GROUPS, **QUICKLY).by_group
    assert table.worst == "middle"
    assert table.rows[0].adjusted_p_value < 0.05 < table.rows[1].adjusted_p_value
    assert [row.has_few_rows for row in table] == [False, False, True]
    assert "few rows" in str(table).splitlines()[3]
    assert "'middle'" in str(evaluate(LABELS, mixed, groups=GROUPS, **QUICKLY))


def test_two_classes_are_judged_by_the_positive_one_and_groups_are_numbers():
    table = evaluate(LABELS == 1, P[:, 1], groups=np.arange(900) % 2, n_resamples=0).by_group
    assert table.metric == "positive_ece"
    assert {type(row.group) for row in table} == {int}
    assert np.isnan(table.rows[0].p_value)
    assert "few" not in str(table)
    many = evaluate(Y, P, groups=np.arange(900) // 30, n_resamples=0).by_group
    assert "and 10 more: to_dict() has all" in str(many)


def test_bad_groups_are_refused():
    with pytest.raises(errors.ShapeError):
        evaluate(Y, P, groups=GROUPS[:5])
    with pytest.raises(errors.LabelError):
        evaluate(Y, P, groups=[None, *GROUPS[1:]])


def test_ordered_classes_have_the_ranked_probability_score():
    proba, y = simulate(500, 4)
    plain, ordered = (evaluate(y, proba, n_resamples=50, ordered=o) for o in (False, True))
    assert plain.ranked_probability_score is None
    assert "RPS" not in str(plain)
    found = ordered.ranked_probability_score
    assert found.value == metrics.ranked_probability_score(y, proba)
    assert found.low < found.value < found.high
    assert "RPS" in str(ordered)
    same = plain.estimates()
    assert {k: v for k, v in ordered.estimates().items() if k in same} == same
    two, y = simulate(500, 2)  # of which it is the Brier score
    expected = pytest.approx(metrics.brier_score(y, two), rel=1e-12)
    assert metrics.ranked_probability_score(y, two) == expected
    assert metrics.ranked_probability_score(y, two[:, 1]) == expected


def test_ordered_words_in_the_order_of_the_alphabet_are_doubted():
    proba, y = simulate(300, 3)
    score = metrics.ranked_probability_score
    plain = score(y, proba)
    doubted = [["low", "mid", "top"]]
    own = [["low", "middle", "high"], ["A", "B", "C"]]
    for text in ("{}", "{} stars", "{}-x"):
        doubted.append([text.format(number) for number in (1, 10, 2)])
        own += [[text.format(n) for n in order] for order in ((1, 2, 3), (10, 15, 20), (0, 1, 1.5))]
    for names in doubted:
        with pytest.warns(errors.ColumnOrderWarning):
            score(np.array(names)[y], proba)
    with pytest.warns(errors.ColumnOrderWarning):
        evaluate(np.array(doubted[0])[y], proba, n_resamples=0, ordered=True)
    for names in own:
        assert score(np.array(names)[y], proba, classes=names) == plain
