"""FIR: isotonic regression over all cells at once, by the segments between positive cells.

A block of the solution can only start at a positive cell, since moving cells without a label
down always helps. So the cells between two neighbouring positive values act as one segment: sort
the distinct positive values (at most m), count the cells of each segment, and pool at most m + 1
segments instead of sorting m * k cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels.lookup import Lookup, add_cells, build_lookup
from calibrant.kernels.pava import pool_adjacent_violators
from calibrant.maps.cells import SharedSteps
from calibrant.maps.steps import StepFunction
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch


@dataclass(frozen=True, slots=True)
class Segments:
    """Cells grouped by the positive value at or below them.

    Attributes
    ----------
    starts : ndarray
        Where each segment starts; the first is 0.
    positives : ndarray
        Weight of the positive cells of each segment.
    cells : ndarray
        Weight of all cells of each segment; positive.
    lookup : Lookup
        Finds the segment of a cell.
    """

    starts: NDArray[np.float64]
    positives: NDArray[np.float64]
    cells: NDArray[np.float64]
    lookup: Lookup


def build_segments(batch: SimplexBatch, probabilities: NDArray[np.float64]) -> Segments:
    """Segments of a batch; the sums do not depend on the order of its rows or columns."""
    weight = batch.weight
    own = probabilities[np.arange(batch.n_rows), batch.class_index]
    if not batch.has_whole_weights:
        # Every segment then adds its weights in increasing order, whatever order they came in.
        order = np.argsort(weight, kind="stable")
        probabilities, own, weight = probabilities[order], own[order], weight[order]
    starts, segment = np.unique(own, return_inverse=True)
    positives: NDArray[np.float64] = np.bincount(segment, weights=weight).astype(np.float64)
    if starts[0] > 0.0:
        starts = np.concatenate([[0.0], starts])
        positives = np.concatenate([[0.0], positives])
    starts[0] = 0.0  # not -0.0
    lookup = build_lookup(starts)
    cells = np.zeros(len(starts))
    add_cells(probabilities.view(np.int64), weight, *lookup, cells)
    if cells[0] == 0.0:  # nothing lies below the lowest positive value
        starts, positives, cells = starts[1:].copy(), positives[1:], cells[1:]
        starts[0] = 0.0
        lookup = build_lookup(starts)
    return Segments(starts, positives, cells, lookup)


def solve_flattened(batch: SimplexBatch) -> tuple[SharedSteps, SolverReport]:
    """Flattened isotonic regression (the paper's FIR equation), exactly.

    By the paper's appendix theorem the same fit is optimal for every proper scoring rule; the
    objective reported is the mean squared error over cells.
    """
    started = perf_counter()
    segments = build_segments(batch, batch.probabilities())
    first, positives, cells = pool_adjacent_violators(segments.positives, segments.cells)
    values = positives / cells
    step = StepFunction(segments.starts[first], values, cells)
    # Labels are 0 or 1, so the squared error of a block is n * v * (1 - v).
    objective = float(np.sum(positives * (1.0 - values)) / np.sum(cells))
    report = SolverReport(
        "pava", objective, 0.0, 0.0, 1, perf_counter() - started, n_blocks=len(values)
    )
    return SharedSteps(step, batch.kind), report
