"""Pictures of decisions: what is drawn is what was computed."""

import numpy as np
import pytest

from calibrant.decisions import cost_curve, decision_curve, risk_coverage
from calibrant.errors import ParameterError
from calibrant.plots import draw_decisions
from conftest import simulate

SCORES, Y = simulate(3000, 4)
EVENTS, POSITIVE = (Y == 1).astype(int), SCORES[:, 1]
PAIR = {"false_positive": 1, "false_negative": 5}


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_decision_curves_have_all_and_none_beside_them():
    curve = decision_curve(EVENTS, POSITIVE)
    ax = draw_decisions({"before": curve, "after": curve}, title="two")
    assert labels(ax) == ["before", "after", "act on all", "act on none"]
    first, second, everybody, nobody = ax.lines
    np.testing.assert_array_equal(first.get_ydata(), curve.net_benefit)
    assert first.get_linestyle() != second.get_linestyle()
    np.testing.assert_array_equal(everybody.get_ydata(), curve.treat_all)
    assert {*nobody.get_ydata()} == {0.0}
    assert ax.get_title() == "two"
    assert labels(draw_decisions(curve))[0] == "act above the threshold"


def test_cost_curves_show_the_threshold_of_the_costs():
    curve = cost_curve(EVENTS, POSITIVE, PAIR)
    ax = draw_decisions(curve)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve.cost)
    assert {*ax.lines[1].get_xdata()} == {curve.threshold}
    assert labels(ax)[1] == "by the costs: 0.167"
    assert ax.get_ylim()[0] == 0.0


def test_risk_is_drawn_over_coverage_in_few_points():
    curve = risk_coverage(Y, SCORES)
    ax = draw_decisions({"a $name$": curve})
    (line,) = ax.lines
    assert len(line.get_xdata()) <= 1000 < len(curve.risk)
    assert line.get_ydata()[-1] == curve.risk[-1]
    assert labels(ax)[0].startswith(r"a \$name\$")


def test_nothing_to_draw_is_refused():
    with pytest.raises(ParameterError, match="pass at least one"):
        draw_decisions({})
