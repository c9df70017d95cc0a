"""``ReliabilityDisplay`` behaves as scikit-learn's displays do."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from calibrant import TemperatureScaling
from calibrant.metrics import reliability_curve
from calibrant.plots import ReliabilityDisplay
from calibrant.plots._reliability import BARS, CURVE, REFERENCE
from conftest import simulate


def marked(artists, mark):
    return [artist for artist in artists if artist.get_gid() == mark]


def test_from_predictions_draws_the_curve_of_the_metric():
    scores, y = simulate(500, 4)
    display = ReliabilityDisplay.from_predictions(y, scores, n_bins=10, name="net", n_resamples=50)
    curve = reliability_curve(y, scores, n_bins=10, n_resamples=50)
    assert display.curve.ece == curve.ece
    assert display.figure_ is display.ax_.figure
    assert display.line_ in display.ax_.lines
    (entry,) = display.ax_.get_legend().get_texts()
    assert entry.get_text().startswith(f"net (conf-ECE {100 * curve.ece:.1f} %, p")


def test_from_estimator_reads_a_classifier_and_its_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + rng.normal(size=300), [-1, 1])]
    model = LogisticRegression().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, kind="b", n_resamples=20)
    assert display.estimator_name == "LogisticRegression"
    expected = reliability_curve(y, model.predict_proba(X), kind="b", n_resamples=0)
    assert np.array_equal(display.curve.frequency, expected.frequency, equal_nan=True)


def test_from_estimator_takes_a_calibrator_and_refuses_an_unfitted_one():
    scores, y = simulate(500, 3)
    with pytest.raises(NotFittedError):
        ReliabilityDisplay.from_estimator(TemperatureScaling(), scores, y)
    fitted = TemperatureScaling().fit(scores, y)
    display = ReliabilityDisplay.from_estimator(fitted, scores, y, name="TS", n_resamples=0)
    assert display.curve.ece < reliability_curve(y, scores, n_resamples=0).ece


def test_a_second_curve_joins_the_first():
    scores, y = simulate(500, 4)
    first = ReliabilityDisplay.from_predictions(y, scores, name="one", n_resamples=20)
    assert len(marked(first.ax_.collections, BARS)) == 1
    second = ReliabilityDisplay.from_predictions(
        y,
        np.sqrt(scores) / np.sqrt(scores).sum(axis=1, keepdims=True),
        ax=first.ax_,
        n_resamples=20,
    )
    assert second.ax_ is first.ax_
    assert len(marked(first.ax_.lines, CURVE)) == 2
    assert len(marked(first.ax_.lines, REFERENCE)) == 1
    assert len(first.ax_.child_axes) == 1  # one strip of sizes for both
    assert not marked(first.ax_.collections, BARS)  # which belong to one curve alone
    looks = [
        (line.get_color(), line.get_marker(), line.get_linestyle())
        for line in (first.line_, second.line_)
    ]
    assert all(a != b for a, b in zip(*looks, strict=True))
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
    assert display.plot(ax, name="again", show_sizes=False) is display
    assert display.ax_ is ax
    assert ax.child_axes == []
    assert "again" in ax.get_legend().get_texts()[0].get_text()
    with pytest.raises(AttributeError, match="n_bin"):
        ReliabilityDisplay.from_predictions(y, scores, n_resamples=0, n_bin=10)


def test_two_classes_are_shown_by_the_positive_one():
    scores, y = simulate(600, 2)
    labels = np.array(["no", "yes"])[y]
    display = ReliabilityDisplay.from_predictions(labels, scores, n_bins=7, n_resamples=0)
    prob_true, prob_pred = calibration_curve(y, scores[:, 1], n_bins=7)
    assert np.allclose(display.prob_true, prob_true)
    assert np.allclose(display.prob_pred, prob_pred)
    (strip,) = display.ax_.child_axes
    assert strip.get_xlabel() == "probability of yes"
    options = {"n_bins": 7, "n_resamples": 0, "pos_label": "no"}
    other = ReliabilityDisplay.from_predictions(labels, scores[:, 0], **options)
    assert other.curve.kind == "no"
    top = ReliabilityDisplay.from_predictions(labels, scores, kind="confidence", n_resamples=0)
    assert top.curve.kind == "confidence"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_strip_is_as_high_as_the_fullest_bin_of_all(order):
    """The second curve has most of its rows in one bin: its bar must not be cut off."""
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = rng.random(500) < p
    parts = [p, 0.05 + 0.01 * p]
    ax = None
    for place in order:
        display = ReliabilityDisplay.from_predictions(y, parts[place], ax=ax, n_resamples=0)
        ax = display.ax_
    (strip,) = ax.child_axes
    assert strip.get_ylim()[0] == 0
    assert 1.0 < strip.get_ylim()[1] < 1.2
