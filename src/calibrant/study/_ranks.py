"""Ranks of methods, first places and wins, and whether differences between them are chance.

A frame has one row per case (a classifier on a data set) and one column per method. NaN stands
for a method that failed: it ranks behind all others, and is never first and never wins.

The Friedman test asks whether all methods are equally good, the Nemenyi test compares every pair:
two methods differ if their average ranks are further apart than the critical difference. Both as in
J. Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006). They
take cases for independent, which classifiers of one data set are not: the bootstrap resamples whole
data sets instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from calibrant.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from calibrant._types import Bools, Floats
    from calibrant.study._table import StudyTable

BY_NAME = {metric.short: metric for metric in METRICS.values()}
"""Metrics by their names in the table of a study."""

PAPER_METRICS = ("nll", "conf-ece", "brier", "cw-ece", "tece")
"""Metrics of the paper's Table 2, in its order."""

_OWN = (name for name, metric in BY_NAME.items() if "study" in metric.tables)
ALL_METRICS = tuple(dict.fromkeys(("accuracy", *PAPER_METRICS, *_OWN)))
TABLE_METRICS = ALL_METRICS[1:]
LEVEL = 0.05


def known_metrics(table: StudyTable, wanted: Sequence[str] = ALL_METRICS) -> list[str]:
    """Return the metrics that a table has, of those that are wanted."""
    present = set(table.metrics)
    return [metric for metric in wanted if metric in present]


def as_losses(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a metric with its sign such that small is good, and infinity for what failed."""
    known = BY_NAME.get(metric)
    losses = -values if known is not None and known.larger_is_better else values
    return losses.fillna(np.inf)


def rank_methods(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Rank the methods of every case: 1 is best, equal values share the mean of their ranks."""
    return as_losses(values, metric).rank(axis=1)


def rank_cases(
    table: StudyTable, metric: str, methods: Iterable[str] | None = None
) -> pd.DataFrame:
    """Rank methods, all by default, among themselves on every case of a table."""
    return rank_methods(table.wide(metric, methods), metric)


def mark_first(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Tell which methods reached the best value of their case; ties all do.

    So the paper's caption has it: "how often a method achieved the lowest score". Shares of first
    places can therefore add up to more than one.
    """
    losses = as_losses(values, metric)
    return losses.eq(losses.min(axis=1), axis=0) & values.notna()


def win_shares(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return how often the method of the row is strictly better than that of the column.

    Ties win for neither, so that two opposite cells can add up to less than one. Cases in which
    both failed count as ties. The diagonal is NaN.
    """
    losses = as_losses(values, metric).to_numpy()
    shares = (losses[:, :, None] < losses[:, None, :]).mean(axis=0)
    np.fill_diagonal(shares, np.nan)
    return pd.DataFrame(shares, index=values.columns, columns=values.columns)


def standardize_within(values: pd.DataFrame) -> pd.DataFrame:
    """Subtract the mean and divide by the standard deviation of every data set.

    Both are over all classifiers and methods of the data set that have a number, as in the
    paper's box plots of NLL and Brier score; where all are equal the result is zero.
    """

    def standardize(part: pd.DataFrame) -> pd.DataFrame:
        held = part.to_numpy()[np.isfinite(part)]
        spread = held.std() if len(held) else 0.0
        return (part - (held.mean() if len(held) else np.nan)) / (spread if spread > 0.0 else 1.0)

    return pd.concat([standardize(part) for _, part in values.groupby(level="dataset")])


def best_of(numbers: pd.Series | Floats) -> Bools:
    """Mark the smallest number of a row; all of them where several are."""
    # Sums of halves in another order differ by less than any two average ranks.
    return np.asarray(numbers <= np.nanmin(numbers) + 1e-9)


def rank_correlation(first: pd.Series | Floats, second: pd.Series | Floats) -> float:
    """Return Spearman's correlation; NaN where one of the two is constant."""
    if np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return math.nan
    return float(stats.spearmanr(first, second).statistic)


class FriedmanTest(NamedTuple):
    """Result of :func:`friedman_test`."""

    statistic: float
    p_value: float


def friedman_test(ranks: pd.DataFrame | Floats) -> FriedmanTest:
    """Test whether all methods are equally good, by their ranks: one row per block, ties shared."""
    # scipy's friedmanchisquare refuses two methods, and divides by zero where all are tied.
    ranks = np.asarray(ranks)
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


def indistinct_groups(average_ranks: Floats, difference: float) -> list[tuple[int, ...]]:
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


def resample_means(
    values: pd.DataFrame | Floats, groups: Sequence[object], n_resamples: int = 2_000, seed: int = 0
) -> Floats:
    """Draw means of all columns (a row each) from resampled groups of rows, each one whole."""
    grouped = pd.DataFrame(np.asarray(values)).groupby(np.asarray(groups))
    sums, sizes = grouped.sum().to_numpy(), grouped.size().to_numpy()
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=n_resamples)
    draws: Floats = (counts @ sums) / (counts @ sizes)[:, None]
    return draws


def rank_intervals(ranks: pd.DataFrame, seed: int = 0, level: float = LEVEL) -> Floats:
    """Return percentile intervals of the average ranks over data sets, of shape (n_methods, 2)."""
    draws = resample_means(ranks, ranks.index.get_level_values("dataset"), seed=seed)
    bounds: Floats = np.quantile(draws, [level / 2, 1 - level / 2], axis=0).T
    return bounds
