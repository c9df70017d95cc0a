"""FIR and SCIR of more rows than memory holds: isotonic regression of a table of counts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from calibrant._maps.cells import RankedSteps, SharedSteps
from calibrant._solvers.flattened import solve_flattened
from calibrant._solvers.one_vs_rest import BinaryProblem, solve_isotonic_steps
from calibrant._solvers.report import Binning
from calibrant._solvers.sorted_cumulative import solve_sorted_cumulative
from calibrant._solvers.sorted_cumulative.fit import accumulate, raise_to_even
from calibrant._solvers.sorted_cumulative.grid import RankCells, fit_cells
from calibrant._solvers.sorted_cumulative.prior import choose_prior_share
from calibrant._solvers.temperature import fit_temperature
from calibrant.scale._kept_rows import FEWEST_ROWS
from calibrant.scale._score_table import ScoreTable
from calibrant.scale._statistics import Solution, Statistics
from calibrant.scale._surrogate import ENOUGH_ROWS, SurrogateStatistics

if TYPE_CHECKING:
    from calibrant._maps.logits import TemperatureMap
    from calibrant._maps.steps import RankedStepFunction, StepFunction
    from calibrant._solvers.report import SolverReport
    from calibrant.scale._parts import Part
    from calibrant.scale._score_table import ScoreCells
    from calibrant.scale._surrogate import KeptSolver, Surrogate

FLATTENED_CELLS = 1 << 18
"""Cells of FIR's table; one takes 25 bytes."""

FEWEST_CELLS, MOST_CELLS, CELLS_OF_RANK = 1 << 19, 3 << 20, 1 << 14
"""Cells of SCIR's table: at least, at most, and for each rank between these."""

MOST_SCALINGS, NEAR = 3, 1e-5
"""Passes that look for the temperature of a prior, and violation from which the next step needs no
proof."""


class FlattenedStatistics(Statistics):
    """What FIR needs to know of a calibration set: rows while they fit, then counts of cells."""

    method = "fir"

    def _start(self) -> list[Part]:
        # Once not all rows are kept they are only looked at for what is hardly meant.
        return [self._keep(sample=FEWEST_ROWS), ScoreTable(1, FLATTENED_CELLS)]

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        if self.kept.is_complete:
            found, report = solve_flattened(self.kept_batch())
        else:
            table: Any = self.parts["scores"]
            step, report = pool_cells(table.cells())
            found = SharedSteps(step, self.kind)
        return Solution({"map_": found, "solver_report_": report})


def pool_cells(cells: ScoreCells) -> tuple[StepFunction, SolverReport]:
    """Isotonic regression of the cells of a table, with what it may have cost that they are cells.

    A block starts at the smallest label of its first cell. Whatever lies below it there has no
    label, and goes to the block below, which lowers the squared error: the objective reported is
    a bound.
    """
    weight, labels = np.ascontiguousarray(cells.sums.T)
    is_single = cells.is_single.astype(bool)
    step, report = solve_isotonic_steps(BinaryProblem(cells.scores, labels, weight))
    # The best order that the cells leave open: in each, labels above all others. Of any order and
    # its fit, giving the largest values of a cell to its labels lowers the error.
    above = np.where(is_single, 0.0, labels)
    positives = np.column_stack([labels - above, above]).ravel()
    points = np.column_stack([weight - above, above]).ravel()
    holds = points > 0.0
    order = np.linspace(0.0, 1.0, np.count_nonzero(holds))
    _, best = solve_isotonic_steps(BinaryProblem(order, positives[holds], points[holds]))
    excess = max(report.objective - best.objective, 0.0)
    violation = _violation(step, cells.scores, weight, labels, is_single)
    return step, replace(report, binning=Binning(cells.size, violation, excess))


def _violation(step: StepFunction, scores: Any, weight: Any, labels: Any, is_single: Any) -> float:
    """Bound on the violation of optimality over all scores, relative to the weight of the cells.

    A fit is optimal if no sum of (value - label) over the points from some score on is negative,
    and it is 0 where the fit jumps. This holds where cells start. From a score inside a cell, the
    sum is least if all labels of the cell lie above it and nothing else does. Where a block starts
    inside a cell, points below it lost a step of value, so all sums from further down lost it, too.
    """
    values = step.values[np.searchsorted(step.thresholds, scores, side="right") - 1]
    residual = values * weight - labels
    beyond = np.append(np.cumsum(residual[::-1])[::-1], 0.0)[1:]  # sums from the next cell on
    least = beyond - (1.0 - values) * labels
    inside = -np.where(is_single, 0.0, least).min(initial=0.0)
    below = np.where(is_single | (labels == 0.0), 0.0, weight - labels)
    return float(inside + np.diff(values, prepend=values[0]) @ below) / float(np.sum(weight))


class SortedCumulativeStatistics(SurrogateStatistics):
    """What SCIR needs to know of a calibration set: a table of (rank, q), and some of the rows.

    Once not all rows are kept, those that are choose the prior share, and the regression is that
    of the table. The temperature of the prior is that of the rows kept; if they are few, further
    passes tell that of all.
    """

    method = "scir"
    adaptations = 2

    def _start(self) -> list[Part]:
        n_ranks = min(self.options.get("max_rank") or self.n_classes, self.n_classes - 1)
        return [self._keep(), ScoreTable(n_ranks, cells_of_ranks(n_ranks), cumulative=True)]

    regression: tuple[Any, ...] | None = None
    """What the first pass has found, if this is a later one: it betters the temperature alone."""

    def empty(self) -> Self:
        """Return statistics that ask for the same and have counted nothing."""
        found = super().empty()
        found.regression = None  # is not sent anywhere
        return found

    def _solution(self) -> Solution:
        """Fit to all rows counted so far; further passes better the temperature alone."""
        zero, max_rank = (self.options.get(name) for name in ("zero_probability", "max_rank"))
        share, choice = self.options.get("prior_share", "cv"), None
        share = None if share == "cv" else float(share)
        if self.regression is not None:
            before: Any = self.surrogate
            scaling = before.judge(self.parts["temperature"])
            is_near = len(scaling.judged) >= MOST_SCALINGS or scaling.violation(scaling.best) < NEAR
            return self._with_temperature(scaling, self.regression, is_near=is_near)
        kept, table = self.kept_batch(), cast("ScoreTable", self.parts["scores"])
        if self.kept.is_complete:
            found, report, choice = solve_sorted_cumulative(
                kept, prior_share=share, max_rank=max_rank, zero_probability=zero
            )
            return Solution({"map_": found, "solver_report_": report, "prior_report_": choice})
        if share is None:
            share, choice = choose_prior_share(kept, accumulate(kept), max_rank, zero)
        function, report = raise_to_even(*fit_table(table), self.n_classes)
        regression = function, report, share, choice
        is_near = kept.n_rows >= ENOUGH_ROWS
        return self._with_temperature(self._begin(None), regression, is_near=is_near)

    def _with_temperature(
        self, scaling: Surrogate, regression: tuple[Any, ...], *, is_near: bool
    ) -> Solution:
        function, report, share, choice = regression
        prior: Any = scaling.fit.map
        again = None
        if not is_near:
            again = self._ask(scaling, "temperature")
            again.regression = regression
        about = share, prior.inverse_temperature, prior.zero_logit, self.kind
        found = RankedSteps(function, *about)
        fitted = {"map_": found, "solver_report_": report, "prior_report_": choice}
        return Solution(fitted, again)

    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:  # noqa: ARG002
        """Return what fits the prior; the regression is that of the table."""
        zero = self.options.get("zero_probability")
        return partial(fit_temperature, zero_probability=zero)


def cells_of_ranks(n_ranks: int) -> int:
    """Return how many cells a table of so many ranks has."""
    return max(min(max(CELLS_OF_RANK * n_ranks, FEWEST_CELLS), MOST_CELLS), n_ranks)


def fit_table(table: ScoreTable) -> tuple[RankedStepFunction, SolverReport]:
    """Isotonic regression of a table of ranks."""
    cells, n_ranks = table.cells(), table.n_problems
    sizes = np.diff(cells.offsets).astype(np.intp, copy=False)
    rank = np.repeat(np.arange(1, n_ranks + 1, dtype=np.int32), sizes)
    weight, labels = np.ascontiguousarray(cells.sums.T)
    found = RankCells(rank, cells.key, labels, weight, cells.is_single.astype(bool))
    return fit_cells(found, table.shift, n_ranks)
