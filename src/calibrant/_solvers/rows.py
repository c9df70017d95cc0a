"""Rows as solvers take them: merged, in units of ordinary size; and pseudo-observations.

A fit to few rows, or to rows without an error, is more certain than it should be: what is not in
the sample costs nothing. So s more rows are added to the likelihood, like those of the calibration
set but labelled by the starting point's own probabilities. With D, the mean divergence of the
fitted rows from those, their price is s D. But a start that is clearly wrong should not hold: the
price is log(1 + s D) instead, which hardly grows where D is large. As a fit it is solved by a few
convex problems, each with s / (1 + s D) pseudo-observations (a majorisation, since the logarithm is
concave); as a choice between candidates it is added to their held-out loss.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant._row_order import sample_rows, starts_of_runs

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._types import Bools, Floats

AT_SCORES = 120.0
"""Pseudo-observations that hold temperature scaling to T = 1."""

AT_TEMPERATURE = 1000.0
"""Pseudo-observations that hold the other methods to temperature scaling."""

IN_CHOICES = 2000.0
"""The same, where candidates are chosen by their held-out loss.

All three were chosen within the validation parts of real classifiers, whole and cut to a few rows,
and on simulated honest predictions; with thousands of rows they hardly matter.
"""

REWEIGHTINGS = 3
"""How often the number of pseudo-observations is adapted."""

SMALLEST_SHARE = 1e-30
"""A row of less than this share of the largest weight changes no digit of any sum."""

CHOICE_CELLS = 1 << 16
LEAST_CHOICE_ROWS = 2500
"""Number of cells, and least number of different rows, on which cross-validation makes a choice.
Beyond a thousand rows the choice hardly changes, and the fit to all rows changes even less:
``docs/evidence/choices.md``."""

MOST_POINTS = 20_000
"""Distinct odds beyond which neighbours share a point."""

SMOOTH_POINTS = 2048
"""Points for a map of a few parameters. What it loses by them is of second order: the mean of a
cell of width W moves the parameters by some W ** 2 / 12, and the loss by the square of that."""

BITS = 48
"""Low bits of the odds in which rows of one cell may differ: above them are four of the mantissa,
so that a cell is at most 1/16 of its odds wide."""


def remaining(strength: float, divergence: float) -> float:
    """Return how many pseudo-observations are left at a distance from the start."""
    return strength / (1.0 + strength * max(divergence, 0.0))


def price(divergences: Floats) -> Floats:
    """Price of candidates by their distance from the nearest one to the start, in nats."""
    result: Floats = np.log1p(IN_CHOICES * (divergences - divergences.min()))
    return result


def share(strength: float, total: float) -> float:
    """Weight of pseudo-observations among all, beside rows of total weight ``total``."""
    return strength / (strength + total) if math.isfinite(total) else 0.0


def share_of_few_errors(loss: float, total: float) -> float:
    """Return the share that temperature scaling keeps while there are few errors to learn from.

    With E its loss in nats and h = E / n the mean of that, the share is 1 / (1 + E h): it falls as
    errors accumulate, and where they are common.
    """
    return 1.0 / (1.0 + loss * loss / total)


def merge_rows(batch: SimplexBatch) -> SimplexBatch:
    """Merge equal rows, so that a weight of 2 is two rows to the bit, and drop the lightest."""
    heavy = batch.weight >= SMALLEST_SHARE * batch.weight.max()
    return (batch if heavy.all() else batch.take(heavy)).merged()


def divide_by_unit(logits: Floats, weight: Floats) -> float:
    """Divide ``logits`` in place by a power of two near their typical spread; returns it.

    That is the geometric mean of the rows' spreads, which one row of another scale hardly moves.
    Dividing by a power of two rounds nothing.
    """
    spread = logits.max(axis=1) - logits.min(axis=1)
    used = spread > 0.0
    if not used.any():
        return 1.0
    share = weight[used] / weight[used].max()
    mean = math.fsum(share * np.log2(spread[used])) / math.fsum(share)
    unit = math.ldexp(1.0, min(max(round(mean), -333), 333))  # between 1e-100 and 1e100
    logits /= unit
    return unit


def feature_scale(logits: Floats, share: Floats, beta: float) -> float:
    """Inverse temperature to measure logits by: the best, unless that leaves nothing of them.

    The logits are in their unit, so their spread is about one.
    """
    spread = float(np.sqrt(share @ logits.var(axis=1)))
    return max(beta, 0.5 / max(spread, 0.1))


def choice_rows(batch: SimplexBatch) -> Bools | None:
    """Which rows a choice is made on, by their content alone; None if it is all of them."""
    most = max(CHOICE_CELLS // batch.n_classes, LEAST_CHOICE_ROWS)
    if batch.n_rows <= most:
        return None
    chosen = sample_rows(batch.scores, batch.kind, most)
    return None if chosen.all() else chosen


def to_points(batch: SimplexBatch, most: int = MOST_POINTS) -> SimplexBatch:
    """Return the rows of two classes as weighted points, at most about ``most`` for each label.

    A row of two probabilities is one number, its odds p_1 / p_0. Rows of equal odds are one point
    with the weights of both labels. Where there are more distinct odds than points, neighbours
    share a point, whose score is their weighted mean. Rows are left as they are if they are few, of
    more classes, or of two logits, of which methods may read each by itself; and if they have
    groups, which a point has not.

    What this costs is of second order. Rows of a cell differ by at most W in their log-odds z, and
    a map of slope s in z takes them to log-odds f that differ by at most s W. About the mean of f
    the log-loss of a row changes by (sigma(f) - y) (f_i - f) + r with r at most (s W)^2 / 32, as
    its second derivative is at most 1/4. The linear term vanishes on average over a cell but for
    the covariance of y with z, which is of the size of W^2, too. A cell has 1 / 20,000 of the
    weight, and W is near 1e-3 where most rows are; in the tails it is at most 1/16.
    """
    is_line = batch.n_classes == 2 and batch.kind == "probabilities" and batch.group is None
    if not is_line or batch.n_rows <= 2 * most:
        return batch
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        odds = batch.scores[:, 1] / batch.scores[:, 0]
    order = np.argsort(odds)
    odds, weight = odds[order], batch.weight[order]
    starts = starts_of_runs(odds)
    if len(starts) > most:
        # Cells of equal weight, and nowhere wide. A value that has the weight of several cells is a
        # cell of its own, as the middle of its weight is in another cell than its neighbours'.
        own = np.add.reduceat(weight, starts)
        total = np.cumsum(own)
        by_weight = ((total - 0.5 * own) * (most / total[-1])).astype(np.int64)
        by_value = odds[starts].view(np.int64) >> BITS
        is_first = np.append(True, (np.diff(by_weight) != 0) | (np.diff(by_value) != 0))
        starts = starts[is_first]
    is_one = batch.class_index[order] == 1
    weights, n_rows = [], []
    for is_own in (~is_one, is_one):
        weights.append(np.add.reduceat(weight * is_own, starts))
        n_rows.append(np.add.reduceat(is_own, starts, dtype=np.int64))
    points = np.column_stack(
        [np.add.reduceat(column[order] * weight, starts) for column in batch.scores.T]
    )
    points /= points.sum(axis=1, keepdims=True)
    place = np.flatnonzero(np.concatenate(n_rows))  # of a label that has rows at the point
    index = np.repeat([0, 1], len(starts))[place]
    units = None
    if batch.unit is not None:
        # The weight of one repetition is that of the rows together, by their number.
        repeats = weight / batch.unit[order]
        counts = [np.add.reduceat(repeats * is_own, starts) for is_own in (~is_one, is_one)]
        units = np.concatenate(weights)[place] / np.concatenate(counts)[place]
    return replace(
        batch,
        scores=np.concatenate([points, points])[place],
        class_index=index,
        weight=np.concatenate(weights)[place],
        unit=units,
    )
