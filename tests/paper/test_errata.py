"""Where the paper is wrong: a counter-example of each, that runs.

``docs/explanation/the-paper.md`` has the list. Everything here is literal and exact.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from reference.bivariate_isotonic import (
    below,
    excess,
    lemma_upper_set,
    listing_upper_set,
    mean,
    min_max,
    sorted_cumulative,
    split,
    upper_sets,
)
from reference.normalization_aware import loss_and_gradient


def problems(seed, count, most=7):
    """Small problems of distinct sorted points in a grid, with labels 0 and 1."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(2, most + 1))
        cells = rng.choice(40, size=n, replace=False)
        points = sorted((int(cell) // 4 + 1, int(cell) % 4 + 1) for cell in cells)
        y = [Fraction(int(label)) for label in rng.integers(0, 2, n)]
        yield points, y, [Fraction(1)] * n


# Algorithm 1


def anneal(counts, target, start, draws, beta, epsilon, against):
    """Algorithm 1 as printed, for given draws; ``best`` is updated by what ``against`` names.

    ``counts`` are cells of rows in blocks, ``target`` labels in blocks.
    """

    def likelihood(values):
        return float(target @ np.log(values) - np.log(counts @ values).sum())

    fits = np.array(start)
    current = best = likelihood(fits)
    seen = [current]
    for block, sign, chance in draws:
        suggested = fits.copy()
        suggested[block] += epsilon * sign
        if suggested[0] <= 0 or np.any(np.diff(suggested) < 0):
            continue
        found = likelihood(suggested)
        seen.append(found)
        if found > (current if against == "current" else best):
            best = found
        if found > current or chance < math.exp(beta * (found - current)):
            fits, current = suggested, found
    return best, max(seen)


def test_algorithm_1_forgets_the_best_fit():
    """The listing compares with the current likelihood, so a worse fit replaces the best one."""
    rng = np.random.default_rng(0)
    counts, target = rng.integers(1, 4, (30, 4)).astype(float), np.array([3.0, 6.0, 8.0, 13.0])
    start = [0.1, 0.2, 0.3, 0.4]
    draws = [
        (int(rng.integers(4)), int(rng.choice([-1, 1])), float(rng.random())) for _ in range(400)
    ]
    printed, seen = anneal(counts, target, start, draws, 5.0, 0.02, "current")
    assert printed < seen - 1e-3
    mended, seen = anneal(counts, target, start, draws, 5.0, 0.02, "best")
    assert mended == seen


# "No longer convex"


def test_na_fir_is_convex_in_the_logarithm_of_the_map_and_not_in_the_map():
    rng = np.random.default_rng(1)
    counts, target, weight = rng.integers(0, 4, (20, 5)) + 0.0, rng.random(5), np.ones(20)
    counts[:, 0] += 1.0
    target *= 20 / target.sum()

    def loss(theta):
        return loss_and_gradient(theta, counts, target, weight)[0]

    for _ in range(200):
        a, b = np.sort(rng.normal(0, 3, (2, 5)), axis=1)
        assert loss((a + b) / 2) <= (loss(a) + loss(b)) / 2 + 1e-12
    # One row of two classes, both labels once: in g = (1, g) the loss is log(1 + g) - log(g) / 2.
    values = np.array([1.0, 20.0, 39.0])
    ends = np.log(1 + values) - np.log(values) / 2
    assert ends[1] > (ends[0] + ends[2]) / 2


# Algorithm 2


def test_algorithm_2_misses_maxima_and_the_lemma_none():
    missed = dict.fromkeys(("listing", "lemma"), 0)
    count = 0
    for points, y, w in problems(2, 200):
        best = max(excess(members, y, w) for members in upper_sets(points))
        for name, find in (("listing", listing_upper_set), ("lemma", lemma_upper_set)):
            missed[name] += excess(find(points, y, w), y, w) != best
        count += 1
    assert missed["lemma"] == 0
    assert 0.15 * count < missed["listing"] < 0.5 * count


def test_fits_by_the_listing_are_isotonic_and_wrong():
    """So a test of monotonicity does not find the error."""
    points = [(5, 3), (10, 1), (20, 2), (30, 2)]
    y, w = [Fraction(1), Fraction(1), Fraction(0), Fraction(0)], [Fraction(1)] * 4
    assert split(points, y, w, listing_upper_set) == [Fraction(1, 2)] * 4
    assert split(points, y, w) == min_max(points, y, w) == [1, *[Fraction(1, 3)] * 3]


def test_an_unsplittable_set_has_its_average_and_not_its_excess():
    """The theorem says g* = H_X(X), which is 0 whatever the labels are."""
    points, y, w = [(1, 2), (2, 1)], [Fraction(1), Fraction(1)], [Fraction(1)] * 2
    everything = frozenset(range(2))
    assert excess(everything, y, w) == 0
    assert min_max(points, y, w) == [mean(everything, y, w)] * 2 == [1, 1]
    for points, y, w in problems(3, 50):
        assert excess(frozenset(range(len(points))), y, w) == 0


# The lemma


def upper(points, i, j):
    """u(i, j) of the appendix: points of index i or later and of rank j or more, from 1."""
    return {n for n in range(len(points)) if n + 1 >= i and points[n][1] >= j}


def test_the_proof_says_that_two_sets_are_one_which_are_not():
    """u(i, j) = u(i, l) for j <= l is false for x1 = (1, 2), x2 = (2, 1) and i = j = 1."""
    points = [(1, 2), (2, 1)]
    assert upper(points, 1, 1) == {0, 1}
    assert upper(points, 1, points[0][1]) == {0}


def test_the_formula_holds_all_the_same():
    """M(i, j) from its definition, over all upper sets, is that of the recursion."""
    for points, y, w in problems(4, 60, most=6):
        n, c = len(points), max(rank for _, rank in points) + 1
        centre = mean(range(n), y, w)
        every = upper_sets(points)

        def largest(i, j, points=points, y=y, w=w, every=every):
            wanted = upper(points, i, j)
            return max(
                excess(members, y, w)
                for members in every
                if wanted <= members and all(k + 1 >= i for k in members)
            )

        for i, j in product(range(1, n + 1), range(1, c + 1)):
            rank, v = points[i - 1][1], w[i - 1] * (y[i - 1] - centre)
            later = largest(i + 1, j)
            expected = later + v if j <= rank else max(later, largest(i, rank))
            assert largest(i, j) == expected


# Complexity


def table_cells(points, y, w, c):
    """Count the cells of the tables of Algorithm 2 in all splits of a problem."""
    cells = len(points) * c
    taken = lemma_upper_set(points, y, w)
    rest = [i for i in range(len(points)) if i not in taken]
    if not taken or not rest:
        return cells
    parts = (sorted(taken), rest)
    return cells + sum(
        table_cells(*([v[i] for i in part] for v in (points, y, w)), c) for part in parts
    )


def test_the_bound_that_the_argument_gives_is_smaller_than_the_one_printed():
    """N - 1 splits of at most N k cells, N = m (k - 1): m^2 k^3, where the paper says m^2 k^4."""
    rng = np.random.default_rng(5)
    for m, k in ((2, 4), (3, 5), (2, 8), (6, 3)):
        n = m * (k - 1)
        # Labels that grow geometrically make every split take few points.
        points = [(i + 1, int(rank)) for i, rank in enumerate(rng.integers(1, k, n))]
        y, w = [Fraction(3) ** i for i in range(n)], [Fraction(1)] * n
        assert table_cells(points, y, w, k) <= n**2 * k <= m**2 * k**3 < m**2 * k**4


# Small slips


def test_the_worked_example():
    """Of (0.2, 0.4, 0.3, 0.1) class 1 has g(0.9, 3) - g(0.7, 2), where 0.8 is printed."""
    points = sorted_cumulative([0.2, 0.4, 0.3, 0.1], 2)
    assert points == [((0.4, 1), 0), ((0.7, 2), 1), ((0.9, 3), 1)]


def test_the_rule_of_prediction_leaves_points_out():
    """A point may dominate no fitted point without being below all of them."""
    fitted, new = [(0.5, 1), (0.3, 2)], (0.4, 1)
    assert not all(below(new, point) for point in fitted)
    assert not any(below(point, new) for point in fitted)


@pytest.mark.parametrize(("metric", "dataset", "bold"), [("cw-ece", "YR", "ir-ovr")])
def test_one_bold_number_of_table_2_is_not_the_lowest(metric, dataset, bold):
    import printed

    line = printed.TABLE_2[metric][dataset]
    assert min(line, key=lambda method: line[method].rank) == "ms"
    assert line["ms"].rank < line[bold].rank
