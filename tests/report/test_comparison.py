"""``compare``: the numbers are those of the metrics, and one bad method costs nothing."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from calibrant import (
    FlattenedIsotonic,
    GroupedCalibrator,
    TemperatureScaling,
    VectorScaling,
)
from calibrant._calibrators.methods import methods
from calibrant.datasets import simulated_scores
from calibrant.decisions import expected_cost, value_of_calibration
from calibrant.errors import LabelError, ParameterError, RangeError, ShapeError
from calibrant.metrics import calibration_test, evaluate, negative_log_likelihood
from calibrant.report import compare
from calibrant.report._comparison import paired_differences
from calibrant.report._page import page_of, python_lines
from conftest import refuses, simulate

METHODS_HERE = ("uncalibrated", "ts", "fir", "vs")


def quick(parts, methods="ts", **options):
    """A comparison without resamples and diagrams."""
    scores, y, new_scores, new_y = parts
    options = {"n_resamples": 0, **options}
    return compare(y, scores, new_y, new_scores, methods, **options)


@pytest.fixture(scope="module")
def comparison(parts):
    scores, y, new_scores, new_y = parts
    return compare(y, scores, new_y, new_scores, ["fir", "vs"], n_resamples=30)


def test_a_comparison_prints_as_a_table(comparison):
    assert (comparison.methods, comparison.baseline) == (METHODS_HERE, "ts")
    assert comparison.failures == ()
    with refuses("method", value="nothing"):
        comparison.result("nothing")
    lines = str(comparison).splitlines()
    assert repr(comparison) == str(comparison)
    rows = lines[2:6]
    assert [line.split()[0] for line in rows] == [*METHODS_HERE]
    assert len({line.index(".") for line in rows}) == 1  # in columns
    nll = {m: comparison.result(m).evaluation.negative_log_likelihood.value for m in METHODS_HERE}
    for line, method in zip(rows, METHODS_HERE, strict=True):
        star = "*" if nll[method] == min(nll.values()) else " "
        assert f"{nll[method]:.4f}{star}" in line
    assert max(map(len, lines)) <= 80
    assert len(repr(comparison.results)) < 500


def test_a_comparison_gives_a_frame(comparison, monkeypatch):
    frame = comparison.to_frame()
    assert tuple(frame.index) == METHODS_HERE
    for method in METHODS_HERE:
        result, row = comparison.result(method), frame.loc[method]
        assert row["class"] == result.title
        for name, estimate in result.evaluation.estimates().items():
            own = row[name], row[f"{name}_low"], row[f"{name}_high"]
            assert own == pytest.approx(tuple(estimate), rel=0, abs=0, nan_ok=True)
        assert row["confidence_ece_p_value"] == result.p_values["confidence_ece"]
        assert row["fit_seconds"] == result.fit_seconds
    assert frame.loc["vs", "nll_difference"] == comparison.result("vs").difference.value
    assert frame.loc["ts", "nll_difference"] == 0
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pandas"):
        comparison.to_frame()


def test_metrics_and_tests_are_those_of_the_metrics_module(comparison, parts):
    scores, y, new_scores, new_y = parts
    after = FlattenedIsotonic().fit(scores, y).predict_proba(new_scores)
    result = comparison.result("fir")
    assert result.evaluation == evaluate(new_y, after, n_resamples=30)
    assert result.test == calibration_test(new_y, after, n_resamples=30, metric="classwise")
    assert result.curve.ece == result.evaluation.confidence_ece.value
    assert result.p_values == {
        "confidence_ece": calibration_test(new_y, after, n_resamples=150).p_value,
        "classwise_ece": result.test.p_value,
    }
    assert np.array_equal(result.calibrator.predict_proba(new_scores), after)


def test_difference_is_that_of_the_nll(comparison, parts):
    scores, y, new_scores, new_y = parts
    nll = [
        negative_log_likelihood(new_y, method.fit(scores, y).predict_proba(new_scores))
        for method in (TemperatureScaling(), VectorScaling())
    ]
    gap = comparison.result("vs").difference
    assert gap.value == pytest.approx(nll[1] - nll[0])
    assert gap.low < gap.value < gap.high
    assert gap.p_value <= gap.p_holm
    assert comparison.result("ts").difference is None
    worse = comparison.result("uncalibrated").difference
    assert worse.low > 0
    assert worse.p_holm < 0.05


def test_classes_keep_their_names_in_results_and_warnings(parts):
    scores, y, new_scores, new_y = parts
    names = np.array([f"class {i:02d}" for i in range(12)])
    moved = quick((scores, names[y], new_scores, names[(new_y + 1) % 12]), classes=names)
    assert moved.results[0].shares.classes.tolist() == names.tolist()
    assert any("'class 0" in text for text in moved.results[0].warnings)
    two, y = simulate(300, 2, seed=3)
    of_two = quick((two, np.array(["no", "yes"])[y]) * 2)
    assert of_two.results[0].curve.kind == of_two.results[0].evaluation.binary.positive == "yes"


def test_a_method_that_fails_is_recorded_and_warnings_are_kept(hostile, parts):
    (failure,) = hostile.failures
    assert (failure.method, failure.error) == ("broken", "RuntimeError")
    assert "cannot be fitted" in failure.message
    assert hostile.methods == ("uncalibrated", "ts", "fir", "<i>vs</i>")
    found = quick(parts, {"ts": (mine := TemperatureScaling(tol=-1.0))})
    assert [failure.error for failure in found.failures] == ["ParameterError"]
    assert found.baseline == "uncalibrated"
    assert mine.classes is None  # calibrators given are left alone
    scores, y = simulate(60, 4, seed=6)
    few = quick((scores, y, scores, y))
    assert any("fitted to 60 rows" in warning for warning in few.result("ts").warnings)
    scores, y, new_scores, new_y = parts
    moved = quick((scores, (y + 1) % 12, new_scores, (new_y + 1) % 12))
    assert any("order of the columns" in text for text in moved.result("uncalibrated").warnings)


def test_bad_data_is_an_error_at_once(parts):
    scores, y, new_scores, new_y = parts
    with refuses("scores", RangeError, row=0):
        quick((2 * scores, y, new_scores, new_y))
    with refuses("y", LabelError):
        quick((scores, y, new_scores, np.full(len(new_y), 77)))
    with refuses("method", value="no-such-method"):
        quick(parts, ["no-such-method"])
    with refuses("methods"):
        quick(parts, {"uncalibrated": TemperatureScaling()})
    for name in ("groups_val", "groups_test"):
        with pytest.raises(ShapeError):
            quick(parts, **{name: ["a", "b"]})


def test_logits_are_read_as_logits_and_every_method_is_told(parts):
    scores, y, new_scores, new_y = parts
    logits, told = (np.log(scores) + 3, y, np.log(new_scores) - 2, new_y), []
    first = quick(parts, "fir", progress=lambda *how_far: told.append(how_far))
    assert told == [(0, 3, "uncalibrated"), (1, 3, "ts"), (2, 3, "fir"), (3, 3, "")]
    second = quick(logits, "fir", scores="logits")
    for one, two in zip(first.results, second.results, strict=True):
        a, b = (found.evaluation.negative_log_likelihood.value for found in (one, two))
        assert a == pytest.approx(b, rel=1e-6)


def test_classes_that_the_calibration_part_lacks_have_to_be_named(parts):
    names = np.array([f"class {i:02d}" for i in range(12)])
    scores, y, new_scores, new_y = parts
    kept = y != 5
    lacking = scores[kept], names[y[kept]], new_scores, names[new_y]
    found = quick(lacking, classes=names)
    assert found.classes.tolist() == names.tolist()
    with pytest.raises(LabelError):
        quick(lacking)


def test_a_weight_of_two_is_the_row_twice():
    scores, y = simulate(300, 3, seed=4)
    new_scores, new_y = simulate(200, 3, seed=5)
    weight, new_weight = np.arange(300) % 3, np.arange(200) % 3
    weights = {"sample_weight_val": weight, "sample_weight_test": new_weight}
    a = quick((scores, y, new_scores, new_y), "fir", **weights)
    repeated = [np.repeat(part, weight, axis=0) for part in (scores, y)]
    repeated += [np.repeat(part, new_weight, axis=0) for part in (new_scores, new_y)]
    b = quick(repeated, "fir")
    for one, two in zip(a.results, b.results, strict=True):
        same, twice = one.evaluation.estimates(), two.evaluation.estimates()
        for metric in same:
            assert same[metric].value == pytest.approx(twice[metric].value, rel=1e-9)
        assert np.allclose(one.classwise.ece, two.classwise.ece)
        assert one.mean_confidence == pytest.approx(two.mean_confidence)
    assert a.result("fir").difference.value == pytest.approx(b.result("fir").difference.value)


def test_every_method_is_judged(long_comparison):
    assert set(long_comparison.methods) == {"uncalibrated", *methods()}
    assert long_comparison.failures == ()


RNG = np.random.default_rng(1)
GAPS = RNG.normal(0.1, 1.0, 2000)


def compare_one(gaps, weight=None, level=0.95):
    weight = np.ones(len(gaps)) if weight is None else weight
    (found,) = paired_differences([gaps], weight, level)
    return found


def test_a_constant_difference_has_no_spread_and_no_difference_is_certain():
    found = compare_one(np.zeros(50))
    assert (found.value, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)
    found = compare_one(np.full(50, 0.25))
    assert (found.value, found.low, found.high, found.p_value) == (0.25, 0.25, 0.25, 0.0)


@pytest.mark.parametrize("gaps", [GAPS, GAPS[:3], GAPS + 0.2], ids=["all", "three", "far"])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_interval_and_p_value_are_those_of_the_paired_t_test(gaps, level):
    found, expected = compare_one(gaps, level=level), stats.ttest_1samp(gaps, 0.0)
    assert found.value == pytest.approx(gaps.mean())
    assert found.p_value == pytest.approx(expected.pvalue)
    ends = expected.confidence_interval(level)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


def test_weights_weigh_a_difference_and_their_unit_does_not_count():
    gaps, weight = np.array([1.0, 0, 0, 0]), np.array([3.0, 1, 1, 1])
    found = compare_one(gaps, weight)
    assert found.value == pytest.approx(0.5)
    # Three equal rows tell as much as these four, and two degrees of freedom are left.
    error = np.sqrt(np.sum((weight * (gaps - 0.5)) ** 2) * 4 / 3) / 6
    assert found.p_value == pytest.approx(2 * stats.t.sf(0.5 / error, 2))
    assert found.high == pytest.approx(0.5 + stats.t.ppf(0.975, 2) * error)
    equal, one = (compare_one(GAPS, np.full(2000, unit)) for unit in (7.0, 1.0))
    assert equal.p_value == pytest.approx(one.p_value)
    assert (equal.low, equal.high) == pytest.approx((one.low, one.high))


def test_one_row_tells_nothing_and_without_a_level_nothing_is_told():
    found = compare_one(np.array([0.3]))
    assert (found.value, found.p_value, found.p_holm) == (0.3, 1.0, 1.0)
    assert np.isnan([found.low, found.high]).all()
    found = compare_one(GAPS, level=None)
    assert found.value == pytest.approx(GAPS.mean())
    assert np.isnan([found.low, found.high, found.p_value, found.p_holm]).all()


def test_groups_are_judged_and_a_grouped_calibrator_is_fitted_by_them(parts):
    scores, y, new_scores, new_y = parts
    groups, new_groups = np.arange(1200) % 3, np.arange(900) % 3
    weight = np.where(np.arange(900) % 5 == 0, 0.0, 1.0)
    told = {"groups_val": groups, "groups_test": new_groups, "n_resamples": 10}
    methods = {"grouped": GroupedCalibrator(TemperatureScaling(), min_rows=100)}
    found = compare(y, scores, new_y, new_scores, methods, sample_weight_test=weight, **told)
    assert found.failures == ()
    table = {row.group: row for row in found.by_group["uncalibrated"]}
    assert table.keys() == {0, 1, 2}
    own = new_groups == 1
    options = {"sample_weight": weight[own], "classes": np.arange(12), "n_resamples": 10}
    alone = evaluate(new_y[own], new_scores[own], **options)
    assert table[1].n_rows == alone.n_rows
    assert table[1].estimates["negative_log_likelihood"] == alone.negative_log_likelihood
    page = page_of(found)
    assert '<section id="groups"' in page
    assert "<bdi>2</bdi></th>" in page
    assert "Groups" not in page_of(quick(parts))
    assert "fit(scores, y, sample_weight, groups=groups)" in python_lines(found, "grouped")
    assert "predict_proba(new_scores, groups=new_groups)" in python_lines(found, "grouped")


def test_decisions_are_those_of_the_functions():
    """Costs by name and weights, before calibration and with the method applied."""
    bold, y = simulated_scores(1200)
    names = np.array(["ant", "bee", "cow"])[y]
    frame = pd.DataFrame([[1, 0, 1], [0, 5, 5], [1, 1, 0]], ["bee", "ant", "cow"], list("abc"))
    weight = np.random.default_rng(0).integers(0, 3, 600)
    parts = bold[:600], names[:600], bold[600:], names[600:]
    options = {"costs": frame, "sample_weight_test": weight, "n_resamples": 50}
    found = quick(parts, **options).decisions
    after = TemperatureScaling().fit(bold[:600], names[:600]).predict_proba(bold[600:])
    told = {"sample_weight": weight, "classes": ["ant", "bee", "cow"]}
    saved = value_of_calibration(names[600:], bold[600:], after, frame, **told)
    assert found.method == "ts"
    assert found.value.per_row == pytest.approx(saved.per_row)
    assert found.costs["ts"].realised == pytest.approx(saved.after)
    paid = expected_cost(names[600:], after, frame, **told)
    assert found.costs["ts"].predicted == pytest.approx(paid.predicted)
    assert len(found.describe()) == 2


def test_wrong_costs_are_refused_before_any_fit():
    bold, y = simulated_scores(100)
    seen = []
    with pytest.raises(ParameterError):
        compare(y, bold, y, bold, "ts", costs=[[0, 1]], progress=lambda *told: seen.append(told))
    assert not seen


def test_parts_whose_scores_are_distributed_otherwise_are_told():
    scores, y = simulated_scores(3000)
    sure = np.arange(3000) >= 1500
    sure &= scores.max(axis=1) > 0.8
    alike, other = (
        compare(y[:1500], scores[:1500], y[rows], scores[rows], "ts", n_resamples=20).warnings
        for rows in (slice(1500, None), sure)
    )
    assert not any("distributed otherwise" in text for text in alike)
    assert any("was it drawn otherwise, or later?" in text for text in other)
