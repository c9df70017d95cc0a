"""What a call leaves behind: inputs as they were, and a fitted estimator that survives failure."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from bad_input.promises import (
    LETTERS,
    as_kind,
    each_calibrator,
    each_reader,
    fitted,
    fresh,
    good,
    mild,
    read_only,
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


def _arrays(kind, hold=np.copy):
    weight = np.arange(200) % 3 + 0.5 * (np.arange(200) > 20)
    return hold(_rough(kind)), hold(good()[1]), hold(weight), {"scores": kind}


HOLDERS = {  # scores, labels, weights, and parameters
    "probabilities": lambda: _arrays("probabilities"),
    "read-only": lambda: _arrays("probabilities", read_only),
    "logits": lambda: _arrays("logits"),
    "to be normalised and floored": lambda: (
        *(good()[0] * 7.0, good()[1], np.ones(200)),
        {"normalize": "rows", "min_probability": 0.01},
    ),
    "frames and series": lambda: (
        pd.DataFrame(_rough("probabilities"), columns=["p0", "p1", "p2"], dtype="Float64"),
        pd.Series(LETTERS[good()[1]], dtype="category"),
        pd.Series(np.arange(200) % 3),
        {},
    ),
    "a frame to be reordered": lambda: (
        pd.DataFrame(good()[0][:, [2, 0, 1]], columns=["cat", "ant", "bee"]),
        *(LETTERS[good()[1]], np.ones(200), {}),
    ),
}


@each_reader
@pytest.mark.filterwarnings("ignore::calibrant.errors.ColumnOrderWarning")
@pytest.mark.parametrize("name", HOLDERS)
def test_no_input_is_ever_modified(calibrator, name):
    """Nor by who writes to a result."""
    *given, options = HOLDERS[name]()
    before = [repr(np.asarray(one).tolist()) for one in given]
    estimator = calibrator(**options).fit(*given)
    estimator.predict_proba(given[0])[:] = np.nan
    estimator.predict(given[0])[:] = 0
    assert [repr(np.asarray(one).tolist()) for one in given] == before


@each_calibrator
def test_a_prediction_leaves_the_estimator_as_it_was(calibrator):
    """Whether or not it succeeds, and whatever becomes of the result."""
    estimator = calibrator().fit(*good())
    before = state(estimator)
    for rows in (fresh(), pd.DataFrame(fresh())):
        estimator.predict_proba(rows)[:] = np.nan
    for bad in (fresh("logits"), fresh(n_classes=2), np.full((2, 3), np.nan), None):
        with refused(errors.DataError):
            estimator.predict_proba(bad)
    assert state(estimator) == before


@each_calibrator
def test_a_refit_forgets_the_fit_before_it(calibrator):
    """The names of a frame and the number of classes, too."""
    scores, y = good()
    names = ["p0", "p1", "p2", "p3"]
    estimator = calibrator().fit(
        pd.DataFrame(good(n_classes=4)[0], columns=names), good(n_classes=4)[1]
    )
    assert estimator.feature_names_in_.tolist() == names
    estimator.fit(scores, y)
    assert state(estimator) == state(fitted(calibrator))
    assert same_fit(estimator, fitted(calibrator), fresh())


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
