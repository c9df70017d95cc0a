"""FIR: isotonic regression over all cells at once, by the segments between positive cells.

A block of the solution can only start at a positive cell, since moving cells without a label
down always helps. So the cells between two neighbouring positive values act as one segment: sort
the distinct positive values (at most m), count the cells of each segment, and pool at most m + 1
segments instead of sorting m * k cells.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels.lookup import add_cells
from calibrant._kernels.tables import build_lookup
from calibrant._maps.cells import SharedSteps
from calibrant._row_order import start_segments
from calibrant._solvers.one_vs_rest import BinaryProblem, solve_isotonic_steps

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._solvers.report import SolverReport
    from calibrant._types import Wholes


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
