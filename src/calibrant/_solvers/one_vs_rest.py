"""Binary problems, solved for each class or for all cells at once: isotonic, Platt, beta."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._kernels.logistic import fit_logistic
from calibrant._kernels.lookup import add_cells
from calibrant._kernels.tables import build_lookup
from calibrant._maps.curves import (
    IDENTITY,
    BetaMap,
    BoundedLogs,
    ClasswiseCurves,
    Curve,
    PiecewiseLinear,
    Sigmoid,
)
from calibrant._maps.steps import SharedSteps, StepFunction
from calibrant._row_order import distinct_scores, lay_thresholds, start_segments, starts_of_runs
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from calibrant._gate import SimplexBatch
    from calibrant._types import Floats, Wholes

RESOLUTION = 1e-15
"""Probabilities that differ by less are one to the isotonic line, as in scikit-learn."""

COLUMNS_AT_ONCE = 16
"""Columns taken out of the matrix at once: a line of the cache holds eight cells."""


@dataclass(frozen=True, slots=True, eq=False)
class BinaryProblem:
    """Does a cell hold the label? Cells of equal value are one."""

    values: Floats  # the distinct probabilities, increasing
    largest: Floats  # the largest that is taken for each of them
    positives: Floats  # weight of the cells of each value that hold the label
    cells: Floats  # weight of all cells of each value; positive

    @property
    def negatives(self) -> Floats:
        """Weight of the cells of each value that do not hold the label."""
        return np.maximum(self.cells - self.positives, 0.0)  # fractional weights round

    @property
    def total(self) -> float:
        """Weight of all cells."""
        return float(self.cells.sum())

    def with_prior(self, ratio: float) -> BinaryProblem:
        """Add pseudo-observations, ``ratio`` of each cell, with labels as likely as its value."""
        if ratio == 0.0:
            return self
        cells = ratio * self.cells
        positives = self.positives + cells * self.values
        return BinaryProblem(self.values, self.largest, positives, self.cells + cells)

    @property
    def separates(self) -> bool:
        """Whether no cell with the label lies below one without it."""
        holding = np.flatnonzero(self.positives > 0)
        lacking = np.flatnonzero(self.negatives > 0)
        return bool(len(holding) == 0 or len(lacking) == 0 or holding[0] >= lacking[-1])


Solve = Callable[[BinaryProblem], tuple[Curve, SolverReport]]
"""Solver of one binary problem."""


def binary_problem(values: Floats, positives: Floats, cells: Floats) -> BinaryProblem:
    """Problem of cells in any order, with the weight of the label in each and its weight in all.

    Values that differ by rounding only are one, the least of them. Sums of whole weights are exact,
    so a row of weight 2 and a row given twice are the same problem to the bit.
    """
    order = np.argsort(values)
    values = values[order] + 0.0  # not -0.0
    starts, sums = distinct_scores(values), (positives[order], cells[order])
    if len(starts) == len(values):
        return BinaryProblem(values, values, *sums)
    largest = values[np.append(starts[1:], len(values)) - 1]
    sums = np.add.reduceat(sums[0], starts), np.add.reduceat(sums[1], starts)
    return BinaryProblem(values[starts], largest, *sums)


def solve_each(
    problems: Iterable[BinaryProblem | None],
    solve: Solve,
    unit: str,
    started: float,
    weigh: Callable[[BinaryProblem], float] = lambda problem: problem.total,
) -> tuple[tuple[Curve, ...], SolverReport]:
    """Curve of every problem, or the identity where there is none, and one report of all."""
    curves: list[Curve] = []
    reports, weights = [], []
    for problem in problems:
        if problem is None:
            curves.append(IDENTITY)
            continue
        curve, report = solve(problem)
        curves.append(curve)
        reports.append(report)
        weights.append(weigh(problem))
    return tuple(curves), merge_reports(reports, weights, unit, perf_counter() - started)


def merge_reports(
    reports: Sequence[SolverReport], weights: Sequence[float], unit: str, seconds: float
) -> SolverReport:
    """One report of several problems: the mean objective, the worst violation."""
    notes = Counter(note for report in reports for note in report.notes)
    return SolverReport(
        f"{reports[0].solver} per {unit}",
        float(np.average([report.objective for report in reports], weights=weights)),
        max(report.violation for report in reports),
        max(report.tolerance for report in reports),
        sum(report.rounds for report in reports),
        seconds,
        n_blocks=None
        if reports[0].n_blocks is None
        else sum(report.n_blocks or 0 for report in reports),
        notes=tuple(f"{n} of {len(reports)}, {note}" for note, n in notes.items()),
    )


def solve_one_vs_rest(
    batch: SimplexBatch, solve: Solve, prior_strength: float = 0.0
) -> tuple[ClasswiseCurves, SolverReport]:
    """Solve "is it this class?" for every class; one without a label keeps its scores.

    ``prior_strength`` pseudo-observations, spread over the rows and labelled by their scores, keep
    a part of the scores that never held a label from the value 0.
    """
    started = perf_counter()
    ratio = prior_strength / float(batch.weight.sum())
    problems = (
        None if problem is None else problem.with_prior(ratio) for problem in class_problems(batch)
    )
    curves, report = solve_each(problems, solve, "class", started, weigh=lambda _: 1.0)
    return ClasswiseCurves(None, curves, kind=batch.kind), report


def class_problems(batch: SimplexBatch) -> Iterator[BinaryProblem | None]:
    """Problem of each class in turn; None without a label."""
    probabilities, label, weight = batch.probabilities(), batch.class_index, batch.weight
    present = np.bincount(label, minlength=batch.n_classes) > 0
    for first in range(0, batch.n_classes, COLUMNS_AT_ONCE):
        columns = np.ascontiguousarray(probabilities[:, first : first + COLUMNS_AT_ONCE].T)
        for j, values in enumerate(columns, first):
            positives = np.where(label == j, weight, 0.0)
            yield binary_problem(values, positives, weight) if present[j] else None


def solve_isotonic(problem: BinaryProblem) -> tuple[PiecewiseLinear, SolverReport]:
    """Isotonic regression that interpolates linearly, as scikit-learn's does.

    The objective reported is the mean squared error over cells.
    """
    started = perf_counter()
    values, positives, cells = problem.values, problem.positives, problem.cells
    are_apart = values[1:] - values[:-1] >= RESOLUTION
    if not are_apart.all():  # a line between values that differ by rounding could be too steep
        fresh, at = np.append(True, are_apart), 0
        for i in np.flatnonzero(~fresh).tolist():
            at = i - 1 if fresh[i - 1] else at  # the value that this one is taken for
            fresh[i] = values[i] - values[at] >= RESOLUTION
        starts = np.flatnonzero(fresh)
        values = values[starts]
        positives, cells = (np.add.reduceat(part, starts) for part in (positives, cells))
    first, positives, cells = pool_adjacent_violators(positives, cells)
    # Means that differ by rounding only may round to the wrong side of each other.
    y = np.maximum.accumulate(np.minimum(positives / cells, 1.0))
    # Labels are 0 or 1, so this is the sum of the squared errors of blocks.
    loss = float(positives @ (1.0 - 2.0 * y) + cells @ (y * y)) / problem.total
    ends = np.repeat(first, 2)
    ends[1:-1:2], ends[-1] = first[1:] - 1, len(values) - 1
    points = starts_of_runs(ends)  # a block of one value is one point
    curve = PiecewiseLinear(values[ends[points]], np.repeat(y, 2)[points])
    n_blocks, seconds = len(starts_of_runs(y)), perf_counter() - started
    return curve, SolverReport("pava", loss, 0.0, 0.0, 1, seconds, n_blocks)


def solve_isotonic_steps(problem: BinaryProblem) -> tuple[StepFunction, SolverReport]:
    """Isotonic regression as a step function, whose steps lie about half-way between two blocks.

    The objective reported is the mean squared error over cells.
    """
    started = perf_counter()
    first, positives, cells = pool_adjacent_violators(problem.positives, problem.cells)
    values = positives / cells
    thresholds = lay_thresholds(problem.largest[first - 1], problem.values[first])
    thresholds[0] = 0.0
    # Labels are 0 or 1, so the squared error of a block is n * v * (1 - v).
    objective = float(np.sum(positives * (1.0 - values)) / np.sum(cells))
    seconds = perf_counter() - started
    report = SolverReport("pava", objective, 0.0, 0.0, 1, seconds, n_blocks=len(values))
    return StepFunction(thresholds, values, cells), report


ZERO = 1e-12
"""An exact 0 (or 1) is read as this far from it, or as the nearest other value if that is less."""

RIDGE = 1e-10
"""Pull towards the identity, which decides where the labels do not: labels that the score
separates would send the slope to infinity, and equal scores leave it open."""

FREE, NOT_NEGATIVE = np.full(2, -np.inf), np.array([0.0, 0.0, -np.inf])
"""Lower bounds on slopes and intercept, of Platt scaling and of beta calibration."""

SEPARABLE = f"the score separates the labels: the slope is bounded by a ridge penalty of {RIDGE:g}"


def bounds_of_logs(values: Floats, zero: float = ZERO) -> BoundedLogs:
    """Bounds that no value strictly between 0 and 1 reaches; ``zero`` where that leaves it open.

    The values increase.
    """
    zero = max(zero, float(np.finfo(float).tiny))  # logits may lie deeper than any float's log
    positive = values[np.searchsorted(values, 0.0, side="right") :][:1]
    rest = 1.0 - values[: np.searchsorted(values, 1.0)][-1:]
    return BoundedLogs(float(positive.min(initial=zero)), float(rest.min(initial=zero)))


def minimise_logistic(
    features: Floats,
    positives: Floats,
    negatives: Floats,
    lower: Floats,
    *,
    tol: float = 1e-10,
    max_rounds: int = 200,
) -> tuple[Floats, SolverReport]:
    """Logistic regression on one or two features, with lower bounds on the parameters.

    Returns those of the features and then the intercept. Each round solves the
    quadratic model within the bounds exactly and searches along the way to its solution. The
    violation is the largest gradient of the mean NLL that the bounds do not forbid to follow, in
    units of the spread of its feature.
    """
    started = perf_counter()
    weight = positives + negatives
    share = weight / weight.sum()
    means = features @ share
    centred = features - means[:, None]
    units, identity = np.ones((2, len(lower)))
    units[:-1], identity[-1] = np.maximum(np.sqrt(centred**2 @ share), 1e-8), means.sum()
    ridge = RIDGE * np.maximum(units, 1.0) ** 2
    settings = lower, units, ridge, identity, tol, max_rounds
    theta, objective, violation, rounds = fit_logistic(centred, positives, negatives, *settings)
    theta[-1] -= theta[:-1] @ means
    seconds = perf_counter() - started
    return theta, SolverReport("newton", objective, violation, tol, rounds, seconds)


def solve_platt(
    problem: BinaryProblem, *, zero: float = ZERO, smooth_labels: bool = True, tol: float = 1e-10
) -> tuple[Sigmoid, SolverReport]:
    """Logistic regression of the label on the log-odds of a cell.

    With ``smooth_labels`` the labels are Platt's targets: (n + 1) / (n + 2) for n labels 1, and
    1 / (n + 2) for n labels 0.
    """
    logs = bounds_of_logs(problem.values, zero)
    log_x, log_rest = logs(problem.values)
    positives, negatives = problem.positives, problem.negatives
    if smooth_labels:
        of_one = 1 / (positives.sum() + 2)  # what a label 1 gives to label 0
        of_zero = 1 / (negatives.sum() + 2)
        positives, negatives = (
            positives * (1 - of_one) + negatives * of_zero,
            negatives * (1 - of_zero) + positives * of_one,
        )
    theta, report = minimise_logistic((log_x - log_rest)[None], positives, negatives, FREE, tol=tol)
    if not smooth_labels and problem.separates:
        report = replace(report, notes=(SEPARABLE,))
    return Sigmoid(float(theta[0]), float(theta[1]), logs), report


def solve_beta(
    problem: BinaryProblem, *, zero: float = ZERO, tol: float = 1e-10
) -> tuple[BetaMap, SolverReport]:
    """Maximum likelihood over a, b >= 0 and c.

    Kull et al. fit without bounds, drop a feature whose slope is negative and fit again. That is
    not always the constrained optimum: with both slopes negative they drop only one.
    """
    logs = bounds_of_logs(problem.values, zero)
    log_x, log_rest = logs(problem.values)
    theta, report = minimise_logistic(
        np.stack([log_x, -log_rest]), problem.positives, problem.negatives, NOT_NEGATIVE, tol=tol
    )
    if problem.separates:
        report = replace(report, notes=(SEPARABLE,))
    return BetaMap(float(theta[0]), float(theta[1]), float(theta[2]), logs), report


def pool_segments(batch: SimplexBatch, columns: Wholes | None = None) -> BinaryProblem:
    """Cells of all columns, or of some, merged down to the positive value at or below them."""
    probabilities, weight, label = batch.probabilities(), batch.weight, batch.class_index
    inside = np.arange(len(label)) if columns is None else np.flatnonzero(np.isin(label, columns))
    own = probabilities[inside, label[inside]] + 0.0  # not -0.0
    scores, score_of_row = np.unique(own, return_inverse=True)
    starts, segment_of_score = start_segments(scores)
    segment = segment_of_score[score_of_row]
    positives = np.bincount(segment, weight[inside], minlength=len(starts)).astype(np.float64)
    part = probabilities if columns is None else np.ascontiguousarray(probabilities[:, columns])
    result = np.zeros((len(starts), 2))
    add_cells(part, part.view(np.int64), weight, *build_lookup(starts), result)
    filled = result[:, 0] > 0  # nothing may lie below the lowest positive value
    cells, largest = np.ascontiguousarray(result[filled].T)
    return BinaryProblem(starts[filled], largest, positives[filled], cells)


def solve_flattened(batch: SimplexBatch) -> tuple[SharedSteps, SolverReport]:
    """Flattened isotonic regression (the paper's FIR equation), exactly.

        minimise  sum_i w_i sum_l (g(p_il) - [y_i = l])^2    over non-decreasing g.

    By the paper's appendix theorem the same fit is optimal for every proper scoring rule.
    """
    started = perf_counter()
    step, report = solve_isotonic_steps(pool_segments(batch))
    return SharedSteps(step, batch.kind), replace(report, seconds=perf_counter() - started)
