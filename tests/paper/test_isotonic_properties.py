"""Theorem and lemmas of the paper's last appendix, as properties of small problems.

Losses are proper scoring rules S(q, y): log loss, Brier score and spherical score.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

GRID = np.linspace(1e-6, 1.0 - 1e-6, 2001)
RULES = {
    "log": (lambda q: -np.log(q), lambda q: -np.log1p(-q)),
    "Brier": (lambda q: (1 - q) ** 2, lambda q: q**2),
    "spherical": (lambda q: -q / np.hypot(q, 1 - q), lambda q: -(1 - q) / np.hypot(q, 1 - q)),
}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
shares = st.floats(0.01, 0.99)
series = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), min_size=1, max_size=8)


def expected(rule, q, p):
    """S*(q, p): the expected score of q where the label has probability p."""
    return p * rule[0](q) + (1 - p) * rule[1](q)


def average(part):
    """Weighted mean of labels."""
    return sum(y * w for y, w in part) / sum(w for _, w in part)


def min_max(labels):
    """The theorem's solution: the least over ends of the largest over starts of an average."""
    n = len(labels)
    return [
        min(max(average(labels[u : end + 1]) for u in range(i + 1)) for end in range(i, n))
        for i in range(n)
    ]


def loss(rule, values, labels):
    values = np.clip(values, 1e-12, 1 - 1e-12)
    return sum(w * rule[1 - y](q) for q, (y, w) in zip(values, labels, strict=True))


def bounded_minimum(rule, labels, low, high):
    """Least loss of an isotonic g in [low, high], on a fine grid, by dynamic programming."""
    grid = GRID[(low <= GRID) & (high >= GRID)]
    best = np.zeros(len(grid))
    for y, w in labels:
        best = np.minimum.accumulate(best) + w * rule[1 - y](grid)
    return best.min()


@each_rule
@given(p=shares, bounds=st.tuples(shares, shares))
def test_convexity_lemma(rule, p, bounds):
    """The minimiser of S*(q, p) over an interval is p, moved into it."""
    low, high = sorted(bounds)
    clipped = max(low, min(high, p))
    q = GRID[(low <= GRID) & (high >= GRID)]
    assert np.all(expected(rule, clipped, p) <= expected(rule, q, p) + 1e-12)
    below, above = expected(rule, q[q <= p], p), expected(rule, q[q >= p], p)
    assert np.all(np.diff(below) <= 1e-12)
    assert np.all(np.diff(above) >= -1e-12)


@each_rule
@given(labels=series, bounds=st.tuples(shares, shares))
def test_lemma_of_bounded_isotonic_regression(rule, labels, bounds):
    """Where no upper part has a larger average than all, one value is best: that, clipped."""
    low, high = sorted(bounds)
    low, high = low - 1e-3, high + 1e-3  # so that the grid has points in between
    whole = average(labels)
    holds = all(average(labels[i:]) <= whole + 1e-12 for i in range(len(labels)))
    constant = max(low, min(high, whole))
    lowest = bounded_minimum(rule, labels, low, high)
    gap = loss(rule, [constant] * len(labels), labels) - lowest
    assert not holds or gap <= 1e-9


@each_rule
@given(labels=series)
def test_theorem(rule, labels):
    """The min-max solution is isotonic, and no isotonic function has a smaller loss."""
    fitted = min_max(labels)
    assert all(a <= b + 1e-12 for a, b in pairwise(fitted))
    assert loss(rule, fitted, labels) <= bounded_minimum(rule, labels, 0.0, 1.0) + 1e-6


@given(labels=series)
def test_fixed_on_partition(labels):
    """Its values are averages of the blocks on which it is constant."""
    fitted = np.array(min_max(labels))
    for value in np.unique(np.round(fitted, 12)):
        block = [labels[i] for i in np.flatnonzero(np.abs(fitted - value) < 1e-9)]
        assert average(block) == pytest.approx(value)
