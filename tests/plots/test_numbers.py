"""Classes and top r: numbers by hand, and their pictures."""

from functools import partial, reduce

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.metrics import Predictions, classwise_ece, reliability_curve
from calibrant.plots import (
    compute_classwise,
    compute_top_r,
    draw_classwise,
    draw_top_r,
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
    options = {"columns": [2, 5], "diagram_bins": 5, "n_resamples": 20, "classes": range(6)}
    labels = np.where(Y == 5, 0, Y)
    curves = compute_classwise(labels, SCORES, **options).curves
    assert list(curves) == [2, 5]
    for j, curve in curves.items():
        own = reliability_curve(labels, SCORES, kind=j, n_bins=5, n_resamples=20, classes=range(6))
        assert (curve.ece, curve.p_value) == (own.ece, own.p_value)
        assert np.array_equal(curve.frequency, own.frequency, equal_nan=True)
    assert np.nanmax(curves[5].frequency) == 0


def test_classes_have_an_overview_and_named_panels_also_a_thousand():
    scores, y = simulate(300, 5)
    names = np.array(["a", "b", "c", "$d$", "a very long name of a class, longer than a panel"])
    summary = compute_classwise(names[y], scores, classes=names, n_worst=5, n_resamples=20)
    figure = draw_classwise(summary, title="digits")
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[0] == "all 5 classes"
    assert len(titles) == 6
    assert all(title.startswith(f"#{i}: ") for i, title in enumerate(titles[1:], start=1))
    assert any("…" in title for title in titles)
    (worst,) = figure.axes[1].texts
    assert f"ECE {100 * summary.ece.max():.2f} %" in worst.get_text()
    scores, y = simulate(300, 1000)
    overview, *panels = draw_classwise(compute_classwise(y, scores, n_worst=3)).axes
    assert len(panels) == 3
    assert overview.get_xscale() == "log"
    assert len(overview.lines[0].get_xdata()) == 1000


@pytest.mark.parametrize(
    ("compute", "names"),
    [
        (compute_top_r, ("share", "claimed")),
        (partial(compute_classwise, n_resamples=0), ("ece", "frequency", "mean_probability")),
    ],
)
def test_weights_count_as_rows(compute, names):
    scores, y = simulate(80, 3)
    weight = np.arange(80) % 3
    a = compute(y, scores, sample_weight=weight)
    b = compute(np.repeat(y, weight), np.repeat(scores, weight, axis=0))
    for name in names:
        assert np.allclose(getattr(a, name), getattr(b, name))


class Thirds(Chunks):
    """Rows in three chunks."""

    def __init__(self, scores, y, weight):
        self.thirds = [(scores[i::3], y[i::3], weight[i::3]) for i in range(3)]
        self.n_columns = scores.shape[1]

    def reduce(self, count, merge):
        return reduce(merge, [count(*third) for third in self.thirds])


@pytest.mark.parametrize(
    "compute",
    [compute_top_r, partial(compute_classwise, n_worst=2)],
    ids=["top_r", "classwise"],
)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_predictions_and_chunks_are_the_rows_that_they_hold(compute, n_classes):
    scores, y = simulate(120, n_classes)
    weight = np.arange(120) % 4
    rows = compute(y, scores, sample_weight=weight)
    read = Predictions.read(y, scores, sample_weight=weight)
    for given in (read, Thirds(scores, y, weight)):
        found = compute(given)
        for name in set(rows.__slots__) - {"curves"}:
            np.testing.assert_allclose(getattr(found, name), getattr(rows, name), atol=1e-12)
    with pytest.raises(ParameterError, match="of their own"):
        compute(read, sample_weight=weight)


def test_top_r_agrees_with_a_full_sort():
    curve = compute_top_r(Y, SCORES, max_rank=4)
    place = np.argmax(np.argsort(-SCORES, axis=1) == Y[:, None], axis=1)
    assert curve.ranks.tolist() == [1, 2, 3, 4]
    assert np.allclose(curve.share, [(place < r).mean() for r in (1, 2, 3, 4)])
    ordered = -np.sort(-SCORES, axis=1)
    assert np.allclose(curve.claimed, ordered.cumsum(axis=1).mean(axis=0)[:4])
    for bad in (0, 7, 1.5):
        with pytest.raises(ParameterError, match="max_rank"):
            compute_top_r(Y, SCORES, max_rank=bad)


def test_ties_count_in_parts_whatever_the_order_of_the_columns():
    curve = compute_top_r([0, 1], [[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]])
    assert np.allclose(curve.share, [0.5, 1.0])
    flat = compute_top_r([0, 1, 2], np.full((3, 3), 1 / 3))
    assert np.allclose(flat.share, [1 / 3, 2 / 3])
    assert np.allclose(flat.claimed, flat.share)


def test_calibrated_predictions_stay_within_their_spread():
    rng = np.random.default_rng(0)
    honest = rng.dirichlet(np.ones(6), size=4000)
    y = (honest.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    curve = compute_top_r(y, honest)
    assert np.all(np.abs(curve.share - curve.claimed) < 4 * curve.spread)
    curve = compute_top_r(y, honest**2 / (honest**2).sum(axis=1, keepdims=True))
    assert curve.claimed[0] - curve.share[0] > 4 * curve.spread[0]


def test_top_r_shows_the_gap_of_each_method():
    curve = compute_top_r(Y, SCORES)
    ax = draw_top_r({"raw": curve, "same": curve})
    lines = [line for line in ax.lines if line.get_label().startswith(("raw", "same"))]
    assert len(lines) == 2
    assert np.allclose(lines[0].get_ydata(), 100 * (curve.claimed - curve.share))
    assert lines[0].get_marker() != lines[1].get_marker()
    assert ax.get_xscale() == "linear"
    assert draw_top_r(compute_top_r(*simulate(100, 60)[::-1])).get_xscale() == "log"
    with pytest.raises(ParameterError, match="empty"):
        draw_top_r({})
