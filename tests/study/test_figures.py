"""What is drawn is what was computed, can be read, and leaves pyplot alone."""

from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from calibrant.study import _figures as figures
from calibrant.study import _ranks as ranks
from study.test_ranks import frame

METHODS = [f"method-{i:02d}" for i in range(19)]
DATASETS = [f"data-set-{i:02d}" for i in range(15)]


def words(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def test_wins_print_every_percentage_in_its_cell():
    values = frame(np.random.default_rng(0).normal(size=(20, 4)))
    shares = ranks.win_shares(values, "nll").to_numpy()
    figure = figures.draw_wins(shares, METHODS[:4], "NLL")
    found = {tuple(t.get_position()): t.get_text() for t in figure.axes[0].texts}
    expected = {(j, i): f"{100 * shares[i, j]:.0f}" for i in range(4) for j in range(4) if i != j}
    assert found == expected
    figure = figures.draw_wins(np.array([[np.nan, 0.5], [1.0, np.nan]]), METHODS[:2], "NLL")
    assert [text.get_color() for text in figure.axes[0].texts] == ["black", "white"]


@pytest.mark.parametrize("color", ["white", "black", "#808080", "#0072B2", "#D55E00", "#777777"])
def test_ink_can_be_read_on_any_ground(color):
    both = np.array([to_rgb(color), to_rgb(figures.readable_ink(to_rgb(color)))])
    linear = np.where(both <= 0.04045, both / 12.92, ((both + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])  # relative luminance, by WCAG 2
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_critical_difference_joins_what_does_not_differ():
    average = np.array([1.2, 3.9, 2.0, 2.9])
    figure = figures.draw_critical_difference(average, list("abcd"), 1.0, "NLL")
    bars = [line for line in figure.axes[0].lines if line.get_linewidth() == 3.5]
    ends = [tuple(np.round(line.get_xdata(), 2)) for line in bars]
    assert ends == [(1.16, 2.04), (1.96, 2.94), (2.86, 3.94)]
    assert {"a  1.20", "c  2.00", "2.90  d", "3.90  b"} <= set(words(figure))


def test_boxes_show_every_value_of_every_data_set():
    values = np.random.default_rng(0).normal(size=(30, 5))
    values[3, 2] = np.nan
    groups = [DATASETS[i % 3] for i in range(30)]
    figure = figures.draw_boxes(frame(values, groups), METHODS[:5], "x", "y")
    panels = [
        sorted(x for line in ax.lines if line.get_marker() == "o" for x in line.get_xdata())
        for ax in figure.axes
    ]
    for shown, part in zip(panels, [values, values[::3], values[1::3], values[2::3]], strict=True):
        np.testing.assert_allclose(shown, np.sort(part[~np.isnan(part)]))


def overlap(labels, renderer):
    boxes_of = [label.get_window_extent(renderer) for label in labels if label.get_text()]
    return any(a.overlaps(b) for i, a in enumerate(boxes_of) for b in boxes_of[i + 1 :])


def crowded_figures():
    rng = np.random.default_rng(0)
    average = rng.uniform(1, 19, 19)
    yield figures.draw_wins(rng.uniform(size=(19, 19)), METHODS, "NLL")
    yield figures.draw_critical_difference(average, METHODS, 4.0, "NLL")
    yield figures.draw_times(rng.uniform(0.001, 9, (47, 19)), METHODS)
    groups = [DATASETS[i % 15] for i in range(47)]
    values = frame(rng.normal(size=(47, 19)), groups)
    yield figures.draw_boxes(values, METHODS, "NLL", "NLL")


def test_nineteen_methods_and_fifteen_data_sets_can_be_read():
    """No two names overlap, none is cut off, and none is smaller than 8 points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    counts = set()
    for figure in crowded_figures():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        for ax in figure.axes:
            shown = ax.axison and ax.yaxis.get_tick_params()["labelleft"]
            rows = ax.get_yticklabels() if shown else []
            columns = ax.get_xticklabels() if ax.images else []
            names = [*rows, *(t for t in ax.texts if "method" in t.get_text())]
            counts.add(len(names))
            assert not overlap(names, renderer)
            title = [ax.title] if ax.get_title() else []
            for text in (*names, *title, *columns):
                extent = text.get_window_extent(renderer)
                assert text.get_fontsize() >= 8
                assert extent.x0 >= 0, text
                assert extent.x1 <= figure.bbox.x1, text
                assert extent.y1 <= figure.bbox.y1, text
    assert counts == {0, 19}


def test_svg_is_well_formed_and_its_words_can_be_searched():
    figure = figures.draw_wins(np.eye(2), ["<a & b>", "it costs $5 or $6"], "x")
    svg = figures.figure_bytes(figure, "svg")
    root = ET.fromstring(svg)
    found = "".join(root.itertext())
    assert "<a & b>" in found
    assert "it costs $5 or $6" in found
    assert len(figures.short("x" * 500)) <= 18
