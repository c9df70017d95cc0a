"""Histogram binning: the share of labels in each bin of the probability."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._maps.steps import Histogram
from calibrant._row_order import starts_of_runs
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._solvers.one_vs_rest import BinaryProblem

STRATEGIES = ("mass", "width")


class MassBins:
    """Cuts a problem into bins of equal mass, as often as one likes.

    Equal values stay together: a value is in bin floor(n_bins * q), where q is the share of the
    weight below the middle of its own. That is exact for whole weights.
    """

    def __init__(self, problem: BinaryProblem) -> None:
        self._values = problem.values
        self._below = np.zeros((2, len(problem.values) + 1))
        np.cumsum((problem.positives, problem.cells), axis=1, out=self._below[:, 1:])
        self._middles = self._below[1, :-1] + self._below[1, 1:]  # twice, as they may be halves

    def cut(self, *numbers: int) -> tuple[NDArray[np.float64], ...]:
        """Thresholds, positives and cells of the bins that are not empty, at most so many.

        A threshold lies halfway between the two values that it parts. Of several numbers of bins,
        each begins at the threshold 0.
        """
        first = np.concatenate([self._first_values(n_bins) for n_bins in numbers])
        stop = np.zeros_like(first)
        stop[:-1] = first[1:]
        stop[stop == 0] = len(self._values)
        low, high = self._values[first - 1], self._values[first]
        thresholds = low + (high - low) / 2
        np.copyto(thresholds, high, where=thresholds <= low)
        thresholds[first == 0] = 0.0
        return thresholds, *(self._below[:, stop] - self._below[:, first])

    def _first_values(self, n_bins: int) -> NDArray[np.int64]:
        """Place of the first value of each bin."""
        twice, n = 2.0 * self._below[1, -1], len(self._values)
        if n_bins > n:  # no more work than there are values
            return starts_of_runs(np.floor(n_bins * self._middles / twice))
        first = np.searchsorted(self._middles, np.arange(n_bins) * twice / n_bins)
        first = first[starts_of_runs(first)]
        return first[first < n]


def sums_by_bin(
    thresholds: NDArray[np.float64], values: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum of the weights of the values in each bin."""
    b = np.maximum(np.searchsorted(thresholds, values, side="right") - 1, 0)
    return np.bincount(b, weight, minlength=len(thresholds)).astype(np.float64)


def solve_histogram(
    problem: BinaryProblem, *, n_bins: int = 15, strategy: str = "mass"
) -> tuple[Histogram, SolverReport]:
    """Histogram binning with bins of equal mass or of equal width.

    An empty bin, which only bins of equal width can be, has its midpoint as value. The objective
    reported is the mean squared error over cells.
    """
    started = perf_counter()
    if strategy == "mass":
        thresholds, positives, cells = MassBins(problem).cut(n_bins)
    else:
        thresholds = np.linspace(0.0, 1.0, n_bins + 1)[:-1]
        positives = sums_by_bin(thresholds, problem.values, problem.positives)
        cells = sums_by_bin(thresholds, problem.values, problem.cells)
    midpoints = (thresholds + np.append(thresholds[1:], 1.0)) / 2
    filled = cells > 0
    values = np.where(filled, positives / np.where(filled, cells, 1.0), midpoints)
    values = np.clip(values, 0.0, 1.0)  # differences of sums of fractional weights round
    # Labels are 0 or 1, so the squared error of a bin is n * v * (1 - v).
    objective = float(np.sum(positives * (1.0 - values)) / problem.total)
    seconds = perf_counter() - started
    report = SolverReport("histogram", objective, 0.0, 0.0, 1, seconds, n_blocks=len(values))
    return Histogram(thresholds, values, cells), report
