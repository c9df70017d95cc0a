"""Column names against classes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bad_input.holders import pa
from bad_input.promises import (
    LETTERS,
    AnyCalibrator,
    absent_classes,
    bits,
    each_reader,
    fitted,
    fresh,
    good,
    new_names,
    refused,
    same_fit,
)
from calibrant import TemperatureScaling, errors

NAMES = LETTERS.tolist()
MIXED = ["cat", "ant", "bee"]
PLACES = [2, 0, 1]

FRAMES = {
    "pandas": lambda a, names: pd.DataFrame(a, columns=names),
    "polars": lambda a, names: pl.DataFrame(a, schema=names),
}
if pa:
    FRAMES["pyarrow"] = lambda a, names: pa.table(dict(zip(names, a.T, strict=True)))

each_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def lettered(calibrator, **parameters):
    """Return a fit to a plain matrix with labels of text."""
    scores, y = good()
    return calibrator(**parameters).fit(scores, LETTERS[y])


def wanted(calibrator):
    """Return what the plain matrix gives."""
    return bits(fitted(calibrator).predict_proba(fresh()))


@each_frame
@each_reader
def test_columns_named_after_the_classes_in_order_are_taken_as_they_are(calibrator, frame):
    """Warnings are errors here."""
    scores, y = good()
    estimator = calibrator().fit(frame(scores, NAMES), LETTERS[y])
    assert estimator.classes_.tolist() == NAMES
    assert np.array_equal(bits(estimator.predict_proba(frame(fresh(), NAMES))), wanted(calibrator))


@each_frame
@each_reader
def test_columns_named_after_the_classes_are_reordered_at_fit(calibrator, frame):
    """With a warning."""
    scores, y = good()
    with pytest.warns(errors.ColumnOrderWarning, match="reordered"):
        estimator = calibrator().fit(frame(scores[:, PLACES], MIXED), LETTERS[y])
    assert estimator.classes_.tolist() == NAMES
    with pytest.warns(errors.ColumnOrderWarning, match="reordered"):
        out = estimator.predict_proba(frame(fresh()[:, PLACES], MIXED))
    assert np.array_equal(bits(out), wanted(calibrator))


@each_frame
@each_reader
@pytest.mark.parametrize("names_at_fit", [None, NAMES])
def test_columns_named_after_the_classes_are_reordered_at_predict(calibrator, frame, names_at_fit):
    """Whether or not the fit saw names."""
    scores, y = good()
    scores = scores if names_at_fit is None else frame(scores, names_at_fit)
    estimator = calibrator().fit(scores, LETTERS[y])
    with pytest.warns(errors.ColumnOrderWarning, match="reordered"):
        out = estimator.predict_proba(frame(fresh()[:, PLACES], MIXED))
    assert np.array_equal(bits(out), wanted(calibrator))


@each_frame
@each_reader
def test_predict_and_transform_reorder_too(calibrator, frame):
    estimator = lettered(calibrator)
    mixed = frame(fresh()[:, PLACES], MIXED)
    with pytest.warns(errors.ColumnOrderWarning):
        predicted = estimator.predict(mixed)
    assert np.array_equal(predicted, estimator.predict(fresh()))
    with pytest.warns(errors.ColumnOrderWarning):
        transformed = estimator.transform(mixed)
    assert np.array_equal(bits(transformed), wanted(calibrator))


@each_reader
def test_columns_are_reordered_to_the_classes_given(calibrator):
    """``classes`` may be in an order of its own."""
    scores, y = good()
    estimator = calibrator(classes=MIXED)
    with pytest.warns(errors.ColumnOrderWarning, match="cat"):
        estimator.fit(pd.DataFrame(scores, columns=NAMES), LETTERS[y])
    assert estimator.classes_.tolist() == MIXED
    plain = calibrator(classes=MIXED).fit(scores[:, PLACES], LETTERS[y])
    assert same_fit(estimator, plain, fresh())


@absent_classes
@pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")  # merged labels
@each_reader
def test_reordered_columns_and_an_absent_class(calibrator):
    scores, y = good()
    y[y == 1] = 0
    estimator = calibrator(classes=NAMES)
    with pytest.warns(errors.ColumnOrderWarning):
        estimator.fit(pd.DataFrame(scores[:, PLACES], columns=MIXED), LETTERS[y])
    assert same_fit(estimator, calibrator(classes=NAMES).fit(scores, LETTERS[y]), fresh())


@pytest.mark.parametrize("labels", [[0, 1, 2], [10, 20, 30], [-1, 0, 1]], ids=str)
@each_reader
def test_columns_named_after_whole_numbers_are_reordered(calibrator, labels):
    """Names need not be text."""
    scores, y = good()
    labels = np.array(labels)
    with pytest.warns(errors.ColumnOrderWarning, match="reordered"):
        estimator = calibrator().fit(
            pd.DataFrame(scores[:, PLACES], columns=labels[PLACES]), labels[y]
        )
    assert same_fit(estimator, fitted(calibrator), fresh())


@each_reader
def test_a_frame_without_names_is_a_plain_matrix(calibrator):
    """Pandas numbers such columns 0, 1, 2, which names no class of 1, 2, 3."""
    scores, y = good()
    estimator = calibrator().fit(pd.DataFrame(scores), y + 1)
    assert estimator.classes_.tolist() == [1, 2, 3]
    assert same_fit(estimator, fitted(calibrator), fresh())


@each_frame
@each_reader
def test_columns_named_after_something_else_are_taken_as_they_are(calibrator, frame):
    """As scikit-learn does."""
    scores, y = good()
    estimator = calibrator().fit(frame(scores, ["p0", "p1", "p2"]), LETTERS[y])
    out = estimator.predict_proba(frame(fresh(), ["p0", "p1", "p2"]))
    assert np.array_equal(bits(out), wanted(calibrator))


@pytest.mark.parametrize("names", [["ant", "bee", "dog"], ["p0", "ant", "p2"]], ids=str)
@each_frame
def test_columns_partly_named_after_classes_are_refused_at_fit(frame, names):
    """With a column that is one and a column that is not."""
    scores, y = good()
    other = next(name for name in names if name not in NAMES)
    with refused(errors.ColumnNameError, "ant", other, ("name every column", "rename")):
        AnyCalibrator().fit(frame(scores, names), LETTERS[y])


@pytest.mark.parametrize("names", [["ant", "bee", "dog"], ["p0", "ant", "p2"]], ids=str)
@new_names
@pytest.mark.parametrize("names_at_fit", [None, NAMES])
@each_frame
def test_columns_partly_named_after_classes_are_refused_at_predict(frame, names_at_fit, names):
    """Whether or not the fit saw names."""
    scores, y = good()
    scores = scores if names_at_fit is None else frame(scores, names_at_fit)
    estimator = AnyCalibrator().fit(scores, LETTERS[y])
    with refused(errors.ColumnNameError, next(name for name in names if name not in NAMES)):
        estimator.predict_proba(frame(fresh(), names))


def test_a_class_named_twice_is_refused():
    """Every name is a class, but not every class is a name."""
    scores, y = good()
    frame = pd.DataFrame(scores, columns=["ant", "bee", "bee"])
    with refused(errors.ColumnNameError, "bee", ("name every column", "rename")):
        AnyCalibrator().fit(frame, LETTERS[y])


def test_names_of_mixed_types_are_refused():
    """As scikit-learn does, by an error of ours."""
    scores, y = good()
    with refused(errors.DataError, "name", ("string", "text", "type")):
        AnyCalibrator().fit(pd.DataFrame(scores, columns=["p0", 1, 2.0]), LETTERS[y])


@pytest.mark.parametrize(
    "names", [["p1", "p0", "p2"], ["p0", "p1", "p9"], ["q0", "q1", "q2"]], ids=str
)
@each_frame
def test_names_that_differ_between_fit_and_predict_are_refused(frame, names):
    """In order or in spelling."""
    scores, y = good()
    estimator = AnyCalibrator().fit(frame(scores, ["p0", "p1", "p2"]), LETTERS[y])
    with refused(errors.ColumnNameError, "names", ("order", names[-1], names[0])):
        estimator.predict_proba(frame(fresh(), names))


@each_frame
def test_class_names_at_fit_and_other_names_at_predict_are_refused(frame):
    scores, y = good()
    estimator = AnyCalibrator().fit(frame(scores, NAMES), LETTERS[y])
    with refused(errors.ColumnNameError, "p0"):
        estimator.predict_proba(frame(fresh(), ["p0", "p1", "p2"]))


@each_reader
def test_a_frame_is_not_changed_by_reordering(calibrator):
    """No input is ever modified."""
    scores, y = good()
    mixed = pd.DataFrame(scores[:, PLACES], columns=MIXED)
    before = mixed.copy(deep=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.ColumnOrderWarning)
        calibrator().fit(mixed, LETTERS[y]).predict_proba(mixed)
    pd.testing.assert_frame_equal(mixed, before)
    assert np.array_equal(bits(mixed.to_numpy()), bits(before.to_numpy()))


def test_a_bad_cell_is_named_by_its_column_in_the_frame_that_was_passed():
    """The message speaks of the caller's matrix, not of the reordered one."""
    scores, y = good()
    mixed = pd.DataFrame(scores[:, PLACES], columns=MIXED)
    mixed.iloc[17, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.ColumnOrderWarning)
        with refused(errors.NonFiniteError, "scores[17, 0]"):
            AnyCalibrator().fit(mixed, LETTERS[y])
        with refused(errors.NonFiniteError, "scores[17, 0]"):
            lettered(AnyCalibrator).predict_proba(mixed)


@each_frame
def test_a_prefix_and_a_suffix_that_all_columns_share_do_not_matter(frame):
    """``prob_cat`` is the column of ``cat``, at fit and at predict."""
    scores, y = good()
    names = [f"prob_{name}_x" for name in MIXED]
    plain = lettered(TemperatureScaling)
    with pytest.warns(errors.ColumnOrderWarning, match="prob_ant_x"):
        estimator = TemperatureScaling().fit(frame(scores[:, PLACES], names), LETTERS[y])
    with pytest.warns(errors.ColumnOrderWarning):
        out = estimator.predict_proba(frame(fresh()[:, PLACES], names))
    assert np.array_equal(bits(out), bits(plain.predict_proba(fresh())))
    in_order = [f"prob_{name}_x" for name in NAMES]
    out = estimator.predict_proba(frame(fresh(), in_order))
    assert np.array_equal(bits(out), bits(plain.predict_proba(fresh())))


@each_frame
def test_columns_that_cannot_be_told_apart_are_refused(frame):
    """Text labels go with columns in sorted order, or with ``classes``."""
    scores, y = good()
    mixed = frame(scores, ["p2", "p0", "p1"])
    with refused(errors.ColumnNameError, "p2", "sorted order", "pass classes="):
        TemperatureScaling().fit(mixed, LETTERS[y])
    estimator = TemperatureScaling(classes=NAMES).fit(mixed, LETTERS[y])
    assert same_fit(estimator, lettered(TemperatureScaling), fresh())
    mixed = frame(scores[:, PLACES], ["p2", "p0", "p1"])
    with pytest.warns(errors.ColumnOrderWarning, match="p0"):  # numbers do name them
        estimator = TemperatureScaling().fit(mixed, y)
    assert same_fit(estimator, fitted(TemperatureScaling), fresh())


def test_a_missing_class_is_named_by_its_column():
    """Also with a prefix, and by number."""
    scores, y = good()
    y[y == 1] = 0
    frame = pd.DataFrame(scores, columns=["p_5", "p_7", "p_9"])
    assert TemperatureScaling().fit(frame, np.array([5, 7, 9])[y]).classes_.tolist() == [5, 7, 9]
    frame.columns = ["p ant", "p bee", "p cat"]
    assert TemperatureScaling().fit(frame, LETTERS[y]).classes_.tolist() == NAMES


def test_a_frame_without_names_goes_with_text_labels():
    """Pandas' numbers of columns say nothing about text."""
    scores, y = good()
    estimator = TemperatureScaling().fit(pd.DataFrame(scores), LETTERS[y])
    assert same_fit(estimator, lettered(TemperatureScaling), fresh())
