"""Errors of all classes: numbers by hand, and their pictures."""

from functools import reduce

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.metrics import Predictions, classwise_ece, reliability_curve
from calibrant.plots import (
    compute_classwise,
    draw_classwise,
)
from calibrant.scale import Chunks
from conftest import simulate

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
        assert (curve.ece, curve.p_value) == (own.ece, own.p_value)
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


def test_weights_count_as_rows():
    scores, y = simulate(80, 3)
    weight = np.arange(80) % 3
    a = compute_classwise(y, scores, n_resamples=0, sample_weight=weight)
    b = compute_classwise(np.repeat(y, weight), np.repeat(scores, weight, axis=0), n_resamples=0)
    for name in ("ece", "frequency", "mean_probability"):
        assert np.allclose(getattr(a, name), getattr(b, name))


class Thirds(Chunks):
    """Rows in three chunks."""

    def __init__(self, scores, y, weight):
        self.thirds = [(scores[i::3], y[i::3], weight[i::3]) for i in range(3)]
        self.n_columns = scores.shape[1]

    def reduce(self, count, merge):
        return reduce(merge, [count(*third) for third in self.thirds])


@pytest.mark.parametrize("n_classes", [2, 5])
def test_predictions_and_chunks_are_the_rows_that_they_hold(n_classes):
    scores, y = simulate(120, n_classes)
    weight = np.arange(120) % 4
    rows = compute_classwise(y, scores, n_worst=2, sample_weight=weight)
    read = Predictions.read(y, scores, sample_weight=weight)
    for given in (read, Thirds(scores, y, weight)):
        summary = compute_classwise(given, n_worst=2)
        for name in set(rows.__slots__) - {"curves"}:
            np.testing.assert_allclose(getattr(summary, name), getattr(rows, name), atol=1e-12)
    with pytest.raises(ParameterError, match="of their own"):
        compute_classwise(read, sample_weight=weight)
