"""Messages say values as Python writes them."""

import datetime as dt

import numpy as np
import pytest

import calibrant
from calibrant import errors, metrics
from calibrant._gate import _simplex as simplex

NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.str_("cat"), "'cat'"),
        (np.float32(0.5), "0.5"),
        (np.int64(3), "3"),
        (np.bool_(True), "True"),
        (np.longdouble(2), "2.0"),
        (np.datetime64("2020-01-02"), repr(dt.date(2020, 1, 2))),
        ([np.float64(1), (np.str_("a"),)], "[1.0, ('a',)]"),
        (np.arange(9), "[0, 1, 2, 3, 4, ...]"),
        ("cat", "'cat'"),
        (None, "None"),
    ],
)
def test_a_value_is_written_as_python_writes_it(value, words):
    assert errors.in_words(value) == words


def test_of_many_values_the_first_are_named():
    assert errors.some_in_words(NAMES) == "'ant', 'bee', 'cat', 'dog'"
    assert errors.some_in_words(np.arange(6)) == "0, 1, 2, 3, 4, ..."


EVEN = np.full((4, 4), 0.25)
PARTS = [calibrant.TemperatureScaling(), calibrant.FlattenedIsotonic()]
OBJECTS = np.array([[np.str_("x"), 1.0]], dtype=object)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: simplex.check_batch(EVEN[:1], ["emu"], classes=NAMES), r"y\[0\] is 'emu', which"),
        (lambda: metrics.reliability_curve(NAMES, EVEN, kind=np.str_("emu")), "kind='emu' is"),
        (lambda: simplex.check_number("n_bins", np.float64(0.5), whole=True), "n_bins=0.5 must"),
        (lambda: simplex.check_option("scores", np.str_("odds"), simplex.KINDS), "='odds' is not"),
        (lambda: calibrant.Mixture(PARTS, weights=[np.float64(-1), 2]).fit(EVEN, NAMES), "-1.0, 2"),
        (lambda: calibrant.TemperatureScaling().fit(OBJECTS, [0]), r"scores\[0, 0\] is 'x'"),
    ],
)
def test_errors_hold_no_words_of_numpy(act, words):
    with pytest.raises(ValueError, match=words) as caught:
        act()
    assert "np." not in str(caught.value)
