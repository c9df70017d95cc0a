"""Whether differences between average ranks are more than chance.

The Friedman test asks it of all methods at once, the Nemenyi test of every pair: two methods differ
if their average ranks are further apart than the critical difference. Both as in J. Demšar,
"Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006); the Friedman
statistic is corrected for ties, as in scipy. Both take the rows of the matrix for independent,
which classifiers of one data set are not: the bootstrap resamples whole data sets instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

LEVEL = 0.05


class FriedmanTest(NamedTuple):
    """Result of :func:`friedman_test`."""

    statistic: float
    p_value: float


def friedman_test(ranks: Matrix) -> FriedmanTest:
    """Test whether all methods are equally good, by their ranks: one row per block, ties shared."""
    # scipy's friedmanchisquare refuses two methods, and divides by zero where all are tied.
    n, k = ranks.shape
    if n < 2 or k < 2:
        return FriedmanTest(math.nan, math.nan)
    squares = float((ranks**2).sum()) - n * k * (k + 1) ** 2 / 4
    if squares <= 0.0:
        return FriedmanTest(0.0, 1.0)
    between = float(((ranks.sum(axis=0) - n * (k + 1) / 2) ** 2).sum())
    statistic = (k - 1) * between / squares
    return FriedmanTest(statistic, float(stats.chi2.sf(statistic, k - 1)))


def critical_difference(n_methods: int, n_blocks: int, level: float = LEVEL) -> float:
    """Return the difference of average ranks that chance exceeds with probability ``level``."""
    quantile = float(stats.studentized_range.ppf(1.0 - level, n_methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))


def indistinct_groups(average_ranks: Matrix, difference: float) -> list[tuple[int, ...]]:
    """Return the largest sets of methods no two of which differ, best first."""
    order = np.argsort(average_ranks, kind="stable")
    groups: list[tuple[int, ...]] = []
    reached = 0
    for start in range(len(order)):
        within = average_ranks[order] <= average_ranks[order[start]] + difference
        end = int(np.flatnonzero(within)[-1]) + 1
        if end > reached and end - start > 1:
            groups.append(tuple(int(j) for j in order[start:end]))
        reached = max(reached, end)
    return groups


def resample_average_ranks(
    ranks: Matrix, groups: Sequence[str], n_resamples: int = 2_000, seed: int = 0
) -> Matrix:
    """Draw average ranks (a row each) from resampled data sets, all classifiers of one at once."""
    names, member = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.zeros((len(names), ranks.shape[1]))
    np.add.at(sums, member, ranks)
    sizes = np.bincount(member, minlength=len(names))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=n_resamples)
    draws: Matrix = (counts @ sums) / (counts @ sizes)[:, None]
    return draws


def rank_intervals(
    ranks: Matrix, groups: Sequence[str], seed: int = 0, level: float = LEVEL
) -> Matrix:
    """Return percentile intervals of the average ranks, of shape (n_methods, 2)."""
    draws = resample_average_ranks(ranks, groups, seed=seed)
    bounds: Matrix = np.quantile(draws, [level / 2, 1 - level / 2], axis=0).T
    return bounds
