"""M2B: calibrate the largest probability of a row, and let the others share the rest.

The binary problem is "is the predicted class the label?", for all classes or for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._kernels.tables import TIED
from calibrant._maps.curves import IDENTITY, TopLabelMap
from calibrant._maps.steps import Histogram
from calibrant._solvers.one_vs_rest import (
    BinaryProblem,
    Solve,
    binary_problem,
    solve_each,
    solve_isotonic_steps,
)
from calibrant._solvers.report import SolverReport
from calibrant.errors import MissingClassWarning, in_words
from calibrant.study._histogram import solve_histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._gate import SimplexBatch
    from calibrant._maps.curves import Curve
    from calibrant._types import Bools, Floats, Wholes


@dataclass(frozen=True, slots=True)
class TopLabels:
    """The predicted classes of a batch. Tied classes share their row equally."""

    confidence: Floats  # the largest probability of each row
    tied: Bools  # whether a class has it
    share: Floats  # weight of each predicted class of a row

    @classmethod
    def of(cls, batch: SimplexBatch) -> TopLabels:
        """Find the predicted classes of a batch."""
        probabilities = batch.probabilities()
        confidence = probabilities.max(axis=1)
        tied = probabilities >= TIED * confidence[:, None]
        return cls(confidence, tied, batch.weight / tied.sum(axis=1))

    def pooled(self, class_index: Wholes) -> BinaryProblem:
        """Return the problem "is the predicted class, whichever it is, the label?"."""
        right = self.tied[np.arange(len(self.share)), class_index]
        cells = self.share * self.tied.sum(axis=1)
        return binary_problem(self.confidence, np.where(right, self.share, 0.0), cells)

    def of_class(self, j: int, class_index: Wholes, enough: float = 0.0) -> BinaryProblem | None:
        """Return "is class j the label, where it is predicted?"; None if it seldom or never is."""
        rows = np.flatnonzero(self.tied[:, j])
        if len(rows) == 0:
            return None
        share = self.share[rows]
        positives = np.where(class_index[rows] == j, share, 0.0)
        problem = binary_problem(self.confidence[rows], positives, share)
        return problem if problem.total >= enough else None


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
        result = TopLabelMap((curve,), False, normalize_output, batch.kind)
        return result, replace(report, seconds=perf_counter() - started)
    problems = [top.of_class(j, batch.class_index, enough) for j in range(batch.n_classes)]
    if not any(problems):
        note = "no class is predicted often enough to be calibrated: all keep their scores"
        result = TopLabelMap((IDENTITY,) * batch.n_classes, True, normalize_output, batch.kind)
        seconds = perf_counter() - started
        return result, SolverReport("identity", 0.0, 0.0, 0.0, 0, seconds, notes=(note,))
    curves, report = solve_each(problems, solve, "class", started)
    return TopLabelMap(curves, True, normalize_output, batch.kind), report


class TopLabelCalibrator(Calibrator):
    """A calibrator with a binary map of the largest probability, shared or for each class.

    ``_solver`` is that of the binary problem.

    Parameters
    ----------
    per_class : bool, default=False
        Whether to fit a map for each predicted class, as in the authors' top-label calibration, or
        one for all, as in their confidence calibration. A class that is predicted in fewer rows
        than a bin needs keeps its scores.
    normalize_output : bool, default=True
        Whether the other classes share the rest. False leaves them unchanged, so that rows may not
        sum to 1 and only the confidence is meaningful.

    Attributes
    ----------
    curves_ : tuple of Histogram or of StepFunction
        Fitted map, or one for each class; the identity for a class that is predicted too rarely.

    References
    ----------
    .. [1] C. Gupta and A. Ramdas, "Top-label calibration and multiclass-to-binary reductions",
       ICLR 2022.
    """

    per_class: bool = choice(default=False)
    normalize_output: bool = choice(default=True)
    map_: TopLabelMap = fitted()

    curves_ = FromMap("curves")

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes if self.per_class else 1

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        options = self._options()
        shared = {name: options.pop(name) for name in ("per_class", "normalize_output")}
        enough = options.get("points_per_bin", 0.0)  # weight of a class that is fitted
        solve = partial(self._solver, **options)
        result = solve_top_label(batch, solve, enough=enough, **shared)
        return dict(zip(self._found, result, strict=True))

    def _complaints(self, batch: SimplexBatch) -> Iterator[Warning]:
        yield from super()._complaints(batch)
        rare = np.array([curve is IDENTITY for curve in self.map_.curves])
        if rare.any():
            yield MissingClassWarning(
                f"{rare.sum()} of {len(rare)} classes are predicted too rarely to be calibrated, "
                f"for example {in_words(batch.classes[rare][0])}; they keep their scores"
            )


class TopLabelHistogram(TopLabelCalibrator):
    """Top-label histogram binning (M2B-HB): calibrates the confidence of the predicted class.

    The largest probability of each row is binned and replaced by the accuracy in its bin; the other
    classes share the rest in proportion to their scores.

    Parameters
    ----------
    n_bins : int, default=15
        Largest number of bins, which have equal mass; equal confidences stay together.
    points_per_bin : float, default=50
        Smallest number of rows per bin; a row of weight 2 counts twice.

    See Also
    --------
    TopLabelIsotonic : The same with isotonic maps.

    Notes
    -----
    A confidence that is lowered far enough falls below the share of another class: the method
    then changes the predicted class. It is never lowered below 1 / k, what all classes have where
    they tie, as long as they share the map and ``normalize_output``: else two classes would change
    places across the tie. Tied classes are each taken as the predicted one in turn, at fit and at
    prediction, with the average as result; the authors break ties at random.
    """

    method = "m2b-hb"
    title = "M2B-HB"
    summary = "a histogram of the confidence alone"
    good_for = "comparison"
    place = 13
    _solver = staticmethod(solve_points_histogram)

    n_bins: int = number(default=15, low=1, high=10**6, whole=True)
    points_per_bin: float = number(default=50.0, high=1e300)

    def _options(self) -> dict[str, object]:
        points = max(float(self.points_per_bin), 1e-300)  # 0 sets no limit
        return super()._options() | {"points_per_bin": points}


class TopLabelIsotonic(TopLabelCalibrator):
    """Top-label isotonic regression (M2B-IR): calibrates the confidence of the predicted class.

    Isotonic regression of whether the predicted class is right on the largest probability; the
    other classes share the rest in proportion to their scores.

    See Also
    --------
    TopLabelHistogram : The same with histograms; its notes explain ties.
    SortedCumulativeIsotonic : Calibrates the two, three, ... largest as well.
    """

    method = "m2b-ir"
    title = "M2B-IR"
    summary = "an isotonic map of the confidence alone"
    good_for = "comparison"
    place = 14
    _solver = staticmethod(solve_isotonic_steps)
