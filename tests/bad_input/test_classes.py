"""Labels against classes: which column a label belongs to, and classes that no label has."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

import calibrant
from bad_input.promises import (
    LETTERS,
    NAMES,
    ONE_MAP,
    PER_CLASS,
    absent_classes,
    as_kind,
    assert_distributions,
    each_calibrator,
    few_rows,
    fresh,
    good,
    same_fit,
)
from calibrant import _labels as labels
from calibrant import _simplex as simplex
from calibrant import errors
from calibrant.scale._chunks import distinct


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


@absent_classes
def test_an_absent_class_keeps_its_score_in_one_vs_rest():
    """Before rows are divided by their sums."""
    scores, y = _without(1)
    isotonic = calibrant.OneVsRestIsotonic(min_probability=0, prior_strength=0).fit(scores, y)
    out = isotonic.predict_proba(fresh())
    wanted = fresh()
    for j in (0, 2):
        curve = IsotonicRegression(out_of_bounds="clip").fit(scores[:, j], y == j)
        wanted[:, j] = curve.predict(fresh()[:, j])
    total = wanted.sum(axis=1, keepdims=True)
    assert (total > 0).all()
    np.testing.assert_allclose(out, wanted / total, atol=1e-12)


@pytest.mark.parametrize("calibrator", ONE_MAP, ids=lambda c: c.__name__)
def test_an_absent_class_is_calibrated_as_the_others_are(calibrator):
    """The fit does not depend on which class is absent."""
    scores, y = _without(1)
    order = [0, 2, 1]
    moved = calibrator().fit(scores[:, order], np.argsort(order)[y])
    out = calibrator().fit(scores, y).predict_proba(fresh())
    again = moved.predict_proba(fresh()[:, order])
    np.testing.assert_allclose(again, out[:, order], rtol=1e-9)


def test_permuted_columns_are_noticed_at_fit():
    """Plain matrices have no names, but a classifier is better than chance."""
    scores, y = good()
    with (
        pytest.warns(errors.ConstantFitWarning),
        pytest.warns(errors.ColumnMismatchWarning, match="fit another order of the columns"),
    ):
        calibrant.TemperatureScaling().fit(scores[:, [1, 2, 0]], LETTERS[y])


@pytest.mark.parametrize("calibrator", PER_CLASS, ids=lambda c: c.__name__)
def test_an_absent_class_gives_a_warning_where_classes_are_fitted_apart(calibrator):
    scores, y = _without(1)
    with pytest.warns(errors.MissingClassWarning, match="bee"):
        calibrator(classes=NAMES).fit(scores, LETTERS[y])


@few_rows
@pytest.mark.parametrize("shape", [(15, 2), (25, 3), (2000, 2), (2000, 50)])
def test_few_rows_and_bad_luck_are_no_reason_to_suspect_the_columns(shape):
    """Nor one heavy row; warnings are errors here."""
    rng = np.random.default_rng(0)
    n_rows, n_classes = shape
    weight = np.where(np.arange(n_rows) == 0, 1e12, 1.0)
    for _ in range(20):
        scores = rng.dirichlet(np.ones(n_classes), n_rows)
        y = scores.argmin(axis=1) if n_rows < 100 else rng.integers(0, n_classes, n_rows)
        simplex.check_batch(scores, y, classes=np.arange(n_classes))
        scores[0] = np.eye(n_classes)[(y[0] + 1) % n_classes]
        simplex.check_batch(scores, y, weight, classes=np.arange(n_classes))


TEXTS = {
    "objects": lambda text: text.astype(object),
    "a list": lambda text: text.tolist(),
    "a nullable series": lambda text: pd.Series(text, dtype="string"),
    "a series of objects": lambda text: pd.Series(text, dtype=object),
    "categories": pd.Categorical,
}


FORMS = ("objects", "a list", "a series of objects", "categories")
LOST = [(form, missing) for form in FORMS for missing in (None, np.nan, pd.NA, pd.NaT)]


@pytest.mark.parametrize(("form", "missing"), [*LOST, ("a nullable series", pd.NA)])
def test_a_missing_text_is_told_with_its_row(form, missing):
    text = np.tile(LETTERS, 10).astype(object)
    text[17] = missing
    with pytest.raises(errors.LabelError, match=r"y\[17\] is .*contains NaN"):
        labels.check_labels(TEXTS[form](text), 30, 3)
    with pytest.raises(errors.LabelError, match=r"y\[17\] is .*contains NaN"):
        distinct(pd.Series(text))


def test_categories_that_no_row_has_tell_columns_and_no_labels():
    some = pd.Categorical(["bee", "ant"] * 5, categories=["cow", "bee", "ant"])
    index, classes = labels.check_labels(some, 10, 3)
    assert classes.tolist() == ["ant", "bee", "cow"]
    assert index.tolist() == [1, 0] * 5
    assert distinct(some).tolist() == ["ant", "bee"]
    numbers = pd.Categorical([2, 1] * 5, categories=[2, 0.5, 1])
    index, classes = labels.check_labels(numbers, 10, 2)
    assert classes.tolist() == [1.0, 2.0]
    with pytest.raises(errors.LabelError, match=r"continuous. y\[1\] is 0.5"):
        labels.check_labels(pd.Categorical([1, 0.5]), 2, 2)
