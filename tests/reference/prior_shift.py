"""Class frequencies of unlabelled rows, in exact arithmetic: nothing is faster than trying all."""

from fractions import Fraction
from itertools import product
from math import prod


def likelihood(priors, rows, from_priors):
    """Product over rows of sum_c q_c p_c / from_c, as a fraction."""
    return prod(
        sum(
            Fraction(q) * Fraction(p) / Fraction(f)
            for q, p, f in zip(priors, row, from_priors, strict=True)
        )
        for row in rows
    )


def grid(n_classes, steps):
    """All points of the simplex whose coordinates are multiples of 1 / steps."""
    for first in product(range(steps + 1), repeat=n_classes - 1):
        if sum(first) <= steps:
            yield [Fraction(n, steps) for n in (*first, steps - sum(first))]


def best_on_grid(rows, from_priors, steps):
    """The point of the grid with the largest likelihood."""
    return max(grid(len(from_priors), steps), key=lambda q: likelihood(q, rows, from_priors))


def responsibilities(priors, rows, from_priors):
    """Mean of (p_c / from_c) / m over rows, for each class: at most 1 at the optimum."""
    means = [Fraction(0)] * len(from_priors)
    for row in rows:
        ratios = [Fraction(p) / Fraction(f) for p, f in zip(row, from_priors, strict=True)]
        mixture = sum(Fraction(q) * r for q, r in zip(priors, ratios, strict=True))
        means = [m + r / mixture / len(rows) for m, r in zip(means, ratios, strict=True)]
    return means
