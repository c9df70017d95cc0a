"""sCW: one binary problem for each group of classes with similar priors."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._maps.cells import ClasswiseCurves
from calibrant._solvers.flattened import pool_segments
from calibrant._solvers.histogram import MassBins, solve_histogram
from calibrant._solvers.one_vs_rest import (
    BinaryProblem,
    binary_problem,
    solve_each,
    solve_isotonic_steps,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch
    from calibrant._solvers.report import SolverReport

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
    thresholds, _, _ = MassBins(distinct).cut(n_groups)
    group = np.searchsorted(thresholds, frequency, side="right") - 1
    group = np.maximum(group, group[frequency > 0].min())
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


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
    group = group_classes(batch, n_groups)
    columns = [np.flatnonzero(group == g) for g in range(int(group.max()) + 1)]
    if kind == "isotonic":
        problems = (pool_segments(batch, part) for part in columns)
        curves, report = solve_each(problems, solve_isotonic_steps, "group", started)
    else:
        problems = (pool_cells(batch, part) for part in columns)
        solve = partial(solve_histogram, n_bins=n_bins, strategy=strategy)
        curves, report = solve_each(problems, solve, "group", started)
    return ClasswiseCurves(group, curves, normalize_output, batch.kind), report
