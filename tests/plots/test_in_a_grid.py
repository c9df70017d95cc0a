"""Every picture stays in its slot of a grid of the user's own, for two classes or a hundred."""

import warnings
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.base import clone

import calibrant
from calibrant.decisions import decision_curve
from calibrant.metrics import calibration_segments, reliability_curve
from calibrant.plots import (
    ReliabilityDisplay,
    compute_classwise,
    compute_map,
    draw_classwise,
    draw_decisions,
    draw_map,
    draw_reliability,
    draw_reliability_grid,
    draw_segments,
)
from conftest import simulate

CALIBRATORS = {
    "ts": calibrant.TemperatureScaling(),
    "na-fir": calibrant.NormalizationAwareIsotonic(prior_strength=1),
    "scir": calibrant.SortedCumulativeIsotonic(prior_share=0.1),
    "vs": calibrant.VectorScaling(ridge=0.01),
}


@cache
def data(n_classes):
    """Return scores, labels and the class of each column, with long names."""
    scores, y = simulate(1000, n_classes)
    classes = np.array([f"class {j:03d} of a rather long name" for j in range(n_classes)])
    return scores, classes[y], classes


@cache
def fitted(method, n_classes):
    scores, y, classes = data(n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(CALIBRATORS[method]).set_params(classes=classes).fit(scores, y)


@cache
def curve_of(n_classes, kind="confidence"):
    scores, y, classes = data(n_classes)
    return reliability_curve(y, scores, kind=kind, classes=classes, n_resamples=50)


def display(k, ax):
    scores, y, _ = data(k)
    ReliabilityDisplay.from_estimator(fitted("ts", k), scores, y, ax=ax)


def two_displays(k, ax):
    scores, y, classes = data(k)
    ReliabilityDisplay.from_predictions(y, scores, classes=classes, ax=ax, name="network " * 4)
    display(k, ax)


SINGLE = {
    "reliability": lambda k, ax: draw_reliability(curve_of(k), ax, title="t", notes=["NLL 1.234"]),
    "reliability_of_a_class": lambda k, ax: draw_reliability(curve_of(k, data(k)[2][0]), ax),
    "display": display,
    "two_displays": two_displays,
    "reliability_of_a_rare_class": lambda k, ax: draw_reliability(
        curve_of(k, data(k)[2][0]), ax, smallest=1e-4
    ),
} | {
    f"map_of_{method}": lambda k, ax, method=method: draw_map(
        compute_map(fitted(method, k)), ax, title=method
    )
    for method in CALIBRATORS
}


def assert_inside(inner, outer):
    assert inner.x0 >= outer.x0 - 1
    assert inner.y0 >= outer.y0 - 1
    assert inner.x1 <= outer.x1 + 1
    assert inner.y1 <= outer.y1 + 1


@pytest.mark.parametrize(("n_classes", "layout"), [(2, None), (100, None), (10, "constrained")])
@pytest.mark.parametrize("name", SINGLE)
def test_nothing_is_cut_off_or_lies_on_the_neighbour(name, n_classes, layout):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout=layout)
    SINGLE[name](n_classes, left)
    figure.draw_without_rendering()
    shape = left.get_tightbbox()
    assert_inside(shape, figure.bbox)
    assert shape.x1 <= right.get_window_extent().x0
    if left.get_legend() is not None:
        assert_inside(left.get_legend().get_window_extent(), left.get_window_extent())


def curves_of_decisions(k, ax):
    scores, y, classes = data(k)
    draw_decisions(decision_curve(y == classes[0], scores[:, 0]), ax)


def segments(k, ax):
    scores, y, _ = data(k)
    features = {"age": np.arange(len(y)) % 60, "plan": (scores[:, 0] > 0.4).astype(str)}
    bold = scores**3 / (scores**3).sum(axis=1, keepdims=True)
    draw_segments(calibration_segments(y, bold, features), ax)


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("name", [*SINGLE, "decisions", "segments"])
def test_numbers_along_axes_are_whole_and_apart(name, n_classes):
    """The last one, too: it ends in the figure, and before the one that follows begins."""
    others = {"decisions": curves_of_decisions, "segments": segments}
    (SINGLE | others)[name](n_classes, None)
    figure = plt.gcf()
    figure.draw_without_rendering()
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
        boxes = [text.get_window_extent() for at, text in ticks if low <= at <= high]
        for box in boxes:
            assert_inside(box, figure.bbox)
        is_x = axis is axis.axes.xaxis
        ends = sorted((box.x0, box.x1) if is_x else (box.y0, box.y1) for box in boxes)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))


def draw_grid(n_panels):
    curves = dict.fromkeys("abcd"[:n_panels], curve_of(10))
    draw_reliability_grid(curves, title="a title" if n_panels % 2 else None)


def draw_classes(n_worst, k):
    scores, y, classes = data(k)
    draw_classwise(compute_classwise(y, scores, n_worst=n_worst, classes=classes, n_resamples=20))


GRIDS = {f"grid of {n}": partial(draw_grid, n) for n in (1, 2, 4)} | {
    f"{n} of {k} classes": partial(draw_classes, n, k) for n, k in ((0, 100), (1, 2), (3, 100))
}


@pytest.mark.parametrize("name", [*SINGLE, *GRIDS])
def test_alone_nothing_is_cut_off_and_diagrams_of_a_grid_are_nearly_square(name):
    SINGLE[name](10, None) if name in SINGLE else GRIDS[name]()
    figure = plt.gcf()
    figure.draw_without_rendering()
    shape = figure.get_tightbbox()
    assert min(shape.x0, shape.y0) >= 0
    assert shape.x1 <= figure.get_figwidth()
    assert shape.y1 <= figure.get_figheight()
    boxes = [ax.get_window_extent() for ax in figure.axes if ax.get_xlim() == (0, 1)]
    assert all(0.85 < box.width / box.height < 1.2 for box in boxes if name in GRIDS)
