"""What every function takes and refuses: two classes as people have them, bad rows, order."""

import numpy as np
import pandas as pd
import pytest

from calibrant import errors
from calibrant.datasets import simulated_scores
from calibrant.decisions import (
    ConformalSets,
    CostSensitive,
    cost_curve,
    decision_curve,
    expected_cost,
    risk_coverage,
    threshold_for,
    value_of_calibration,
)
from conftest import refuses

PAIR = {"false_positive": 1, "false_negative": 4}
SCORES, LABELS = simulated_scores(400)
POSITIVE, EVENTS = SCORES[:, 0], (LABELS == 0).astype(int)

FUNCTIONS = {
    "expected_cost": lambda y, p, **told: expected_cost(y, p, PAIR, **told),
    "value_of_calibration": lambda y, p, **told: value_of_calibration(y, p, p, PAIR, **told),
    "decision_curve": decision_curve,
    "cost_curve": lambda y, p, **told: cost_curve(y, p, PAIR, **told),
    "risk_coverage": risk_coverage,
    "threshold_for": lambda y, p, **told: threshold_for(y, p, recall=0.5, **told),
    "ConformalSets": lambda y, p, **told: ConformalSets(0.8).fit(p, y, **told).predict_set(p),
    "CostSensitive": lambda y, p, **told: CostSensitive(PAIR, **told).score(p, y),
}
each = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def plain(found):
    """The numbers of a result, labels left out."""
    fields = found.to_dict() if hasattr(found, "to_dict") else {"score": found}
    return {name: value for name, value in fields.items() if name not in {"kind", "classes"}}


def column(values):
    return np.asarray(values)[:, None]


def both(values):
    return np.column_stack([1.0 - np.asarray(values), values])


WITH_PAIR = {"expected_cost", "value_of_calibration", "cost_curve", "CostSensitive"}


@pytest.mark.parametrize("shape", [np.array, column, both, pd.Series, list])
@pytest.mark.parametrize("names", [[0, 1], [False, True], [-1, 1], ["no", "yes"]])
def test_a_policy_takes_two_classes_as_people_have_them(shape, names):
    """Of the functions, ``test_two_classes_as_given`` shows it."""
    decide, told = FUNCTIONS["CostSensitive"], {"pos_label": "yes"} if names[1] == "yes" else {}
    found = decide(np.array(names)[EVENTS], shape(POSITIVE), **told)
    assert found == decide(EVENTS, both(POSITIVE))


@each
@pytest.mark.parametrize(
    ("y", "y_proba", "error"),
    [
        (EVENTS, np.where(np.arange(400) == 7, np.nan, POSITIVE), errors.NonFiniteError),
        (EVENTS, POSITIVE * 100, errors.RangeError),
        (EVENTS, both(POSITIVE) * 0.5, errors.RangeError),
        (EVENTS[:-1], POSITIVE, errors.ShapeError),
        (EVENTS, np.empty((0, 2)), errors.ShapeError),
        (np.where(np.arange(400) == 5, np.nan, EVENTS), POSITIVE, errors.LabelError),
        (np.array(["no", "yes"])[EVENTS], POSITIVE, errors.LabelError),
        (LABELS, both(POSITIVE), errors.LabelError),
        (EVENTS, [["a", "b"]] * 400, errors.ContainerError),
    ],
)
def test_bad_rows_and_labels_are_refused(function, y, y_proba, error):
    with pytest.raises(error):
        function(y, y_proba)


@each
def test_what_is_given_is_not_changed(function):
    rows, y = both(POSITIVE), EVENTS.copy()
    rows.flags.writeable = y.flags.writeable = False
    function(y, rows)
    np.testing.assert_array_equal(rows, both(POSITIVE))
    small = function(y, rows.astype(np.float32))
    assert type(small) is type(function(y, rows))


def assert_same_numbers(found, expected):
    """Fields that are numbers; intervals and spreads depend on how many rows there are."""
    for field, value in plain(found).items():
        one, two = (
            [own["value"]] if isinstance(own, dict) else np.ravel(own)
            for own in (value, plain(expected)[field])
        )
        if field not in {"spread", "target"}:
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14, err_msg=field)


WEIGHTED = ("expected_cost", "value_of_calibration", "decision_curve", "cost_curve")


@pytest.mark.parametrize("name", [*WEIGHTED, "risk_coverage"])
def test_weights_are_repetitions(name):
    weight = np.arange(400) % 3
    times = np.repeat(np.arange(400), weight)
    weighted = FUNCTIONS[name](EVENTS, POSITIVE, sample_weight=weight)
    assert_same_numbers(weighted, FUNCTIONS[name](EVENTS[times], POSITIVE[times]))


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"ConformalSets"}))  # which are of rows
def test_the_order_of_rows_changes_nothing_but_rounding(name):
    order, rounded = np.random.default_rng(0).permutation(400), np.round(POSITIVE, 1)  # with ties
    again = FUNCTIONS[name](EVENTS[order], rounded[order])
    assert_same_numbers(again, FUNCTIONS[name](EVENTS, rounded))


@pytest.mark.parametrize("name", sorted(WITH_PAIR))
def test_named_costs_want_to_know_the_positive_class(name):
    function, y = FUNCTIONS[name], np.array(["good", "bad"])[EVENTS]
    turned = both(POSITIVE)[:, ::-1]  # columns bad, good, as sorted
    with refuses("costs", errors.LabelError):
        function(y, turned)
    with refuses("pos_label", value="none"):
        function(y, turned, pos_label="none")
    found = [
        plain(function(y, POSITIVE, pos_label="bad")),
        plain(function(y, turned, pos_label="bad")),
        plain(function(y, both(POSITIVE), classes=["good", "bad"])),
    ]
    for fields in found:
        for field, value in fields.items():
            value, expected = (
                [*own.values()] if isinstance(own, dict) else own
                for own in (value, found[0][field])
            )
            np.testing.assert_allclose(value, expected, rtol=1e-12, err_msg=field)


def test_a_comparison_wants_to_know_the_positive_class_of_named_costs():
    from calibrant.report import compare

    y, rows = np.array(["good", "bad"])[EVENTS], both(POSITIVE)[:, ::-1]
    parts = y[:200], rows[:200], y[200:], rows[200:], ["ts"]
    with refuses("costs", errors.LabelError):
        compare(*parts, costs=PAIR)
    frame = pd.DataFrame([[0, 1], [4, 0]], ["good", "bad"], ["good", "bad"])
    found = compare(*parts, costs=frame, n_resamples=5).decisions.costs["uncalibrated"].realised
    own = expected_cost(y[200:], rows[200:], PAIR, pos_label="bad")
    assert found.value == pytest.approx(own.realised.value, rel=1e-12)


@pytest.mark.parametrize("name", ["expected_cost", "value_of_calibration", "ConformalSets"])
def test_columns_in_another_order_are_warned_of(name):
    with pytest.warns(errors.ColumnMismatchWarning):
        FUNCTIONS[name](EVENTS, both(POSITIVE)[:, ::-1])


def test_calibrated_columns_in_another_order_are_warned_of():
    with pytest.warns(errors.ColumnMismatchWarning):
        value_of_calibration(EVENTS, both(POSITIVE), both(POSITIVE)[:, ::-1], PAIR)
