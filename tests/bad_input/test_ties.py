"""Ties, zeros of either sign and subnormal scores."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from bad_input.promises import (
    PER_CLASS,
    as_kind,
    assert_distributions,
    bits,
    each_calibrator,
    each_kind,
    each_shared_map,
    few_rows,
    fitted,
    fresh,
    good,
    same_fit,
    state,
    unbounded,
)
from calibrant import simplex


def _coarse():
    """Rows on a grid: repeated rows, ties within rows, ties between rows."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(4, [0.5, 0.3, 0.2], size=200)
    scores = counts / 4.0
    y = (scores.cumsum(axis=1) > rng.random((200, 1))).argmax(axis=1)
    return scores, y


@each_calibrator
@each_kind
def test_the_order_of_tied_rows_does_not_matter(calibrator, kind):
    """To the bit."""
    scores, y = _coarse()
    scores = as_kind(scores, kind)
    mixed = np.random.default_rng(0).permutation(len(y))
    one = calibrator(scores=kind).fit(scores, y)
    other = calibrator(scores=kind).fit(scores[mixed], y[mixed])
    assert same_fit(one, other, fresh(kind))


@each_shared_map
@each_kind
def test_the_order_of_columns_does_not_matter(calibrator, kind):
    """To the bit, for maps that do not know which class is which."""
    scores, y = _coarse()
    scores, new = as_kind(scores, kind), fresh(kind)
    order = np.array([2, 0, 1])
    one = calibrator(scores=kind).fit(scores, y)
    other = calibrator(scores=kind).fit(scores[:, order], np.argsort(order)[y])
    aside = ("solver_report_", "report_")  # sums over columns: their last digits
    assert state(one, without=aside) == state(other, without=aside)
    np.testing.assert_array_almost_equal_nulp(
        other.predict_proba(new[:, order]), one.predict_proba(new)[:, order], 2
    )


@each_shared_map
@each_kind
def test_ties_within_a_row_share_one_output(calibrator, kind):
    scores, y = _coarse()
    out = calibrator(scores=kind).fit(as_kind(scores, kind), y).predict_proba(as_kind(scores, kind))
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        tied = scores[:, a] == scores[:, b]
        assert tied.any()
        assert np.array_equal(out[tied, a], out[tied, b])


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
    assert_distributions(out, 1e-12)
    wanted = np.bincount(y) / 200 if calibrator in PER_CLASS else np.full(3, 1 / 3)
    tolerance = 1e-3 if calibrator is calibrant.OneVsRestBBQ else 1e-5  # a prior of two rows
    np.testing.assert_allclose(out, np.tile(wanted, (200, 1)), atol=tolerance)


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


@each_calibrator
@few_rows
@unbounded
@pytest.mark.parametrize("tiny", [5e-324, 1e-310])
def test_subnormal_probabilities_are_accepted(calibrator, tiny):
    scores, y = good()
    scores[:40] = tiny
    scores[np.arange(40), y[:40]] = 1.0
    estimator = calibrator().fit(scores, y)
    assert_distributions(estimator.predict_proba(scores), 1e-12)
    assert_distributions(fitted(calibrator).predict_proba(scores), 1e-12)


def test_subnormal_probabilities_are_kept():
    """A step between zero and the smallest double is a step."""
    tiny = 4.1e-320
    scores = np.tile([1.0, tiny, 0.0], (200, 1))
    assert np.array_equal(bits(simplex.check_scores(scores)), bits(scores))
    y = np.where(np.arange(200) % 4 == 0, 1, 0)
    estimator = calibrant.FlattenedIsotonic(min_probability=0).fit(scores, y)
    out = estimator.predict_proba([[1.0, tiny, 0.0]])
    np.testing.assert_allclose(out, [[0.75, 0.25, 0.0]])
