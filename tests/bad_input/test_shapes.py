"""Shapes and sizes, and calibrators asked too early."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from bad_input.promises import (
    LETTERS,
    AnyCalibrator,
    absent_classes,
    assert_distributions,
    each_action,
    each_calibrator,
    each_kind,
    few_rows,
    fitted,
    fresh,
    good,
    in_one_round,
    refused,
    unbounded,
    use,
)
from calibrant import errors

lone_class = pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning")


@each_kind
def test_one_class_is_not_enough(kind):
    with refused(errors.ClassCountError, "scores", "(200, 1)", "at least two classes"):
        AnyCalibrator(scores=kind).fit(np.ones((200, 1)), np.zeros(200, dtype=int))


TO_TWO_COLUMNS = {
    "probabilities": ("np.column_stack([1 - p, p])", lambda p: [1 - p, p]),
    "logits": ("np.column_stack([np.zeros_like(z), z])", lambda z: [np.zeros_like(z), z]),
}


@each_kind
@each_action
@pytest.mark.parametrize("shape", [(200,), (200, 1)])
def test_one_column_is_refused_with_the_way_to_two(kind, action, shape):
    """No guess that it is the positive class."""
    y = np.arange(200) % 2
    positive = np.where(y == 1, 0.7, 0.4)
    remedy, columns = TO_TWO_COLUMNS[kind]
    estimator = AnyCalibrator(scores=kind)
    if action == "predict_proba":
        estimator.fit(np.column_stack(columns(positive)), y)
    with refused(errors.ShapeError, "scores", str(shape), remedy):
        if action == "fit":
            estimator.fit(positive.reshape(shape), y)
        else:
            estimator.predict_proba(positive.reshape(shape))


@each_calibrator
@each_kind
def test_two_columns_are_a_binary_problem(calibrator, kind):
    scores, y = good(kind, n_classes=2)
    out = calibrator(scores=kind).fit(scores, y).predict_proba(fresh(kind, n_classes=2))
    assert out.shape == (150, 2)
    assert_distributions(out, 1e-12)


@each_action
@pytest.mark.parametrize("shape", [(200, 3, 1), (1, 200, 3), ()])
def test_anything_but_a_matrix_is_refused(action, shape):
    scores = good()[0].reshape(shape) if shape else np.array(1.0)
    with refused(errors.ShapeError, "scores", str(shape), ("row", "column")):
        use(AnyCalibrator, action, scores)


@each_action
@pytest.mark.parametrize("is_last", [False, True])
def test_images_of_scores_are_refused_with_the_way_to_a_row_per_pixel(action, is_last):
    """(N, C, H, W), as networks for segmentation return it, or with the classes last."""
    scores, y = good()
    images, labels = scores.reshape(5, 8, 5, 3), y.reshape(5, 8, 5)
    images = images if is_last else np.moveaxis(images, -1, 1)
    remedy = {
        False: "np.moveaxis(np.asarray(scores), 1, -1).reshape(-1, 3)",
        True: "np.asarray(scores).reshape(-1, 3)",
    }[is_last]
    with refused(errors.ShapeError, "scores", str(images.shape), "(N, C, H, W)", remedy):
        use(AnyCalibrator, action, images)
    names = {"np": np, "scores": images, "y": labels}
    np.testing.assert_array_equal(eval(remedy, names), scores)
    np.testing.assert_array_equal(eval("np.asarray(y).ravel()", names), y)


def test_one_column_is_no_columns():
    """A message counts in grammar."""
    scores, y = good()
    with refused(errors.ShapeError, "has 1 column, "):
        AnyCalibrator().statistics([0, 1, 2]).update(scores[:, :1], y)
    assert errors.number_of(1, "row") == "1 row"
    assert errors.number_of(0, "row") == "0 rows"


@each_calibrator
@each_kind
@lone_class
@absent_classes
def test_one_row_is_fitted_with_a_warning(calibrator, kind):
    scores, y = good(kind)
    with pytest.warns(errors.SmallSampleWarning, match="1 row"):
        estimator = calibrator(scores=kind).fit(scores[:1], y[:1])
    assert_distributions(estimator.predict_proba(fresh(kind)), 1e-12)


@each_calibrator
@absent_classes
@unbounded
@pytest.mark.parametrize(("kind", "n_rows"), [("probabilities", 2), ("logits", 8)])
def test_fewer_rows_than_classes_are_fitted_with_a_warning(calibrator, kind, n_rows):
    scores, y = good(kind, n_classes=10)
    with pytest.warns(errors.SmallSampleWarning, match=str(n_rows)):
        estimator = calibrator(scores=kind).fit(scores[:n_rows], y[:n_rows])
    assert_distributions(estimator.predict_proba(fresh(kind, n_classes=10)), 1e-12)


@each_calibrator
@absent_classes
@unbounded
def test_few_rows_give_a_warning(calibrator):
    """Fewer than 100, however few parameters there are."""
    scores, y = good(n_rows=200)
    with pytest.warns(errors.SmallSampleWarning, match="99 rows .* 100 or more"):
        calibrator().fit(scores[:99], y[:99])


@each_calibrator
@absent_classes
@unbounded
def test_enough_rows_give_no_warning(calibrator):
    """Warnings are errors here."""
    scores, y = good(n_rows=200)
    estimator = calibrator().fit(scores[:100], y[:100])
    assert_distributions(estimator.predict_proba(scores), 1e-12)


@each_kind
@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (0, 0), (0,)])
def test_a_fit_to_nothing_is_refused(kind, shape):
    with refused(errors.ShapeError, str(shape), ("0 sample", "0 feature", "scores")):
        AnyCalibrator(scores=kind).fit(np.empty(shape), np.zeros(shape[0], dtype=int))


@each_calibrator
@pytest.mark.parametrize(("kind", "dtype"), [("probabilities", float), ("logits", np.float32)])
def test_no_rows_are_predicted_as_no_rows(calibrator, kind, dtype):
    out = fitted(calibrator, kind).predict_proba(np.empty((0, 3), dtype=dtype))
    assert out.shape == (0, 3)
    assert out.dtype == dtype
    assert fitted(calibrator, kind).predict(np.empty((0, 3))).shape == (0,)


@pytest.mark.parametrize("shape", [(0, 2), (5, 0), (0, 4)])
def test_no_rows_of_another_width_are_refused(shape):
    with refused(errors.ShapeError, str(shape[1])):
        fitted(AnyCalibrator).predict_proba(np.empty(shape))


@pytest.mark.parametrize("method", ["predict_proba", "predict", "transform"])
def test_predicting_before_fitting_is_refused(method):
    with pytest.raises(errors.NotFittedError, match=AnyCalibrator.__name__):
        getattr(AnyCalibrator(), method)(fresh())


def test_a_failed_first_fit_is_no_fit():
    estimator = AnyCalibrator()
    with refused(errors.LabelError):
        estimator.fit(good()[0], None)
    with pytest.raises(errors.NotFittedError, match=AnyCalibrator.__name__):
        estimator.predict_proba(fresh())


@each_kind
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", ["predict_proba", "predict", "transform"])
def test_another_number_of_classes_is_refused_naming_both(kind, n_classes, method):
    with refused(errors.ShapeError, str(n_classes), "3", ("column", "class")):
        getattr(fitted(AnyCalibrator, kind), method)(fresh(kind, n_classes=n_classes))


@each_calibrator
def test_a_refit_may_have_another_number_of_classes(calibrator):
    """Only predict is bound to the fit before it."""
    estimator = calibrator().fit(good()[0], LETTERS[good()[1]])
    estimator.fit(*good(n_classes=2))
    assert list(estimator.classes_) == [0, 1]
    assert estimator.predict_proba(fresh(n_classes=2)).shape == (150, 2)


def test_a_result_beyond_the_memory_limit_is_refused_before_it_is_made(monkeypatch):
    rows = np.broadcast_to(good()[0][0], (50_000, 3))
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", str(100_000))
    tracemalloc.start()
    try:
        with pytest.raises(errors.MemoryLimitError, match="CALIBRANT_MAX_MEMORY") as caught:
            fitted(AnyCalibrator).predict_proba(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "GiB are allowed" in str(caught.value)
    assert peak < 200_000


def test_a_result_beyond_all_memory_is_refused_before_it_is_made(monkeypatch):
    """Without a limit set: 10 TB."""
    monkeypatch.delenv("CALIBRANT_MAX_MEMORY", raising=False)
    rows = np.broadcast_to(good()[0][0], (10**13 // 24, 3))
    with pytest.raises(errors.MemoryLimitError, match="CALIBRANT_MAX_MEMORY"):
        fitted(AnyCalibrator).predict_proba(rows)


@each_calibrator
def test_a_fit_beyond_the_memory_limit_is_refused_before_it_is_made(calibrator, monkeypatch):
    """The limit is 100 kB, the matrix 1.2 MB if it is ever made."""
    y = np.arange(50_000) % 2
    rows = np.broadcast_to([0.5, 0.3, 0.2], (50_000, 3))
    estimator = calibrator()
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", str(100_000))
    tracemalloc.start()
    try:
        with pytest.raises(errors.MemoryLimitError, match="CALIBRANT_MAX_MEMORY"):
            estimator.fit(rows, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_sufficient_memory_limit_is_no_hindrance(monkeypatch):
    """Written as a number of bytes in either way."""
    for limit in ("1e9", str(10**9)):
        monkeypatch.setenv("CALIBRANT_MAX_MEMORY", limit)
        estimator = AnyCalibrator().fit(*good())
        assert_distributions(estimator.predict_proba(fresh()), 1e-12)


@pytest.mark.parametrize("limit", ["plenty", "", "nan"])
def test_a_memory_limit_that_is_no_number_is_refused_by_name(limit, monkeypatch):
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", limit)
    with refused(errors.ParameterError, "CALIBRANT_MAX_MEMORY", limit):
        fitted(AnyCalibrator).predict_proba(fresh())


@few_rows
@unbounded
@absent_classes
@each_calibrator
def test_many_classes_are_fitted(calibrator):
    """A thousand classes fit in little memory."""
    scores, y = good(n_rows=10, n_classes=1000)
    estimator = in_one_round(calibrator).fit(scores, y)
    assert_distributions(estimator.predict_proba(scores), 1e-12)
