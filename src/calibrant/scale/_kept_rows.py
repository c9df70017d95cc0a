"""Rows that are kept as they are: all of them while they fit, then a sample by their scores.

Every row has a hash of its scores, and the rows with the smallest hashes are kept. Labels have no
say: rows of equal scores are kept together or not at all, so that a sample has the labels that all
rows with these scores have. Which rows are kept depends on the set of all rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from calibrant._kernels.rows import row_hashes
from calibrant._row_order import order_rows
from calibrant._simplex import SimplexBatch, check_scores
from calibrant.scale._parts import Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS = 1 << 20
"""Cells of the rows that are kept: 8 MiB."""

FEWEST, MOST_CELLS = 1 << 13, 1 << 23
"""Rows that are kept even if they have more cells, but not more than this."""

UNBOUNDED = 1 << 64
"""Larger than every hash."""


def usual_limit(n_classes: int, cells: int = CELLS) -> int:
    """Return how many rows are kept, unless somebody says otherwise."""
    return max(cells // n_classes, min(FEWEST, MOST_CELLS // n_classes), 1)


class _Rows(NamedTuple):
    hashes: NDArray[np.uint64]
    scores: NDArray[np.float64]
    class_index: NDArray[np.int64]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Any, class_index: Any, weight: Any) -> Self:
        hashes = row_hashes(scores.view(np.int64), np.zeros_like(class_index))
        return cls(hashes, scores, class_index, weight)

    def take(self, rows: Any) -> _Rows:
        return _Rows(*(array[rows] for array in self))

    @classmethod
    def stack(cls, found: list[_Rows]) -> _Rows:
        arrays: Any = map(np.concatenate, zip(*found, strict=True))
        return cls(*arrays)

    @classmethod
    def join(cls, found: list[_Rows]) -> _Rows:
        """Order rows by their hashes; equal ones, with equal labels, become one."""
        rows = cls.stack(found)
        order = np.argsort(rows.hashes)
        in_order = rows.hashes[order]
        if np.all(in_order[1:] != in_order[:-1]):  # nearly always, and much quicker
            return rows.take(order)
        own, last = np.zeros(len(order)), (rows.class_index.astype(np.float64), rows.weight)
        order, fresh = order_rows(own, rows.hashes, last, lambda some: rows.scores[some])
        index = rows.class_index[order]
        starts = np.flatnonzero(fresh | np.append(True, index[1:] != index[:-1]))
        merged = rows.take(order[starts])
        return merged._replace(weight=np.add.reduceat(rows.weight[order], starts))

    def extremes(self, kind: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Smallest score of each row that is no exact zero, and whether there is such a zero."""
        is_zero = self.scores == (-np.inf if kind == "logits" else 0.0)
        depth = self.scores - self.scores.max(axis=1, keepdims=True, initial=-np.inf)
        depth = depth if kind == "logits" else self.scores
        return np.where(is_zero, 1.0, depth).min(axis=1, initial=1.0), is_zero.any(axis=1)


class KeptRows(Part):
    """Distinct rows with their labels and weights, at most ``limit`` of them.

    Of rows that are not kept, a few witnesses are remembered: one of each class, one with the
    smallest score, and one with an exact zero. Where the sample has nothing of the kind they are
    added to it, with the weight of one row among all.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    limit : int
        Most rows that are kept; those of the smallest hash are, even if they are more.
    """

    name = "kept"

    def __init__(self, n_classes: int, kind: str, limit: int) -> None:
        if limit < 1 or n_classes < 2:
            raise ValueError(f"{limit} rows of {n_classes} classes cannot be kept")
        self.n_classes, self.kind, self.limit = n_classes, kind, limit
        self._bound = UNBOUNDED  # rows with this hash, or a larger one, are not kept
        nothing = np.empty((0, n_classes)), np.empty(0, dtype=np.int64), np.empty(0)
        self._rows = self._witnesses = _Rows.of(*nothing)
        self._waiting: list[_Rows] = []  # a merge costs as much as the rows that are kept

    @property
    def is_complete(self) -> bool:
        """Whether no row had to be dropped."""
        self._settle()
        return self._bound == UNBOUNDED

    @property
    def n_rows(self) -> int:
        """Number of rows that are kept."""
        self._settle()
        return len(self._rows.hashes)

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_classes": self.n_classes, "kind": self.kind, "limit": self.limit}

    def add(self, batch: SimplexBatch) -> None:
        """Take the rows of a batch."""
        scores = batch.scores + 0.0  # a copy of what may be the caller's, and no -0.0
        self._take(_Rows.of(scores, batch.class_index.copy(), batch.weight.copy()))

    def merge(self, other: KeptRows) -> None:
        """Take the rows that another one kept."""
        other._settle()
        self._lower(other._bound)
        self._drop(other._witnesses)
        self._take(other._rows)

    def _take(self, rows: _Rows) -> None:
        if self._bound < UNBOUNDED:
            is_near = rows.hashes < np.uint64(self._bound)
            self._drop(rows.take(~is_near))
            rows = rows.take(is_near)
        self._waiting += [rows] if len(rows.hashes) else []
        if sum(len(found.hashes) for found in self._waiting) >= max(self.limit, FEWEST):
            self._settle()

    def _settle(self) -> None:
        """Merge what was taken since the last time."""
        if not self._waiting:
            return
        self._rows, self._waiting = _Rows.join([self._rows, *self._waiting]), []
        hashes = self._rows.hashes
        if len(hashes) > self.limit:
            bound = hashes[self.limit]
            if bound == hashes[0]:
                last = int(np.searchsorted(hashes, bound, side="right"))
                bound = hashes[last] if last < len(hashes) else None
            self._lower(UNBOUNDED if bound is None else int(bound))

    def _lower(self, bound: int) -> None:
        """Drop rows from this hash on."""
        if bound < self._bound:
            self._bound = bound
            for place, rows in enumerate([self._rows, *self._waiting]):
                is_near = rows.hashes < np.uint64(bound)
                self._drop(rows.take(~is_near))
                if place == 0:
                    self._rows = rows.take(is_near)
                else:
                    self._waiting[place - 1] = rows.take(is_near)

    def _drop(self, rows: _Rows) -> None:
        """Remember witnesses of rows that are not kept."""
        if len(rows.hashes) == 0:
            return
        rows = _Rows.stack([self._witnesses, rows])
        first = np.full(self.n_classes, np.uint64(UNBOUNDED - 1))
        np.minimum.at(first, rows.class_index, rows.hashes)
        labelled = np.flatnonzero(rows.hashes == first[rows.class_index])
        chosen = labelled[np.unique(rows.class_index[labelled], return_index=True)[1]]
        depth, has_zero = rows.extremes(self.kind)
        for some in (np.flatnonzero(depth == depth.min()), np.flatnonzero(has_zero)):
            chosen = np.append(chosen, some[np.argmin(rows.hashes[some])] if len(some) else [])
        rows = rows.take(np.unique(chosen.astype(np.int64)))
        rows = rows.take(np.lexsort((rows.class_index, rows.hashes)))
        self._witnesses = rows._replace(weight=np.ones(len(rows.hashes)))

    def scale(self, factor: float) -> None:
        """Multiply all weights; rows that are left without any are dropped."""
        self._settle()
        rows = self._rows._replace(weight=self._rows.weight * factor)
        self._rows = rows.take(rows.weight > 0.0)

    def batch(self, classes: NDArray[Any], total: float) -> SimplexBatch:
        """Return the rows as solvers take them; ``total`` is the weight of all, kept or not."""
        self._settle()
        rows, others = self._rows, self._witnesses
        if len(others.hashes) and len(rows.hashes):
            depth, has_zero = rows.extremes(self.kind)
            deeper, zeros = others.extremes(self.kind)
            is_new = ~np.isin(others.class_index, rows.class_index)
            is_new |= (deeper < depth.min()) | (zeros & ~has_zero.any())
            kept = rows.weight.sum()
            weight = np.full(len(is_new), kept / len(rows.weight) * min(kept / total, 1.0))
            rows = _Rows.join([rows, others._replace(weight=weight).take(is_new)])
        return SimplexBatch(rows.scores, self.kind, rows.class_index, rows.weight, classes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        self._settle()
        found = self._rows._asdict()
        found |= {f"other_{name}": array for name, array in self._witnesses._asdict().items()}
        del found["hashes"], found["other_hashes"]
        bound = [self._bound] if self._bound < UNBOUNDED else []
        return found | {"bound": np.array(bound, dtype=np.uint64)}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        bound = arrays["bound"]
        if bound.dtype != np.uint64 or bound.shape not in ((0,), (1,)):
            raise ValueError(f"a bound is {bound.dtype} of shape {bound.shape}")
        rows, others = (self._checked(arrays, start) for start in ("", "other_"))
        if len(rows.hashes) > max(self.limit, self.n_classes):
            raise ValueError(f"{len(rows.hashes)} rows are kept")
        self._bound = int(bound[0]) if len(bound) else UNBOUNDED
        self._drop(others)
        self._take(rows)
        self._settle()

    def _checked(self, arrays: dict[str, NDArray[Any]], start: str) -> _Rows:
        scores, index, weight = (
            arrays[start + name] for name in ("scores", "class_index", "weight")
        )
        n_rows = len(index)
        if scores.shape != (n_rows, self.n_classes) or scores.dtype != np.float64:
            raise ValueError(f"rows are {scores.dtype} of shape {scores.shape}")
        if index.shape != (n_rows,) or index.dtype != np.int64:
            raise ValueError(f"labels are {index.dtype} of shape {index.shape}")
        if np.any((index < 0) | (index >= self.n_classes)):
            raise ValueError("a label is not among the classes")
        if weight.shape != (n_rows,) or not np.all((weight > 0.0) & np.isfinite(weight)):
            raise ValueError("a row has no weight")
        checked = check_scores(scores, self.kind) if n_rows else scores
        return _Rows.of(np.ascontiguousarray(checked), index, weight.astype(np.float64))
