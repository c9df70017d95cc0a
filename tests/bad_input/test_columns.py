"""Column names and labels against classes: which column is whose, and classes without a label."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bad_input.promises import (
    LETTERS,
    NAMES,
    PER_CLASS,
    AnyCalibrator,
    absent_classes,
    as_kind,
    assert_distributions,
    bits,
    each_calibrator,
    each_reader,
    fitted,
    fresh,
    good,
    merged_classes,
    new_names,
    pa,
    refused,
    same_fit,
)
from calibrant import errors
from calibrant._gate._simplex import check_labels
from calibrant.scale import count_each

MIXED = ["cat", "ant", "bee"]
PLACES = [2, 0, 1]

FRAMES = {
    "pandas": lambda a, names: pd.DataFrame(a, columns=names),
    "polars": lambda a, names: pl.DataFrame(a, schema=names),
}
if pa:
    FRAMES["pyarrow"] = lambda a, names: pa.table(dict(zip(names, a.T, strict=True)))

each_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


@each_frame
@each_reader
@pytest.mark.parametrize("is_mixed", [False, True])
def test_columns_named_after_the_classes_are_reordered(calibrator, frame, is_mixed):
    """With a warning, at fit and at predict; in their order they are taken in silence."""
    scores, y = good()
    given = frame(scores[:, PLACES], MIXED) if is_mixed else frame(scores, NAMES)
    reordered = pytest.warns(errors.ColumnOrderWarning, match="reordered")
    with reordered if is_mixed else nullcontext():
        estimator = calibrator().fit(given, LETTERS[y])
    assert estimator.classes_.tolist() == NAMES
    mixed = frame(fresh()[:, PLACES], MIXED)
    with reordered:
        out = estimator.predict_proba(mixed)
    assert np.array_equal(bits(out), bits(fitted(calibrator).predict_proba(fresh())))
    with reordered:
        predicted = estimator.predict(mixed)
    assert np.array_equal(predicted, LETTERS[fitted(calibrator).predict(fresh())])


@each_reader
@absent_classes
@merged_classes
@pytest.mark.parametrize("absent", [None, 1])
def test_columns_are_reordered_to_the_classes_given(calibrator, absent):
    """``classes`` may be in an order of its own, and one of them without a label."""
    scores, y = good()
    y[y == absent] = 0
    estimator = calibrator(classes=MIXED)
    with pytest.warns(errors.ColumnOrderWarning, match="cat"):
        estimator.fit(pd.DataFrame(scores, columns=NAMES), LETTERS[y])
    assert estimator.classes_.tolist() == MIXED
    plain = calibrator(classes=MIXED).fit(scores[:, PLACES], LETTERS[y])
    assert same_fit(estimator, plain, fresh())


@pytest.mark.parametrize("labels", [np.array([1, 2, 3]), LETTERS], ids=str)
@each_reader
def test_a_frame_without_names_is_a_plain_matrix(calibrator, labels):
    """Pandas numbers such columns 0, 1, 2, which names no class of 1, 2, 3, and no text."""
    scores, y = good()
    estimator = calibrator().fit(pd.DataFrame(scores), labels[y])
    assert estimator.classes_.tolist() == labels.tolist()
    assert same_fit(estimator, fitted(calibrator), fresh())


RENAME = ("name every column", "rename")
AT_FIT = {
    "one is no class": (["ant", "bee", "dog"], ("ant", "dog", RENAME)),
    "one is no class, with a prefix": (["p_ant", "p_bee", "p_dog"], ("p_ant", "p_dog", RENAME)),
    "one is a class": (["p0", "ant", "p2"], ("ant", "p0", RENAME)),
    "not in sorted order": (["p2", "p0", "p1"], ("p2", "sorted order", "pass classes=")),
}


@pytest.mark.parametrize("case", AT_FIT)
@each_frame
def test_columns_that_cannot_be_told_apart_are_refused_at_fit(frame, case):
    """With a column that is one and a column that is not."""
    (scores, y), (names, parts) = good(), AT_FIT[case]
    with refused(errors.ColumnNameError, *parts):
        AnyCalibrator().fit(frame(scores, names), LETTERS[y])


def test_names_that_only_pandas_has_are_refused():
    """A class named twice, and names of mixed types, as scikit-learn refuses them."""
    scores, y = good()
    for names, parts in ((["ant", "bee", "bee"], ("bee", RENAME)), (["p0", 1, 2.0], ("text",))):
        with refused(errors.ColumnNameError, *parts):
            AnyCalibrator().fit(pd.DataFrame(scores, columns=names), LETTERS[y])


PLAIN = ["p0", "p1", "p2"]


@new_names
@pytest.mark.parametrize(
    ("before", "names", "parts"),
    [
        *((names, ["ant", "bee", "dog"], ("dog",)) for names in (None, NAMES)),
        *((names, ["p0", "ant", "p2"], ("p0",)) for names in (None, NAMES)),
        (PLAIN, ["p1", "p0", "p2"], ("names", ("order", "p2", "p1"))),
        (PLAIN, ["p0", "p1", "p9"], ("names", ("order", "p9", "p0"))),
        (PLAIN, ["q0", "q1", "q2"], ("names", ("order", "q2", "q0"))),
        (NAMES, PLAIN, ("p0",)),
    ],
)
@each_frame
def test_other_names_at_predict_than_at_fit_are_refused(frame, before, names, parts):
    """In order or in spelling, or partly named after classes."""
    scores, y = good()
    scores = scores if before is None else frame(scores, before)
    estimator = AnyCalibrator().fit(scores, LETTERS[y])
    with refused(errors.ColumnNameError, *parts):
        estimator.predict_proba(frame(fresh(), names))


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


@pytest.mark.parametrize("calibrator", PER_CLASS, ids=lambda c: c.args[0].__name__)
def test_an_absent_class_gives_a_warning_where_classes_are_fitted_apart(calibrator):
    scores, y = _without(1)
    with pytest.warns(errors.MissingClassWarning, match="bee"):
        calibrator(classes=NAMES).fit(scores, LETTERS[y])


def test_categories_that_no_row_has_tell_columns_and_no_labels():
    some = pd.Categorical(["bee", "ant"] * 5, categories=["cow", "bee", "ant"])
    index, classes = check_labels(some, 10, 3)
    assert classes.tolist() == ["ant", "bee", "cow"]
    assert index.tolist() == [1, 0] * 5
    assert sorted(count_each(None, some)) == ["ant", "bee"]
