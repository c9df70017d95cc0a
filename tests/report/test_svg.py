"""Axes and marks of the pictures on the page."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.report._figures import Axis, Chart, log_axis, nice_axis, unit_axis, wrap

numbers = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)


@given(st.lists(numbers, min_size=1, max_size=8))
def test_nice_axis_holds_all_values_with_a_handful_of_round_ticks(values):
    axis = nice_axis(values, "x")
    slack = 1e-6 * (axis.high - axis.low)
    assert axis.low <= min(values) + slack
    assert axis.high >= max(values) - slack
    assert 2 <= len(axis.ticks) <= 9
    assert np.all(np.diff(axis.ticks) > 0)


def test_nice_axis_includes_what_it_is_told_and_survives_nothing():
    assert nice_axis([0.5, 0.7], "x", include=0.0).low == 0.0
    assert nice_axis([float("nan")], "x").high > nice_axis([float("nan")], "x").low


@given(st.floats(1e-6, 0.5), st.floats(1.0, 1e4))
def test_log_axis_places_its_ends_and_its_ticks(low, high):
    axis = log_axis(low, high, "x")
    assert axis.place([low, high]).tolist() == pytest.approx([0.0, 1.0])
    assert 1 <= len(axis.ticks) <= 8
    assert all(low * 0.999 <= tick <= high * 1.001 for tick in axis.ticks)


def test_values_beyond_an_axis_are_drawn_at_its_end():
    assert Axis(0, 1, "x", ()).place([-1.0, 0.5, 7.0]).tolist() == [0.0, 0.5, 1.0]


def test_words_are_escaped():
    chart = Chart(unit_axis("<x>"), unit_axis("&"))
    chart.frame()
    chart.text(1, 2, "<script>")
    picture = wrap(chart.inner(), 10, 10, '"quoted"')
    assert "<script>" not in picture
    assert "&lt;x&gt;" in picture
    assert 'aria-label="&#34;quoted&#34;"' in picture


def test_nothing_to_draw_draws_nothing():
    chart = Chart(unit_axis("x"), unit_axis("y"))
    chart.line([], [], "a")
    chart.band([], [], [], "a")
    chart.bars([], [], [], "a")
    chart.points([], [], [], "a")
    assert chart.inner() == ""
