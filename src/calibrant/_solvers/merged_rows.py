"""Rows as solvers take them: merged, in units of ordinary size, as many as a choice needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant._row_order import sample_rows

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._types import Bools, Floats

LARGEST_EXPONENT = 333
"""Units between 1e-100 and 1e100."""

SMALLEST_SHARE = 1e-30
"""A row of less than this share of the largest weight changes no digit of any sum."""


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
    exponent = min(max(round(mean), -LARGEST_EXPONENT), LARGEST_EXPONENT)
    unit = math.ldexp(1.0, exponent)
    logits /= unit
    return unit


def feature_scale(logits: Floats, share: Floats, beta: float) -> float:
    """Inverse temperature to measure logits by: the best, unless that leaves nothing of them.

    The logits are in their unit, so their spread is about one.
    """
    spread = float(np.sqrt(share @ logits.var(axis=1)))
    return max(beta, 0.5 / max(spread, 0.1))


CHOICE_CELLS = 1 << 16
LEAST_CHOICE_ROWS = 2500
"""Number of cells, and least number of different rows, on which cross-validation makes a choice.
Beyond a thousand rows the choice hardly changes, and the fit to all rows changes even less:
``docs/evidence/choices.md``."""


def choice_rows(batch: SimplexBatch) -> Bools | None:
    """Which rows a choice is made on, by their content alone; None if it is all of them."""
    most = max(CHOICE_CELLS // batch.n_classes, LEAST_CHOICE_ROWS)
    if batch.n_rows <= most:
        return None
    chosen = sample_rows(batch.scores, batch.kind, most)
    return None if chosen.all() else chosen
