"""Pictures of maps, classes, decisions and segments: what is drawn is what was computed."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from array_chunks import ArrayChunks
from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    Chain,
    FlattenedIsotonic,
    Mixture,
    MonotoneSpline,
    OneVsRestIsotonic,
    SortedCumulativeIsotonic,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant import _maps as maps
from calibrant.decisions import cost_curve, decision_curve, risk_coverage
from calibrant.metrics import (
    Predictions,
    calibration_segments,
    classwise_ece,
    reliability_curve,
)
from calibrant.plots import (
    compute_classwise,
    compute_map,
    draw_classwise,
    draw_decisions,
    draw_map,
    draw_segments,
)
from conftest import refuses, simulate


@pytest.fixture(scope="module")
def data():
    return simulate(1000, 4)


def treads(curve):
    """Middle and height of each step."""
    flat = (curve.x[:-1] < curve.x[1:]) & (curve.y[:-1] == curve.y[1:])
    return (curve.x[:-1] + curve.x[1:])[flat] / 2, curve.y[:-1][flat]


def test_step_maps_are_the_fitted_functions(data):
    fitted = FlattenedIsotonic().fit(*data)
    found = compute_map(fitted)
    (curve,) = found.curves
    assert (found.kind, found.is_log) == ("step", True)
    middle, height = treads(curve)
    assert np.allclose(fitted.step_function_(middle), height)
    assert len(middle) >= np.count_nonzero(fitted.step_function_.values) - 1
    fitted = SortedCumulativeIsotonic().fit(*data)
    found = compute_map(fitted)
    assert found.kind == "ranks"
    assert [curve.name for curve in found.curves] == ["r = 1", "r = 2", "r = 3"]
    for rank, curve in enumerate(found.curves, start=1):
        middle, height = treads(curve)
        assert np.allclose(fitted.step_function_(middle, rank), height)
        assert (curve.x[0], curve.x[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    "method",
    [TemperatureScaling, StructuredScaling, VectorScaling, OneVsRestIsotonic, AutoCalibrator],
)
def test_the_map_of_two_classes_is_the_curve_from_p_to_q(method):
    scores, y = simulate(1000, 2)
    fitted = method().fit(scores, y)
    picture = compute_map(fitted)
    (curve,) = picture.curves
    assert (picture.x_label, picture.y_label) == (
        "probability of 1 before",
        "probability of 1 after",
    )
    rows = np.column_stack([1 - curve.x, curve.x])
    assert np.allclose(fitted.predict_proba(rows)[:, 1], curve.y, atol=1e-6)
    assert curve.x.min() == 0.0
    assert np.count_nonzero(curve.x < 1e-3) > 50  # rare classes are looked at closely
    of_logits = method(scores="logits").fit(np.log(scores), y)
    assert np.allclose(compute_map(of_logits).curves[0].y, curve.y, atol=1e-6)


class Holder(BaseEstimator):
    """A method that nothing knows of, but that it holds a map of scores of three classes."""

    def fit(self, fitted):
        self.map_, self.classes_ = fitted, np.arange(3)
        return self


class Reverse(maps.CalibrationMap):
    kind = "probabilities"

    def __call__(self, rows):
        return (1 - rows) / 2


@pytest.mark.parametrize(
    ("fitted", "kind"),
    [
        (maps.TemperatureMap(0.5, -700.0), "section"),
        (maps.TopLabelMap((maps.Histogram([0.0], [0.5], [1.0]),)), "section"),
        (Reverse(), "section"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_map_is_drawn_by_its_type_whatever_holds_it(fitted, kind):
    found = compute_map(Holder().fit(fitted))
    assert found.kind == kind
    ax = draw_map(found, title="map")
    assert ax.get_xlabel() == found.x_label
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["unchanged", *(curve.name for curve in found.curves)]


COMPOSED = [
    (Mixture([TemperatureScaling(), FlattenedIsotonic()]), ["any class"]),
    (Chain([VectorScaling(), FlattenedIsotonic()]), ["a", "b", "c", "d"]),
    (VectorScaling(), ["a", "b", "c", "d"]),
    (MonotoneSpline(), ["any class"]),
    (AutoCalibrator(candidates=(), cv=2), ["any class"]),
]


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize(
    ("method", "curves"), COMPOSED, ids=["Mixture", "Chain", "VS", "Spline", "Auto"]
)
def test_a_map_without_a_picture_of_its_own_is_a_section(data, method, curves, kind):
    scores, y = data
    names = list("wxyz")  # which a plain matrix lacks
    frame = pd.DataFrame(scores if kind == "probabilities" else np.log(scores), columns=names)
    fitted = clone(method).set_params(scores=kind).fit(frame, np.array(list("abcd"))[y])
    found = compute_map(fitted)
    assert found.kind == "section"
    assert [curve.name for curve in found.curves] == curves
    for curve in found.curves:
        column = max(0, "abcd".find(curve.name))
        rows = np.repeat((1 - curve.x)[:, None] / 3, 4, axis=1)
        rows[:, column] = curve.x
        given = rows if kind == "probabilities" else np.log(rows)
        after = fitted.predict_proba(pd.DataFrame(given, columns=names))
        assert np.allclose(after[:, column], curve.y, atol=1e-3)
    assert draw_map(found).get_ylabel() == "probability after"


def test_a_classifier_has_no_map_of_scores_and_what_is_not_fitted_none():
    with pytest.raises(NotFittedError):
        compute_map(TemperatureScaling())
    classifier = CalibratedClassifier(LogisticRegression(), "ts", cv=2)
    classifier.fit(*simulate(200, 3))
    with refuses("calibrator"):
        compute_map(classifier)
    assert compute_map(classifier.calibrated_classifiers_[0].calibrator).kind == "section"


def test_many_classes_have_quantiles():
    many = compute_map(OneVsRestIsotonic().fit(*simulate(2000, 9)))
    assert "over 9 classes" in many.note
    median, high, low = (curve.y for curve in many.curves)
    assert np.all((low <= median) & (median <= high))


SCORES, Y = simulate(400, 6)


def test_each_class_is_that_of_its_binary_problem_the_worst_first():
    summary = compute_classwise(Y, SCORES, n_worst=2, n_resamples=20)
    assert summary.ece.mean() == pytest.approx(classwise_ece(Y, SCORES), rel=1e-12)
    for j in range(6):
        own = reliability_curve(Y, SCORES, kind=j, n_resamples=0)
        assert summary.ece[j] == pytest.approx(own.ece, rel=1e-12)
    assert np.allclose(summary.mean_probability, SCORES.mean(axis=0))
    assert np.allclose(summary.frequency, np.bincount(Y, minlength=6) / 400)
    assert np.all(np.diff(summary.ece[summary.order]) <= 0)
    assert list(summary.curves) == summary.order[:2].tolist()
    assert compute_classwise(Y, SCORES, n_worst=0).curves == {}


def test_diagrams_are_those_of_reliability_curve_also_of_a_class_without_a_row():
    labels = np.where(Y == 5, 0, Y)
    curves = compute_classwise(labels, SCORES, n_resamples=20, classes=range(6)).curves
    assert set(curves) == {*range(6)}
    for j, curve in curves.items():
        own = reliability_curve(labels, SCORES, kind=j, n_bins=8, n_resamples=20, classes=range(6))
        assert curve.p_value == own.p_value
        assert np.array_equal(curve.frequency, own.frequency, equal_nan=True)
    assert np.nanmax(curves[5].frequency) == 0


def test_classes_have_an_overview_and_named_panels_also_a_thousand():
    scores, y = simulate(300, 5)
    names = np.array(["a", "b", "c", "$d$", "a very long name of a class, longer than a panel"])
    summary = compute_classwise(names[y], scores, classes=names, n_worst=5, n_resamples=20)
    figure = draw_classwise(summary)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[0] == "all 5 classes"
    assert len(titles) == 6
    assert all(title.startswith(f"#{i}: ") for i, title in enumerate(titles[1:], start=1))
    assert any("…" in title for title in titles)
    worst = figure.axes[1].texts[-1]  # after the numbers of rows of bins
    assert f"{100 * summary.frequency[summary.order[0]]:.1f} % observed" in worst.get_text()
    scores, y = simulate(300, 1000)
    overview, *panels = draw_classwise(compute_classwise(y, scores, n_worst=3)).axes
    assert len(panels) == 3
    assert overview.get_xscale() == "log"
    assert len(overview.lines[0].get_xdata()) == 1000


@pytest.mark.parametrize("n_classes", [2, 5])
def test_predictions_chunks_and_repeated_rows_are_the_same(n_classes):
    scores, y = simulate(120, n_classes)
    weight = np.arange(120) % 4
    rows = compute_classwise(y, scores, n_worst=2, sample_weight=weight)
    chunks = ArrayChunks(scores, y, weight, n_rows=50)
    repeated = Predictions.read(np.repeat(y, weight), np.repeat(scores, weight, axis=0))
    for given in (Predictions.read(y, scores, sample_weight=weight), chunks, repeated):
        summary = compute_classwise(given, n_worst=2)
        for name in set(rows.__slots__) - {"curves"}:
            np.testing.assert_allclose(getattr(summary, name), getattr(rows, name), atol=1e-12)


MANY, LABELS = simulate(3000, 4)
EVENTS, POSITIVE = (LABELS == 1).astype(int), MANY[:, 1]
PAIR = {"false_positive": 1, "false_negative": 5}


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_decision_curves_have_all_and_none_beside_them():
    curve = decision_curve(EVENTS, POSITIVE)
    ax = draw_decisions({"before": curve, "after": curve}, title="two")
    assert labels(ax) == ["before", "after", "act on all", "act on none"]
    first, second, everybody, nobody = ax.lines
    np.testing.assert_array_equal(first.get_ydata(), curve.net_benefit)
    assert first.get_linestyle() != second.get_linestyle()
    np.testing.assert_array_equal(everybody.get_ydata(), curve.treat_all)
    assert {*nobody.get_ydata()} == {0.0}
    assert ax.get_title() == "two"
    assert labels(draw_decisions(curve))[0] == "act above the threshold"


def test_cost_curves_show_the_threshold_of_the_costs():
    curve = cost_curve(EVENTS, POSITIVE, PAIR)
    ax = draw_decisions(curve)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve.cost)
    assert {*ax.lines[1].get_xdata()} == {curve.threshold}
    assert labels(ax)[1] == "by the costs: 0.167"
    assert ax.get_ylim()[0] == 0.0


def test_risk_is_drawn_over_coverage_in_few_points():
    curve = risk_coverage(LABELS, MANY)
    ax = draw_decisions({"a $name$": curve})
    (line,) = ax.lines
    assert len(line.get_xdata()) <= 1000 < len(curve.risk)
    assert line.get_ydata()[-1] == curve.risk[-1]
    assert labels(ax)[0].startswith(r"a \$name\$")


def test_nothing_to_draw_is_refused():
    with refuses("curves"):
        draw_decisions({})


RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"plan $x$": RNG.choice(["a", "b", "c"], 3000), "age": RNG.normal(size=3000)})
P = RNG.uniform(0.1, 0.3, 3000)
LEFT = RNG.random(3000) < P + 0.2 * (FRAME["plan $x$"] == "a")


def test_every_segment_has_a_line():
    found = calibration_segments(LEFT, P, FRAME)
    assert found.segments
    ax = draw_segments(found)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names[0].startswith(r"plan \$x\$ = a")
    assert len(names) == len(found.segments)
    observed, predicted = ax.lines
    assert observed.get_xdata()[0] == pytest.approx(100 * found.segments[0].observed.value)
    assert predicted.get_xdata()[0] == pytest.approx(100 * found.segments[0].predicted)
    (low, _), (high, _) = ax.collections[0].get_segments()[0]
    assert (low, high) == pytest.approx([100 * end for end in found.segments[0].observed[1:]])
    assert ax.get_xlabel() == "share of True, %"
    proba = np.stack([P, 0.3 - P / 2, 0.7 - P / 2], axis=1)
    top = calibration_segments(np.where(LEFT, 0, 2), proba, FRAME, classes=[0, 1, 2])
    assert draw_segments(top).get_xlabel() == "share of rows that are right, %"


def test_a_picture_says_that_there_is_no_segment():
    _, axes = plt.subplots(1, 2)
    honest = np.random.default_rng(1).random(3000) < P
    ax = draw_segments(calibration_segments(honest, P, FRAME), axes[1])
    assert ax is axes[1]
    assert ax.texts[0].get_text().startswith("No segments")
    assert list(ax.get_xticks()) == []
