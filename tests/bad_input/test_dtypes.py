"""Scores that are not double-precision."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from bad_input.holders import COLUMNS, HOLDERS, pa
from bad_input.promises import (
    AnyCalibrator,
    assert_distributions,
    bits,
    each_action,
    each_kind,
    each_reader,
    fitted,
    fresh,
    good,
    refused,
    same_fit,
    unbounded,
    use,
)
from calibrant import errors

needs_arrow = pytest.mark.skipif(pa is None, reason="pyarrow is not installed")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f4", ">f2"])
@each_reader
@each_kind
def test_narrow_floats_are_computed_in_double_and_returned_in_single(calibrator, kind, dtype):
    """To one ulp of float32, and to the bit in the fit."""
    scores = good(kind)[0].astype(dtype)
    y = good()[1]
    wide = np.asarray(scores, dtype=np.float64)
    narrow_fit = calibrator(scores=kind).fit(scores, y)
    wide_fit = calibrator(scores=kind).fit(wide, y)
    assert same_fit(narrow_fit, wide_fit, fresh(kind))
    new = fresh(kind).astype(dtype)
    out = wide_fit.predict_proba(new)
    wanted = wide_fit.predict_proba(np.asarray(new, dtype=np.float64))
    assert wanted.dtype == np.float64
    assert out.dtype == np.float32
    assert out.dtype.isnative
    assert_distributions(out, 1e-12)
    assert (np.abs(out - wanted) <= np.spacing(wanted.astype(np.float32))).all()


@pytest.mark.parametrize(
    "holder",
    [
        "frame",
        "frame without names",
        "nullable frame",
        "polars",
        pytest.param("arrow table", marks=needs_arrow),
        "tensor",
        "torch tensor",
        "Fortran order",
        "masked array without a mask",
    ],
)
@each_reader
def test_single_precision_in_gives_single_precision_out_of_every_container(calibrator, holder):
    hold = {
        **HOLDERS,
        "nullable frame": lambda a: pd.DataFrame(a, columns=COLUMNS, dtype="Float32"),
    }[holder]
    out = calibrator().fit(hold(good()[0].astype(np.float32)), good()[1])
    out = out.predict_proba(hold(fresh().astype(np.float32)))
    assert out.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, ">i4", bool, object])
@each_reader
@unbounded
def test_whole_one_hot_rows_are_probabilities(calibrator, dtype):
    y = np.arange(200) % 3
    hot = np.eye(3)[np.where(np.arange(200) < 12, (y + 1) % 3, y)]
    estimator = calibrator().fit(hot.astype(dtype), y)
    assert same_fit(estimator, calibrator().fit(hot, y), fresh())
    out = estimator.predict_proba(hot.astype(dtype))
    assert out.dtype == np.float64
    assert np.array_equal(bits(out), bits(estimator.predict_proba(hot)))


@pytest.mark.parametrize("number", [Decimal, Fraction, np.float32])
@each_reader
def test_objects_that_are_numbers_are_read(calibrator, number):
    scores = np.array([[number(0.5), number(0.25), number(0.25)]] * 4, dtype=object)
    out = fitted(calibrator).predict_proba(scores)
    assert np.array_equal(bits(out), bits(fitted(calibrator).predict_proba(scores.astype(float))))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, "U8", "S8", "M8[s]", "m8[s]"])
@each_action
def test_scores_that_are_not_real_numbers_are_refused(action, dtype):
    """Also as a TypeError."""
    scores = good()[0]
    scores = scores.astype("i8" if np.dtype(dtype).kind in "mM" else dtype).astype(dtype)
    with refused(errors.ContainerError, "scores", str(scores.dtype), "numbers") as caught:
        use(AnyCalibrator, action, scores)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("value", ["0.5", b"0.5", 0.5 + 0j, [0.5], {}])
@each_action
def test_an_object_that_is_no_number_is_refused_with_its_cell(action, value):
    scores = good()[0].astype(object)
    scores[6, 1] = value
    with refused(errors.ContainerError, "scores[6, 1]", repr(value), "number") as caught:
        use(AnyCalibrator, action, scores)
    assert isinstance(caught.value, TypeError)
