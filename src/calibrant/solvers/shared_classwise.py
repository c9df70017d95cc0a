"""sCW: one binary problem for each group of classes with similar priors."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels.lookup import add_cells, build_lookup
from calibrant.maps.cells import ClasswiseCurves
from calibrant.solvers.histogram import MassBins, solve_histogram
from calibrant.solvers.one_vs_rest import (
    BinaryProblem,
    binary_problem,
    merge_reports,
    solve_isotonic_steps,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.curves import Curve
    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.report import SolverReport

MAPS = ("histogram", "isotonic")


def group_classes(batch: SimplexBatch, n_groups: int) -> NDArray[np.int64]:
    """Group of each class, from 0 for the rarest; at most ``n_groups`` of about equal size.

    Classes of one frequency are never parted, and those without a label join the rarest others.
    """
    frequency: NDArray[np.float64] = np.bincount(
        batch.class_index, batch.weight, minlength=batch.n_classes
    ).astype(np.float64)
    one_each = np.ones(batch.n_classes)
    distinct = binary_problem(frequency, one_each, one_each)
    thresholds, _, _ = MassBins.of(distinct).cut(n_groups)
    group = np.searchsorted(thresholds, frequency, side="right") - 1
    group = np.maximum(group, group[frequency > 0].min())
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def pool_segments(batch: SimplexBatch, columns: NDArray[np.int64]) -> BinaryProblem:
    """Cells of some columns, merged down to the positive value at or below them.

    Isotonic regression puts cells without a label into the block below them in any case, so only
    the positive values need to be sorted; ``solvers.flattened`` does the same for all columns.
    """
    probabilities, weight, own = batch.probabilities(), batch.weight, batch.class_index
    if not batch.has_whole_weights:
        order = np.argsort(weight, kind="stable")  # sums then do not depend on the rows' order
        probabilities, weight, own = probabilities[order], weight[order], own[order]
    inside = np.isin(own, columns)
    starts, segment = np.unique(
        probabilities[np.flatnonzero(inside), own[inside]], return_inverse=True
    )
    positives: NDArray[np.float64] = np.bincount(segment, weights=weight[inside]).astype(np.float64)
    if starts[0] > 0.0:
        starts, positives = np.append(0.0, starts), np.append(0.0, positives)
    starts[0] = 0.0  # not -0.0
    cells = np.zeros(len(starts))
    part = np.ascontiguousarray(probabilities[:, columns])
    add_cells(part.view(np.int64), weight, *build_lookup(starts), cells)
    filled = cells > 0  # nothing may lie below the lowest positive value
    return BinaryProblem(starts[filled], positives[filled], cells[filled])


def pool_cells(batch: SimplexBatch, columns: NDArray[np.int64]) -> BinaryProblem:
    """All cells of some columns."""
    cells = np.broadcast_to(batch.weight[:, None], (batch.n_rows, len(columns)))
    positives = np.where(batch.class_index[:, None] == columns, cells, 0.0)
    values = batch.probabilities()[:, columns]
    return binary_problem(values.ravel(), positives.ravel(), cells.ravel())


def solve_shared_classwise(
    batch: SimplexBatch,
    *,
    kind: str = "histogram",
    n_groups: int = 1,
    n_bins: int = 15,
    strategy: str = "width",
    normalize_output: bool = True,
) -> tuple[ClasswiseCurves, SolverReport]:
    """Return one curve for each group of classes, and the report."""
    started = perf_counter()
    batch = batch.in_canonical_order()
    group = group_classes(batch, n_groups)
    curves: list[Curve] = []
    reports, weights = [], []
    for g in range(int(group.max()) + 1):
        columns = np.flatnonzero(group == g)
        if kind == "isotonic":
            problem = pool_segments(batch, columns)
            found: tuple[Curve, SolverReport] = solve_isotonic_steps(problem)
        else:
            problem = pool_cells(batch, columns)
            found = solve_histogram(problem, n_bins=n_bins, strategy=strategy)
        curves.append(found[0])
        reports.append(found[1])
        weights.append(problem.total)
    classwise = ClasswiseCurves(group, tuple(curves), normalize_output, batch.kind)
    return classwise, merge_reports(reports, weights, "group", perf_counter() - started)
