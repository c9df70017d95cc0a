"""Labels against classes: which column a label belongs to, and classes that no label has."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from bad_input.promises import (
    LETTERS,
    NAMES,
    PER_CLASS,
    as_kind,
    assert_distributions,
    each_calibrator,
    fresh,
    good,
    same_fit,
)
from calibrant import errors
from calibrant._gate import _simplex as simplex
from calibrant.scale import count_each


def _without(absent):
    scores, y = good()
    rows = y != absent
    return np.tile(scores[rows], (2, 1)), np.tile(y[rows], 2)


@pytest.mark.parametrize(("kind", "absent"), [("probabilities", 0), ("logits", 1), ("logits", 2)])
@each_calibrator
def test_an_absent_class_is_fitted_with_whole_numbers_or_classes(calibrator, kind, absent):
    """Methods that fit no class on its own are unaffected and say nothing."""
    scores, y = _without(absent)
    scores = as_kind(scores, kind)
    action = "ignore" if calibrator in PER_CLASS else "error"
    with warnings.catch_warnings():
        warnings.simplefilter(action, errors.MissingClassWarning)
        numbers = calibrator(scores=kind).fit(scores, y)
        named = calibrator(scores=kind, classes=NAMES).fit(scores, LETTERS[y])
        floats = calibrator(scores=kind).fit(scores, y.astype(float))
    assert numbers.classes_.tolist() == [0, 1, 2]
    assert named.classes_.tolist() == NAMES
    assert_distributions(numbers.predict_proba(fresh(kind)), 1e-12)
    assert same_fit(numbers, named, fresh(kind))
    assert same_fit(numbers, floats, fresh(kind))


@pytest.mark.parametrize("calibrator", PER_CLASS, ids=lambda c: c.__name__)
def test_an_absent_class_gives_a_warning_where_classes_are_fitted_apart(calibrator):
    scores, y = _without(1)
    with pytest.warns(errors.MissingClassWarning, match="bee"):
        calibrator(classes=NAMES).fit(scores, LETTERS[y])


def test_categories_that_no_row_has_tell_columns_and_no_labels():
    some = pd.Categorical(["bee", "ant"] * 5, categories=["cow", "bee", "ant"])
    index, classes = simplex.check_labels(some, 10, 3)
    assert classes.tolist() == ["ant", "bee", "cow"]
    assert index.tolist() == [1, 0] * 5
    assert sorted(count_each(None, some)) == ["ant", "bee"]
