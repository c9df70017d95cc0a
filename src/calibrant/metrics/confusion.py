"""Do the columns belong to the labels? From how often each label is predicted as which class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from calibrant import errors
from calibrant.kernels.metrics import BITS, add_confusion
from calibrant.metrics.measures import RowSums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import Chunk

MISMATCH = 0.2
"""Gain in accuracy by another order of columns above which that is told."""

MOST_CLASSES_MATCHED = 100
FEWEST_ROWS_OF_A_CLASS = 20

MOST_CLASSES_CROSSED = 1024
"""Most classes of which rows are counted by label and prediction: 16 MiB."""


class Confusion(RowSums):
    """Weight of every (label, prediction).

    Parameters
    ----------
    n_classes : int
        At most ``MOST_CLASSES_CROSSED``.
    """

    name = "confusion"
    is_drawn = False

    def __init__(self, n_classes: int) -> None:
        if n_classes not in range(1, MOST_CLASSES_CROSSED + 1):
            raise ValueError(f"{n_classes} classes")
        super().__init__(n_classes, n_classes)

    def settings(self) -> dict[str, Any]:
        """Return what makes an equal one."""
        return {"n_classes": self.shape[0]}

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Add weights by label and prediction."""
        add_confusion(chunk.rows, chunk.class_index, chunk.weight, sums)


class LabelCounts(RowSums):
    """Number of rows of every label, whatever their weights."""

    name = "label counts"
    power = 0
    is_drawn = False

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes)

    def settings(self) -> dict[str, Any]:
        """Return what makes an equal one."""
        return {"n_classes": self.shape[0]}

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Count labels."""
        sums[:, 0] += np.bincount(chunk.class_index, minlength=len(sums)) << BITS


def confusion_bodies(n_classes: int) -> dict[str, RowSums]:
    """Return what is added up to see whether columns are permuted; nothing of too many classes."""
    if n_classes > MOST_CLASSES_CROSSED:
        return {}
    return {"confusion": Confusion(n_classes), "labels": LabelCounts(n_classes)}


def find_mismatch(weights: Floats, counts: Floats, classes: NDArray[Any]) -> Warning | None:
    """Return a warning if the frequent classes fit other columns far better than their own.

    ``weights`` and ``counts`` are the sums of ``Confusion`` and of ``LabelCounts``.
    """
    frequent = np.argsort(-counts, kind="stable")[:MOST_CLASSES_MATCHED]
    frequent = frequent[counts[frequent] >= FEWEST_ROWS_OF_A_CLASS]
    if len(frequent) < 2:
        return None
    weight = float(weights[frequent].sum())
    confusion = weights[np.ix_(frequent, frequent)]
    label, column = linear_sum_assignment(confusion, maximize=True)
    now = float(np.trace(confusion)) / weight
    best = float(confusion[label, column].sum()) / weight
    if best - now <= MISMATCH + 2.0 / math.sqrt(counts[frequent].sum()):
        return None
    a = int(np.flatnonzero(label != column)[0])
    is_now, should_be = (classes[frequent[j]] for j in (column[a], label[a]))
    return errors.ColumnMismatchWarning(
        f"the labels fit another order of the columns far better: accuracy {now:.2f} as they are, "
        f"{best:.2f} if, for instance, the column of {errors.in_words(is_now)} were that of "
        f"{errors.in_words(should_be)}; check the order of the columns"
    )
