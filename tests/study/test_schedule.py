"""Order of the cells, and the time that is left."""

import math
from pathlib import Path

import pytest

from calibrant.study.cell import Cell
from calibrant.study.files import StudyFile
from calibrant.study.schedule import TimeLeft, cost, longest_first
from calibrant.study.table import PAPER_METHODS


def cell(model, method):
    n_classes = {"small": 3, "wide": 6}[model]
    file = StudyFile(Path(f"toy_{model}.npz"), "toy", model, 80, 240, n_classes, 1, "0")
    return Cell(file, method, 0)


def test_long_cells_come_first():
    order = longest_first(cell(model, m) for model in ("small", "wide") for m in PAPER_METHODS)
    assert order[0].name == "toy_wide__ms"
    assert [cost(c) for c in order] == sorted(map(cost, order), reverse=True)


def test_nothing_is_known_before_the_first_cell():
    assert math.isnan(TimeLeft(2).estimate([cell("small", "ts"), cell("wide", "ts")]))
    assert TimeLeft(2).estimate([]) == 0.0


def test_time_left_is_learnt_for_each_method():
    left = TimeLeft(2)
    small, wide = cell("small", "ts"), cell("wide", "ts")
    left.learn(small, 3.0)
    assert left.estimate([wide]) == pytest.approx(6.0)  # twice the classes; one process at work
    assert left.estimate([small] * 4) == pytest.approx(6.0)  # two at a time
    left.learn(cell("small", "ms"), 30.0)
    assert left.estimate([wide]) == pytest.approx(6.0)
    assert left.estimate([cell("wide", "ms")]) == pytest.approx(120.0)
    left.learn(small, 5.0)
    assert left.estimate([small]) == pytest.approx(4.0)


def test_a_method_not_yet_seen_is_like_those_of_its_kind():
    left = TimeLeft(1)
    left.learn(cell("small", "ts"), 3.0)
    assert left.estimate([cell("small", "dirichlet")]) == pytest.approx(9.0)
    left.learn(cell("small", "ms"), 30.0)
    assert left.estimate([cell("small", "dirichlet")]) == pytest.approx(30.0)
    assert left.estimate([cell("small", "fir")]) == pytest.approx(3.0)


def test_a_cell_whose_process_died_tells_nothing():
    left = TimeLeft(1)
    left.learn(cell("small", "ts"), 3.0)
    left.learn(cell("small", "ts"), math.nan)
    assert left.estimate([cell("small", "ts")]) == pytest.approx(3.0)
