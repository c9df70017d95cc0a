"""Labels that are bad or unusual."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bad_input.promises import (
    LETTERS,
    AnyCalibrator,
    absent_classes,
    each_reader,
    fitted,
    fresh,
    good,
    refused,
    same_fit,
)
from calibrant import errors, labels
from calibrant.scale.chunks import distinct

NAMES = LETTERS.tolist()

LABELS = {
    "text": lambda y: LETTERS[y],
    "text in a list": lambda y: LETTERS[y].tolist(),
    "text in objects": lambda y: LETTERS[y].astype(object),
    "text in a series": lambda y: pd.Series(LETTERS[y], index=np.arange(len(y))[::-1]),
    "text in a nullable series": lambda y: pd.Series(LETTERS[y], dtype="string"),
    "numbers in polars": pl.Series,
    "text in polars": lambda y: pl.Series(LETTERS[y].tolist()),
    "bytes": lambda y: LETTERS.astype("S")[y],
    "categories": lambda y: pd.Categorical(LETTERS[y], categories=["cat", "ant", "bee"]),
    "categories in a series": lambda y: pd.Series(LETTERS[y], dtype="category"),
    "polars categories": lambda y: pl.Series(LETTERS[y].tolist(), dtype=pl.Categorical),
    "whole floats": lambda y: y.astype(np.float64),
    "float32": lambda y: y.astype(np.float32),
    "float16": lambda y: y.astype(np.float16),
    "int8": lambda y: y.astype(np.int8),
    "uint64": lambda y: y.astype(np.uint64),
    "a list": lambda y: y.tolist(),
    "a range not from 0": lambda y: y + 5,
    "negative numbers": lambda y: y - 7,
    "nullable integers": lambda y: pd.Series(y, dtype="Int64"),
    "integers in objects": lambda y: y.astype(object),
    "big-endian": lambda y: y.astype(">i4"),
    "big-endian text": lambda y: LETTERS.astype(">U3")[y],
    "reversed view": lambda y: y[::-1].copy()[::-1],
    "a column": lambda y: y.reshape(-1, 1),
    "one-hot": lambda y: np.eye(3, dtype=np.int64)[y],
    "one-hot bool": lambda y: np.eye(3, dtype=bool)[y],
    "one-hot float": lambda y: np.eye(3)[y],
    "one-hot lists": lambda y: np.eye(3, dtype=int)[y].tolist(),
    "one-hot frame": lambda y: pd.DataFrame(np.eye(3)[y]),
    "one-hot lists in a series": lambda y: pd.Series(np.eye(3, dtype=int)[y].tolist()),
    "one-hot tuples in objects": lambda y: pd.Series(map(tuple, np.eye(3)[y])).to_numpy(),
    "one-hot dummies": lambda y: pd.get_dummies(pd.Series(LETTERS[y])),
}


@pytest.mark.filterwarnings("ignore:A column-vector y:sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("form", LABELS)
@each_reader
def test_labels_of_every_kind_give_the_same_fit(calibrator, form):
    """To the bit that of 0, 1, 2."""
    scores, y = good()
    estimator = calibrator().fit(scores, LABELS[form](y))
    assert len(estimator.classes_) == 3
    assert same_fit(estimator, fitted(calibrator), fresh())


@pytest.mark.parametrize(
    ("form", "kind", "first"),
    [
        ("text", "U", "ant"),
        ("text in a list", "U", "ant"),
        ("text in objects", "O", "ant"),
        ("bytes", "S", b"ant"),
        ("whole floats", "f", 0.0),
        ("int8", "i", 0),
        ("uint64", "u", 0),
        ("a range not from 0", "i", 5),
        ("negative numbers", "i", -7),
        ("one-hot", "i", 0),
    ],
)
@each_reader
def test_classes_keep_the_type_of_the_labels(calibrator, form, kind, first):
    """Predictions have it too."""
    scores, y = good()
    estimator = calibrator().fit(scores, LABELS[form](y))
    assert estimator.classes_.dtype.kind == kind
    assert estimator.classes_[0] == first
    predicted = estimator.predict(fresh())
    assert predicted.dtype == estimator.classes_.dtype
    assert np.array_equal(predicted, estimator.classes_[fitted(calibrator).predict(fresh())])


@pytest.mark.parametrize("form", ["categories", "categories in a series", "polars categories"])
@each_reader
def test_classes_of_categorical_labels_are_the_sorted_categories(calibrator, form):
    """Columns go with sorted labels, as scikit-learn has them."""
    scores, y = good()
    assert calibrator().fit(scores, LABELS[form](y)).classes_.tolist() == NAMES


@each_reader
def test_truth_values_are_labels(calibrator):
    scores, y = good(n_classes=2)
    estimator = calibrator().fit(scores, y.astype(bool))
    assert estimator.classes_.dtype == bool
    assert same_fit(estimator, calibrator().fit(scores, y), fresh(n_classes=2))
    assert estimator.predict(fresh(n_classes=2)).dtype == bool


@pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")  # two classes in one
@each_reader
@absent_classes
def test_categories_that_no_label_has_still_name_their_column(calibrator):
    scores, y = good()
    y[y == 1] = 2
    labels = pd.Categorical(LETTERS[y], categories=["bee", "cat", "ant"])
    estimator = calibrator().fit(scores, labels)
    assert estimator.classes_.tolist() == NAMES
    assert same_fit(estimator, calibrator(classes=NAMES).fit(scores, LETTERS[y]), fresh())


@each_reader
def test_categories_beyond_the_columns_do_not_matter(calibrator):
    """Every column is named by a label that is there."""
    scores, y = good()
    labels = pd.Categorical(LETTERS[y], categories=[*NAMES, "dog", "eel"])
    estimator = calibrator().fit(scores, labels)
    assert estimator.classes_.tolist() == NAMES
    assert same_fit(estimator, fitted(calibrator), fresh())


def test_labels_of_mixed_types_are_refused():
    scores, y = good()
    labels = LETTERS[y].astype(object)
    labels[4] = 7
    with refused(errors.LabelError, "y", "type"):
        AnyCalibrator().fit(scores, labels)


@pytest.mark.parametrize(
    "row", [[1, 1, 0], [0, 0, 0], [0.5, 0.5, 0], [2, 0, 0], [1, -1, 1]], ids=str
)
def test_label_rows_without_exactly_one_one_are_refused(row):
    scores, y = good()
    hot = np.eye(3)[y]
    hot[21] = row
    with refused(errors.LabelError, "y[21]", "one-hot", "exactly one 1"):
        AnyCalibrator().fit(scores, hot)


def test_label_rows_of_another_width_are_refused():
    scores, y = good()
    with refused(errors.DataError, "y", "4", "3", "column"):
        AnyCalibrator().fit(scores, np.eye(4)[y])


@each_reader
@pytest.mark.parametrize("classes", [NAMES, NAMES[::-1], [2, 0, 1], [10, 20, 30]], ids=str)
def test_one_hot_columns_are_the_columns_of_the_scores(calibrator, classes):
    """Whatever ``classes`` calls the columns."""
    scores, y = good()
    estimator = calibrator(classes=classes).fit(scores, np.eye(3)[y])
    assert estimator.classes_.tolist() == list(classes)
    assert same_fit(estimator, fitted(calibrator), fresh())


@pytest.mark.parametrize("value", [0.5, -0.25, 1e-9])
def test_labels_that_are_not_whole_are_refused(value):
    scores, y = good()
    labels = y.astype(float)
    labels[33] = value
    with refused(errors.LabelError, "y[33]", str(value), "class labels"):
        AnyCalibrator().fit(scores, labels)


@each_reader
def test_the_label_minus_zero_is_zero(calibrator):
    scores, y = good()
    labels = y.astype(float)
    labels[labels == 0.0] = -0.0
    estimator = calibrator().fit(scores, labels)
    assert not np.signbit(estimator.classes_).any()
    assert same_fit(estimator, fitted(calibrator), fresh())


def _lacking(form):
    """Labels of which row 12 is missing, two classes of three elsewhere."""
    y = good()[1]
    y[y == 1] = 2
    if form in {"nan", "inf"}:
        labels = y.astype(float)
        labels[12] = float(form)
        return labels
    if form == "nan in objects":
        labels = y.astype(object)
        labels[12] = np.nan
        return labels
    if form == "None":
        return [None if i == 12 else label for i, label in enumerate(LETTERS[y])]
    if form == "nan in a list of text":
        return [float("nan") if i == 12 else str(label) for i, label in enumerate(LETTERS[y])]
    if form == "nan in a list of numpy's text":
        return [float("nan") if i == 12 else label for i, label in enumerate(LETTERS[y])]
    if form == "pandas NA":
        return pd.Series([pd.NA if i == 12 else label for i, label in enumerate(y)], dtype="Int64")
    if form == "pandas NaT":
        return pd.Series([pd.NaT if i == 12 else label for i, label in enumerate(y)], dtype=object)
    if form == "pandas text":
        return pd.Series([None if i == 12 else label for i, label in enumerate(LETTERS[y])])
    if form == "pandas nullable text":
        texts = [pd.NA if i == 12 else label for i, label in enumerate(LETTERS[y])]
        return pd.Series(texts, dtype="string")
    if form == "category":
        codes = np.where(np.arange(len(y)) == 12, -1, y)
        return pd.Categorical.from_codes(codes, NAMES)
    if form == "polars text":
        return pl.Series([None if i == 12 else str(label) for i, label in enumerate(LETTERS[y])])
    if form == "polars integers":
        return pl.Series([None if i == 12 else int(label) for i, label in enumerate(y)])
    if form == "one-hot":
        hot = np.eye(3)[y]
        hot[12, 0] = np.nan
        return hot
    raise AssertionError(form)


@pytest.mark.parametrize(
    "form",
    [
        "nan",
        "inf",
        "nan in objects",
        "None",
        "nan in a list of text",
        "nan in a list of numpy's text",
        "pandas NA",
        "pandas NaT",
        "pandas text",
        "pandas nullable text",
        "category",
        "polars text",
        "polars integers",
        "one-hot",
    ],
)
def test_missing_labels_are_refused_with_their_row(form):
    with refused(errors.LabelError, "y[12]", ("drop", "remove", "repair")):
        AnyCalibrator().fit(good()[0], _lacking(form))


def test_no_labels_at_all_are_refused():
    with refused(errors.LabelError, "y", "None"):
        AnyCalibrator().fit(good()[0], None)


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(199, dtype=int),
        np.zeros((200, 3, 1)),
        1,
        (label for label in range(200)),
        [[0, 1, 0]] * 199 + [[1]],
    ],
    ids=["too few", "three dimensions", "a number", "a generator", "ragged rows"],
)
def test_labels_of_another_number_are_refused(y):
    """One label a row, and no generator."""
    with refused(errors.DataError, "y", "200", "row"):
        AnyCalibrator().fit(good()[0], y)


def test_complex_labels_are_refused():
    scores, y = good()
    with refused(errors.DataError, "y", "complex", "class labels"):
        AnyCalibrator().fit(scores, y.astype(complex))


TEXTS = {
    "objects": lambda text: text.astype(object),
    "a list": lambda text: text.tolist(),
    "a series": pd.Series,
    "a nullable series": lambda text: pd.Series(text, dtype="string"),
    "a series of objects": lambda text: pd.Series(text, dtype=object),
    "categories": pd.Categorical,
    "categories in a series": lambda text: pd.Series(text, dtype="category"),
    "arrow": pa.array,
    "categories of arrow": lambda text: pa.array(text).dictionary_encode(),
}


@pytest.mark.parametrize("form", TEXTS)
def test_each_text_is_looked_at_once_however_many_rows_have_it(form, monkeypatch):
    looked_at = []
    is_missing = labels._is_missing
    monkeypatch.setattr(labels, "_is_missing", lambda v: looked_at.append(v) or is_missing(v))
    text = np.tile(LETTERS, 1000)
    index, classes = labels.check_labels(TEXTS[form](text), len(text), 3)
    assert len(looked_at) <= 3
    assert index.tolist() == [0, 1, 2] * 1000
    assert classes.tolist() == LETTERS.tolist()
    assert distinct(TEXTS[form](text)).tolist() == LETTERS.tolist()
    assert len(looked_at) <= 6


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("form", ["objects", "a list", "a series of objects", "categories"])
def test_a_missing_text_is_told_with_its_row(form, missing):
    text = np.tile(LETTERS, 10).astype(object)
    text[17] = missing
    with pytest.raises(errors.LabelError, match=r"y\[17\] is .*contains NaN"):
        labels.check_labels(TEXTS[form](text), 30, 3)


def test_a_missing_text_of_pandas_is_told_with_its_row():
    text = pd.Series(np.tile(LETTERS, 10).astype(object), dtype="string")
    text[17] = pd.NA
    with pytest.raises(errors.LabelError, match=r"y\[17\] is .*contains NaN"):
        labels.check_labels(text, 30, 3)
    with pytest.raises(errors.LabelError, match=r"y\[17\] is .*contains NaN"):
        distinct(text)


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


def test_labels_of_two_types_in_a_chunk_are_refused():
    with pytest.raises(errors.LabelError, match="y mixes labels of different types"):
        distinct(np.array(["ant", 1], dtype=object))
