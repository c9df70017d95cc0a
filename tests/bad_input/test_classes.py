"""Labels against classes, and classes that no label has."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import calibrant
from bad_input.promises import (
    LETTERS,
    ONE_MAP,
    PER_CLASS,
    AnyCalibrator,
    absent_classes,
    assert_distributions,
    each_calibrator,
    each_kind,
    few_rows,
    fresh,
    good,
    refused,
    same_fit,
    unbounded,
)
from calibrant import errors, simplex

NAMES = LETTERS.tolist()


@pytest.mark.parametrize(
    ("classes", "label"),
    [
        (["ant", "bee", "cat"], "dog"),
        (["ant", "bee", "cat"], "an"),
        (["ant", "bee", "cat"], "zebra"),
        ([0, 1, 2], 3),
        ([0, 1, 2], -1),
        ([0.0, 1.0, 2.0], 5.0),
        ([b"ant", b"bee", b"cat"], b"dog"),
    ],
)
def test_a_label_that_is_no_class_is_refused_by_name(classes, label):
    scores, y = good()
    labels = [label if i == 44 else classes[c] for i, c in enumerate(y)]
    with refused(errors.LabelError, "y[44]", repr(label), "classes"):
        AnyCalibrator(classes=classes).fit(scores, np.array(labels))


@pytest.mark.parametrize("labels", [["0", "1", "2"], [b"ant", b"bee", b"cat"]], ids=str)
@pytest.mark.parametrize("classes", [[0, 1, 2], ["ant", "bee", "cat"]], ids=str)
def test_labels_of_another_type_than_the_classes_are_refused(classes, labels):
    """The text "0" is not 0, and bytes are not text."""
    scores, y = good()
    with refused(errors.LabelError, ("y", "labels"), "classes"):
        AnyCalibrator(classes=classes).fit(scores, np.array(labels)[y])


@pytest.mark.parametrize(
    "classes", [["ant", "bee"], ["ant", "bee", "ant"], "ant", [["ant"]], ["ant", 1, None]], ids=str
)
def test_classes_that_do_not_name_each_column_are_refused(classes):
    scores, y = good()
    with refused(errors.ParameterError, "classes"):
        AnyCalibrator(classes=classes).fit(scores, LETTERS[y])


def test_more_labels_than_columns_are_refused():
    scores, y = good()
    y[3] = 9
    with refused(errors.LabelError, "y", "4", "3", "column"):
        AnyCalibrator().fit(scores, y)


def _without(absent):
    scores, y = good()
    rows = y != absent
    return np.tile(scores[rows], (2, 1)), np.tile(y[rows], 2)


@pytest.mark.parametrize(("kind", "absent"), [("probabilities", 0), ("logits", 1), ("logits", 2)])
@each_calibrator
def test_an_absent_class_is_fitted_with_whole_numbers_or_classes(calibrator, kind, absent):
    """Methods that fit no class on its own are unaffected and say nothing."""
    scores, y = _without(absent)
    if kind == "logits":
        scores = np.log(scores)
    with warnings.catch_warnings():
        if calibrator in PER_CLASS:
            warnings.simplefilter("ignore", errors.MissingClassWarning)
        numbers = calibrator(scores=kind).fit(scores, y)
        named = calibrator(scores=kind, classes=NAMES).fit(scores, LETTERS[y])
        floats = calibrator(scores=kind).fit(scores, y.astype(float))
    assert numbers.classes_.tolist() == [0, 1, 2]
    assert named.classes_.tolist() == NAMES
    assert_distributions(numbers.predict_proba(fresh(kind)), 1e-12)
    assert same_fit(numbers, named, fresh(kind))
    assert same_fit(numbers, floats, fresh(kind))


@pytest.mark.parametrize("labels", [LETTERS, LETTERS.astype(object), np.array([3, 5, 9])], ids=str)
def test_an_absent_class_without_a_name_is_refused(labels):
    """Which column is not there cannot be told."""
    scores, y = _without(1)
    with refused(errors.LabelError, "y", "pass classes="):
        AnyCalibrator().fit(scores, labels[y])


@pytest.mark.parametrize("calibrator", PER_CLASS, ids=lambda c: c.__name__)
def test_an_absent_class_gives_a_warning_where_classes_are_fitted_apart(calibrator):
    scores, y = _without(1)
    with pytest.warns(errors.MissingClassWarning, match="bee"):
        calibrator(classes=NAMES).fit(scores, LETTERS[y])


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
    """To the bit, the fit does not depend on which class is absent."""
    scores, y = _without(1)
    order = [0, 2, 1]
    moved = calibrator().fit(scores[:, order], np.argsort(order)[y])
    out = calibrator().fit(scores, y).predict_proba(fresh())
    np.testing.assert_array_almost_equal_nulp(
        moved.predict_proba(fresh()[:, order]), out[:, order], 2
    )


@pytest.mark.parametrize(("kind", "n_classes"), [("probabilities", 2), ("logits", 10)])
@each_calibrator
@absent_classes
@few_rows
def test_labels_of_one_class_are_fitted_with_a_warning(calibrator, kind, n_classes):
    scores, _ = good(kind, n_classes=n_classes)
    with pytest.warns(errors.SingleClassWarning, match="1"):
        estimator = calibrator(scores=kind).fit(scores, np.ones(200, dtype=int))
    assert_distributions(estimator.predict_proba(fresh(kind, n_classes=n_classes)), 1e-12)


@each_calibrator
@each_kind
@unbounded
def test_labels_that_are_always_wrong_give_finite_output(calibrator, kind):
    """With a warning that the columns may be permuted."""
    scores, _ = good(kind)
    with pytest.warns(errors.ColumnMismatchWarning, match="accuracy 0.00 is below chance"):
        estimator = calibrator(scores=kind).fit(scores, scores.argmin(axis=1))
    out = estimator.predict_proba(fresh(kind))
    assert_distributions(out, 1e-12)


@each_calibrator
@each_kind
def test_labels_that_are_noise_give_finite_output(calibrator, kind):
    y = np.random.default_rng(3).integers(0, 3, 200)
    out = calibrator(scores=kind).fit(good(kind)[0], y).predict_proba(fresh(kind))
    assert_distributions(out, 1e-12)


def test_permuted_columns_are_noticed_at_fit():
    """Plain matrices have no names, but a classifier is better than chance."""
    scores, y = good()
    with pytest.warns(errors.ColumnMismatchWarning, match=r"accuracy 0\.\d\d is below chance"):
        calibrant.TemperatureScaling().fit(scores[:, [1, 2, 0]], LETTERS[y])


def test_few_rows_and_bad_luck_are_no_reason_to_suspect_the_columns():
    """Nor one heavy row; warnings are errors here."""
    rng = np.random.default_rng(0)
    for n_rows, n_classes in ((15, 2), (25, 3), (2000, 2), (2000, 50)):
        for _ in range(20):
            scores = rng.dirichlet(np.ones(n_classes), n_rows)
            y = rng.integers(0, n_classes, n_rows)
            if n_rows < 100:
                y = scores.argmin(axis=1)
            weight = np.where(np.arange(n_rows) == 0, 1e12, 1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", errors.SmallSampleWarning)
                simplex.check_batch(scores, y, classes=np.arange(n_classes))
                scores[0] = np.eye(n_classes)[(y[0] + 1) % n_classes]
                simplex.check_batch(scores, y, weight, classes=np.arange(n_classes))
