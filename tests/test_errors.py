"""Messages say values as Python writes them."""

import datetime as dt
import warnings

import numpy as np
import pytest

import calibrant
from calibrant import _simplex as simplex
from calibrant import errors, metrics
from calibrant._calibrators.methods import make_calibrator, methods
from conftest import simulate

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


def unknown_label():
    simplex.check_batch(np.full((2, 4), 0.25), np.array(["ant", "emu"]), classes=NAMES)


def unknown_kind():
    metrics.reliability_curve(NAMES, np.full((4, 4), 0.25), kind=np.str_("emu"))


def bad_number():
    simplex.check_number("n_bins", np.float64(0.5), whole=True)


def bad_option():
    simplex.check_option("scores", np.str_("odds"), simplex.KINDS)


def bad_weights():
    parts = [calibrant.TemperatureScaling(), calibrant.FlattenedIsotonic()]
    mixture = calibrant.Mixture(parts, weights=[np.float64(-1), 2])
    mixture.fit(np.full((4, 4), 0.25), NAMES)


def bad_candidate():
    calibrant.AutoCalibrator(candidates=np.array(["odds"])).fit(np.full((4, 4), 0.25), NAMES)


def bad_cell():
    calibrant.TemperatureScaling().fit(np.array([[np.str_("x"), 1.0]], dtype=object), [0])


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (unknown_label, r"y\[1\] is 'emu', which is not among the classes 'ant', 'bee'"),
        (unknown_kind, "kind='emu' is neither"),
        (bad_number, "n_bins=0.5 must"),
        (bad_option, "scores='odds' is not known"),
        (bad_weights, r"weights=\[-1.0, 2\]"),
        (bad_candidate, "candidates has 'odds'"),
        (bad_cell, r"scores\[0, 0\] is 'x'"),
    ],
)
def test_errors_hold_no_words_of_numpy(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def permuted_columns():
    scores, y = simulate(400, 4)
    metrics.evaluate(NAMES[y], scores[:, ::-1], classes=NAMES, n_resamples=0)


@pytest.mark.parametrize("method", [*methods(), None])
def test_warnings_hold_no_words_of_numpy(method):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if method is None:
            permuted_columns()
        else:
            scores, y = simulate(40, 4)
            scores[:, 3] *= 0.01  # never predicted, and no label of it
            kept = y < 3
            scores /= scores.sum(axis=1, keepdims=True)
            calibrator = make_calibrator(method, classes=NAMES)
            calibrator.fit(scores[kept], NAMES[y[kept]])
            calibrator.fit(scores[kept], np.full(kept.sum(), "ant"))
    assert caught
    for warning in caught:
        assert "np." not in str(warning.message)
