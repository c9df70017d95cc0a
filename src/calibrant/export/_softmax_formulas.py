"""Sums and softmax as formulas, with the sums of the kernels, for scores whose last bits count.

A probability near 1 is 1 / (1 + s): with the same sum it has the same bits, whatever computes the
exponentials, since an error of theirs is one of s alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from calibrant.export._operations import Operations, Value

HALF = 2.0**30
"""Cells are split at this fraction of 1: sums of either part are free of rounding."""


def write_fixed_sum(ops: Operations, x: Value, scale: Value) -> Value:
    """Write down ``invariant_sum``, to the bit: whole numbers, cells times ``scale`` rounded down.

    Their leading and their last 30 bits are added up apart, so that sums of doubles are exact in
    any order. ONNX Runtime adds up whole numbers of 64 bits as doubles, too.
    """
    if ops.pairs:
        return ops.row_sum(x)
    scaled = x * (scale / HALF)
    high = ops.floor(scaled)
    low = ops.floor((scaled - high) * HALF)
    return (ops.row_sum(high) * HALF + ops.row_sum(low)) / scale


def write_softmax(ops: Operations, logits: Value) -> Value:
    """Write down the softmax with the sum of ``softmax_rows``."""
    powers = ops.exp(logits - ops.row_max(logits))
    total = ops.row_sum(powers)
    if ops.pairs:
        return powers / total
    # The exponent of 3/4 of the sum, which is at least 1, as ``invariant_sum`` scales by it.
    bounds = 2.0 ** np.arange(math.ceil(math.log2(ops.n_classes)) + 1)
    exponent = ops.row_sum(ops.whole(0.75 * total >= ops.fitted("powers_of_two", bounds)))
    scales = ops.fitted("scales", 2.0 ** (60 - np.arange(len(bounds) + 1)))
    return powers / write_fixed_sum(ops, powers, ops.take(scales, exponent))


def write_scaled_softmax(
    ops: Operations, logits: Value, factor: Value, *, inner: bool = False
) -> Value:
    """Write down softmax(factor z), as ``scaled_softmax``, of distances to the largest logit.

    ``inner`` is whether the last bits count, since another map follows.
    """
    distances = (logits - ops.row_max(logits)) * factor
    if not inner:
        return ops.softmax(distances)
    powers = ops.exp(distances)
    if ops.pairs:
        return powers / ops.row_sum(powers)
    scaled = powers * HALF
    high = ops.floor(scaled)
    # The sum of the rest is small, and so is its rounding.
    return powers / ((ops.row_sum(high) + ops.row_sum(scaled - high)) / HALF)


def write_log_softmax(ops: Operations, logits: Value) -> Value:
    """Write down the logarithm of the softmax."""
    distances = logits - ops.row_max(logits)
    return distances - ops.log(ops.row_sum(ops.exp(distances)))
