"""Histogram binning, BBQ and top-label sharing in exact fractions. Never optimise this."""

from fractions import Fraction
from itertools import pairwise
from math import floor


def collect(values, labels, weights):
    """Distinct values in order, each with the weight of its labels and of all its cells."""
    sums = {}
    for value, label, weight in zip(values, labels, weights, strict=True):
        top, bottom = sums.get(Fraction(value), (Fraction(0), Fraction(0)))
        sums[Fraction(value)] = (top + int(label) * Fraction(weight), bottom + Fraction(weight))
    return [(value, *sums[value]) for value in sorted(sums)]


def mass_bins(values, labels, weights, n_bins):
    """Bins of equal mass as lists of (value, positives, cells); no bin is empty.

    A value is in bin floor(n_bins * q), q being the share of the weight below the middle of its
    own weight.
    """
    distinct = collect(values, labels, weights)
    total = sum(cells for _, _, cells in distinct)
    bins, below = {}, Fraction(0)
    for value, positives, cells in distinct:
        bins.setdefault(floor(n_bins * (below + cells / 2) / total), []).append(
            (value, positives, cells)
        )
        below += cells
    return [bins[b] for b in sorted(bins)]


def width_bins(values, labels, weights, n_bins):
    """Bins [b / n, (b + 1) / n) as lists of (value, positives, cells); 1 is in the last."""
    bins = [[] for _ in range(n_bins)]
    for cell in collect(values, labels, weights):
        bins[min(floor(cell[0] * n_bins), n_bins - 1)].append(cell)
    return bins


def mean(part):
    """Share of the label in a bin."""
    return sum(cell[1] for cell in part) / sum(cell[2] for cell in part)


def histogram(values, labels, weights, n_bins, strategy="mass"):
    """Exact value of the histogram at each distinct value."""
    cut = mass_bins if strategy == "mass" else width_bins
    parts = [part for part in cut(values, labels, weights, n_bins) if part]
    return {cell[0]: mean(part) for part in parts for cell in part}


GOLDEN = Fraction(0.5 * (5.0**0.5 - 1.0))
"""Where an edge lies between two values: at no fraction that a forest can vote for."""


def edges(parts):
    """0, the golden section of the gap between neighbouring bins, 1."""
    ends = [(low[-1][0], high[0][0]) for low, high in pairwise(parts)]
    inner = [below + GOLDEN * (above - below) for below, above in ends]
    return [Fraction(0), *inner, Fraction(1)]


def rising(x, n):
    """Gamma(x + n) / Gamma(x), which is x (x + 1) ... (x + n - 1)."""
    product = Fraction(1)
    for i in range(int(n)):
        product *= x + i
    return product


def binning_score(parts, per_bin):
    """Marginal likelihood of the labels, and the posterior mean at each value."""
    score, means = Fraction(1), {}
    for part, (low, high) in zip(parts, pairwise(edges(parts)), strict=True):
        alpha = per_bin * (low + high) / 2
        beta = per_bin - alpha
        positives, cells = sum(c[1] for c in part), sum(c[2] for c in part)
        score *= rising(alpha, positives) * rising(beta, cells - positives)
        score /= rising(per_bin, cells)
        means.update({c[0]: (positives + alpha) / (cells + per_bin) for c in part})
    return score, means


def bayesian_binning(values, labels, weights, numbers, prior_weight=None):
    """Exact value of BBQ at each distinct value, and the exact score of each number of bins.

    Weights are whole numbers. ``prior_weight`` None is two pseudo-observations for each bin.
    """
    models = []
    for n_bins in numbers:
        parts = mass_bins(values, labels, weights, n_bins)
        per_bin = Fraction(2) if prior_weight is None else Fraction(prior_weight) / len(parts)
        models.append(binning_score(parts, per_bin))
    total = sum(score for score, _ in models)
    average = {
        value: sum(score * means[value] for score, means in models) / total
        for value in models[0][1]
    }
    return average, [score for score, _ in models]


TIED = 1 - Fraction(1, 2**16)
"""Part of the largest probability from which on another one is tied with it."""


def share_the_rest(row, values):
    """Give each top class its value in turn, the others the rest in proportion; average.

    ``values`` holds the new confidence of each class, used where it has the largest probability.
    """
    row = [Fraction(p) for p in row]
    tied = [j for j, p in enumerate(row) if p >= TIED * max(row)]
    row = [max(row) if j in tied else p for j, p in enumerate(row)]
    out = [Fraction(0)] * len(row)
    for top in tied:
        rest, others = 1 - Fraction(values[top]), sum(row) - row[top]
        for j, p in enumerate(row):
            if j == top:
                out[j] += Fraction(values[top])
            elif others > 0:
                out[j] += rest * p / others
            else:
                out[j] += rest / (len(row) - 1)
    return [p / len(tied) for p in out]
