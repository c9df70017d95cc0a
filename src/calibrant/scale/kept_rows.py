"""Rows that are kept as they are: all of them while they fit, then a sample by their content.

Each row with its label has a hash. Of the distinct rows those with the smallest hashes are kept,
and how often they came. Whichever of them a part of the data keeps, it has counted all along; so
the sample does not depend on the order of rows, on chunks or on who merged what first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.kernels.rows import row_hashes
from calibrant.row_order import order_rows
from calibrant.scale.exact import Sums, split
from calibrant.scale.parts import Part
from calibrant.simplex import SimplexBatch, check_scores

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CELLS = 1 << 21
"""Cells of the rows that are kept: 16 MiB."""

FEWEST, MOST_CELLS = 1 << 13, 1 << 23
"""Rows that are kept even if they have more cells, but not more than this."""


def usual_limit(n_classes: int, cells: int = CELLS) -> int:
    """Return how many rows are kept, unless somebody says otherwise."""
    return max(cells // n_classes, min(FEWEST, MOST_CELLS // n_classes), 1)


class _Rows(NamedTuple):
    hashes: NDArray[np.uint64]
    scores: NDArray[np.float64]
    class_index: NDArray[np.int64]
    weight: Sums


class KeptRows(Part):
    """Distinct rows with their labels and weights, at most ``limit`` of them.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    limit : int
        Most rows that are kept.
    """

    name = "kept"

    def __init__(self, n_classes: int, kind: str, limit: int) -> None:
        if limit < 1 or n_classes < 2:
            raise ValueError(f"{limit} rows of {n_classes} classes cannot be kept")
        self.n_classes, self.kind, self.limit = n_classes, kind, limit
        self._is_complete = True
        self._hashes = np.empty(0, dtype=np.uint64)
        self._scores = np.empty((0, n_classes))
        self._class_index = np.empty(0, dtype=np.int64)
        self._weight = Sums((0,))
        self._waiting: list[_Rows] = []  # a merge costs as much as the rows that are kept

    @property
    def is_complete(self) -> bool:
        """Whether no row had to be dropped."""
        self._settle()
        return self._is_complete

    @property
    def n_rows(self) -> int:
        """Number of rows that are kept."""
        self._settle()
        return len(self._scores)

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_classes": self.n_classes, "kind": self.kind, "limit": self.limit}

    def add(self, batch: SimplexBatch) -> None:
        """Take the rows of a batch."""
        hashes = row_hashes(batch.scores.view(np.int64), batch.class_index)
        if len(self._hashes) == self.limit:
            near = np.flatnonzero(hashes <= self._hashes[-1])
            self._is_complete &= len(near) == len(hashes)
            batch, hashes = batch.take(near), hashes[near]
        weight = Sums.of(*split(batch.weight))
        scores = batch.scores + 0.0  # a copy of what may be the caller's, and no -0.0
        self._take(_Rows(hashes, scores, batch.class_index.copy(), weight))

    def merge(self, other: KeptRows) -> None:
        """Take the rows that another one kept."""
        self._is_complete &= other.is_complete
        self._take(other._rows())

    def _rows(self) -> _Rows:
        self._settle()
        return _Rows(self._hashes, self._scores, self._class_index, self._weight)

    def _take(self, rows: _Rows) -> None:
        self._waiting.append(rows)
        if sum(len(found.hashes) for found in self._waiting) >= max(self.limit, FEWEST):
            self._settle()

    def _settle(self) -> None:
        """Merge what was taken since the last time."""
        self._waiting = [rows for rows in self._waiting if len(rows.hashes)]
        if not self._waiting:
            return
        taken = [_Rows(self._hashes, self._scores, self._class_index, self._weight), *self._waiting]
        self._waiting = []
        hashes = np.concatenate([rows.hashes for rows in taken])
        order, starts = _order(hashes, lambda some: _content(taken, some))
        self._is_complete &= len(starts) <= self.limit
        first = order[starts[: self.limit]]
        self._hashes = hashes[first]
        cells = _content(taken, first)
        self._scores = np.ascontiguousarray(cells[:, :-1])
        self._class_index = cells[:, -1].astype(np.int64)
        self._weight = Sums(first.shape)
        high, low = (
            np.concatenate([getattr(rows.weight, part) for rows in taken])
            for part in ("high", "low")
        )
        if len(starts) == len(order):
            self._weight.merge(Sums.of(high[first], low[first]))
        else:
            sums = (np.add.reduceat(part[order], starts)[: self.limit] for part in (high, low))
            self._weight.merge(Sums.of(*sums))

    def scale(self, factor: float) -> None:
        """Multiply all weights; rows that are left without any are dropped."""
        self._settle()
        self._weight.scale(factor)
        left = (self._weight.high > 0) | (self._weight.low > 0)
        if not left.all():
            self._hashes, self._class_index = self._hashes[left], self._class_index[left]
            self._scores = self._scores[left]
            self._weight = Sums.of(self._weight.high[left], self._weight.low[left])

    def batch(self, classes: NDArray[Any]) -> SimplexBatch:
        """Return the rows as solvers take them."""
        self._settle()
        weight = self._weight.values()
        return SimplexBatch(self._scores, self.kind, self._class_index, weight, classes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        self._settle()
        return {
            "scores": self._scores,
            "class_index": self._class_index,
            "weight_high": self._weight.high,
            "weight_low": self._weight.low,
            "is_complete": np.array(self._is_complete),
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        scores, index = arrays["scores"], arrays["class_index"]
        n_rows = len(index)
        if scores.shape != (n_rows, self.n_classes) or scores.dtype != np.float64:
            raise ValueError(f"rows are {scores.dtype} of shape {scores.shape}")
        if index.shape != (n_rows,) or index.dtype != np.int64 or n_rows > self.limit:
            raise ValueError(f"labels are {index.dtype} of shape {index.shape}")
        if np.any((index < 0) | (index >= self.n_classes)):
            raise ValueError("a label is not among the classes")
        weight = Sums((n_rows,)).restore((arrays["weight_high"], arrays["weight_low"]))
        if not np.all((weight.high > 0) | (weight.low > 0)):
            raise ValueError("a row has no weight")
        checked = check_scores(scores, self.kind) if n_rows else scores
        self._is_complete = bool(arrays["is_complete"])
        hashes = row_hashes(checked.view(np.int64), index)
        self._waiting = [_Rows(hashes, checked, index, weight)]
        self._settle()


def _order(
    hashes: NDArray[np.uint64], content: Callable[[NDArray[np.int64]], NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order by hash, equal rows together; and where each distinct row begins in it."""
    order = np.argsort(hashes)
    in_order = hashes[order]
    if np.all(in_order[1:] != in_order[:-1]):  # nearly always, and much quicker
        return order, np.arange(len(order))
    order, fresh = order_rows(np.zeros(len(hashes)), hashes, (), content)
    return order, np.flatnonzero(fresh)


def _content(taken: list[_Rows], some: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores and labels of some of the rows, which are numbered through."""
    cells = np.empty((len(some), taken[0].scores.shape[1] + 1))
    start = 0
    for rows in taken:
        own = np.flatnonzero((some >= start) & (some < start + len(rows.hashes)))
        places = some[own] - start
        cells[own, :-1] = rows.scores[places]
        cells[own, -1] = rows.class_index[places]
        start += len(rows.hashes)
    return cells
