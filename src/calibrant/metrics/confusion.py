"""Do the columns belong to the labels? From how often each label is predicted as which class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from calibrant import errors
from calibrant.metrics.measures import Counts
from calibrant.scale.exact import Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import DealtRows

MISMATCH = 0.2
MOST_CLASSES = 100
ROWS_OF_A_CLASS = 20

TABLE_CLASSES = 1024
"""Most classes of which chunks are counted by label and prediction: 16 MiB."""


class Confusion(Counts):
    """Weight of every (label, prediction), and rows of every label.

    Parameters
    ----------
    n_classes : int
        At most ``TABLE_CLASSES``.
    """

    name = "confusion"

    def __init__(self, n_classes: int) -> None:
        if n_classes not in range(1, TABLE_CLASSES + 1):
            raise ValueError(f"{n_classes} classes")
        self._n_classes = n_classes
        self._weight = Sums((n_classes * n_classes,))
        self._rows: Wholes = np.zeros(n_classes, dtype=np.int64)

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_classes": self._n_classes}

    def add_rows(self, rows: DealtRows) -> None:
        """Count rows."""
        place = rows.class_index * self._n_classes + rows.top_columns()
        self._weight.add_at(place, rows.weight)
        self._rows += np.bincount(rows.class_index, minlength=self._n_classes)

    def merge(self, other: Self) -> None:
        """Add what another one has counted."""
        self._weight.merge(other._weight)
        self._rows += other._rows

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        self._weight.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        return {"weight": self._weight.parts(), "rows": self._rows}

    def restore(self, arrays: dict[str, NDArray[Any]], n_groups: int) -> None:  # noqa: ARG002
        """Take what ``arrays`` returned; nothing of it is by group."""
        rows = arrays["rows"]
        if rows.dtype != np.int64 or rows.shape != self._rows.shape or rows.min() < 0:
            raise ValueError(f"rows are {rows.dtype} of shape {rows.shape}, or negative")
        self._weight.restore(arrays["weight"])
        self._rows = rows.copy()

    def complaint(self, classes: NDArray[Any]) -> Warning | None:
        """Return a warning if the columns seem to belong to other labels."""
        frequent = frequent_classes(self._rows)
        weight = self._weight.values().reshape(self._n_classes, self._n_classes)[frequent]
        return complaint(weight[:, frequent], float(weight.sum()), self._rows, frequent, classes)


def frequent_classes(counts: Wholes) -> Wholes:
    """Columns of the most frequent labels, the first of them first."""
    frequent: Wholes = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    return frequent[counts[frequent] >= ROWS_OF_A_CLASS]


def complaint(
    confusion: Floats, weight: float, counts: Wholes, frequent: Wholes, classes: NDArray[Any]
) -> Warning | None:
    """Return a warning if the frequent classes fit other columns far better than their own.

    ``confusion`` is the weight of (label, prediction) among them, ``weight`` that of all rows that
    have one of their labels, ``counts`` the number of rows of each label.
    """
    if len(frequent) < 2:
        return None
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
