"""Rows that are kept as they are: all of them while they fit, then a sample by their scores.

Every row has a hash of its scores, and the rows with the smallest hashes are kept. Labels have no
say: rows of equal scores are kept together or not at all, so that a sample has the labels that all
rows with these scores have. Which rows are kept depends on the set of all rows alone.

A score that many rows share is in the sample with all of them, or with none. So the weight of all
rows is counted by strata: the lead of the largest score, whether it is the label's, and its class.
The sample is weighted such that each has its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from calibrant._kernels.rows import row_hashes
from calibrant._kernels.strata import extreme_rows, row_strata
from calibrant._row_order import order_rows
from calibrant._simplex import SimplexBatch, check_batch
from calibrant.scale._parts import Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS = 1 << 20
"""Cells of the rows that are kept: 8 MiB."""

FEWEST_ROWS, MOST_CELLS = 1 << 13, 1 << 23
"""Rows that are kept even if they have more cells, but not more than this."""

UNBOUNDED = 1 << 64
"""Larger than every hash."""

ROWS_OF_STRATUM, FEWEST_BINS, MOST_BINS = 16, 16, 64
"""Rows that are kept for each stratum at least, where that is possible, and bins of leads."""


def usual_limit(n_classes: int, cells: int = CELLS) -> int:
    """Return how many rows are kept, unless somebody says otherwise."""
    return max(cells // n_classes, min(FEWEST_ROWS, MOST_CELLS // n_classes), 1)


class _Rows(NamedTuple):
    hashes: NDArray[np.uint64]
    scores: NDArray[np.float64]
    class_index: NDArray[np.int64]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Any, class_index: Any, weight: Any) -> Self:
        class_index = class_index.astype(np.intp, copy=False)
        hashes = row_hashes(scores.view(np.int64), np.zeros_like(class_index))
        return cls(hashes, scores, class_index, weight)

    def take(self, rows: Any) -> _Rows:
        return _Rows(*(array[rows] for array in self))

    @classmethod
    def join(cls, found: list[_Rows]) -> _Rows:
        """Order rows by their hashes; equal ones, with equal labels, become one."""
        some = [rows for rows in found if len(rows.hashes)] or found[:1]
        arrays: Any = map(np.concatenate, zip(*some, strict=True))
        rows = some[0] if len(some) == 1 else cls(*arrays)
        if np.all(rows.hashes[1:] > rows.hashes[:-1]):
            return rows
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


class KeptRows(Part):
    """Distinct rows with their labels and weights, at most ``limit`` of them.

    Of all rows, a few witnesses are remembered: one of each class and of each stratum, one with
    the smallest score, and one with an exact zero. Where the sample has nothing of the kind they
    are added to it. Of more than ``limit`` rows, ``sample`` are kept; those of the smallest hash
    are, even if they are more.
    """

    name = "kept"

    def __init__(self, n_classes: int, kind: str, limit: int, sample: int | None = None) -> None:
        if limit < 1 or n_classes < 2:
            raise ValueError(f"{limit} rows of {n_classes} classes cannot be kept")
        self.n_classes, self.kind, self.limit = n_classes, kind, limit
        self.sample = limit if sample is None else min(sample, limit)
        most = limit // (2 * ROWS_OF_STRATUM)  # bins, if there were no columns
        self._by_column = n_classes == 2 or most >= FEWEST_BINS * n_classes
        n_columns = n_classes if self._by_column else 1
        self._n_bins = min(max(most // n_columns, FEWEST_BINS), MOST_BINS)
        self._totals = np.zeros(2 * self._n_bins * n_columns)  # weight of all rows by stratum
        self._bound = UNBOUNDED  # rows with this hash, or a larger one, are not kept
        nothing = np.empty((0, n_classes)), np.empty(0, dtype=np.intp), np.empty(0)
        self._rows = self._witnesses = self._extremes = _Rows.of(*nothing)
        sizes = len(self._totals), n_classes
        self._firsts = [np.full(size, np.uint64(UNBOUNDED - 1)) for size in sizes]  # hashes
        self._waiting: list[_Rows] = []  # a merge costs as much as the rows that are kept
        self._n_waiting = 0

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
        names = "n_classes", "kind", "limit", "sample"
        return {name: getattr(self, name) for name in names}

    def add(self, batch: SimplexBatch) -> None:
        """Take the rows of a batch."""
        rows = _Rows.of(batch.scores, batch.class_index, batch.weight)
        strata = self._strata(rows)
        self._totals += np.bincount(strata, rows.weight, minlength=len(self._totals))
        self._remember(rows, strata)
        if batch.n_rows > self.limit:
            hashes = np.sort(rows.hashes)
            different = hashes[np.append(True, hashes[1:] != hashes[:-1])]  # np.unique is slower
            if len(different) > self.limit:
                self._lower(int(different[self.sample]))
        self._take(rows)

    def merge(self, other: KeptRows) -> None:
        """Take the rows that another one kept."""
        other._settle()
        self._totals += other._totals
        self._remember(other._witnesses, self._strata(other._witnesses))
        self._lower(other._bound)
        self._take(other._rows)

    def _strata(self, rows: _Rows) -> NDArray[np.int64]:
        found = np.empty(len(rows.hashes), dtype=np.intp)
        how = self._n_bins, self._by_column
        row_strata(rows.scores, self.kind == "logits", rows.class_index, *how, found)
        return found

    def _remember(self, rows: _Rows, strata: NDArray[np.int64]) -> None:
        """Choose witnesses among these rows and those chosen before, whose weights are whole."""
        if len(strata) == 0:
            return
        for first, group in zip(self._firsts, (strata, rows.class_index), strict=True):
            np.minimum.at(first, group, rows.hashes)
        places = extreme_rows(rows.scores, self.kind == "logits", rows.hashes)
        both = _Rows.join([self._extremes, rows.take(sorted({i for i in places if i >= 0}))])
        places = extreme_rows(both.scores, self.kind == "logits", both.hashes)
        self._extremes = both.take(sorted({i for i in places if i >= 0}))
        found = rows.take(self._is_witness(rows, strata))  # mostly none of a few rows
        if len(found.hashes):
            found = found._replace(scores=found.scores + 0.0)
            found = _Rows.join([self._witnesses, found])
            self._witnesses = found.take(self._is_witness(found, self._strata(found)))

    def _is_witness(self, rows: _Rows, strata: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which rows are the first of their stratum or class, or have an extreme score."""
        found = np.isin(rows.hashes, self._extremes.hashes)
        for first, group in zip(self._firsts, (strata, rows.class_index), strict=True):
            found |= rows.hashes == first[group]
        return found

    def _take(self, rows: _Rows) -> None:
        near = np.flatnonzero(rows.hashes <= np.uint64(self._bound - 1))
        if len(near):
            rows = rows.take(near[np.argsort(rows.hashes[near])])  # a copy of the caller's
            np.add(rows.scores, 0.0, out=rows.scores)  # no -0.0
            self._waiting.append(rows)
            self._n_waiting += len(near)
        if self._n_waiting >= max(self.limit, FEWEST_ROWS):
            self._settle()

    def _settle(self) -> None:
        """Merge what was taken since the last time."""
        if not self._waiting:
            return
        self._rows = _Rows.join([self._rows, *self._waiting])
        self._waiting, self._n_waiting = [], 0
        hashes = self._rows.hashes
        most = self.limit if self._bound == UNBOUNDED else self.sample
        if len(hashes) > most:
            bound = hashes[self.sample]
            if bound == hashes[0]:
                last = int(np.searchsorted(hashes, bound, side="right"))
                bound = hashes[last] if last < len(hashes) else None
            self._lower(UNBOUNDED if bound is None else int(bound))

    def _lower(self, bound: int) -> None:
        """Drop rows from this hash on."""
        if bound < self._bound:
            self._bound = bound
            self._rows, *self._waiting = (
                rows.take(rows.hashes < np.uint64(bound)) for rows in (self._rows, *self._waiting)
            )
            self._n_waiting = sum(len(rows.hashes) for rows in self._waiting)

    def scale(self, factor: float) -> None:
        """Multiply all weights; rows that are left without any are dropped."""
        self._settle()
        self._totals *= factor
        self._rows, others = (
            rows._replace(weight=rows.weight * factor) for rows in (self._rows, self._witnesses)
        )
        self._rows = self._rows.take(self._rows.weight > 0.0)
        self._witnesses = others.take(others.weight > 0.0)
        if len(self._witnesses.hashes) < len(others.hashes):
            others, self._witnesses = self._witnesses, others.take([])
            self._extremes = self._witnesses
            for first in self._firsts:
                first[:] = UNBOUNDED - 1
            self._remember(others, self._strata(others))

    def batch(self, classes: NDArray[Any]) -> SimplexBatch:
        """Return the rows as solvers take them: a sample has the weight of as many among all."""
        self._settle()
        rows = self._rows
        if self._bound < UNBOUNDED:
            share = self._bound / UNBOUNDED
            others = self._witnesses.take(self._witnesses.hashes >= np.uint64(self._bound))
            rows = _Rows.join([rows, others._replace(weight=others.weight * share)])
            strata = self._strata(rows)
            sums = np.bincount(strata, rows.weight, minlength=len(self._totals))
            rows = rows._replace(weight=rows.weight * share * self._totals[strata] / sums[strata])
        return SimplexBatch(rows.scores, self.kind, rows.class_index, rows.weight, classes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        self._settle()
        found: dict[str, NDArray[Any]] = {}
        for start, rows in (("", self._rows), ("other_", self._witnesses)):
            index = rows.class_index.astype(np.int64, copy=False)  # whatever machine reads it
            found |= {start + n: a for n, a in rows._replace(class_index=index)._asdict().items()}
        del found["hashes"], found["other_hashes"]
        bound = [self._bound] if self._bound < UNBOUNDED else []
        return found | {"bound": np.array(bound, dtype=np.uint64), "totals": self._totals}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        bound, totals = arrays["bound"], arrays["totals"]
        if bound.dtype != np.uint64 or bound.shape not in ((0,), (1,)):
            raise ValueError(f"a bound is {bound.dtype} of shape {bound.shape}")
        if totals.dtype != np.float64 or totals.shape != self._totals.shape:
            raise ValueError(f"totals are {totals.dtype} of shape {totals.shape}")
        rows, others = (self._checked(arrays, start) for start in ("", "other_"))
        if len(rows.hashes) > max(self.limit, self.n_classes):
            raise ValueError(f"{len(rows.hashes)} rows are kept")
        sums = np.bincount(self._strata(rows), rows.weight, minlength=len(totals))
        seen = np.bincount(self._strata(others), minlength=len(totals)) > 0
        is_whole = np.isfinite(totals) & (totals >= sums * (1 - 1e-9)) & (seen <= (totals > 0.0))
        if not is_whole.all():
            raise ValueError("totals are not those of rows")
        self._totals, self._bound = totals, int(bound[0]) if len(bound) else UNBOUNDED
        self._remember(others, self._strata(others))
        self._take(rows)
        self._settle()

    def _checked(self, arrays: dict[str, NDArray[Any]], start: str) -> _Rows:
        names, types = ("scores", "class_index", "weight"), [np.float64, np.int64, np.float64]
        given = [arrays[start + name] for name in names]
        n_rows = len(given[1])
        if [array.dtype for array in given] != types or given[0].shape != (n_rows, self.n_classes):
            raise ValueError(f"rows are of shape {given[0].shape}, or of other types")
        if n_rows == 0:
            return _Rows.of(*given)
        batch = check_batch(
            *given, kind=self.kind, classes=np.arange(self.n_classes), is_chunk=True
        )
        if batch.n_rows < n_rows:
            raise ValueError("a row has no weight")
        return _Rows.of(batch.scores, batch.class_index, batch.weight)
