"""Rows as solvers of scaling methods take them: merged, and in units of ordinary size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch

    Array = NDArray[np.float64]

LARGEST_EXPONENT = 333
"""Units between 1e-100 and 1e100."""

SMALLEST_SHARE = 1e-30
"""A row of less than this share of the largest weight changes no digit of any sum."""


def merge_rows(batch: SimplexBatch) -> SimplexBatch:
    """Merge equal rows, so that a weight of 2 is two rows to the bit, and drop the lightest."""
    heavy = batch.weight >= SMALLEST_SHARE * batch.weight.max()
    return (batch if heavy.all() else batch.take(heavy)).merged()


def divide_by_unit(logits: Array, weight: Array) -> float:
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


def feature_scale(logits: Array, share: Array, beta: float) -> float:
    """Inverse temperature to measure logits by: the best, unless that leaves nothing of them.

    The logits are in their unit, so their spread is about one.
    """
    spread = float(np.sqrt(share @ logits.var(axis=1)))
    return max(beta, 0.5 / max(spread, 0.1))
