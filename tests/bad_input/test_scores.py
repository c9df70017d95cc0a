"""Scores with bad or unusual values."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import calibrant
from bad_input.promises import (
    KINDS,
    AnyCalibrator,
    as_kind,
    assert_distributions,
    each_action,
    each_calibrator,
    each_order_keeping,
    fitted,
    fresh,
    good,
    in_one_round,
    mild,
    refused,
    unbounded,
    use,
)
from calibrant import TemperatureScaling, errors, simplex

MEND_ROW = ("remove", "repair", "drop", "fill")


NOT_FINITE = [(kind, value) for kind in KINDS for value in (np.nan, np.inf)]


@each_action
@pytest.mark.parametrize(("kind", "value"), [*NOT_FINITE, ("probabilities", -np.inf)])
def test_a_score_that_is_not_finite_is_refused_with_its_cell(action, kind, value):
    """But for -inf among logits, which is a probability of zero."""
    scores, _ = good(kind)
    scores[17, 2] = value
    scores[90, 0] = value
    with refused(errors.NonFiniteError, "scores[17, 2]", str(value), MEND_ROW):
        use(AnyCalibrator, action, scores, kind)


@each_action
def test_normalising_rows_does_not_hide_nan(action):
    scores, _ = good()
    scores[17, 2] = np.nan
    with refused(errors.NonFiniteError, "scores[17, 2]", "nan", MEND_ROW):
        use(AnyCalibrator, action, scores, normalize="rows")


def test_a_bad_cell_is_named_by_its_row_in_the_whole_matrix(monkeypatch):
    """Rows may be worked off in parts, the caller's numbers count."""
    monkeypatch.setattr(simplex, "CHUNK_BYTES", 1000)
    scores, _ = good()
    scores[195, 1] = np.nan
    with refused(errors.NonFiniteError, "scores[195, 1]", "nan", MEND_ROW):
        use(AnyCalibrator, "predict_proba", scores)


@each_calibrator
def test_minus_infinity_among_logits_is_a_probability_of_zero(calibrator):
    """At fit."""
    logits, y = good("logits")
    rows = np.flatnonzero(y != 2)[:20]
    logits[rows, 2] = -np.inf
    estimator = calibrator(scores="logits").fit(logits, y)
    assert_distributions(estimator.predict_proba(logits), 1e-12)
    assert_distributions(estimator.predict_proba(fresh("logits")), 1e-12)


@each_order_keeping
def test_a_class_of_logit_minus_infinity_is_predicted_last(calibrator):
    """At predict."""
    logits = fresh("logits")
    logits[3, 1] = -np.inf
    logits[4, :2] = -np.inf
    out = fitted(calibrator, "logits").predict_proba(logits)
    assert_distributions(out, 1e-12)
    assert out[3].argmin() == 1
    assert out[4, 0] == out[4, 1] <= out[4, 2]


@each_calibrator
def test_minus_infinity_is_accepted_in_new_logits(calibrator):
    """At predict, also where the fit saw none."""
    logits = fresh("logits")
    logits[3, 1] = -np.inf
    logits[4, :2] = -np.inf
    assert_distributions(fitted(calibrator, "logits").predict_proba(logits), 1e-12)


def _with_large(size):
    logits, y = good("logits")
    logits[::7, 0] = size
    logits[::7, 1] = -size
    return logits, y


@each_calibrator
@unbounded
@pytest.mark.parametrize("size", [800.0, 1e100])
def test_large_logits_are_accepted(calibrator, size):
    """Though their exponentials are not finite."""
    logits, y = _with_large(size)
    assert_distributions(fitted(calibrator, "logits").predict_proba(logits), 1e-12)
    estimator = calibrator(scores="logits").fit(logits, y)
    assert_distributions(estimator.predict_proba(logits), 1e-12)
    assert_distributions(estimator.predict_proba(fresh("logits")), 1e-12)


@each_action
@pytest.mark.parametrize("size", [1e160, 1e308])
def test_logits_whose_squares_or_differences_overflow_are_refused(action, size):
    logits, _ = _with_large(size)
    with refused(errors.RangeError, "scores[0, 0]", f"{size:g}", "at most 1e+100"):
        use(AnyCalibrator, action, logits, "logits")


@each_action
def test_a_row_of_logits_without_a_finite_one_is_refused(action):
    logits, _ = good("logits")
    logits[11] = -np.inf
    with refused(errors.DataError, "scores[11", "-inf", MEND_ROW):
        use(AnyCalibrator, action, logits, "logits")


@each_calibrator
@pytest.mark.parametrize("excess", [-9e-4, 1e-7])
def test_row_sums_within_a_thousandth_are_normalised_silently(calibrator, excess):
    scores, (_, y) = mild(), good()
    new = mild(seed=1)
    exact = calibrator().fit(scores, y)
    rough = calibrator().fit(scores * (1 + excess), y)
    np.testing.assert_allclose(
        exact.predict_proba(new * (1 + excess)), exact.predict_proba(new), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        rough.predict_proba(new), exact.predict_proba(new), rtol=0, atol=1e-7
    )


@each_calibrator
@pytest.mark.parametrize(("decimals", "n_classes"), [(6, 3), (6, 300), (4, 10)])
def test_rounded_decimals_are_accepted(calibrator, decimals, n_classes):
    """What a file of six decimals, or of four with few classes, holds."""
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(n_classes), size=20).round(decimals)
    assert np.abs(scores.sum(axis=1) - 1).max() > 1e-7
    y = np.arange(20) % n_classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.CalibrantWarning)
        warnings.simplefilter("ignore", errors.ConvergenceWarning)
        estimator = in_one_round(calibrator, classes=np.arange(n_classes)).fit(scores, y)
    assert_distributions(estimator.predict_proba(scores), 1e-12)


@each_action
@pytest.mark.parametrize("excess", [-0.5, -1.1e-3, 1.1e-3, 0.02])
def test_a_row_sum_off_by_more_than_a_thousandth_is_refused(action, excess):
    scores = mild()
    scores[23] *= 1 + excess
    with refused(errors.RowSumError, "scores[23]", f"{1 + excess:.6g}", "normalize='rows'"):
        use(AnyCalibrator, action, scores)


@each_calibrator
def test_rows_of_any_sum_are_normalised_on_request(calibrator):
    scores, y = good()
    factor = np.random.default_rng(0).integers(1, 9, size=(200, 1)).astype(float)
    plain = calibrator().fit(scores, y)
    asked = calibrator(normalize="rows").fit(scores * factor, y)
    np.testing.assert_allclose(
        asked.predict_proba(fresh() * 50.0), plain.predict_proba(fresh()), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e300, 1.2e308])
def test_rows_of_a_sum_of_any_size_are_normalised(size):
    """Up to the largest double, half as much again of which is infinite."""
    found = simplex.check_scores([[size, size / 4, 0.0]], normalize="rows")
    wanted = np.array([size, size / 4, 0.0])
    np.testing.assert_allclose(found[0], wanted / size / (wanted / size).sum(), rtol=1e-14)


@each_action
@pytest.mark.parametrize("normalize", [None, "rows"])
def test_a_row_of_zeros_is_refused(action, normalize):
    """Not a distribution, whatever is done to it."""
    scores, _ = good()
    scores[31] = 0.0
    with refused(errors.RowSumError, "scores[31", "0", "not a distribution", MEND_ROW):
        use(AnyCalibrator, action, scores, normalize=normalize)


@each_action
def test_logits_passed_as_probabilities_are_refused_with_the_remedy(action):
    scores, _ = good("logits")
    with refused(
        errors.RangeError,
        "scores[0, 0]",
        f"{scores[0, 0]:.4f}"[:5],
        "did you mean scores='logits'?",
    ):
        use(AnyCalibrator, action, scores)


@each_action
def test_probabilities_passed_as_logits_give_a_warning(action):
    """Cannot be an error."""
    with pytest.warns(errors.ScoresKindWarning, match="scores='probabilities'"):
        use(AnyCalibrator, action, good()[0], "logits")


@each_action
def test_logits_of_which_one_row_is_no_distribution_give_no_warning(action):
    """The warning speaks of every row (warnings are errors here)."""
    scores, _ = good()
    scores[100] += 0.5
    use(AnyCalibrator, action, scores, "logits")


@each_calibrator
@each_action
def test_a_probability_off_by_rounding_is_clipped_silently(calibrator, action):
    clipped, _ = good()
    clipped[8:10] = [0.0, 1.0, 0.0]
    scores = clipped.copy()
    scores[8, 0], scores[9, 1] = -9e-7, 1 + 9e-7
    new = fresh()
    if action == "fit":
        out = use(calibrator, action, scores).predict_proba(new)
        wanted = use(calibrator, action, clipped).predict_proba(new)
    else:
        out, wanted = use(calibrator, action, scores), use(calibrator, action, clipped)
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-7)


@each_action
@pytest.mark.parametrize("off", [-1.1e-6, -0.3, 1 + 1.1e-6, 1.3])
def test_a_probability_beyond_rounding_is_refused(action, off):
    scores, _ = good()
    scores[8] = [0.0, 1.0, 0.0]
    scores[8, 0 if off < 0 else 1] = off
    cell = "scores[8, 0]" if off < 0 else "scores[8, 1]"
    with refused(errors.RangeError, cell, str(off), "[0, 1]", "scores='logits'"):
        use(AnyCalibrator, action, scores)


@each_action
def test_rounding_below_zero_is_clipped_in_rows_to_be_normalised_too(action):
    scores, _ = good()
    scores[8] = [-1e-15, 1.0, 0.0]
    use(AnyCalibrator, action, scores, normalize="rows")


@each_action
def test_negative_masses_cannot_be_normalised(action):
    scores, _ = good()
    scores[8] = [-0.3, 1.0, 0.3]
    with refused(errors.RangeError, "scores[8, 0]", "-0.3", "scores='logits'"):
        use(AnyCalibrator, action, scores, normalize="rows")


def _certain(n_rows=200):
    """One-hot rows, most of them right: exact zeros and ones in and, unless floored, out."""
    y = np.arange(n_rows) % 3
    shown = np.where(np.arange(n_rows) < 12, (y + 1) % 3, y)
    return np.eye(3)[shown], y


@each_calibrator
@unbounded
def test_exact_zeros_and_ones_are_accepted(calibrator):
    scores, y = _certain()
    out = calibrator().fit(scores, y).predict_proba(np.vstack([scores, fresh()]))
    assert_distributions(out, 1e-12)


@each_calibrator
@unbounded
@pytest.mark.parametrize(
    ("kind", "floor", "dtype"),
    [("probabilities", 1e-12, np.float64), ("logits", 1e-3, np.float32), ("logits", 0.3, float)],
)
def test_the_floor_keeps_the_order_and_the_sums(calibrator, kind, floor, dtype):
    """Predictions that are always right send the unfloored output to 0 and 1."""
    scores, _ = good(kind)
    y = scores.argmax(axis=1)
    new = np.vstack([fresh(kind), as_kind(_certain()[0], kind)]).astype(dtype)
    bare = calibrator(scores=kind, min_probability=0).fit(scores, y).predict_proba(new)
    out = calibrator(scores=kind, min_probability=floor).fit(scores, y).predict_proba(new)
    assert_distributions(bare)
    assert_distributions(out, floor)
    before = bare[:, :, None] - bare[:, None, :]
    after = out[:, :, None] - out[:, None, :]
    assert (after[before > 0] >= 0).all()
    assert (after[before == 0] == 0).all()


def test_the_floor_is_what_keeps_probabilities_from_zero():
    """For a method that has no floor or limit of its own."""
    (scores, y), plain = _certain(), calibrant.FlattenedIsotonic(min_probability=0)
    assert (plain.fit(scores, scores.argmax(axis=1)).predict_proba(scores) == 0).any()
    assert (calibrant.FlattenedIsotonic().fit(scores, y).predict_proba(scores) >= 1e-12).all()


@pytest.mark.parametrize("floor", [-1e-9, 0.34, 1.5, np.nan, "small", None])
def test_a_floor_that_three_classes_cannot_have_is_refused(floor):
    with refused(errors.ParameterError, "min_probability", str(floor)):
        AnyCalibrator(min_probability=floor).fit(*good())


@each_action
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.float64])
def test_percent_is_refused_with_a_hint(action, dtype):
    """Also where rounding to whole numbers makes a row sum to 99 or 101."""
    percent = np.round(100 * good()[0]).astype(dtype)
    with refused(errors.DataError, "scores[0", "percent", ("100", "normalize='rows'")):
        use(AnyCalibrator, action, percent)


@each_calibrator
def test_percent_is_accepted_with_normalize(calibrator):
    percent = np.round(100 * good()[0]).astype(np.int64)
    estimator = calibrator(normalize="rows").fit(percent, good()[1])
    assert_distributions(estimator.predict_proba(percent), 1e-12)


THIRDS = [1 / 3, 1 / 3, 1 / 3]


@each_action
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("row", "is_rounded"),
    [
        ([0.334, 0.334, 0.333], True),  # 1.001, which is not above 1.001
        ([0.333, 0.333, 0.333], True),
        (THIRDS + np.array([0.99e-3, 0, 0]), True),
        (THIRDS + np.array([1.01e-3, 0, 0]), False),
        ([0.33, 0.33, 0.33], True),
        ([0.335, 0.334, 0.334], False),  # 1.003: three decimals explain 0.0015
        ([0.34, 0.34, 0.34], False),  # 1.02: two decimals explain 0.015, but at most 0.01
        ([0.3, 0.3, 0.3], False),
        ([0.3341, 0.3341, 0.3341], False),
    ],
)
def test_rounded_rows_need_not_sum_to_one_exactly(action, row, is_rounded, dtype):
    scores = np.vstack([good()[0][:-1], row]).astype(dtype)
    with (
        nullcontext()
        if is_rounded
        else refused(errors.RowSumError, "scores[199]", "normalize='rows'")
    ):
        use(AnyCalibrator, action, scores)


def test_many_classes_are_rounded_more_often():
    """By half of the last decimal in every class at most."""
    for decimals, k in [(3, 16), (4, 96)]:
        row = np.full(k, 1 / k).round(decimals)
        assert abs(row.sum() - 1) > 1e-3
        out = TemperatureScaling(classes=np.arange(k)).fit(*good(n_classes=k)).predict_proba([row])
        assert_distributions(out)
