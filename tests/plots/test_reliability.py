"""Reliability diagrams show the numbers of ``reliability_curve``, and only those."""

import subprocess
import sys

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.metrics import reliability_curve
from calibrant.plots import _style as style
from calibrant.plots import compute_reliability_grid, draw_reliability, draw_reliability_grid
from calibrant.plots._reliability import CURVE, UNINFORMATIVE
from conftest import simulate


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
    (strip,) = ax.child_axes
    share = strip.patches[0].get_data().values
    assert np.allclose(share, curve.weight / curve.weight.sum())
    assert draw_reliability(curve, show_sizes=False).child_axes == []


def test_without_resamples_there_are_no_bars_and_no_p_value():
    scores, y = simulate(200, 3)
    plain = reliability_curve(y, scores, n_resamples=0)
    ax = draw_reliability(plain)
    assert "p" not in ax.texts[0].get_text().replace("%", "")
    assert len(drawn_line(ax).get_xdata()) == np.count_nonzero(plain.weight)


def test_grid_has_a_panel_for_each_method_and_a_legend():
    scores, y = simulate(300, 4)
    curves = compute_reliability_grid(
        y, {"raw": scores, "flat": np.full_like(scores, 0.25)}, n_resamples=50
    )
    assert list(curves) == ["raw", "flat"]
    assert curves["raw"].ece == reliability_curve(y, scores, n_resamples=0).ece
    figure = draw_reliability_grid(curves, notes={"flat": ["NLL 1"]}, title="two")
    panels = figure.axes
    assert [ax.get_title() for ax in panels] == ["raw", "flat"]
    assert "NLL 1" in panels[1].texts[0].get_text()
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("95 %" in text for text in words)
    with pytest.raises(ParameterError, match="empty"):
        draw_reliability_grid({})


def test_names_are_loaded_without_matplotlib():
    code = "import sys, calibrant.plots as p; p.compute_top_r; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_without_matplotlib_the_error_says_how_to_get_it(curve, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'calibrant\[cli\]'"):
        draw_reliability(curve)


def test_many_curves_look_different():
    looks = {tuple(map(str, style.look(place))) for place in range(49)}
    assert len(looks) == 49


def test_p_values_in_words_and_long_names_cut_in_the_middle():
    assert [style.p_words(p) for p in (0.0004, 0.25, np.nan)] == ["p < 0.001", "p = 0.250", ""]
    assert style.shorten("abc") == "abc"
    cut = style.shorten("a" * 50 + "z" * 50, 21)
    assert len(cut) == 21
    assert cut.startswith("aaa")
    assert cut.endswith("zzz")
