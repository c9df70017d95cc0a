"""M2B: the binary problem "is the predicted class the label?", for all or for each class."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels.tables import TIED
from calibrant._maps.cells import TopLabelMap
from calibrant._maps.curves import IDENTITY
from calibrant._maps.steps import Histogram
from calibrant._solvers.histogram import solve_histogram
from calibrant._solvers.one_vs_rest import BinaryProblem, Solve, binary_problem, solve_each
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.curves import Curve
    from calibrant._simplex import SimplexBatch


@dataclass(frozen=True, slots=True)
class TopLabels:
    """The predicted classes of a batch. Tied classes share their row equally."""

    confidence: NDArray[np.float64]  # the largest probability of each row
    tied: NDArray[np.bool_]  # whether a class has it
    share: NDArray[np.float64]  # weight of each predicted class of a row

    @classmethod
    def of(cls, batch: SimplexBatch) -> TopLabels:
        """Find them."""
        probabilities = batch.probabilities()
        confidence = probabilities.max(axis=1)
        tied = probabilities >= TIED * confidence[:, None]
        return cls(confidence, tied, batch.weight / tied.sum(axis=1))

    def pooled(self, class_index: NDArray[np.int64]) -> BinaryProblem:
        """Return the problem "is the predicted class, whichever it is, the label?"."""
        right = self.tied[np.arange(len(self.share)), class_index]
        cells = self.share * self.tied.sum(axis=1)
        return self._problem(self.confidence, right, self.share, cells)

    def of_class(
        self, j: int, class_index: NDArray[np.int64], enough: float = 0.0
    ) -> BinaryProblem | None:
        """Return "is class j the label, where it is predicted?"; None if it seldom or never is."""
        rows = np.flatnonzero(self.tied[:, j])
        if len(rows) == 0:
            return None
        share = self.share[rows]
        problem = self._problem(self.confidence[rows], class_index[rows] == j, share, share)
        return problem if problem.total >= enough else None

    def _problem(
        self,
        values: NDArray[np.float64],
        right: NDArray[np.bool_],
        share: NDArray[np.float64],
        cells: NDArray[np.float64],
    ) -> BinaryProblem:
        return binary_problem(values, np.where(right, share, 0.0), cells)


def solve_points_histogram(
    problem: BinaryProblem, *, n_bins: int = 15, points_per_bin: float = 50.0
) -> tuple[Histogram, SolverReport]:
    """Histogram of equal mass, with fewer bins where they would hold too few rows."""
    n_bins = max(1, math.floor(min(n_bins, problem.total / points_per_bin)))
    return solve_histogram(problem, n_bins=n_bins)


def raise_to_even(curve: Curve, report: SolverReport, n_classes: int) -> tuple[Curve, SolverReport]:
    """Raise bins and blocks that give the predicted class less than 1 / k to that.

    It is what each class has where all tie. A shared map that gave less just above the tie would
    hand the rest to the others, and let two classes change places there. Under this bound the best
    isotonic map, and the best value of a bin, is the one without it, raised.
    """
    even = 1.0 / n_classes
    if not isinstance(curve, Histogram) or not (low := curve.values < even).any():
        return curve, report
    note = f"{low.sum()} of {len(low)} blocks raised to 1 / {n_classes} after the fit"
    raised = replace(curve, values=np.maximum(curve.values, even))
    return raised, replace(report, notes=(*report.notes, note))


def solve_top_label(
    batch: SimplexBatch,
    solve: Solve,
    *,
    per_class: bool = False,
    enough: float = 0.0,
    normalize_output: bool = True,
) -> tuple[TopLabelMap, SolverReport]:
    """Return one map of the largest probability, or one for each predicted class.

    Where all classes share it and rows sum to 1, the predicted class gets 1 / k or more. A class
    that is never predicted, or by less than ``enough`` weight, keeps its scores.
    """
    started = perf_counter()
    top = TopLabels.of(batch)
    if not per_class:
        curve, report = solve(top.pooled(batch.class_index))
        if normalize_output:
            curve, report = raise_to_even(curve, report, batch.n_classes)
        found = TopLabelMap((curve,), False, normalize_output, batch.kind)
        return found, replace(report, seconds=perf_counter() - started)
    problems = [top.of_class(j, batch.class_index, enough) for j in range(batch.n_classes)]
    if not any(problems):
        note = "no class is predicted often enough to be calibrated: all keep their scores"
        found = TopLabelMap((IDENTITY,) * batch.n_classes, True, normalize_output, batch.kind)
        seconds = perf_counter() - started
        return found, SolverReport("identity", 0.0, 0.0, 0.0, 0, seconds, notes=(note,))
    curves, report = solve_each(problems, solve, "class", started)
    return TopLabelMap(curves, True, normalize_output, batch.kind), report
