"""Bivariate isotonic regression and SCIR in exact fractions, literally. Never optimise this."""

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise

GOLDEN = (math.sqrt(5) - 1) / 2


def merge(points, y, w):
    """Equal (q, rank) as one point: sorted points, with mean labels and summed weights."""
    sums = {}
    for point, label, weight in zip(points, y, w, strict=True):
        top, bottom = sums.get(tuple(point), (Fraction(0), Fraction(0)))
        weight = Fraction(weight)
        sums[tuple(point)] = (top + weight * Fraction(label), bottom + weight)
    merged = sorted(sums)
    means = [sums[p][0] / sums[p][1] for p in merged]
    return merged, means, [sums[p][1] for p in merged]


def below(a, b):
    """Whether a is at or below b in both coordinates."""
    return a[0] <= b[0] and a[1] <= b[1]


def upper_sets(points):
    """All upper sets, as sets of indices."""
    n = len(points)
    found = []
    for code in range(2**n):
        members = {i for i in range(n) if code >> i & 1}
        if all(j in members for i in members for j in range(n) if below(points[i], points[j])):
            found.append(frozenset(members))
    return found


def mean(members, y, w):
    """Weighted mean over a set of indices."""
    return sum(w[i] * y[i] for i in members) / sum(w[i] for i in members)


def min_max(points, y, w):
    """Fit by the min-max formula over all upper and lower sets, for distinct points.

    g(x) = max over upper sets U with x of min over lower sets L with x of the mean of U and L.
    """
    everything = frozenset(range(len(points)))
    uppers = upper_sets(points)
    means = {}

    def average(members):
        if members not in means:
            means[members] = mean(members, y, w)
        return means[members]

    return [
        max(
            min(average(up & (everything - other)) for other in uppers if i not in other)
            for up in uppers
            if i in up
        )
        for i in range(len(points))
    ]


def excess(members, y, w):
    """H of the paper: weighted sum of the labels over their mean."""
    centre = mean(range(len(y)), y, w)
    return sum((w[i] * (y[i] - centre) for i in members), Fraction(0))


def lemma_upper_set(points, y, w, *, as_printed=False):
    """Maximal upper set of sorted points by the dynamic programme of the paper's lemma, O(N k).

    ``as_printed``, by its listing, which is wrong: it does not take the larger of two.
    """
    n, c = len(points), max(r for _, r in points) + 1
    centre = mean(range(n), y, w)
    table = [[Fraction(0)] * (c + 1) for _ in range(n + 1)]
    step = [[0] * (c + 1) for _ in range(n)]
    for i in reversed(range(n)):
        rank = points[i][1]
        v = w[i] * (y[i] - centre)
        for j in range(1, c + 1):
            if j <= rank:
                table[i][j], step[i][j] = table[i + 1][j] + v, j
            elif v < 0 if as_printed else table[i + 1][j] >= table[i][rank]:
                table[i][j], step[i][j] = table[i + 1][j], j
            else:
                table[i][j], step[i][j] = table[i][rank], rank
    taken, j = set(), c  # the steps are followed from the left, as the end of the listing does
    for i, (_, rank) in enumerate(points):
        if step[i][j] <= rank:
            taken.add(i)
        j = step[i][j]
    return taken


listing_upper_set = partial(lemma_upper_set, as_printed=True)


def split(points, y, w, upper_set=lemma_upper_set):
    """Fit by splitting off maximal upper sets until there is none."""
    fitted = [None] * len(points)

    def fit(members):
        sub = ([v[i] for i in members] for v in (points, y, w))
        taken = {members[i] for i in upper_set(*sub)}
        rest = [i for i in members if i not in taken]
        if not taken or not rest:
            for i in members:
                fitted[i] = mean(members, y, w)
        else:
            fit(sorted(taken))
            fit(rest)

    fit(list(range(len(points))))
    return fitted


def sorted_cumulative(row, label):
    """Points ((q, rank), label) of one row; a label tied with others is shared among them.

    Sums that differ by rounding only are one.
    """
    order = sorted(row, reverse=True)
    first = sum(p > row[label] for p in row) + 1
    tied = sum(p == row[label] for p in row)
    points, q = [], 0.0
    for rank, p in enumerate(order[:-1], start=1):
        q += p
        inside = Fraction(min(max(rank - first + 1, 0), tied), tied)
        points.append(((round(min(q, 1.0), 14), rank), inside))
    return points


def fit_scir(rows, labels, weights=None, fit=min_max, max_rank=None):
    """SCIR: a dictionary from every point to its exact value."""
    weights = [1] * len(labels) if weights is None else weights
    points, y, w = [], [], []
    for row, label, weight in zip(rows, labels, weights, strict=True):
        for (q, rank), inside in sorted_cumulative(list(map(float, row)), label):
            points.append((q, rank if max_rank is None else min(rank, max_rank)))
            y.append(inside)
            w.append(weight)
    merged, means, sums = merge(points, y, w)
    return dict(zip(merged, fit(merged, means, sums), strict=True))


def predict_scir(fitted, row, max_rank=None):
    """Calibrated row: maximum over dominated points, or the least value; differences; ties.

    A point is dominated from about half-way between its sum and the next smaller one on.
    """
    sums = sorted({q for q, _ in fitted})
    reached = [(low + GOLDEN * (high - low), high) for low, high in pairwise([0.0, *sums])]

    def g(q, rank):
        rank = rank if max_rank is None else min(rank, max_rank)
        q = max([q, *(high for middle, high in reached if middle <= q)])
        dominated = [v for point, v in fitted.items() if below(point, (q, rank))]
        return max(dominated) if dominated else min(fitted.values())

    order = sorted(range(len(row)), key=lambda j: -row[j])
    q, cumulative = 0.0, [Fraction(0)]
    for rank, j in enumerate(order[:-1], start=1):
        q += float(row[j])
        cumulative.append(g(round(q, 14), rank))
    cumulative.append(Fraction(1))
    step = {j: cumulative[r + 1] - cumulative[r] for r, j in enumerate(order)}
    out = []
    for p in row:
        tied = [j for j in range(len(row)) if row[j] == p]
        out.append(sum(step[j] for j in tied) / len(tied))
    return out
