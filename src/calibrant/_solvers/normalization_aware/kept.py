"""NA-FIR of more rows than were kept: those stand for all, on the segments of all."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._maps.cells import SharedSteps
from calibrant._objectives.normalization_aware import block_of_segment, count_cells, sum_cells
from calibrant._solvers.normalization_aware.fit import DEPTH, Sample, minimise
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._objectives.normalization_aware import SegmentObjective
    from calibrant._simplex import SimplexBatch

    Array = NDArray[np.float64]

TOLERANCE, MAX_ROUNDS = 3e-8, 12
"""Of fits to kept rows."""

GROUP_CELLS, LARGEST_SIZE = 50, 100.0
"""Cells of kept rows that tell of exposures around a segment, and bound on what they count."""

LEAST_SHARE, LEAST_SLACK = 0.01, 0.1
"""Part of its target that a segment has of the shares of all rows at least; and part that is left
of what lies below a jump, and is reached from above, after a step."""

HEAD_PART = 1e-4
"""Part of all weight that the lowest segments have, whose values are those of PAVA of all rows."""

MOST_COPIES, MOST_CELLS = 8, 1 << 21
"""Copies of the kept rows, and cells of them, at most."""


class NormalizationAwareFit(NamedTuple):
    """A fit to kept rows, on the segments of all."""

    map: SharedSteps
    report: SolverReport
    objective: SegmentObjective
    point: Array  # theta of each segment
    linear_term: Array


def spread_rows(kept: SimplexBatch, scores: Array, cells: Array) -> SimplexBatch:
    """Spread kept rows over the scores of all, so that few segments are left without a cell.

    Each kept cell stands for 1 / f of all. Copies of the rows have every cell at another place
    among those, in steps of equal weight along the sorted ``scores``, of which ``cells`` are the
    weights. Gradients of these copies differ from those of all rows less, and a linear term makes
    up for the rest.
    """
    probabilities = kept.probabilities()
    n_copies = min(max(MOST_CELLS // probabilities.size, 1), MOST_COPIES)
    ends = np.cumsum(cells)
    place = np.searchsorted(scores, probabilities)
    rank = ends[place] - 0.5 * cells[place]
    each = ends[-1] / probabilities.size  # 1 / f, by weight
    copies = [
        scores[np.minimum(np.searchsorted(ends, rank + step * each), len(scores) - 1)]
        for step in (np.arange(n_copies) + 0.5) / n_copies - 0.5
    ]
    times = np.tile(np.arange(kept.n_rows), n_copies)
    spread = kept.take(times).with_probabilities(np.concatenate(copies))
    return replace(spread, weight=spread.weight / n_copies)


def fit_normalization_aware(
    kept: SimplexBatch,
    *,
    objective: SegmentObjective,
    weight: float,
    linear_term: Array | None = None,
    start: Array | None = None,
    notes: tuple[str, ...] = (),
) -> NormalizationAwareFit:
    """Minimise F of the kept rows less <``linear_term``, theta>, per unit of weight.

    Without a ``start`` it is the prior, theta = beta log p. Segments without a cell of the kept
    rows are a part of the one below.
    """
    started = perf_counter()
    likelihood = objective.row_loss(kept, float(np.sum(kept.weight)) / weight)
    rows, row_weight = likelihood.rows, likelihood.weight
    n_segments = rows.n_segments
    if start is None:
        starts, beta = objective.starts, objective.prior.inverse_temperature
        start = beta * np.log(np.maximum(starts, 0.5 * starts[min(1, len(starts) - 1)]))
    start = np.maximum.accumulate(start)
    values = np.exp(np.maximum(start - start[-1], -DEPTH))
    _, exposures = likelihood.at(values)
    gradient = values * exposures - likelihood.target
    n_cells = np.bincount(rows.index.ravel(), minlength=n_segments)
    group = np.maximum(np.cumsum(n_cells) - 1, 0) // GROUP_CELLS
    group = np.unique(group, return_inverse=True)[1]
    sizes, held = np.ones(n_segments), np.bincount(group, exposures)
    target: Array | None = None
    of_all = objective.cells * (held / np.bincount(group, objective.cells))[group]
    if linear_term is not None and objective.target is not None:
        gradient = gradient - weight * linear_term  # that of all rows
        target = weight * objective.target
        shares = np.maximum(gradient + target, LEAST_SHARE * target)
        of_all = shares / values
        # Cells count as much as it takes for groups to have about the shares of all rows.
        sizes = np.bincount(group, shares) / np.bincount(group, values * exposures)
        sizes = np.clip(sizes, 1.0 / LARGEST_SIZE, LARGEST_SIZE)[group]
        each = np.arange(n_segments, dtype=np.int32)
        totals = count_cells(rows.index, each, n_segments, sizes).totals(values)
        exposures = sum_cells(rows.index, row_weight / totals, n_segments, sizes)
        held = np.bincount(group, exposures)
    top = np.bincount(rows.index.max(axis=1), row_weight, minlength=n_segments)
    # Below a jump at least so much more is wanted than rows that lie there wholly have, of what
    # they have more now: so no jump is drawn to infinity by what the sample does not know.
    below, now, left = (
        np.cumsum(part) for part in (values * exposures - gradient, values * exposures, top)
    )
    slack = np.where(left > 0.0, LEAST_SLACK, LEAST_SLACK**3) * (now - left)
    below[:-1] = np.maximum(below, left + slack)[:-1]
    found = minimise(
        rows.index,
        row_weight,
        np.diff(below, prepend=0.0),
        exposures,
        tol=TOLERANCE,
        max_rounds=MAX_ROUNDS,
        sample=Sample(values, of_all, target, group, np.asarray(held), sizes, np.asarray(top)),
    )
    if target is not None:
        change = np.bincount(group, found.exposures) / held
        _settle_head(found.values, target, of_all * change[group])
    is_fit = np.all(np.isfinite(found.values)) and np.all(np.diff(found.values) >= 0.0)
    point = np.log(found.values) if is_fit and found.values[0] > 0.0 else start
    step = objective.step_function(point)
    about = float("nan"), found.violation, TOLERANCE, found.rounds, perf_counter() - started
    report = SolverReport("exact", *about, n_blocks=step.n_blocks, notes=notes)
    if linear_term is None:
        linear_term = np.zeros_like(point)
    return NormalizationAwareFit(
        SharedSteps(step, objective.prior.kind), report, objective, point, linear_term
    )


def _settle_head(values: Array, target: Array, exposures: Array) -> None:
    """Give the lowest segments, of next to no weight, the values that PAVA of all rows has there.

    Rows hardly notice them, so that b / a is their optimum; a sample has too few of their cells.
    """
    below = np.cumsum(target)
    n_head = int(np.searchsorted(below, HEAD_PART * below[-1]))
    if n_head > 0:
        first, tops, bottoms = pool_adjacent_violators(target[:n_head], exposures[:n_head])
        pooled = np.maximum.accumulate(tops / bottoms)[block_of_segment(first, n_head)]
        values[:n_head] = np.minimum(pooled, values[min(n_head, len(values) - 1)])
