"""Sums that do not depend on the order of their terms, and the terms of the scores.

Floating-point addition is not associative, integer addition is. A term in [-1, 1] is added as two
integers, the whole part of ``term * 2**31`` and that of what is left times 2**31: fewer than 2**32
terms cannot overflow, and a mean is off by less than 2**-61. So metrics depend neither on the
order of the rows nor on how they are cut into chunks, to the last bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant.numba_kernels.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

BITS = 31
UNIT = 2.0**BITS


@kernel
def add_term(sums, cell, column, term):
    """``sums[cell, column] += term``, for a term in [-1, 1]."""
    scaled = term * UNIT
    whole = np.int64(scaled)
    sums[cell, column, 0] += whole
    sums[cell, column, 1] += np.int64((scaled - whole) * UNIT)


def totals(sums: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the doubles of fixed-point ``sums``, whose last axis holds the two integers."""
    carry = sums[..., 1] >> BITS
    rest = sums[..., 1] - (carry << BITS)
    doubles: NDArray[np.float64] = (sums[..., 0] + carry) / UNIT + rest / UNIT**2
    return doubles


@kernel
def add_weights(weight, sums):
    """``sums[0, 0] += weight`` of every row."""
    for i in range(weight.shape[0]):
        add_term(sums, 0, 0, weight[i])


@kernel
def add_products(weight, values, sums):
    """``sums[0, 0] += weight``, ``sums[0, 1] += weight * value`` of every row."""
    for i in range(weight.shape[0]):
        add_term(sums, 0, 0, weight[i])
        add_term(sums, 0, 1, weight[i] * values[i])


@kernel
def top_labels(rows, class_index, confidence, hits):
    """Write the largest probability of each row, and whether it is the label's.

    The first of equal classes is the prediction, as ``argmax`` has it.
    """
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        top = 0
        for j in range(1, n_classes):
            if rows[i, j] > rows[i, top]:
                top = j
        confidence[i] = rows[i, top]
        hits[i] = top == class_index[i]


@kernel
def row_losses(rows, class_index, min_probability, losses):
    """Write -log of the label's probability; infinity for a zero that no floor lifts."""
    for i in range(rows.shape[0]):
        own = max(rows[i, class_index[i]], min_probability)
        losses[i] = -math.log(own) if own > 0.0 else np.inf


@kernel
def row_squares(rows, class_index, squares):
    """Write the mean over classes of (probability - label)^2."""
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        total = 0.0
        for j in range(n_classes):
            gap = rows[i, j] - 1.0 if j == class_index[i] else rows[i, j]
            total += gap * gap
        squares[i] = total / n_classes


@kernel
def add_confusion(rows, class_index, weight, slot, confusion):
    """Add each row's weight to (label, prediction), for the classes that have a ``slot``."""
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        label = slot[class_index[i]]
        if label >= 0:
            top = 0
            for j in range(1, n_classes):
                if rows[i, j] > rows[i, top]:
                    top = j
            if slot[top] >= 0:
                confusion[label, slot[top]] += weight[i]
