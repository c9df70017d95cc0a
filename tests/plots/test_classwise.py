"""Class-wise panels: the worst first, also of a thousand classes."""

import numpy as np
import pytest

from calibrant.metrics import classwise_ece, reliability_curve
from calibrant.plots import compute_classwise, draw_classwise
from conftest import simulate


def test_each_class_is_that_of_its_binary_problem():
    scores, y = simulate(400, 6)
    summary = compute_classwise(y, scores, n_worst=0)
    assert summary.ece.mean() == pytest.approx(classwise_ece(y, scores), rel=1e-12)
    assert summary.curves == {}
    for j in range(6):
        own = reliability_curve(y, scores, kind=j, n_resamples=0)
        assert summary.ece[j] == pytest.approx(own.ece, rel=1e-12)
    assert np.allclose(summary.mean_probability, scores.mean(axis=0))
    assert np.allclose(summary.frequency, np.bincount(y, minlength=6) / 400)


def test_the_worst_come_first_and_have_diagrams():
    scores, y = simulate(400, 6)
    summary = compute_classwise(y, scores, n_worst=2, n_resamples=20)
    assert np.all(np.diff(summary.ece[summary.order]) <= 0)
    assert list(summary.curves) == summary.order[:2].tolist()


def test_diagrams_are_those_of_reliability_curve():
    scores, y = simulate(400, 4)
    curves = compute_classwise(y, scores, columns=[2, 0], diagram_bins=5, n_resamples=20).curves
    assert list(curves) == [2, 0]
    for j, curve in curves.items():
        own = reliability_curve(y, scores, kind=j, n_bins=5, n_resamples=20)
        assert curve.ece == own.ece
        assert curve.p_value == own.p_value
        assert np.array_equal(curve.frequency, own.frequency, equal_nan=True)


def test_a_class_without_a_row_has_a_diagram():
    scores, y = simulate(200, 4)
    y = np.where(y == 3, 0, y)
    summary = compute_classwise(y, scores, columns=[3], classes=range(4), n_resamples=20)
    assert summary.frequency[3] == 0
    assert np.nanmax(summary.curves[3].frequency) == 0


def test_picture_has_an_overview_and_named_panels():
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


def test_a_thousand_classes_are_legible():
    scores, y = simulate(300, 1000)
    summary = compute_classwise(y, scores, n_worst=3, n_resamples=0)
    figure = draw_classwise(summary)
    assert len(figure.axes) == 4
    assert figure.axes[0].get_xscale() == "log"
    assert len(figure.axes[0].lines[0].get_xdata()) == 1000
