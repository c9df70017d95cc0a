"""Curves of the first ranks: the numbers, and that they are drawn."""

import numpy as np
import pytest

from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic
from calibrant.errors import NotFittedError, ParameterError
from calibrant.plots.rank_curves import COLOURS, compute_rank_curves, draw_rank_curves
from conftest import simulate


@pytest.fixture
def calibrator():
    return SortedCumulativeIsotonic(prior_share=0.1).fit(*simulate(500, 8))


def test_curves_are_the_fitted_function(calibrator):
    curves = compute_rank_curves(calibrator)
    assert [curve.rank for curve in curves] == [1, 2, 3, 4, 5]
    for curve in curves:
        assert curve.q[0] == curve.rank / 8
        assert curve.q[-1] == 1.0
        assert np.all(np.diff(curve.q) >= 0)
        expected = calibrator.step_function_(curve.q, curve.rank)
        assert curve.value.tolist() == expected.tolist()
        middle = (curve.q[:-1] + curve.q[1:]) / 2
        assert curve.value[:-1].tolist() == calibrator.step_function_(middle, curve.rank).tolist()


def test_there_are_no_more_curves_than_ranks():
    few = SortedCumulativeIsotonic(prior_share=0.1).fit(*simulate(500, 3))
    assert [curve.rank for curve in compute_rank_curves(few, 9)] == [1, 2]


def test_the_last_curve_is_pooled_under_max_rank():
    pooled = SortedCumulativeIsotonic(prior_share=0.1, max_rank=2).fit(*simulate(500, 8))
    assert [curve.is_pooled for curve in compute_rank_curves(pooled)] == [False, True]


def test_what_cannot_be_drawn_is_refused(calibrator):
    with pytest.raises(NotFittedError):
        compute_rank_curves(SortedCumulativeIsotonic())
    with pytest.raises(ParameterError, match="n_ranks=0"):
        compute_rank_curves(calibrator, 0)


def test_every_curve_is_drawn_with_its_own_colour_and_name(calibrator):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert draw_rank_curves(compute_rank_curves(calibrator), ax) is ax
    lines = ax.get_lines()[1:]  # the first is the diagonal
    assert [line.get_color() for line in lines] == list(COLOURS[:5])
    assert np.all(np.diff([line.get_linewidth() for line in lines]) > 0)
    assert np.all(np.diff([line.get_zorder() for line in lines]) < 0)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["r = 1", "r = 2", "r = 3", "r = 4", "r = 5"]
    assert "q" in ax.get_xlabel()
    plt.close("all")
    pooled = SortedCumulativeIsotonic(prior_share=0.1, max_rank=1).fit(*simulate(500, 8))
    ax = draw_rank_curves(compute_rank_curves(pooled))
    assert ax.get_legend().get_texts()[0].get_text() == "r = 1 and more"
    plt.close("all")
