"""Histogram binning: the share of labels in each bin of the probability."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels.binary_problems import cut_mass_bins, sums_below
from calibrant._maps.steps import Histogram
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._solvers.one_vs_rest import BinaryProblem

STRATEGIES = ("mass", "width")


@dataclass(frozen=True, slots=True, eq=False)
class MassBins:
    """Cuts a problem into bins of equal mass, as often as one likes.

    Equal values stay together: a value is in bin floor(n_bins * q), where q is the share of the
    weight below the middle of its own. That is exact for whole weights.
    """

    problem: BinaryProblem
    middles: NDArray[np.float64]  # twice, as they may be halves
    positives_below: NDArray[np.float64]
    cells_below: NDArray[np.float64]

    @classmethod
    def of(cls, problem: BinaryProblem) -> MassBins:
        """Prepare the sums."""
        positives_below, cells_below, middles = sums_below(problem.positives, problem.cells)
        return cls(problem, middles, positives_below, cells_below)

    def cut(self, n_bins: int) -> tuple[NDArray[np.float64], ...]:
        """Thresholds, positives and cells of the bins that are not empty; at most ``n_bins``.

        A threshold lies halfway between the two values that it parts.
        """
        found: tuple[NDArray[np.float64], ...] = cut_mass_bins(
            self.problem.values, self.middles, self.positives_below, self.cells_below, n_bins
        )
        return found


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
        thresholds, positives, cells = MassBins.of(problem).cut(n_bins)
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
