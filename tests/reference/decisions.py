"""Decisions literally from their definitions, in exact fractions. Never optimise this.

Rows are lists of doubles, labels are column numbers, weights are whole numbers.
"""

from fractions import Fraction
from itertools import pairwise, permutations
from math import comb, log, log2


def action(row, costs):
    """Action of least expected cost, the first of equals; rows of costs are true classes."""
    expected = [
        sum(Fraction(p) * Fraction(own[a]) for p, own in zip(row, costs, strict=True))
        for a in range(len(costs[0]))
    ]
    return expected.index(min(expected)), min(expected)


def mean_costs(rows, labels, costs, weights):
    """Mean cost of the best actions: by the labels, and by the probabilities."""
    realised = predicted = Fraction(0)
    for row, label, weight in zip(rows, labels, weights, strict=True):
        best, least = action(row, costs)
        realised += weight * Fraction(costs[label][best])
        predicted += weight * least
    return realised / sum(weights), predicted / sum(weights)


def area(order):
    """Mean over ranks of the share of wrong rows so far."""
    risks = [Fraction(sum(order[:i]), i) for i in range(1, len(order) + 1)]
    return sum(risks) / len(risks)


def aurc(confidence, wrong):
    """The area under risk and coverage, and the oracle's; mean over all orders of ties."""
    rows = list(zip(confidence, wrong, strict=True))
    orders = [o for o in permutations(rows) if all(a[0] >= b[0] for a, b in pairwise(o))]
    mean = sum(area([own for _, own in order]) for order in orders) / len(orders)
    return mean, area(sorted(wrong))


def tail(hits, trials, share):
    """P(Binomial(trials, share) >= hits)."""
    return sum(
        comb(trials, j) * share**j * (1 - share) ** (trials - j) for j in range(hits, trials + 1)
    )


def accurate_from(values, hits, wanted, error, n_starts):
    """Lowest threshold that the fallback procedure finds accurate, or None: one test at a time."""
    wanted, error, n = Fraction(wanted), Fraction(error), len(values)
    begins = [Fraction(n, 2**i) for i in range(n_starts)]
    best, level, begun = None, Fraction(0), 0
    for value in sorted(set(values), reverse=True):
        own = [hit for v, hit in zip(values, hits, strict=True) if v >= value]
        due = sum(len(own) >= begin for begin in begins)
        level += (due - begun) * error / n_starts
        begun = due
        if begun == 0:
            continue
        if tail(sum(own), len(own), wanted) <= level:
            best = value
        else:
            level = Fraction(0)
    return best


def number_of_starts(n, wanted, error):
    """How often n is halved while all right rows could refute something."""
    return max(1, int(log2(max(n / (log(error / 8) / log(wanted)), 1))) + 1)


def conformal_quantile(scores, coverage):
    """Smallest score at or below which a new one is with this probability, or None."""
    scores = sorted(scores)
    n = len(scores)
    for place, score in enumerate(scores, 1):
        if Fraction(place, n + 1) >= Fraction(coverage).limit_denominator(1000):
            return score
    return None
