"""Metrics literally from their definitions, in exact fractions. Never optimise this.

Rows are lists of doubles, labels are column numbers, weights are whole numbers, doubles or
fractions. Where a definition has a logarithm or a root, doubles are used from there on.
"""

import math
from fractions import Fraction
from itertools import pairwise

from reference.isotonic import min_max


def exact(weights, n):
    return [Fraction(1)] * n if weights is None else [Fraction(w) for w in weights]


def top(row):
    """Column of the largest probability, the first of equals."""
    return row.index(max(row))


def accuracy(rows, labels, weights=None):
    w = exact(weights, len(rows))
    return sum(w[i] for i, row in enumerate(rows) if top(row) == labels[i]) / sum(w)


def brier(rows, labels, weights=None):
    w = exact(weights, len(rows))
    total = Fraction(0)
    for i, row in enumerate(rows):
        for j, p in enumerate(row):
            total += w[i] * (Fraction(p) - (1 if labels[i] == j else 0)) ** 2
    return total / sum(w) / len(rows[0])


def ranked(rows, labels, weights=None):
    w, k = exact(weights, len(rows)), len(rows[0])
    total = Fraction(0)
    for i, row in enumerate(rows):
        for j in range(k - 1):
            below = sum(Fraction(p) for p in row[: j + 1])
            total += w[i] * (below - (1 if labels[i] <= j else 0)) ** 2
    return total / sum(w) / (k - 1)


def likelihood(rows, labels, weights=None, floor=1e-12):
    w = exact(weights, len(rows))
    losses = []
    for i, row in enumerate(rows):
        p = max(row[labels[i]], floor)
        if w[i] > 0:
            losses.append(float(w[i]) * (-math.log(p) if p > 0 else math.inf))
    return math.fsum(losses) / float(sum(w))


def width_bin(value, n_bins):
    """(low, high] between the doubles i / n_bins; zero is in the first."""
    for b in range(n_bins - 1):
        if value <= (b + 1) * (1.0 / n_bins):
            return b
    return n_bins - 1


def mass_bins(values, weights, n_bins):
    """Bin of the midpoint of the cumulative weight of all equal values, in n_bins equal parts."""
    total = sum(weights)
    bins = []
    for value in values:
        below = sum((w for v, w in zip(values, weights, strict=True) if v < value), Fraction(0))
        own = sum(w for v, w in zip(values, weights, strict=True) if v == value)
        bins.append(min(math.floor(n_bins * (below + own / 2) / total), n_bins - 1))
    return bins


def binned_error(values, hits, weights, bins, n_bins, norm="l1"):
    total = sum(weights)
    gaps = []
    for b in range(n_bins):
        inside = [i for i in range(len(values)) if bins[i] == b]
        weight = sum(weights[i] for i in inside)
        if weight > 0:
            mean = sum(weights[i] * Fraction(values[i]) for i in inside) / weight
            share = sum(weights[i] for i in inside if hits[i]) / weight
            gaps.append((abs(mean - share), weight / total))
    if norm == "max":
        return max(gap for gap, _ in gaps)
    if norm == "l2":
        return math.sqrt(sum(gap**2 * share for gap, share in gaps))
    return sum(gap * share for gap, share in gaps)


def confidence_error(rows, labels, weights=None, n_bins=15, strategy="uniform", norm="l1"):
    w = exact(weights, len(rows))
    values = [max(row) for row in rows]
    hits = [top(row) == label for row, label in zip(rows, labels, strict=True)]
    if strategy == "uniform":
        bins = [width_bin(v, n_bins) for v in values]
    else:
        bins = mass_bins(values, w, n_bins)
    return binned_error(values, hits, w, bins, n_bins, norm)


def classwise_error(rows, labels, weights=None, n_bins=15, norm="l1"):
    w = exact(weights, len(rows))
    by_class = []
    for j in range(len(rows[0])):
        values = [row[j] for row in rows]
        hits = [label == j for label in labels]
        bins = [width_bin(v, n_bins) for v in values]
        by_class.append(binned_error(values, hits, w, bins, n_bins, norm))
    return sum(by_class) / len(by_class)


def thresholded_error(rows, labels, weights=None, n_bins=15, norm="l1"):
    w = exact(weights, len(rows))
    k = len(rows[0])
    by_class = []
    for j in range(k):
        # Rounding may take a uniform row below the double 1 / k; it counts all the same.
        own = [i for i, row in enumerate(rows) if row[j] >= (1 - 1e-12) / k and w[i] > 0]
        if own:
            values = [rows[i][j] for i in own]
            hits = [labels[i] == j for i in own]
            weight = [w[i] for i in own]
            bins = mass_bins(values, weight, n_bins)
            by_class.append(binned_error(values, hits, weight, bins, n_bins, norm))
    return sum(by_class) / len(by_class)


def smoothed_error(rows, labels, sigma, weights=None, n_steps=1000):
    """Integral of |sum of residuals times reflected Gaussian kernels|, kernel by kernel.

    Roots are bracketed on an even grid; between two of them the normal distribution function
    integrates each kernel.
    """
    w = [float(x) for x in exact(weights, len(rows))]
    values, hits = usual_problem(rows, labels)
    residuals = [(value - hit) * x for value, hit, x in zip(values, hits, w, strict=True)]
    far = math.ceil(20 * sigma / 2) + 1  # images within ten deviations and more
    images = [
        (2 * turn + sign * value, residual / sum(w))
        for value, residual in zip(values, residuals, strict=True)
        for turn in range(-far, far + 1)
        for sign in (1, -1)
    ]

    def smoothed(t):
        return math.fsum(r * math.exp(-(((t - v) / sigma) ** 2) / 2) for v, r in images)

    def integral(t):
        return math.fsum(r * math.erf((t - v) / sigma / math.sqrt(2)) / 2 for v, r in images)

    nodes = [i / n_steps for i in range(n_steps + 1)]
    above = [smoothed(t) >= 0 for t in nodes]
    roots = []
    for i in range(n_steps):
        if above[i] != above[i + 1]:
            low, high = nodes[i], nodes[i + 1]
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (middle, high) if (smoothed(middle) >= 0) == above[i] else (low, middle)
            roots.append(low)
    parts = [integral(t) for t in (0.0, *roots, 1.0)]
    return math.fsum(abs(b - a) for a, b in pairwise(parts))


def usual_problem(rows, labels):
    """Probabilities and events: of the positive one of two classes, else of the confidence."""
    if len(rows[0]) == 2:
        return [row[1] for row in rows], [label == 1 for label in labels]
    return [max(row) for row in rows], [top(r) == y for r, y in zip(rows, labels, strict=True)]


def positive_error(rows, labels, weights=None, n_bins=15, strategy="uniform", norm="l1"):
    """ECE of the second of two classes."""
    w = exact(weights, len(rows))
    values, hits = usual_problem(rows, labels)
    if strategy == "uniform":
        bins = [width_bin(value, n_bins) for value in values]
    else:
        bins = mass_bins(values, w, n_bins)
    return binned_error(values, hits, w, bins, n_bins, norm)


def cumulative_errors(rows, labels, weights=None):
    """Kuiper and Kolmogorov-Smirnov: partial sums over all rows up to each probability."""
    w = exact(weights, len(rows))
    values, hits = usual_problem(rows, labels)
    sums = [Fraction(0)]
    for bound in values:
        inside = [i for i, value in enumerate(values) if value <= bound]
        gaps = [w[i] * (hits[i] - Fraction(values[i])) for i in inside]
        sums.append(sum(gaps) / sum(w))
    return max(sums) - min(sums), max(map(abs, sums))


def squared(value, hit):
    return (value - (1 if hit else 0)) ** 2


def decomposition(rows, labels, weights=None):
    """Mean over classes of the scores raw, recalibrated (min-max formula) and constant."""
    w = exact(weights, len(rows))
    total = sum(w)
    sums = [0, 0, 0]
    for j in range(len(rows[0])):
        order = sorted({row[j] for row in rows})
        inside = {v: [i for i, row in enumerate(rows) if row[j] == v] for v in order}
        weight = [sum(w[i] for i in inside[v]) for v in order]
        shares = [
            sum(w[i] for i in inside[v] if labels[i] == j) / weight[a] for a, v in enumerate(order)
        ]
        fitted = dict(zip(order, min_max(shares, weight), strict=True))
        base = sum(w[i] for i in range(len(rows)) if labels[i] == j) / total
        for i, row in enumerate(rows):
            hit = labels[i] == j
            for at, value in enumerate((Fraction(row[j]), fitted[row[j]], base)):
                sums[at] += w[i] * squared(value, hit)
    return [s / total / len(rows[0]) for s in sums]
