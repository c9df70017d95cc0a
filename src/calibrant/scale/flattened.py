"""FIR of more rows than memory holds: pooled from counts of cells, in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.maps.cells import SharedSteps
from calibrant.scale.cells import CellCounts
from calibrant.scale.statistics import Solution, Statistics
from calibrant.solvers.flattened import solve_flattened
from calibrant.solvers.one_vs_rest import BinaryProblem, solve_isotonic_steps
from calibrant.solvers.report import Binning

if TYPE_CHECKING:
    from calibrant.maps.steps import StepFunction
    from calibrant.scale.cells import Bins
    from calibrant.scale.parts import Part
    from calibrant.solvers.report import SolverReport


class FlattenedStatistics(Statistics):
    """What FIR needs to know of a calibration set: its rows while they fit, then counts of cells.

    Parameters
    ----------
    classes, scores, normalize, max_rows
        As of all ``Statistics``.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale.flattened import FlattenedStatistics
    >>> scores, y = simulated_scores()
    >>> monday = FlattenedStatistics([0, 1, 2], max_rows=100).update(scores[:200], y[:200])
    >>> tuesday = monday.empty().update(scores[200:], y[200:])
    >>> map_ = monday.merge(tuesday).solve()
    >>> map_(scores[:1]).round(2)
    array([[0.38, 0.62, 0.  ]])
    """

    method = "fir"

    def _start(self) -> list[Part]:
        return [self._keep(), CellCounts()]

    @property
    def cells(self) -> CellCounts:
        """Counts of the cells."""
        found: Any = self.parts["cells"]
        cells: CellCounts = found
        return cells

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        if self.kept.is_complete:
            found, report = solve_flattened(self.kept_batch())
        else:
            step, report = pool_bins(self.cells.bins())
            found = SharedSteps(step, self.scores)
        return Solution({"map_": found, "solver_report_": report})


def pool_bins(bins: Bins) -> tuple[StepFunction, SolverReport]:
    """Isotonic regression over bins, with what it may have cost that they are bins.

    A block starts at the smallest label of its first bin. Whatever lies below it there has no
    label, and goes to the block below, which lowers the squared error: the objective reported is
    a bound.
    """
    problem = BinaryProblem(bins.starts, bins.labels, bins.cells)
    step, report = solve_isotonic_steps(problem)
    _, best = solve_isotonic_steps(_labels_last(bins))
    excess = max(report.objective - best.objective, 0.0)
    binning = Binning(len(bins.cells), _violation(bins, step), excess)
    return step, replace(report, binning=binning)


def _labels_last(bins: Bins) -> BinaryProblem:
    """Cells in the best order that the bins leave open: in each, labels above all others.

    Of any order and its fit, giving the largest values of a bin to its labels lowers the error.
    """
    pure, labels, cells = bins.is_pure, bins.labels, bins.cells
    above = np.where(pure, 0.0, labels)
    values, positives, weight = (
        np.column_stack(pair).ravel()
        for pair in (
            (bins.smallest, bins.largest),
            (labels - above, above),
            (cells - above, above),
        )
    )
    holds = weight > 0.0
    return BinaryProblem(values[holds], positives[holds], weight[holds])


def _violation(bins: Bins, step: StepFunction) -> float:
    """Bound on the violation of optimality over all scores, relative to the weight of the cells.

    A fit is optimal if no sum of (value - label) over the cells from some score on is negative,
    and it is 0 where the fit jumps. This holds where bins start. From a score inside a bin, the
    sum is least if all labels of the bin lie above it and nothing else does. Where a block starts
    inside a bin, cells below it lost a step of value, so all sums from further down lost it, too.
    """
    block = np.searchsorted(step.thresholds, bins.starts, side="right") - 1
    values = step.values[block]
    residual = values * bins.cells - bins.labels
    beyond = np.append(np.cumsum(residual[::-1])[::-1], 0.0)[1:]  # sums from the next bin on
    least = beyond - (1.0 - values) * bins.labels
    inside = -np.where(bins.is_pure, 0.0, least).min(initial=0.0)
    rises = np.diff(values, prepend=values[0])
    below = np.where(bins.starts > bins.smallest, bins.cells - bins.labels, 0.0)
    return float(inside + rises @ below) / float(np.sum(bins.cells))
