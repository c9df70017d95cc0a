"""Isotonic regression in exact fractions, literally from its formulas. Never optimise this."""

from fractions import Fraction
from itertools import accumulate


def min_max(y, w):
    """Values by the min-max formula of the paper's appendix theorem: O(n^3), exact.

    hat y_i = min over l >= i of max over u <= i of the mean of y_u .. y_l.
    """
    n = len(y)
    tops = [Fraction(0), *accumulate(Fraction(w[j]) * Fraction(y[j]) for j in range(n))]
    weights = [Fraction(0), *accumulate(Fraction(w[j]) for j in range(n))]

    def mean(u, v):
        return (tops[v + 1] - tops[u]) / (weights[v + 1] - weights[u])

    return [min(max(mean(u, v) for u in range(i + 1)) for v in range(i, n)) for i in range(n)]


def flattened(probabilities, labels, weights=None):
    """FIR over every cell: a dictionary from each distinct probability to its exact value."""
    weights = [1] * len(labels) if weights is None else weights
    cells = {}
    for row, label, weight in zip(probabilities, labels, weights, strict=True):
        for j, p in enumerate(row):
            top, bottom = cells.get(float(p), (Fraction(0), Fraction(0)))
            hit = Fraction(weight) if j == label else Fraction(0)
            cells[float(p)] = (top + hit, bottom + Fraction(weight))
    order = sorted(cells)
    means = [cells[p][0] / cells[p][1] for p in order]
    return dict(zip(order, min_max(means, [cells[p][1] for p in order]), strict=True))
