"""Ties, zeros of either sign and masks; what else is no difference, tests/calibrators asks."""

from __future__ import annotations

import numpy as np
import pytest

from bad_input.promises import (
    absent_classes,
    as_kind,
    bits,
    each_calibrator,
    each_kind,
    each_shared_map,
    fresh,
    good,
    same_fit,
    unbounded,
)


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
