"""Ranks of methods, first places, head-to-head wins, and scores standardised within a data set.

A matrix has one row per case (a classifier on a data set) and one column per method. NaN stands
for a method that failed: it ranks behind all others, and is never first and never wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant.study.table import StudyTable

    Matrix = NDArray[np.float64]

TABLE_METRICS = ("nll", "conf-ece", "brier", "cw-ece", "tece")
"""Metrics of the paper's Table 2, in its order."""

ALL_METRICS = ("accuracy", *TABLE_METRICS)

TITLES = {
    "accuracy": "Accuracy",
    "nll": "NLL",
    "conf-ece": "conf-ECE",
    "brier": "Brier score",
    "cw-ece": "cw-ECE",
    "tece": "TECE",
}


def larger_is_better(metric: str) -> bool:
    """Return whether a metric rewards large values; of the study's only accuracy does."""
    return metric == "accuracy"


def as_losses(values: Matrix, metric: str) -> Matrix:
    """Return a metric with its sign such that small is good, and infinity for what failed."""
    losses = -values if larger_is_better(metric) else values
    filled: Matrix = np.where(np.isnan(losses), np.inf, losses)
    return filled


def rank_methods(values: Matrix, metric: str) -> Matrix:
    """Rank the methods of every case: 1 is best, equal values share the mean of their ranks.

    Parameters
    ----------
    values : ndarray of shape (n_cases, n_methods)
        NaN where a method failed.
    metric : str
        Its name; all but "accuracy" are better when smaller.

    Returns
    -------
    ranks : ndarray of shape (n_cases, n_methods)

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.study.ranks import rank_methods
    >>> rank_methods(np.array([[0.3, 0.1, 0.3, np.nan]]), "nll")
    array([[2.5, 1. , 2.5, 4. ]])
    """
    losses = as_losses(values, metric)
    below = (losses[:, None, :] < losses[:, :, None]).sum(axis=2)
    equal = (losses[:, None, :] == losses[:, :, None]).sum(axis=2)
    ranks: Matrix = below + (equal + 1) / 2
    return ranks


def mark_first(values: Matrix, metric: str) -> NDArray[np.bool_]:
    """Tell which methods reached the best value of their case; ties all do.

    So the paper's caption has it: "how often a method achieved the lowest score". Shares of first
    places can therefore add up to more than one.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.study.ranks import mark_first
    >>> mark_first(np.array([[0.1, 0.1, 0.3], [np.nan, np.nan, np.nan]]), "nll")
    array([[ True,  True, False],
           [False, False, False]])
    """
    losses = as_losses(values, metric)
    first: NDArray[np.bool_] = (losses == losses.min(axis=1, keepdims=True)) & ~np.isnan(values)
    return first


def win_shares(values: Matrix, metric: str) -> Matrix:
    """Return how often the method of the row is strictly better than that of the column.

    Ties win for neither, so that two opposite cells can add up to less than one. Cases in which
    both failed count as ties. The diagonal is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.study.ranks import win_shares
    >>> win_shares(np.array([[0.1, 0.2], [0.3, 0.3]]), "nll")
    array([[nan, 0.5],
           [0. , nan]])
    """
    losses = as_losses(values, metric)
    shares: Matrix = (losses[:, :, None] < losses[:, None, :]).mean(axis=0)
    np.fill_diagonal(shares, np.nan)
    return shares


def standardize_within(values: Matrix, groups: Sequence[str]) -> Matrix:
    """Subtract the mean and divide by the standard deviation of every data set.

    Both are over all classifiers and methods of the data set that have a number, as in the
    paper's box plots of NLL and Brier score; where all are equal the result is zero.

    Parameters
    ----------
    values : ndarray of shape (n_cases, n_methods)
    groups : sequence of str, of length n_cases
        The data set of each case.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.study.ranks import standardize_within
    >>> standardize_within(np.array([[1.0, 3.0], [10.0, 30.0]]), ["a", "b"])
    array([[-1.,  1.],
           [-1.,  1.]])
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


@dataclass(frozen=True, slots=True, eq=False)
class RankSummary:
    """Average ranks and shares of first places, by group and overall.

    Attributes
    ----------
    metric : str
    methods : tuple of str
    groups : tuple of str
        The data sets, or architectures, that have at least one case.
    n_cases : tuple of int
        Of each group.
    ranks, firsts : ndarray of shape (n_groups, n_methods)
    overall_ranks, overall_firsts : ndarray of shape (n_methods,)
        Over all cases, each counted once.
    """

    metric: str
    methods: tuple[str, ...]
    groups: tuple[str, ...]
    n_cases: tuple[int, ...]
    ranks: Matrix
    firsts: Matrix
    overall_ranks: Matrix
    overall_firsts: Matrix


def select_methods(table: StudyTable, metric: str, methods: Sequence[str]) -> NDArray[np.float64]:
    """Return the columns of some methods, in their order."""
    place = {method: j for j, method in enumerate(table.methods)}
    chosen: Matrix = table.matrix(metric)[:, [place[method] for method in methods]]
    return chosen


def summarize_ranks(
    table: StudyTable,
    metric: str,
    methods: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> RankSummary:
    """Average the ranks of methods over the cases of every group.

    Parameters
    ----------
    table : StudyTable
    metric : str
    methods : sequence of str, optional
        Ranked among themselves; all of the table by default.
    groups : sequence of str, optional
        The group of each case; its data set by default.

    Examples
    --------
    >>> from calibrant.study.ranks import summarize_ranks
    >>> from calibrant.study.table import StudyRow, StudyTable
    >>> values = [("a", "ts", 0.3), ("a", "fir", 0.2), ("b", "ts", 0.5), ("b", "fir", 0.9)]
    >>> table = StudyTable.of(
    ...     StudyRow("mnist", model, method, "nll", value, 0.1)
    ...     for model, method, value in values)
    >>> summary = summarize_ranks(table, "nll")
    >>> summary.methods, summary.ranks, summary.overall_firsts
    (('fir', 'ts'), array([[1.5, 1.5]]), array([0.5, 0.5]))
    """
    chosen = tuple(table.methods if methods is None else methods)
    names = np.asarray([case[0] for case in table.cases] if groups is None else list(groups))
    values = select_methods(table, metric, chosen)
    ranks, firsts = rank_methods(values, metric), mark_first(values, metric)
    present = tuple(sorted({str(name) for name in names}))
    parts = [names == name for name in present]
    return RankSummary(
        metric,
        chosen,
        present,
        tuple(int(part.sum()) for part in parts),
        np.array([ranks[part].mean(axis=0) for part in parts]),
        np.array([firsts[part].mean(axis=0) for part in parts]),
        ranks.mean(axis=0),
        firsts.mean(axis=0),
    )


def metrics_of(table: StudyTable, wanted: Sequence[str] = ALL_METRICS) -> tuple[str, ...]:
    """Return the metrics that a table has, of those that are wanted."""
    present = {row.metric for row in table.rows}
    return tuple(metric for metric in wanted if metric in present)


def best_of(numbers: Matrix) -> NDArray[np.bool_]:
    """Mark the smallest number of a row; all of them where several are."""
    # Sums of halves in another order differ by less than any two average ranks.
    return np.asarray(numbers <= np.nanmin(numbers) + 1e-9)
