"""Sample weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bad_input.holders import unaligned
from bad_input.promises import (
    LETTERS,
    AnyCalibrator,
    absent_classes,
    assert_distributions,
    each_calibrator,
    each_kind,
    each_reader,
    each_weighing_ratios,
    few_rows,
    fitted,
    fresh,
    good,
    refused,
    same_fit,
)
from calibrant import errors


def _some_zeros(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 3.0, 200) * (rng.random(200) < 0.7)


@each_calibrator
@pytest.mark.parametrize(("kind", "zero"), [("probabilities", 0.0), ("logits", -0.0)])
def test_weight_zero_is_removal(calibrator, kind, zero):
    """To the bit."""
    scores, y = good(kind)
    weight = _some_zeros()
    used = weight > 0
    weight[~used] = zero
    whole = calibrator(scores=kind).fit(scores, y, weight)
    part = calibrator(scores=kind).fit(scores[used], y[used], weight[used])
    assert same_fit(whole, part, fresh(kind))


@each_calibrator
@pytest.mark.parametrize("dtype", [bool, np.float32])
def test_a_mask_of_ones_and_zeros_is_removal(calibrator, dtype):
    """To the bit of the fit without weights."""
    scores, y = good()
    used = _some_zeros() > 0
    whole = calibrator().fit(scores, y, used.astype(dtype))
    assert same_fit(whole, calibrator().fit(scores[used], y[used]), fresh())


@each_calibrator
def test_rows_of_weight_zero_do_not_count_as_rows(calibrator):
    """The warnings are those of the rows that are left."""
    scores, y = good()
    with pytest.warns(errors.SmallSampleWarning, match="60"):
        calibrator().fit(scores, y, np.arange(200) < 60)


def test_a_class_only_in_rows_of_weight_zero_is_absent():
    scores, y = good()
    with refused(errors.LabelError, "y", "pass classes="):
        AnyCalibrator().fit(scores, LETTERS[y], y != 1)


@each_calibrator
@absent_classes
def test_an_absent_class_may_be_in_rows_of_weight_zero(calibrator):
    scores, y = good()
    used = y != 1
    whole = calibrator().fit(scores, y, used)
    part = calibrator().fit(scores[used], y[used])
    assert same_fit(whole, part, fresh())


@each_calibrator
@absent_classes
def test_one_class_left_by_the_weights_gives_a_warning(calibrator):
    scores, y = good(n_rows=900)
    with pytest.warns(errors.SingleClassWarning, match="2"):
        estimator = calibrator().fit(scores, y, y == 2)
    assert_distributions(estimator.predict_proba(fresh()), 1e-12)


def test_weights_that_are_all_zero_are_refused():
    scores, y = good()
    with refused(errors.WeightError, "sample_weight", "zero"):
        AnyCalibrator().fit(scores, y, np.zeros(200))


@pytest.mark.parametrize("value", [-1.0, -1e-300, -np.inf, np.inf, np.nan])
def test_a_weight_that_is_negative_or_not_finite_is_refused(value):
    scores, y = good()
    weight = np.ones(200)
    weight[[57, 120]] = value
    with refused(errors.WeightError, "sample_weight[57]", str(value), "finite", "negative"):
        AnyCalibrator().fit(scores, y, weight)


@pytest.mark.parametrize(
    "weight",
    [
        np.ones(199),
        np.ones(201),
        np.ones((200, 1)),
        np.ones((1, 200)),
        np.ones((200, 3)),
        np.float64(1.0),
        2,
        [],
    ],
    ids=lambda w: str(np.shape(w)),
)
def test_weights_of_another_shape_are_refused(weight):
    with refused(errors.WeightError, "sample_weight", str(np.shape(weight)), "per row"):
        AnyCalibrator().fit(*good(), weight)


@pytest.mark.parametrize(
    "weight",
    [
        ["heavy"] * 200,
        np.array([None] * 200),
        pd.Series([1.0] * 199 + [pd.NA], dtype="Float64"),
        pl.Series([1.0] * 199 + [None]),
        np.full(200, 1 + 1j),
        (1.0 for _ in range(200)),
        {"weight": 1.0},
    ],
    ids=["text", "None", "pandas NA", "polars null", "complex", "generator", "mapping"],
)
def test_weights_that_are_no_numbers_are_refused(weight):
    with refused(errors.WeightError, "sample_weight"):
        AnyCalibrator().fit(*good(), weight)


def test_masked_weights_are_refused():
    weight = np.ma.array(np.ones(200), mask=np.arange(200) == 9)
    with refused(errors.DataError, "sample_weight[9]", "mask", ("fill", "drop")):
        AnyCalibrator().fit(*good(), weight)


@pytest.mark.parametrize(
    "hold",
    [
        np.ndarray.tolist,
        tuple,
        lambda w: pd.Series(w, index=np.arange(200)[::-1]),
        lambda w: pd.Series(w, dtype="Float64"),
        pl.Series,
        lambda w: w.astype(object),
        lambda w: w.astype(">f8"),
        lambda w: w.astype(np.longdouble),
        lambda w: np.repeat(w, 2)[::2],
        lambda w: w[::-1].copy()[::-1],
        unaligned,
        np.ma.array,
    ],
    ids=[
        "list",
        "tuple",
        "series",
        "nullable series",
        "polars",
        "objects",
        "big-endian",
        "longdouble",
        "strided",
        "reversed",
        "unaligned",
        "masked array without a mask",
    ],
)
@each_reader
def test_weights_in_every_container_give_the_same_fit(calibrator, hold):
    """To the bit."""
    scores, y = good()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    plain = calibrator().fit(scores, y, weight)
    assert same_fit(calibrator().fit(scores, y, hold(weight)), plain, fresh())


@each_weighing_ratios
@pytest.mark.parametrize("value", [1, 2.0, 0.25, 2.0**-1000, 2.0**1000])
def test_equal_weights_are_no_weights(calibrator, value):
    """Any finite weight is accepted; without a prior in rows only ratios matter."""
    scores, y = good()
    out = calibrator().fit(scores, y, np.full(200, value)).predict_proba(fresh())
    np.testing.assert_allclose(out, fitted(calibrator).predict_proba(fresh()), rtol=0, atol=1e-9)


@each_calibrator
@each_kind
def test_weights_of_all_sizes_give_finite_output(calibrator, kind):
    """600 orders of magnitude between them."""
    scores, y = good(kind)
    weight = np.where(_some_zeros() > 0, 1.0, 1e-300)
    weight[:3] = 1e300
    out = calibrator(scores=kind).fit(scores, y, weight).predict_proba(fresh(kind))
    assert_distributions(out, 1e-12)


@each_calibrator
def test_weights_whose_sum_overflows_are_fitted(calibrator):
    """Each is finite, so the answer is finite too."""
    estimator = calibrator().fit(*good(), np.full(200, 1e308))
    assert_distributions(estimator.predict_proba(fresh()), 1e-12)


@each_calibrator
@each_kind
@few_rows
def test_whole_weights_are_repetition(calibrator, kind):
    """Objectives within 1e-10 of each other, values within 1e-9."""
    scores, y = good(kind)
    times = np.random.default_rng(1).integers(0, 5, 200)
    weighted = calibrator(scores=kind).fit(scores, y, times)
    repeated = calibrator(scores=kind).fit(np.repeat(scores, times, axis=0), np.repeat(y, times))
    objective = repeated.solver_report_.objective
    assert weighted.solver_report_.objective == pytest.approx(objective, rel=1e-10)
    np.testing.assert_allclose(
        weighted.predict_proba(fresh(kind)), repeated.predict_proba(fresh(kind)), rtol=0, atol=1e-9
    )


@each_calibrator
@pytest.mark.parametrize("times", [4, 7])
def test_one_weight_for_all_rows_is_their_repetition(calibrator, times):
    """A factor of all weights is repetition as well, in priors and in folds."""
    scores, y = good()
    weighted = calibrator().fit(scores, y, np.full(200, times))
    repeated = calibrator().fit(np.repeat(scores, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(
        weighted.predict_proba(fresh()), repeated.predict_proba(fresh()), rtol=0, atol=1e-9
    )


@each_calibrator
@each_kind
def test_the_order_of_weighted_rows_does_not_matter(calibrator, kind):
    """To the bit."""
    scores, y = good(kind)
    weight = np.random.default_rng(2).uniform(0.01, 5.0, 200)
    mixed = np.random.default_rng(3).permutation(200)
    one = calibrator(scores=kind).fit(scores, y, weight)
    other = calibrator(scores=kind).fit(scores[mixed], y[mixed], weight[mixed])
    assert same_fit(one, other, fresh(kind))
