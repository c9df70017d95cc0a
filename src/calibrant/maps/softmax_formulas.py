"""Softmax as a formula, with the sums of the kernels, for scores whose last bits count.

A probability near 1 is 1 / (1 + s): with the same sum it has the same bits, whatever computes the
exponentials, since an error of theirs is one of s alone.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.maps.operations import Operations, Value

FINE = 2.0**26
"""Cells are split at this fraction of 1 for sums without rounding."""


def write_softmax(ops: Operations, logits: Value) -> Value:
    """Write down the softmax with the sum of ``softmax_rows``."""
    powers = ops.exp(logits - ops.row_max(logits))
    total = ops.row_sum(powers)
    # The exponent of 3/4 of the sum, which is at least 1, as ``invariant_sum`` scales by it.
    bounds = 2.0 ** np.arange(math.ceil(math.log2(ops.n_classes)) + 1)
    exponent = ops.row_sum(ops.whole(0.75 * total >= ops.fitted("powers_of_two", bounds)))
    scales = ops.fitted("scales", 2.0 ** (60 - np.arange(len(bounds) + 1)))
    return powers / ops.fixed_sum(powers, ops.take(scales, exponent))


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
    fine = powers * FINE
    coarse = ops.real(ops.whole(fine))
    # Both are almost free of rounding: the first are whole numbers, the second are small.
    total = (ops.row_sum(coarse) + ops.row_sum(fine - coarse)) / FINE
    return powers / total


def write_log_softmax(ops: Operations, logits: Value) -> Value:
    """Write down the logarithm of the softmax."""
    distances = logits - ops.row_max(logits)
    return distances - ops.log(ops.row_sum(ops.exp(distances)))
