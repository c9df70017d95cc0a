"""``SegmentDisplay``: a line for each segment, with predicted and observed shares."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from calibrant.metrics import calibration_segments
from calibrant.plots import SegmentDisplay

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"plan $x$": RNG.choice(["a", "b", "c"], 3000), "age": RNG.normal(size=3000)})
P = RNG.uniform(0.1, 0.3, 3000)
Y = RNG.random(3000) < P + 0.2 * (FRAME["plan $x$"] == "a")


def test_every_segment_has_a_line():
    display = SegmentDisplay.from_predictions(Y, P, FRAME)
    result = calibration_segments(Y, P, FRAME)
    assert display.result == result
    assert result.segments
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert names[0].startswith(r"plan \$x\$ = a")
    assert len(names) == len(result.segments)
    observed, predicted = display.ax_.lines
    assert observed.get_xdata()[0] == pytest.approx(100 * result.segments[0].observed.value)
    assert predicted.get_xdata()[0] == pytest.approx(100 * result.segments[0].predicted)
    (low, _), (high, _) = display.ax_.collections[0].get_segments()[0]
    assert (low, high) == pytest.approx([100 * end for end in result.segments[0].observed[1:]])
    assert display.ax_.get_xlabel() == "share of True, %"
    assert display.figure_ is display.ax_.figure
    display.figure_.canvas.draw()


def test_it_says_that_there_is_none():
    _, axes = plt.subplots(1, 2)
    honest = np.random.default_rng(1).random(3000) < P
    display = SegmentDisplay.from_predictions(honest, P, FRAME, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.ax_.texts[0].get_text().startswith("No segments")
    assert list(display.ax_.get_xticks()) == []


def test_of_several_classes_the_confidence_is_drawn():
    proba = np.stack([P, 0.3 - P / 2, 0.7 - P / 2], axis=1)
    display = SegmentDisplay.from_predictions(np.where(Y, 0, 2), proba, FRAME, classes=[0, 1, 2])
    assert display.ax_.get_xlabel() == "share of rows that are right, %"
