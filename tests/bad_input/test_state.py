"""What a call leaves behind: inputs as they were, and a fitted estimator that survives failure."""

from __future__ import annotations

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import calibrant
from bad_input.holders import read_only
from bad_input.promises import (
    LETTERS,
    AnyCalibrator,
    as_kind,
    bits,
    each_calibrator,
    each_kind,
    fitted,
    fresh,
    good,
    mild,
    refused,
    same_fit,
    state,
)
from calibrant import errors


def _rough(kind):
    """Rows that have to be repaired: sums off, minus zero, cells just outside [0, 1]."""
    scores = as_kind(mild(), kind)
    if kind == "probabilities":
        scores *= np.linspace(0.9995, 1.0005, 200)[:, None]
        scores[3] = [-5e-7, 1.0000005, -0.0]
    else:
        scores[3] = [-np.inf, 0.0, -0.0]
        scores[4] = [-1e4, 700.0, 0.0]
    return scores


@each_calibrator
@pytest.mark.parametrize(
    ("kind", "hold"),
    [("probabilities", np.copy), ("probabilities", read_only), ("logits", np.copy)],
)
def test_arrays_are_never_modified(calibrator, kind, hold):
    """Scores that need repair, labels, and weights of which some are zero."""
    scores, new = hold(_rough(kind)), hold(_rough(kind)[:50])
    y, weight = hold(good()[1]), hold(np.arange(200) % 3 + 0.5 * (np.arange(200) > 20))
    given = (scores, y, weight, new)
    before = [bits(array).copy() for array in given]
    estimator = calibrator(scores=kind).fit(scores, y, weight)
    for method in ("predict_proba", "predict", "transform"):
        getattr(estimator, method)(new)
    assert all(np.array_equal(bits(array), old) for array, old in zip(given, before, strict=True))


@each_calibrator
def test_normalising_and_flooring_do_not_touch_the_input(calibrator):
    """No input is ever modified."""
    scores, y = good()
    scores *= 7.0
    before = bits(scores).copy()
    calibrator(normalize="rows", min_probability=0.01).fit(scores, y).predict_proba(scores)
    assert np.array_equal(bits(scores), before)


@each_calibrator
def test_frames_and_series_are_never_modified(calibrator):
    """No input is ever modified."""
    scores = pd.DataFrame(_rough("probabilities"), columns=["p0", "p1", "p2"], dtype="Float64")
    y = pd.Series(LETTERS[good()[1]], dtype="category")
    weight = pd.Series(np.arange(200) % 3)
    before = [thing.copy(deep=True) for thing in (scores, y, weight)]
    calibrator().fit(scores, y, weight).predict_proba(scores)
    pd.testing.assert_frame_equal(scores, before[0], check_exact=True)
    pd.testing.assert_series_equal(y, before[1])
    pd.testing.assert_series_equal(weight, before[2])


@each_calibrator
def test_lists_and_objects_are_never_modified(calibrator):
    """No input is ever modified."""
    rows, y = good()[0].tolist(), LETTERS[good()[1]].tolist()
    objects = good()[0].astype(object)
    copies = [list(row) for row in rows], list(y), objects.copy()
    calibrator().fit(rows, y).predict_proba(objects)
    assert rows == copies[0]
    assert y == copies[1]
    assert np.array_equal(objects, copies[2])


def test_a_failed_call_does_not_modify_its_input():
    """No input is ever modified, also when it is refused half way."""
    scores = _rough("probabilities")
    scores[150, 1] = np.nan
    weight = np.arange(200.0)
    before = bits(scores).copy()
    with refused(errors.NonFiniteError):
        AnyCalibrator().fit(scores, good()[1], weight)
    with refused(errors.NonFiniteError):
        fitted(AnyCalibrator).predict_proba(scores)
    assert np.array_equal(bits(scores), before)
    assert np.array_equal(weight, np.arange(200.0))


@each_calibrator
@each_kind
def test_results_are_the_callers_own(calibrator, kind):
    """Writing to a result changes neither the input nor the estimator."""
    estimator = calibrator(scores=kind).fit(*good(kind))
    new = fresh(kind)
    before, old = state(estimator), bits(new).copy()
    out = estimator.predict_proba(new)
    assert out.flags.writeable
    out[:] = np.nan
    estimator.predict(new)[:] = 0
    assert np.array_equal(bits(new), old)
    assert state(estimator) == before


@each_calibrator
def test_a_fit_holds_on_to_nothing_of_the_caller(calibrator):
    """Arrays that change after the fit do not change the fit."""
    scores, y = good()
    classes, weight = LETTERS.copy(), np.ones(200)
    labels = LETTERS[y]
    estimator = calibrator(classes=classes).fit(scores, labels, weight)
    before = state(estimator, without=("classes",))
    scores[:] = 1 / 3
    labels[:] = "bee"
    weight[:] = 0.0
    classes[:] = ["x", "y", "z"]
    assert state(estimator, without=("classes",)) == before


@each_calibrator
def test_fitting_sets_no_parameter(calibrator):
    """The constructor's parameters are the user's."""
    estimator = calibrator(classes=NAMES, min_probability=1e-6)
    before = estimator.get_params()
    estimator.fit(good()[0], LETTERS[good()[1]])
    after = estimator.get_params()
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)


NAMES = LETTERS.tolist()


def _changed(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


def _failures():
    scores, y = good()
    names = LETTERS[y]
    return {
        "nan": (_changed(scores, (150, 1), np.nan), names),
        "infinity": (_changed(scores, (150, 1), np.inf), names),
        "range": (_changed(scores, (150, 1), -0.5), names),
        "row sum": (_changed(scores, 150, 0.1), names),
        "zeros": (_changed(scores, 150, 0.0), names),
        "percent": (np.round(scores * 100), names),
        "one dimension": (scores[:, 0], names),
        "one column": (scores[:, :1], names),
        "no rows": (scores[:0], names[:0]),
        "no columns": (scores[:, :0], names),
        "text": (scores.astype("U8"), names),
        "complex": (scores.astype(complex), names),
        "sparse": (sparse.csr_array(scores), names),
        "masked": (np.ma.array(scores, mask=scores < 1e-3), names),
        "generator": ((row for row in scores), names),
        "column names": (pd.DataFrame(scores, columns=["ant", "bee", "dog"]), names),
        "fewer labels": (scores, names[:-1]),
        "missing label": (scores, _changed(y.astype(float), 150, np.nan)),
        "half a label": (scores, _changed(y.astype(float), 150, 0.5)),
        "absent class": (scores, np.where(names == "bee", "cat", names)),
        "too many labels": (scores, _changed(names, 150, "dog")),
        "not one-hot": (scores, np.ones((200, 3))),
        "no labels": (scores, None),
        "negative weight": (scores, names, _changed(np.ones(200), 150, -1.0)),
        "nan weight": (scores, names, _changed(np.ones(200), 150, np.nan)),
        "zero weights": (scores, names, np.zeros(200)),
        "fewer weights": (scores, names, np.ones(199)),
    }


@pytest.mark.parametrize("failure", _failures())
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(failure):
    """To the bit: every attribute, and what it predicts."""
    estimator = deepcopy(fitted(AnyCalibrator))
    before = state(estimator)
    with refused(errors.DataError):
        estimator.fit(*_failures()[failure])
    assert state(estimator) == before
    assert same_fit(estimator, fitted(AnyCalibrator), fresh())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scores", "odds"),
        ("scores", None),
        ("normalize", "columns"),
        ("normalize", True),
        ("min_probability", -1.0),
        ("min_probability", 0.5),
        ("classes", ["ant", "bee"]),
        ("classes", ["ant", "bee", "bee"]),
        ("classes", ["dog", "eel", "fox"]),
    ],
)
def test_a_fit_with_a_bad_parameter_leaves_what_was_fitted(name, value):
    """The parameter is named; fitted attributes stay."""
    scores, y = good()
    estimator = AnyCalibrator().fit(scores, y)
    estimator.set_params(**{name: value})
    before = state(estimator)
    with refused(ValueError, name):
        estimator.fit(scores, LETTERS[y])
    assert state(estimator) == before


@each_calibrator
def test_a_warning_raised_as_an_error_leaves_the_estimator_as_it_was(calibrator):
    """A user may turn warnings into errors."""
    scores, y = good()
    estimator = calibrator().fit(scores, y)
    before = state(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.SmallSampleWarning):
            estimator.fit(scores[:50], y[:50])
        mixed = pd.DataFrame(scores, columns=["2", "0", "1"])
        with pytest.raises(errors.ColumnOrderWarning):
            estimator.fit(mixed, y)
    assert state(estimator) == before


@each_calibrator
def test_a_prediction_leaves_the_estimator_as_it_was(calibrator):
    """Whether or not it succeeds."""
    estimator = calibrator().fit(*good())
    before = state(estimator)
    estimator.predict_proba(fresh())
    estimator.predict_proba(pd.DataFrame(fresh()))
    for bad in (fresh("logits"), fresh(n_classes=2), np.full((2, 3), np.nan), None):
        with refused(errors.DataError):
            estimator.predict_proba(bad)
    assert state(estimator) == before


@each_calibrator
def test_a_refit_forgets_the_fit_before_it(calibrator):
    """The names of a frame, too."""
    scores, y = good()
    names = ["p0", "p1", "p2", "p3"]
    estimator = calibrator().fit(
        pd.DataFrame(good(n_classes=4)[0], columns=names), good(n_classes=4)[1]
    )
    assert estimator.feature_names_in_.tolist() == names
    estimator.fit(scores, y)
    assert state(estimator) == state(fitted(calibrator))
    assert same_fit(estimator, fitted(calibrator), fresh())


def test_the_fingerprint_sees_one_bit():
    """The checks above compare fingerprints: they must not be blind."""
    estimator = calibrant.FlattenedIsotonic().fit(*good())
    before = state(estimator)
    assert before == state(estimator)
    values = estimator.step_function_.values  # noqa: PD011
    values.setflags(write=True)
    values[-1] = np.nextafter(values[-1], 2.0)
    assert before != state(estimator)


def test_every_error_about_data_is_a_value_error():
    """As scikit-learn raises, so that callers catch both."""
    data_errors = [
        found
        for name, found in vars(errors).items()
        if name.endswith("Error") and name not in {"MemoryLimitError", "NotFittedError"}
    ]
    assert data_errors
    assert all(issubclass(error, ValueError) for error in data_errors)
    assert issubclass(errors.ContainerError, TypeError)
    assert issubclass(errors.MemoryLimitError, MemoryError)
    assert issubclass(errors.NotFittedError, ValueError)
