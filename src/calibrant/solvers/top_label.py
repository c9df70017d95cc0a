"""M2B: the binary problem "is the predicted class the label?", for all or for each class."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.maps.cells import TopLabelMap
from calibrant.maps.curves import IDENTITY, Curve
from calibrant.solvers.histogram import solve_histogram
from calibrant.solvers.one_vs_rest import (
    BinaryProblem,
    Solve,
    binary_problem,
    merge_reports,
)
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.steps import Histogram
    from calibrant.simplex import SimplexBatch

LARGEST_UNIT = 1 << 20
"""Parts that a row is cut into at most, so that tied classes share it in whole numbers."""


@dataclass(frozen=True, slots=True)
class TopLabels:
    """The predicted classes of a batch. Tied classes share their row equally.

    Attributes
    ----------
    confidence : ndarray of shape (n_rows,)
        The largest probability of each row.
    tied : ndarray of shape (n_rows, n_classes)
        Whether a class has it.
    share : ndarray of shape (n_rows,)
        Weight of each predicted class of a row, times ``unit``.
    unit : int
        What keeps shares of whole weights whole, so that their sums are exact.
    """

    confidence: NDArray[np.float64]
    tied: NDArray[np.bool_]
    share: NDArray[np.float64]
    unit: int

    @classmethod
    def of(cls, batch: SimplexBatch) -> TopLabels:
        """Find them."""
        probabilities = batch.probabilities()
        confidence = probabilities.max(axis=1)
        tied = probabilities == confidence[:, None]
        n_tied = tied.sum(axis=1)
        unit = math.lcm(*np.unique(n_tied).tolist())
        unit = unit if unit <= LARGEST_UNIT else 1
        return cls(confidence, tied, batch.weight * (unit / n_tied), unit)

    def pooled(self, class_index: NDArray[np.int64]) -> BinaryProblem:
        """Return the problem "is the predicted class, whichever it is, the label?"."""
        right = self.tied[np.arange(len(self.share)), class_index]
        cells = self.share * self.tied.sum(axis=1)
        return self._problem(self.confidence, right, self.share, cells)

    def of_class(self, j: int, class_index: NDArray[np.int64]) -> BinaryProblem | None:
        """Return "is class j the label, where it is predicted?"; None if it never is."""
        rows = np.flatnonzero(self.tied[:, j])
        if len(rows) == 0:
            return None
        share = self.share[rows]
        return self._problem(self.confidence[rows], class_index[rows] == j, share, share)

    def _problem(
        self,
        values: NDArray[np.float64],
        right: NDArray[np.bool_],
        share: NDArray[np.float64],
        cells: NDArray[np.float64],
    ) -> BinaryProblem:
        sums = binary_problem(values, np.where(right, share, 0.0), cells)
        return BinaryProblem(sums.values, sums.positives / self.unit, sums.cells / self.unit)


def solve_points_histogram(
    problem: BinaryProblem, *, n_bins: int = 15, points_per_bin: float = 50.0
) -> tuple[Histogram, SolverReport]:
    """Histogram of equal mass, with fewer bins where they would hold too few rows."""
    n_bins = max(1, math.floor(min(n_bins, problem.total / points_per_bin)))
    return solve_histogram(problem, n_bins=n_bins)


def solve_top_label(
    batch: SimplexBatch,
    solve: Solve,
    *,
    per_class: bool = False,
    enough: float = 0.0,
    normalize_output: bool = True,
) -> tuple[TopLabelMap, SolverReport]:
    """Return one map of the largest probability, or one for each predicted class.

    A class that is never predicted, or by less than ``enough`` weight, keeps its scores.
    """
    started = perf_counter()
    batch = batch.in_canonical_order()
    top = TopLabels.of(batch)
    if not per_class:
        curve, report = solve(top.pooled(batch.class_index))
        found = TopLabelMap((curve,), False, normalize_output, batch.kind)
        return found, replace(report, seconds=perf_counter() - started)
    curves: list[Curve] = []
    reports, weights = [], []
    for j in range(batch.n_classes):
        problem = top.of_class(j, batch.class_index)
        if problem is None or problem.total < enough:
            curves.append(IDENTITY)
            continue
        curve, report = solve(problem)
        curves.append(curve)
        reports.append(report)
        weights.append(problem.total)
    found = TopLabelMap(tuple(curves), True, normalize_output, batch.kind)
    seconds = perf_counter() - started
    if not reports:
        note = "no class is predicted often enough: all keep their scores"
        return found, SolverReport("identity", 0.0, 0.0, 0.0, 0, seconds, notes=(note,))
    return found, merge_reports(reports, weights, "class", seconds)
