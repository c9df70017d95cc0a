"""The same numbers in every layout, container and type that is accepted give the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from bad_input.promises import (
    HOLDERS,
    LABELS,
    NAMES,
    WEIGHTS,
    assert_distributions,
    bits,
    each_kind,
    each_reader,
    fitted,
    fresh,
    good,
    read_only,
    same_fit,
    unbounded,
)
from calibrant._gate import _simplex as simplex

PAIRS = [(name, "probabilities") for name in HOLDERS]
PAIRS += [(name, "logits") for name in ("Fortran order", "strided columns", "read-only")]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(("holder", "kind"), PAIRS)
@each_reader
def test_scores_in_every_layout_and_container_give_the_same_bits(calibrator, holder, kind):
    """At fit and predict."""
    scores, y = good(kind)
    plain, hold = fitted(calibrator, kind), HOLDERS[holder]
    estimator = calibrator(scores=kind).fit(hold(scores), y)
    new = fresh(kind)
    out = estimator.predict_proba(hold(new))
    assert type(out) is np.ndarray
    assert np.array_equal(bits(out), bits(plain.predict_proba(new)))
    assert same_fit(estimator, plain, new)


@pytest.mark.filterwarnings("ignore:A column-vector y:sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("form", LABELS)
@each_reader
def test_labels_of_every_kind_give_the_same_fit(calibrator, form):
    """To the bit that of 0, 1, 2."""
    scores, y = good()
    estimator = calibrator().fit(scores, LABELS[form](y))
    assert len(estimator.classes_) == 3
    assert same_fit(estimator, fitted(calibrator), fresh())


@pytest.mark.parametrize("form", WEIGHTS)
@each_reader
def test_weights_in_every_container_give_the_same_fit(calibrator, form):
    scores, y = good()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    plain = calibrator().fit(scores, y, weight)
    assert same_fit(calibrator().fit(scores, y, WEIGHTS[form](weight)), plain, fresh())


@each_kind
def test_double_precision_rows_on_the_simplex_are_not_copied(kind, tmp_path):
    np.save(tmp_path / "scores", np.tile([0.5, 0.25, 0.25], (50, 1)))
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    for array in (mapped, read_only(mapped)):
        assert np.shares_memory(simplex.check_scores(array, kind), array)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f4", ">f2"])
@each_reader
@each_kind
def test_narrow_floats_are_computed_in_double_and_returned_in_single(calibrator, kind, dtype):
    """To one ulp of float32, and to the bit in the fit."""
    scores = good(kind)[0].astype(dtype)
    y = good()[1]
    narrow_fit = calibrator(scores=kind).fit(scores, y)
    wide_fit = calibrator(scores=kind).fit(np.asarray(scores, dtype=np.float64), y)
    assert same_fit(narrow_fit, wide_fit, fresh(kind))
    new = fresh(kind).astype(dtype)
    out = wide_fit.predict_proba(new)
    wanted = wide_fit.predict_proba(np.asarray(new, dtype=np.float64))
    assert wanted.dtype == np.float64
    assert out.dtype == np.float32
    assert out.dtype.isnative
    assert_distributions(out, 1e-12)
    assert (np.abs(out - wanted) <= np.spacing(wanted.astype(np.float32))).all()


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, ">i4", bool, object])
@each_reader
@unbounded
@pytest.mark.filterwarnings("ignore:every score is 0 or 1:calibrant.errors.ScoresKindWarning")
def test_whole_one_hot_rows_are_probabilities(calibrator, dtype):
    y = np.arange(200) % 3
    hot = np.eye(3)[np.where(np.arange(200) < 12, (y + 1) % 3, y)]
    estimator = calibrator().fit(hot.astype(dtype), y)
    assert same_fit(estimator, calibrator().fit(hot, y), fresh())
    out = estimator.predict_proba(hot.astype(dtype))
    assert out.dtype == np.float64
    assert np.array_equal(bits(out), bits(estimator.predict_proba(hot)))


@pytest.mark.parametrize(
    ("form", "kind", "classes"),
    [
        ("text", "U", NAMES),
        ("text in objects", "O", NAMES),
        ("bytes", "S", [b"ant", b"bee", b"cat"]),
        ("categories", "U", NAMES),  # sorted, as scikit-learn has them
        ("whole floats", "f", [0.0, 1.0, 2.0]),
        ("minus zero", "f", [0.0, 1.0, 2.0]),
        ("a range not from 0", "i", [5, 6, 7]),
    ],
)
@each_reader
def test_classes_and_predictions_keep_the_type_of_the_labels(calibrator, form, kind, classes):
    scores, y = good()
    estimator = calibrator().fit(scores, LABELS[form](y))
    assert estimator.classes_.dtype.kind in {kind, "O" if "categories" in form else kind}
    assert estimator.classes_.tolist() == classes
    assert "-0.0" not in str(estimator.classes_.tolist())
    predicted = estimator.predict(fresh())
    assert predicted.dtype == estimator.classes_.dtype
    assert np.array_equal(predicted, estimator.classes_[fitted(calibrator).predict(fresh())])
