"""Confidence histograms add up."""

from functools import partial

import numpy as np
import pytest

from calibrant.metrics import accuracy
from calibrant.plots import (
    compute_classwise,
    compute_confidence_histogram,
    compute_top_r,
    draw_confidence_histogram,
)
from conftest import simulate


def test_right_and_wrong_are_shares_of_rows_by_confidence():
    scores, y = simulate(400, 4)
    histogram = compute_confidence_histogram(y, scores, n_bins=8)
    top, hit = scores.max(axis=1), scores.argmax(axis=1) == y
    right, _ = np.histogram(top[hit], bins=8, range=(0, 1))
    wrong, _ = np.histogram(top[~hit], bins=8, range=(0, 1))
    assert np.allclose(histogram.right, right / 400)
    assert np.allclose(histogram.wrong, wrong / 400)


def test_accuracy_confidence_and_their_difference():
    scores, y = simulate(400, 4)
    histogram = compute_confidence_histogram(y, scores)
    assert histogram.accuracy == pytest.approx(accuracy(y, scores))
    assert histogram.mean_confidence == pytest.approx(scores.max(axis=1).mean())
    assert histogram.overconfidence == pytest.approx(
        scores.max(axis=1).mean() - accuracy(y, scores)
    )
    assert histogram.overconfidence > 0.02  # the simulation is over-confident


@pytest.mark.parametrize(
    ("compute", "names"),
    [
        (compute_confidence_histogram, ("right", "wrong")),
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


def test_numbers_are_frozen():
    histogram = compute_confidence_histogram([0, 1], [[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(ValueError, match="read-only"):
        histogram.right[0] = 1.0


def test_picture_stacks_wrong_on_right_and_names_both_lines():
    scores, y = simulate(300, 3)
    histogram = compute_confidence_histogram(y, scores, n_bins=10)
    ax = draw_confidence_histogram(histogram, title="t")
    right, wrong = ax.containers
    assert np.allclose([bar.get_height() for bar in right], histogram.right)
    assert np.allclose([bar.get_y() for bar in wrong], histogram.right)
    assert all(bar.get_hatch() for bar in wrong)  # told apart without colour
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"accuracy {100 * histogram.accuracy:.1f} %" in words
