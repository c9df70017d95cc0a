"""Data that are unusual, and accepted: every method gives finite rows that sum to one."""

from __future__ import annotations

import tracemalloc
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import calibrant
from bad_input.promises import (
    KINDS,
    PER_CLASS,
    AnyCalibrator,
    absent_classes,
    as_kind,
    assert_distributions,
    bits,
    each_action,
    each_calibrator,
    each_kind,
    each_order_keeping,
    few_rows,
    fitted,
    fresh,
    good,
    in_one_round,
    mild,
    refused,
    unbounded,
    use,
)
from calibrant import _simplex as simplex
from calibrant import errors


class Unusual(NamedTuple):
    """A calibration set, more rows to predict, and what is warned of."""

    scores: Any
    y: Any
    weight: Any = None
    kind: str = "probabilities"
    warning: Any = None
    match: str = ""
    new: Any = None
    options: Any = MappingProxyType({})


def _changed(place, value, kind="probabilities"):
    scores, y = good(kind)
    scores[place] = value
    return Unusual(scores, y, kind=kind, new=scores)


def _certain(n_rows=200):
    """One-hot rows, most of them right: exact zeros and ones in and, unless floored, out."""
    y = np.arange(n_rows) % 3
    return np.eye(3)[np.where(np.arange(n_rows) < 12, (y + 1) % 3, y)], y


def _minus_infinity():
    logits, y = good("logits")
    logits[np.flatnonzero(y != 2)[:20], 2] = -np.inf
    return Unusual(logits, y, kind="logits", new=logits)


def _subnormal(tiny):
    scores, y = good()
    scores[:40] = tiny
    scores[np.arange(40), y[:40]] = 1.0
    return Unusual(scores, y, new=scores)


def _rounded(decimals, n_classes):
    """What a file of six decimals, or of four with few classes, holds."""
    scores = np.random.default_rng(0).dirichlet(np.ones(n_classes), size=20).round(decimals)
    assert np.abs(scores.sum(axis=1) - 1).max() > 1e-7
    y = np.arange(20) % n_classes
    options = {"classes": np.arange(n_classes)}
    small = (errors.SmallSampleWarning, "20 rows")
    return Unusual(scores, y, None, "probabilities", *small, new=scores, options=options)


SPARSE_WEIGHTS = np.where(np.random.default_rng(0).random(200) < 0.7, 1.0, 1e-300)
SPARSE_WEIGHTS[:3] = 1e300
PERCENT = np.round(100 * good()[0]).astype(np.int64)
SIZE = (slice(None, None, 7), slice(2))
CASES = {
    "minus infinity among logits": _minus_infinity(),
    "logits of 800": _changed(SIZE, [800.0, -800.0], "logits"),
    "logits of 1e100": _changed(SIZE, [1e100, -1e100], "logits"),
    "exact zeros and ones": Unusual(*_certain(), new=_certain()[0]),
    "subnormal probabilities": _subnormal(5e-324),
    "small probabilities": _subnormal(1e-310),
    "percent, to be normalised": Unusual(
        PERCENT, good()[1], new=PERCENT, options={"normalize": "rows"}
    ),
    "six decimals": _rounded(6, 3),
    "six decimals of many classes": _rounded(6, 300),
    "four decimals": _rounded(4, 10),
    "weights of all sizes": Unusual(*good(), SPARSE_WEIGHTS),
    "weights whose sum overflows": Unusual(*good(), np.full(200, 1e308)),
}
for kind in KINDS:
    scores, y = good(kind)
    CASES |= {
        f"labels that are noise, {kind}": Unusual(
            scores, np.random.default_rng(3).integers(0, 3, 200), kind=kind
        ),
        f"labels that are always wrong, {kind}": Unusual(
            *(scores, scores.argmin(axis=1), None, kind),
            *(errors.ColumnMismatchWarning, "accuracy 0.00 is below chance"),
        ),
        f"one row, {kind}": Unusual(
            scores[:1], y[:1], None, kind, errors.SmallSampleWarning, "1 row"
        ),
        f"two columns, {kind}": Unusual(
            *good(kind, n_classes=2), kind=kind, new=fresh(kind, n_classes=2)
        ),
    }
for kind, k in (("probabilities", 2), ("logits", 10)):
    CASES[f"labels of one class of {k}"] = Unusual(
        *(good(kind, n_classes=k)[0], np.ones(200, dtype=int), None, kind),
        *(errors.SingleClassWarning, "1"),
        new=fresh(kind, n_classes=k),
    )
    n_rows = k - 2 or 2
    CASES[f"{n_rows} rows of 10 classes"] = Unusual(
        *(part[:n_rows] for part in good(kind, n_classes=10)),
        *(None, kind, errors.SmallSampleWarning, str(n_rows)),
        new=fresh(kind, n_classes=10),
    )
CASES["one class left by the weights"] = Unusual(
    *(*good(n_rows=900), good(n_rows=900)[1] == 2),
    *("probabilities", errors.SingleClassWarning, "2"),
)
CASES["rows left by the weights"] = Unusual(
    *(*good(), np.arange(200) < 60),
    *("probabilities", errors.SmallSampleWarning, "60"),
)
CASES["a thousand classes"] = Unusual(
    *(*good(n_rows=10, n_classes=1000), None, "probabilities"),
    *(errors.SmallSampleWarning, "10 rows"),
    new=good(n_rows=10, n_classes=1000)[0],
)


@each_calibrator
@absent_classes
@unbounded
@few_rows
@pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning")
@pytest.mark.parametrize("name", CASES)
def test_unusual_data_are_fitted(calibrator, name):
    """With a warning where something may be wrong, and in silence where not."""
    case = CASES[name]
    make = in_one_round if case.scores.shape[1] > 10 else lambda cls, **options: cls(**options)
    estimator = make(calibrator, scores=case.kind, **case.options)
    is_silent = case.warning is None
    with nullcontext() if is_silent else pytest.warns(case.warning, match=case.match):
        estimator.fit(case.scores, case.y, case.weight)
    new = fresh(case.kind) if case.new is None else case.new
    assert_distributions(estimator.predict_proba(new), 1e-12)


ROWS = ("minus infinity among logits", "logits of 800", "logits of 1e100", "exact zeros and ones")


@each_calibrator
@pytest.mark.parametrize("name", [*ROWS, "subnormal probabilities", "small probabilities"])
def test_unusual_rows_are_predicted_where_the_fit_saw_none(calibrator, name):
    case = CASES[name]
    assert_distributions(fitted(calibrator, case.kind).predict_proba(case.new), 1e-12)


@each_calibrator
@absent_classes
@unbounded
def test_fewer_rows_than_a_hundred_give_a_warning(calibrator):
    """However few parameters there are; warnings are errors here."""
    scores, y = good()
    with pytest.warns(errors.SmallSampleWarning, match="99 rows .* 100 or more"):
        calibrator().fit(scores[:99], y[:99])
    assert_distributions(calibrator().fit(scores[:100], y[:100]).predict_proba(scores), 1e-12)


@each_order_keeping
def test_a_class_of_logit_minus_infinity_is_predicted_last(calibrator):
    logits = fresh("logits")
    logits[3, 1] = -np.inf
    logits[4, :2] = -np.inf
    out = fitted(calibrator, "logits").predict_proba(logits)
    assert out[3].argmin() == 1
    assert out[4, 0] == out[4, 1] <= out[4, 2]


@each_calibrator
@pytest.mark.parametrize("excess", [-9e-4, 1e-7])
def test_row_sums_within_a_thousandth_are_normalised_silently(calibrator, excess):
    (_, y), new = good(), mild(seed=1)
    exact = calibrator().fit(mild(), y)
    wanted = exact.predict_proba(new)
    np.testing.assert_allclose(exact.predict_proba(new * (1 + excess)), wanted, rtol=0, atol=1e-12)
    rough = calibrator().fit(mild() * (1 + excess), y)
    np.testing.assert_allclose(rough.predict_proba(new), wanted, rtol=0, atol=1e-7)


@each_calibrator
def test_rows_of_any_sum_are_normalised_on_request(calibrator):
    scores, y = good()
    factor = np.random.default_rng(0).integers(1, 9, size=(200, 1)).astype(float)
    asked = calibrator(normalize="rows").fit(scores * factor, y)
    wanted = fitted(calibrator).predict_proba(fresh())
    np.testing.assert_allclose(asked.predict_proba(fresh() * 50.0), wanted, rtol=0, atol=1e-7)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e300, 1.2e308])
def test_rows_of_a_sum_of_any_size_are_normalised(size):
    """Up to the largest double, half as much again of which is infinite."""
    found = simplex.check_scores([[size, size / 4, 0.0]], normalize="rows")
    wanted = np.array([size, size / 4, 0.0])
    np.testing.assert_allclose(found[0], wanted / size / (wanted / size).sum(), rtol=1e-14)


@each_action
def test_probabilities_passed_as_logits_give_a_warning(action):
    """Cannot be an error; it speaks of every row, and says nothing where one is no distribution."""
    scores, _ = good()
    with pytest.warns(errors.ScoresKindWarning, match="scores='probabilities'"):
        use(AnyCalibrator, action, scores, "logits")
    scores[100] += 0.5
    use(AnyCalibrator, action, scores, "logits")


@each_calibrator
def test_a_probability_off_by_rounding_is_clipped_silently(calibrator):
    clipped, y = good()
    clipped[8:10] = [0.0, 1.0, 0.0]
    scores = clipped.copy()
    scores[8, 0], scores[9, 1] = -9e-7, 1 + 9e-7
    ours, theirs = (calibrator().fit(rows, y).predict_proba(fresh()) for rows in (scores, clipped))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7)
    ours, theirs = (fitted(calibrator).predict_proba(rows) for rows in (scores, clipped))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7)


@each_action
def test_rounding_below_zero_is_clipped_in_rows_to_be_normalised_too(action):
    scores, _ = good()
    scores[8] = [-1e-15, 1.0, 0.0]
    use(AnyCalibrator, action, scores, normalize="rows")


@each_action
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "row",
    [
        [0.334, 0.334, 0.333],  # 1.001, which is not above 1.001
        [0.333, 0.333, 0.333],
        [1 / 3 + 0.99e-3, 1 / 3, 1 / 3],
        [0.33, 0.33, 0.33],
    ],
)
def test_rounded_rows_need_not_sum_to_one_exactly(action, row, dtype):
    use(AnyCalibrator, action, np.vstack([good()[0][:-1], row]).astype(dtype))


@pytest.mark.parametrize(("decimals", "k"), [(3, 16), (4, 96)])
def test_many_classes_are_rounded_more_often(decimals, k):
    """By half of the last decimal in every class at most."""
    row = np.full(k, 1 / k).round(decimals)
    assert abs(row.sum() - 1) > 1e-3
    estimator = AnyCalibrator(classes=np.arange(k)).fit(*good(n_classes=k))
    assert_distributions(estimator.predict_proba([row]))


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


@each_calibrator
@each_kind
def test_scores_that_are_all_equal_are_fitted(calibrator, kind):
    """There is nothing to learn but, per class, how frequent it is."""
    flat, (_, y) = as_kind(np.full((200, 3), 1 / 3), kind), good()
    # Frequencies are drawn to equal ones by penalties and priors in rows.
    free = {
        calibrant.StructuredScaling: {"strength": 0, "prior_strength": 0},
        calibrant.OneVsRestIsotonic: {"prior_strength": 0},
        calibrant.OneVsRestHistogram: {"prior_strength": 0},
    }.get(calibrator, {})
    out = calibrator(scores=kind, **free).fit(flat, y).predict_proba(flat)
    wanted = np.bincount(y) / 200 if calibrator in PER_CLASS else np.full(3, 1 / 3)
    # Priors that no parameter takes away: two rows, and thirty with a share of the scores.
    held = {calibrant.OneVsRestBBQ: 1e-3, calibrant.TwoClassScaling: 2e-2}
    tolerance = held.get(calibrator, 1e-5)
    np.testing.assert_allclose(out, np.tile(wanted, (200, 1)), atol=tolerance)


def test_subnormal_probabilities_are_kept():
    """A step between zero and the smallest double is a step."""
    tiny = 4.1e-320
    scores = np.tile([1.0, tiny, 0.0], (200, 1))
    assert np.array_equal(bits(simplex.check_scores(scores)), bits(scores))
    y = np.where(np.arange(200) % 4 == 0, 1, 0)
    estimator = calibrant.FlattenedIsotonic(min_probability=0).fit(scores, y)
    out = estimator.predict_proba([[1.0, tiny, 0.0]])
    np.testing.assert_allclose(out, [[0.75, 0.25, 0.0]])


@each_calibrator
@pytest.mark.parametrize(("kind", "dtype"), [("probabilities", float), ("logits", np.float32)])
def test_no_rows_are_predicted_as_no_rows(calibrator, kind, dtype):
    out = fitted(calibrator, kind).predict_proba(np.empty((0, 3), dtype=dtype))
    assert out.shape == (0, 3)
    assert out.dtype == dtype
    assert fitted(calibrator, kind).predict(np.empty((0, 3))).shape == (0,)


@pytest.mark.parametrize(("limit", "n_rows"), [("100000", 50_000), (None, 10**13 // 24)])
def test_a_result_beyond_the_memory_limit_is_refused_before_it_is_made(limit, n_rows, monkeypatch):
    """Without a limit set, what is beyond all memory: 10 TB."""
    rows = np.broadcast_to(good()[0][0], (n_rows, 3))
    monkeypatch.delenv("CALIBRANT_MAX_MEMORY", raising=False)
    with monkeypatch.context() as patch:
        _ = limit and patch.setenv("CALIBRANT_MAX_MEMORY", limit)
        tracemalloc.start()
        with pytest.raises(errors.MemoryLimitError, match=r"GiB are allowed.*CALIBRANT_MAX_MEMORY"):
            fitted(AnyCalibrator).predict_proba(rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.parametrize("limit", ["1e9", str(10**9)])
def test_a_sufficient_memory_limit_is_no_hindrance(limit, monkeypatch):
    """Written as a number of bytes in either way."""
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", limit)
    assert_distributions(AnyCalibrator().fit(*good()).predict_proba(fresh()), 1e-12)


@pytest.mark.parametrize("limit", ["plenty", "", "nan"])
def test_a_memory_limit_that_is_no_number_is_refused_by_name(limit, monkeypatch):
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", limit)
    with refused(errors.ParameterError, "CALIBRANT_MAX_MEMORY", limit):
        fitted(AnyCalibrator).predict_proba(fresh())
