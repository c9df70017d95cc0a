"""Reliability diagrams show the numbers of ``reliability_curve``, and only those."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from calibrant import TemperatureScaling
from calibrant.metrics import positive_ece, reliability_curve
from calibrant.plots import (
    ReliabilityDisplay,
    draw_reliability,
    draw_reliability_grid,
)
from calibrant.plots._reliability import (
    BARS,
    CURVE,
    HEIGHT_OF_SIZES,
    REFERENCE,
    UNINFORMATIVE,
)
from conftest import refuses, simulate


@pytest.fixture(scope="module")
def curve():
    scores, y = simulate(800, 5)
    return reliability_curve(y, scores, n_resamples=200)


def drawn_line(ax):
    (line,) = [line for line in ax.lines if line.get_gid() == CURVE]
    return line


def test_points_are_the_bins_that_hold_rows_and_the_line_those_that_tell(curve):
    ax = draw_reliability(curve)
    seen = curve.weight > 0
    points = np.column_stack([curve.mean_probability, curve.frequency])
    assert np.allclose(ax.collections[-1].get_offsets(), points[seen])
    assert not seen.all()  # or nothing was left out
    sizes, weight = ax.collections[-1].get_sizes(), curve.weight[seen]
    assert np.array_equal(np.argsort(sizes, kind="stable"), np.argsort(weight, kind="stable"))
    informative = seen & ~(curve.consistency_high - curve.consistency_low >= UNINFORMATIVE)
    assert np.allclose(drawn_line(ax).get_xydata(), points[informative])


@pytest.mark.parametrize("power", [1.0, 0.25])  # over- and under-confident
def test_points_inside_their_bars_are_hollow(power):
    scores, y = simulate(800, 5)
    scores = scores**power / (scores**power).sum(axis=1, keepdims=True)
    curve = reliability_curve(y, scores, n_resamples=200)
    points = draw_reliability(curve).collections[-1]
    seen = curve.weight > 0
    low, high = curve.consistency_low[seen], curve.consistency_high[seen]
    frequency = curve.frequency[seen]
    is_white = np.all(points.get_facecolors()[:, :3] == 1.0, axis=1)
    assert np.array_equal(is_white, (frequency >= low) & (frequency <= high))
    assert (frequency < low).any() if power == 1.0 else (frequency > high).any()
    assert is_white.any()


def test_error_p_value_and_notes_are_printed(curve):
    ax = draw_reliability(curve, title="a $title$", notes=["NLL 1.234"])
    (text,) = ax.texts
    assert f"conf-ECE {100 * curve.ece:.1f} %" in text.get_text()
    assert f"p = {curve.p_value:.3f}" in text.get_text()
    assert "NLL 1.234" in text.get_text()
    assert ax.get_title() == r"a \$title\$"  # not a formula
    height = ax.patches[0].get_data().values
    assert np.allclose(height / height.sum(), curve.weight / curve.weight.sum())


@pytest.fixture
def rare():
    """Labels of a class that one row in fifty has, and probabilities."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.8, 40, 4000)
    return (rng.random(4000) < p).astype(int), p


def test_a_rare_class_is_seen_on_logarithmic_axes_also_where_it_never_came(rare):
    y, p = rare
    curve = reliability_curve(y, p, strategy="quantile", n_resamples=20)
    assert curve.frequency.min() == 0.0
    ax = draw_reliability(curve, smallest=1e-4)
    x, seen = ax.collections[-1].get_offsets().T
    # On linear axes the points lie in the first tenth of the axis; here they fill half of it.
    assert np.ptp(curve.mean_probability) < 0.1
    places = ax.transAxes.inverted().transform(ax.transData.transform(np.column_stack([x, seen])))
    assert np.ptp(places[:, 0]) > 0.5
    assert places.min() == pytest.approx(0.0)  # at the edge, and not outside
    assert np.all(drawn_line(ax).get_ydata() > 1e-4)
    height, edges, _ = ax.patches[0].get_data()
    area = height * np.diff(np.log(edges))
    assert np.allclose(area[1:], area[1], rtol=0.01)  # where the rows are, by area
    height, edges, _ = draw_reliability(curve, smallest=1e-2).patches[0].get_data()
    is_seen = np.diff(edges) > 0
    assert not is_seen.all()
    assert height[is_seen].max() == pytest.approx(HEIGHT_OF_SIZES)


def test_axes_of_a_rare_class_are_logarithmic_by_default(rare):
    y, p = rare
    curve = reliability_curve(y, p, strategy="quantile", n_resamples=0)
    least = np.log10(curve.mean_probability.min())
    ax = draw_reliability(curve)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlim() == ax.get_ylim() == (10.0 ** np.floor(least), 1.0)
    assert draw_reliability(curve, smallest=0.0).get_xscale() == "linear"
    assert draw_reliability(reliability_curve(y, p, kind="confidence")).get_xscale() == "linear"
    frequent = reliability_curve(1 - y, 1 - p, n_resamples=0)
    assert draw_reliability(frequent).get_xscale() == "linear"


def test_diagrams_that_are_compared_have_the_same_axes(rare):
    y, p = rare
    said = {"as is": p, "small": p / 100, "large": p ** (1 / 8)}
    curves = {
        name: reliability_curve(y, own, strategy="quantile", n_resamples=0)
        for name, own in said.items()
    }
    limits = {ax.get_xlim() for ax in draw_reliability_grid(curves).axes}
    assert limits == {(1e-4, 1.0)}
    first = ReliabilityDisplay.from_predictions(y, p ** (1 / 2), n_resamples=0)
    begins = first.ax_.get_xlim()[0]
    second = ReliabilityDisplay.from_predictions(y, p / 10, n_resamples=0, ax=first.ax_)
    assert second.ax_.get_xlim()[0] < begins  # the points of both are seen
    assert second.ax_.get_xlim()[0] <= second.curve.mean_probability.min()


def test_a_diagram_of_two_classes_says_how_many_rows_it_is_of():
    scores, y = simulate(4000, 2)
    p = scores[:, 1]
    curve = reliability_curve(y, p, n_bins=5, n_resamples=0)
    *counts, box = draw_reliability(curve, smallest=0.0).texts
    assert f"{y.sum():,} of 4,000 rows" in box.get_text()
    seen = curve.weight[curve.weight > 0]
    assert [text.get_text() for text in counts] == [f"{weight:,.0f}" for weight in seen]
    same = reliability_curve(y, p, strategy="quantile", n_resamples=0)
    assert len(draw_reliability(same).texts) == 1  # bins of equal mass have no numbers
    top = draw_reliability(reliability_curve(y, p, kind="confidence", n_resamples=0))
    assert "rows" not in top.texts[-1].get_text()
    display = ReliabilityDisplay.from_predictions(y, p, strategy="uniform", n_resamples=0)
    assert display.ax_.texts
    ReliabilityDisplay.from_predictions(y, p / 2, n_resamples=0, ax=display.ax_)
    assert not display.ax_.texts  # numbers of one curve would be read as those of the other


def test_grid_has_a_panel_for_each_method_and_a_legend():
    scores, y = simulate(300, 4)
    flat = reliability_curve(y, np.full_like(scores, 0.25))
    curves = {"raw": reliability_curve(y, scores), "flat": flat}
    figure = draw_reliability_grid(curves, notes={"flat": ["NLL 1"]}, title="two")
    panels = figure.axes
    assert [ax.get_title() for ax in panels] == ["raw", "flat"]
    assert "NLL 1" in panels[1].texts[0].get_text()
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("95 %" in text for text in words)
    with refuses("curves"):
        draw_reliability_grid({})


def test_without_matplotlib_the_error_says_how_to_get_it(curve, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="matplotlib"):
        draw_reliability(curve)


def marked(artists, mark):
    return [artist for artist in artists if artist.get_gid() == mark]


def test_from_estimator_takes_a_classifier_or_a_calibrator_and_refuses_an_unfitted_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + rng.normal(size=300), [-1, 1])]
    model = LogisticRegression().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, kind="b", n_resamples=20)
    assert display.estimator_name == "LogisticRegression"
    expected = reliability_curve(y, model.predict_proba(X), kind="b", n_resamples=0)
    assert np.array_equal(display.curve.frequency, expected.frequency, equal_nan=True)
    scores, y = simulate(500, 3)
    with pytest.raises(NotFittedError):
        ReliabilityDisplay.from_estimator(TemperatureScaling(), scores, y)
    fitted = TemperatureScaling().fit(scores, y)
    display = ReliabilityDisplay.from_estimator(fitted, scores, y, name="TS", n_resamples=0)
    assert display.curve.ece < reliability_curve(y, scores, n_resamples=0).ece
    assert "p" not in display.ax_.get_legend().get_texts()[0].get_text()  # without resamples
    assert len(display.line_.get_xdata()) == np.count_nonzero(display.curve.weight)


def test_a_second_curve_joins_the_first():
    scores, y = simulate(500, 4)
    first = ReliabilityDisplay.from_predictions(y, scores, name="one", n_resamples=20)
    assert first.figure_ is first.ax_.figure
    assert first.line_ in first.ax_.lines
    (entry,) = first.ax_.get_legend().get_texts()
    assert entry.get_text().startswith(f"one\nconf-ECE {100 * first.curve.ece:.1f} %, p")
    assert len(marked(first.ax_.collections, BARS)) == 1
    soft = np.sqrt(scores) / np.sqrt(scores).sum(axis=1, keepdims=True)
    second = ReliabilityDisplay.from_predictions(y, soft, ax=first.ax_, n_resamples=20)
    assert second.ax_ is first.ax_
    assert len(marked(first.ax_.lines, CURVE)) == 2
    assert len(marked(first.ax_.lines, REFERENCE)) == 1
    assert not marked(first.ax_.collections, BARS)  # which belong to one curve alone
    assert first.line_.get_color() != second.line_.get_color()
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert len(first.ax_.get_legend().get_texts()) == 2


def test_options_reach_the_line_and_the_curve():
    scores, y = simulate(600, 3)
    options = {"strategy": "quantile", "n_bins": 6, "n_resamples": 0}
    display = ReliabilityDisplay.from_predictions(
        y, scores, **options, ref_line=False, color="red", linewidth=3
    )
    assert (display.line_.get_color(), display.line_.get_linewidth()) == ("red", 3)
    assert not marked(display.ax_.lines, REFERENCE)
    assert np.allclose(display.curve.weight, 100, atol=1)
    _, ax = plt.subplots()
    assert display.plot(ax, name="again") is display
    assert display.ax_ is ax
    assert "again" in ax.get_legend().get_texts()[0].get_text()
    with pytest.raises(AttributeError, match="n_bin"):
        ReliabilityDisplay.from_predictions(y, scores, n_resamples=0, n_bin=10)


def test_two_classes_are_shown_by_the_positive_one():
    scores, y = simulate(600, 2)
    labels = np.array(["no", "yes"])[y]
    options = {"n_bins": 7, "n_resamples": 0}
    usual = ReliabilityDisplay.from_predictions(labels, scores, **options)
    assert usual.curve.ece == positive_ece(labels, scores, n_bins=7)  # bins of equal mass
    display = ReliabilityDisplay.from_predictions(labels, scores, strategy="uniform", **options)
    prob_true, prob_pred = calibration_curve(y, scores[:, 1], n_bins=7)
    assert np.allclose(display.prob_true, prob_true)
    assert np.allclose(display.prob_pred, prob_pred)
    assert display.ax_.get_xlabel() == "probability of yes"
    options = {"n_bins": 7, "n_resamples": 0, "pos_label": "no"}
    other = ReliabilityDisplay.from_predictions(labels, scores[:, 0], **options)
    assert other.curve.kind == "no"
    top = ReliabilityDisplay.from_predictions(labels, scores, kind="confidence", n_resamples=0)
    assert top.curve.kind == "confidence"
