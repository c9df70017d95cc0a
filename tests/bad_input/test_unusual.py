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
    each_shared_map,
    few_rows,
    fitted,
    fresh,
    good,
    in_one_round,
    refused,
    same_fit,
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


SPARSE_WEIGHTS = np.where(np.random.default_rng(0).random(200) < 0.7, 1.0, 1e-300)
SPARSE_WEIGHTS[:3] = 1e300
PERCENT = np.round(100 * good()[0]).astype(np.int64)
SIZE = (slice(None, None, 7), slice(2))
CASES = {
    "minus infinity among logits": _minus_infinity(),
    "logits of 800": _changed(SIZE, [800.0, -800.0], "logits"),
    "logits of 1e100": _changed(SIZE, [1e100, -1e100], "logits"),
    "exact zeros and ones": Unusual(
        *(*_certain(), None, "probabilities", errors.ScoresKindWarning, "predicted labels"),
        new=_certain()[0],
    ),
    "subnormal probabilities": _subnormal(5e-324),
    "percent, to be normalised": Unusual(
        PERCENT, good()[1], new=PERCENT, options={"normalize": "rows"}
    ),
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
            *(errors.ColumnMismatchWarning, "another order of the columns.* accuracy is 0.00"),
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
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConstantFitWarning")  # where it is right
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
@pytest.mark.parametrize("name", [*ROWS, "subnormal probabilities"])
def test_unusual_rows_are_predicted_where_the_fit_saw_none(calibrator, name):
    case = CASES[name]
    assert_distributions(fitted(calibrator, case.kind).predict_proba(case.new), 1e-12)


@each_order_keeping
def test_a_class_of_logit_minus_infinity_is_predicted_last(calibrator):
    logits = fresh("logits")
    logits[3, 1] = -np.inf
    logits[4, :2] = -np.inf
    out = fitted(calibrator, "logits").predict_proba(logits)
    assert out[3].argmin() == 1
    assert out[4, 0] == out[4, 1] <= out[4, 2]


@each_action
def test_probabilities_passed_as_logits_give_a_warning(action):
    """Cannot be an error; it speaks of every row, and says nothing where one is no distribution."""
    scores, _ = good()
    with pytest.warns(errors.ScoresKindWarning, match="scores='probabilities'"):
        use(AnyCalibrator, action, scores, "logits")
    scores[100] += 0.5
    use(AnyCalibrator, action, scores, "logits")


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
    if issubclass(calibrator, (calibrant.VectorScaling, calibrant.MatrixScaling)):
        free = {"prior_strength": 0}
    out = calibrator(scores=kind, **free).fit(flat, y).predict_proba(flat)
    wanted = np.bincount(y) / 200 if calibrator in PER_CLASS else np.full(3, 1 / 3)
    # Priors that no parameter takes away: two rows, and thirty with a share of the scores.
    held = {calibrant.OneVsRestBBQ: 1e-3, calibrant.TwoClassScaling: 2e-2}
    tolerance = held.get(calibrator, 1e-5)
    np.testing.assert_allclose(out, np.tile(wanted, (200, 1)), atol=tolerance)


@each_calibrator
@pytest.mark.parametrize(("kind", "dtype"), [("probabilities", float), ("logits", np.float32)])
def test_no_rows_are_predicted_as_no_rows(calibrator, kind, dtype):
    out = fitted(calibrator, kind).predict_proba(np.empty((0, 3), dtype=dtype))
    assert out.shape == (0, 3)
    assert out.dtype == dtype
    assert fitted(calibrator, kind).predict(np.empty((0, 3))).shape == (0,)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("row", "normalize"),
    [
        (np.array([0.5, 0.3, 0.2]) * (1 - 9e-4), None),
        ([-9e-7, 1.0, 0.0], None),
        ([0.0, 1 + 9e-7, 0.0], None),
        ([0.334, 0.334, 0.333], None),  # 1.001, which is not above 1.001
        ([1 / 3 + 0.99e-3, 1 / 3, 1 / 3], None),
        ([0.33, 0.33, 0.33], None),
        (np.full(16, 1 / 16).round(3), None),  # half of the last decimal in every class
        (np.full(96, 1 / 96).round(4), None),
        ([4.0, 3.0, 1.0], "rows"),
        ([-1e-15, 1.0, 0.0], "rows"),
    ],
)
def test_rows_that_are_off_by_rounding_are_clipped_and_divided_by_their_sum(row, normalize, dtype):
    given = np.array([row], dtype=dtype)
    wanted = given.clip(0, None).astype(np.float64)
    found = simplex.check_scores(given, normalize=normalize)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-12)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e300, 1.2e308])
def test_rows_of_a_sum_of_any_size_are_normalised_and_small_cells_kept(size):
    """Up to the largest double, half as much again of which is infinite."""
    found = simplex.check_scores([[size, size / 4, 0.0]], normalize="rows")
    wanted = np.array([size, size / 4, 0.0])
    np.testing.assert_allclose(found[0], wanted / size / (wanted / size).sum(), rtol=1e-14)
    tiny = np.array([[1.0, min(size, 4.1e-320), 0.0]])
    assert np.array_equal(bits(simplex.check_scores(tiny)), bits(tiny))


def test_a_result_beyond_the_memory_limit_is_refused_before_it_is_made(monkeypatch):
    """Without a limit set, what is beyond all memory: 10 TB."""
    calibrator = fitted(AnyCalibrator)
    told = r"the limit is .* GiB.*CALIBRANT_MAX_MEMORY"
    for limit, n_rows in ((None, 10**13 // 24), ("100000", 50_000)):
        monkeypatch.delenv("CALIBRANT_MAX_MEMORY", raising=False)
        _ = limit and monkeypatch.setenv("CALIBRANT_MAX_MEMORY", limit)
        tracemalloc.start()
        with pytest.raises(errors.MemoryLimitError, match=told):
            calibrator.predict_proba(np.broadcast_to(good()[0][0], (n_rows, 3)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200_000
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "1e9")
    assert_distributions(calibrator.predict_proba(fresh()), 1e-12)
    for limit in ("plenty", "", "nan"):
        monkeypatch.setenv("CALIBRANT_MAX_MEMORY", limit)
        with refused(errors.ParameterError, "CALIBRANT_MAX_MEMORY", limit):
            calibrator.predict_proba(fresh())


def _coarse():
    """Rows on a grid: repeated rows, ties within rows, ties between rows."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(4, [0.5, 0.3, 0.2], size=200)
    scores = counts / 4.0
    y = (scores.cumsum(axis=1) > rng.random((200, 1))).argmax(axis=1)
    return scores, y


@each_shared_map
@each_kind
def test_ties_within_a_row_share_one_output(calibrator, kind):
    scores, y = _coarse()
    out = calibrator(scores=kind).fit(as_kind(scores, kind), y).predict_proba(as_kind(scores, kind))
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        tied = scores[:, a] == scores[:, b]
        assert tied.any()
        assert np.array_equal(out[tied, a], out[tied, b])


def _with_zeros(kind, zero):
    """Zero probabilities, or logits whose largest is zero, with the given sign."""
    scores, y = good(kind)
    if kind == "logits":
        scores -= scores.max(axis=1, keepdims=True)
    else:
        scores[:40] = np.eye(3)[y[:40]]
    scores[scores == 0.0] = zero
    assert (scores == 0.0).any()
    return scores, y


@each_calibrator
@each_kind
@unbounded
def test_minus_zero_is_zero(calibrator, kind):
    """The same bits out, from a fit to it and from a prediction of it."""
    plus, minus = (calibrator(scores=kind).fit(*_with_zeros(kind, z)) for z in (0.0, -0.0))
    assert same_fit(plus, minus, fresh(kind))
    ours, theirs = (plus.predict_proba(_with_zeros(kind, z)[0]) for z in (0.0, -0.0))
    assert np.array_equal(bits(ours), bits(theirs))
    assert not np.signbit(ours).any()


def _some_zeros(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 3.0, 200) * (rng.random(200) < 0.7)


@each_calibrator
@absent_classes
@pytest.mark.parametrize("dtype", [bool, np.float32])
@pytest.mark.parametrize("used", [_some_zeros() > 0, good()[1] != 1], ids=["any rows", "a class"])
def test_a_mask_of_ones_and_zeros_is_removal(calibrator, dtype, used):
    """To the bit of the fit without weights, also of all rows of a class."""
    scores, y = good()
    whole = calibrator().fit(scores, y, used.astype(dtype))
    assert same_fit(whole, calibrator().fit(scores[used], y[used]), fresh())
