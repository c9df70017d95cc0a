"""Ranks of methods, first places, head-to-head wins, and scores standardised within a data set.

A matrix has one row per case (a classifier on a data set) and one column per method. NaN stands
for a method that failed: it ranks behind all others, and is never first and never wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from calibrant.metrics.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant.study.table import StudyTable

    Matrix = NDArray[np.float64]

BY_NAME = {metric.short: metric for metric in METRICS.values()}
"""Metrics by their names in the table of a study."""

TABLE_METRICS = ("nll", "conf-ece", "brier", "cw-ece", "tece")
"""Metrics of the paper's Table 2, in its order."""

ALL_METRICS = ("accuracy", *TABLE_METRICS)


def as_losses(values: Matrix, metric: str) -> Matrix:
    """Return a metric with its sign such that small is good, and infinity for what failed."""
    known = BY_NAME.get(metric)
    losses = -values if known is not None and known.larger_is_better else values
    filled: Matrix = np.where(np.isnan(losses), np.inf, losses)
    return filled


def rank_methods(values: Matrix, metric: str) -> Matrix:
    """Rank the methods of every case: 1 is best, equal values share the mean of their ranks."""
    ranks: Matrix = stats.rankdata(as_losses(values, metric), axis=1)
    return ranks


def mark_first(values: Matrix, metric: str) -> NDArray[np.bool_]:
    """Tell which methods reached the best value of their case; ties all do.

    So the paper's caption has it: "how often a method achieved the lowest score". Shares of first
    places can therefore add up to more than one.
    """
    losses = as_losses(values, metric)
    first: NDArray[np.bool_] = (losses == losses.min(axis=1, keepdims=True)) & ~np.isnan(values)
    return first


def win_shares(values: Matrix, metric: str) -> Matrix:
    """Return how often the method of the row is strictly better than that of the column.

    Ties win for neither, so that two opposite cells can add up to less than one. Cases in which
    both failed count as ties. The diagonal is NaN.
    """
    losses = as_losses(values, metric)
    shares: Matrix = (losses[:, :, None] < losses[:, None, :]).mean(axis=0)
    np.fill_diagonal(shares, np.nan)
    return shares


def standardize_within(values: Matrix, groups: Sequence[str]) -> Matrix:
    """Subtract the mean and divide by the standard deviation of every data set.

    Both are over all classifiers and methods of the data set that have a number, as in the
    paper's box plots of NLL and Brier score; where all are equal the result is zero.
    """
    out = np.full_like(values, np.nan)
    names = np.asarray(groups)
    for name in np.unique(names):
        part = values[names == name]
        held = part[np.isfinite(part)]
        if len(held):
            spread = float(held.std())
            out[names == name] = (part - held.mean()) / (spread if spread > 0.0 else 1.0)
    return out


class Averages(NamedTuple):
    """Average ranks and shares of first places of methods, over a number of cases."""

    n_cases: int
    ranks: Matrix
    firsts: Matrix


def summarize_ranks(
    table: StudyTable,
    metric: str,
    methods: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> tuple[dict[str, Averages], Averages]:
    """Average the ranks of methods over the cases of every group, and over all cases.

    Methods, all of the table by default, are ranked among themselves. The group of a case is its
    data set by default.
    """
    names = np.asarray(table.case_datasets if groups is None else groups)
    values = table.matrix(metric, methods)
    ranks, firsts = rank_methods(values, metric), mark_first(values, metric)

    def average(part: NDArray[np.bool_]) -> Averages:
        return Averages(int(part.sum()), ranks[part].mean(axis=0), firsts[part].mean(axis=0))

    by_group = {str(name): average(names == name) for name in np.unique(names)}
    return by_group, average(np.ones(len(names), dtype=bool))


def known_metrics(table: StudyTable, wanted: Sequence[str] = ALL_METRICS) -> tuple[str, ...]:
    """Return the metrics that a table has, of those that are wanted."""
    present = {row.metric for row in table.rows}
    return tuple(metric for metric in wanted if metric in present)


def best_of(numbers: Matrix) -> NDArray[np.bool_]:
    """Mark the smallest number of a row; all of them where several are."""
    # Sums of halves in another order differ by less than any two average ranks.
    return np.asarray(numbers <= np.nanmin(numbers) + 1e-9)
