"""``CellTable``: predictions of binary problems by value, all of them while they fit, then binned.

A key is a whole number in the order of the probabilities (``kernels/score_keys.pyx``). As soon as
there are more distinct ones than fit, all keys lose their last bit, as often as it takes: how often
depends on the data alone, so neither order nor chunks nor merges change the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.kernels.score_keys import (
    FRACTION,
    count_keys,
    count_lengths,
    key_scores,
    merge_cells,
    sort_few,
    sum_keys,
    take_keys,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes

KEY_BITS = 63
LIMB = FRACTION // 2
FEW = 32
"""Cells of a problem that are sorted by insertion."""


class Cells(NamedTuple):
    """Cells in the order of (problem, key); keys without their last ``shift`` bits.

    Sums of each are weight, labels and values, all weighted: ``high + low / 2**52``, exactly.
    """

    shift: int
    problem: Wholes
    key: NDArray[np.uint64]
    high: Wholes
    low: Wholes

    @classmethod
    def zeros(cls, n_cells: int, shift: int = 0) -> Cells:
        """Return place for cells."""
        high, low = np.zeros((2, n_cells, 3), dtype=np.int64)
        key = np.zeros(n_cells, dtype=np.uint64)
        return cls(shift, np.zeros(n_cells, dtype=np.int64), key, high, low)

    def first(self, n_cells: int) -> Cells:
        """Return the first cells, and do not keep place for the others."""
        if n_cells == len(self.key):
            return self
        parts: Any = (part[:n_cells].copy() for part in self[1:])
        return Cells(self.shift, *parts)

    def merged(self, other: Cells, shift: int) -> Cells:
        """Return the cells of both, with keys that lost so many bits."""
        found = Cells.zeros(len(self.key) + len(other.key), shift)
        lost = shift - self.shift, shift - other.shift
        return found.first(merge_cells(*self[1:], lost[0], *other[1:], lost[1], *found[1:]))

    def sums(self) -> Floats:
        """Return the doubles next to the sums."""
        doubles: Floats = self.high + self.low / 2.0**FRACTION
        return doubles

    def edges(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest value that a cell may hold."""
        one, shift = np.uint64(1), np.uint64(self.shift)
        return scores_of(self.key << shift), scores_of(((self.key + one) << shift) - one)


def scores_of(keys: NDArray[np.uint64]) -> Floats:
    """Return the probabilities of whole keys."""
    values = np.empty(len(keys))
    key_scores(np.ascontiguousarray(keys), values)
    return values


def collect(
    rows: Floats,
    class_index: Wholes,
    weight: Floats,
    group: Wholes,
    n_groups: int,
    threshold: float,
    table: CellTable,
) -> Cells:
    """Return the cells at or above ``threshold``; class j of group g is problem g * k + j.

    Keys lose at least as many bits as those of the ``table`` that they are for.
    """
    counts = np.zeros((n_groups, rows.shape[1]), dtype=np.int64)
    count_keys(rows, group, threshold, counts)
    starts = np.append(0, np.cumsum(counts))
    keys = np.empty(starts[-1], dtype=np.uint64)
    row_of = np.empty(starts[-1], dtype=np.int32)
    place = starts[:-1].reshape(counts.shape).copy()
    take_keys(rows, class_index, group, threshold, place, keys, row_of)
    _sort(keys, row_of, starts, bool(np.all(weight == weight[0])))
    n, shift = len(keys), table.shift
    if n > table.limit:
        problem = np.repeat(np.arange(counts.size), counts.ravel())
        n, shift = _fit(keys, problem, table.limit, shift, gone=-1)
    cells = Cells.zeros(n, shift)
    return cells.first(sum_keys(keys, starts, row_of, weight, shift, *cells[1:]))


def _fit(
    keys: NDArray[np.uint64], problem: Wholes, limit: int, shift: int, gone: int
) -> tuple[int, int]:
    """Return how many keys are distinct at the first shift that leaves few enough, and the shift.

    The keys have lost ``gone`` bits already. At the last shift problems alone are told apart.
    """
    counts = np.zeros(KEY_BITS + 2, dtype=np.int64)
    count_lengths(keys, problem, counts)
    distinct = len(keys) - np.cumsum(counts)[np.arange(shift, KEY_BITS) - gone]
    more = min(int(np.count_nonzero(distinct > limit)), len(distinct) - 1)
    return int(distinct[more]), shift + more


def _sort(
    keys: NDArray[np.uint64],
    row_of: NDArray[np.int32],
    starts: Wholes,
    has_equal_weights: bool,
) -> None:
    """Sort the cells of each problem by their keys, in place."""
    sort_few(keys, row_of, starts, FEW)
    for c in np.flatnonzero(np.diff(starts) > FEW):
        own = slice(starts[c], starts[c + 1])
        if has_equal_weights:  # any row will do
            keys[own].sort()
        else:
            order = np.argsort(keys[own])
            keys[own], row_of[own] = keys[own][order], row_of[own][order]


class CellTable:
    """Cells of several problems, at most ``limit`` of them.

    Parameters
    ----------
    n_problems : int
    limit : int
        Most cells that are kept.
    """

    def __init__(self, n_problems: int, limit: int) -> None:
        self.n_problems, self.limit = n_problems, limit
        self._cells = Cells.zeros(0)
        self._waiting: list[Cells] = []

    @property
    def shift(self) -> int:
        """Bits that keys have lost so far."""
        return self._cells.shift

    @property
    def cells(self) -> Cells:
        """All of them."""
        self._settle()
        return self._cells

    def take(self, cells: Cells) -> None:
        """Add cells."""
        self._waiting.append(cells)
        if sum(len(found.key) for found in self._waiting) >= self.limit:
            self._settle()

    def merge(self, other: CellTable) -> None:
        """Add the cells of another."""
        self.take(other.cells)

    def _settle(self) -> None:
        """Merge what was taken since the last time, two at a time."""
        taken = [self._cells, *self._waiting]
        self._waiting = []
        while len(taken) > 1:
            pairs = zip(taken[::2], taken[1::2], strict=False)
            merged = [self._merged(one, other) for one, other in pairs]
            taken = merged + taken[2 * len(merged) :]
        self._cells = taken[0]

    def _merged(self, one: Cells, other: Cells) -> Cells:
        found = one.merged(other, max(one.shift, other.shift))
        if len(found.key) > self.limit:
            gone = found.shift
            _, shift = _fit(found.key, found.problem, self.limit, gone, gone)
            found = found.merged(Cells.zeros(0, shift), shift)
        return found

    def scale(self, factor: float) -> None:
        """Multiply all weights; cells that are left without any are dropped."""
        shift, problem, key, high, low = self.cells
        exact = high * factor
        whole = np.floor(exact)
        rest = np.rint((exact - whole) * 2.0**FRACTION + low * factor).astype(np.int64)
        high, low = whole.astype(np.int64) + (rest >> FRACTION), rest & ((1 << FRACTION) - 1)
        left = (high[:, 0] > 0) | (low[:, 0] > 0)
        self._cells = Cells(shift, *(part[left] for part in (problem, key, high, low)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        return {name: np.atleast_1d(part) for name, part in self.cells._asdict().items()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned; it may come from a stranger's file."""
        found = [arrays[name] for name in ("problem", "key", "high", "low")]
        problem, key, high, low = found
        n, types = len(problem), ["int64", "uint64", "int64", "int64"]
        shapes = [part.shape for part in found]
        if shapes != [(n,), (n,), (n, 3), (n, 3)] or n > self.limit:
            raise ValueError(f"cells of shapes {shapes}")
        if [part.dtype.name for part in found] != types or arrays["shift"].dtype != np.int64:
            raise ValueError("cells of other types")
        shift = int(arrays["shift"].item())
        if shift not in range(KEY_BITS) or np.any(key >> np.uint64(KEY_BITS - shift)):
            raise ValueError("keys that no prediction has")
        if np.any((problem < 0) | (problem >= self.n_problems)) or np.any(high < 0):
            raise ValueError("cells of other problems, or negative ones")
        if np.any(low >> FRACTION):
            raise ValueError("sums that no rows have")
        same = problem[1:] == problem[:-1]
        if np.any(problem[1:] < problem[:-1]) or np.any(key[1:][same] <= key[:-1][same]):
            raise ValueError("cells that are not in order")
        self._cells = Cells(shift, *map(np.ascontiguousarray, found))
