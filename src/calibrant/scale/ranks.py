"""``RankGrid``: sorted cumulative points on a grid that is as fine as there is room for.

Every row gives a point (q, r) for r = 1 .. k - 1: q is the sum of its r largest probabilities, and
its label whether the true class is among them. While the distinct points fit, each has a cell of
its own. Then all cells are made larger, by one bit of the code of q after the other, until they
fit; how many bits that takes depends on the set of points alone, so neither order nor merges
change a bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import calibrant.kernels.rank_grid as kernels
from calibrant.scale.exact import BITS, Sums, split
from calibrant.scale.parts import Part
from calibrant.solvers.sorted_cumulative.fit import accumulate
from calibrant.solvers.sorted_cumulative.grid import TOP, Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

FEWEST, MOST = 1 << 19, 3 << 20
"""Cells of a grid, at least and at most; a cell takes 33 bytes."""

PER_RANK = 1 << 14
"""Cells for each rank, between these."""

POINTS = 1 << 20
"""Points that are sorted at once."""

LARGEST_SUM = 2.0**62
"""Of all weights: whole numbers of 64 bits hold it."""

DTYPES = np.int64, np.int64, np.uint32, np.int64, np.uint32, np.uint8


def usual_cells(n_ranks: int) -> int:
    """Return how many cells a grid has."""
    return max(min(max(PER_RANK * n_ranks, FEWEST), MOST), n_ranks)


class Cells(NamedTuple):
    """Cells in the order of ranks and then of codes; see ``kernels.rank_grid``."""

    code: NDArray[np.int64]  # of the least q in the cell
    weight: NDArray[np.int64]
    weight_rest: NDArray[np.uint32]  # in 2**-32
    labels: NDArray[np.int64]
    labels_rest: NDArray[np.uint32]
    is_single: NDArray[np.uint8]  # whether all points of the cell have this q

    @classmethod
    def room(cls, n: int) -> Cells:
        """Return cells to be written; never none, since kernels point to the first."""
        arrays: Any = (np.empty(max(n, 1), dtype) for dtype in DTYPES)
        return cls(*arrays)

    @property
    def sums(self) -> tuple[Sums, Sums]:
        """Weights, and labels."""
        arrays: tuple[Any, ...] = self
        return Sums.of(*arrays[1:3]), Sums.of(*arrays[3:5])


class Run(NamedTuple):
    """Cells of some of the rows; those of rank r are ``offsets[r - 1] .. offsets[r] - 1``."""

    offsets: NDArray[np.int64]
    cells: Cells

    @classmethod
    def filled(cls, offsets: NDArray[np.int64], room: Cells) -> Run:
        """Return the cells that were written; the rest of the room is given back."""
        for array in room:
            array.resize(int(offsets[-1]), refcheck=False)
        return cls(offsets, room)

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(self.offsets[-1])


class RankGrid(Part):
    """Weights of all sorted cumulative points, and of those with the label inside, in cells.

    Parameters
    ----------
    n_classes : int
    n_ranks : int
        Ranks from this one on are counted as one.
    limit : int
        Most cells.
    """

    name = "ranks"

    def __init__(self, n_classes: int, n_ranks: int, limit: int) -> None:
        if not 1 <= n_ranks < n_classes or limit < n_ranks:
            raise ValueError(f"{limit} cells for {n_ranks} ranks of {n_classes} classes")
        self.n_classes, self.n_ranks, self.limit = n_classes, n_ranks, limit
        self.shift = 0  # last bits of a code that are left out
        self._runs: list[Run] = []  # of sizes that fall by half: small chunks cost little

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_classes": self.n_classes, "n_ranks": self.n_ranks, "limit": self.limit}

    def add(self, batch: SimplexBatch) -> None:
        """Count the points of the rows of a batch."""
        step = max(1, POINTS // self.n_classes)
        for start in range(0, batch.n_rows, step):
            own: Any = slice(start, start + step)
            self._take(self._count(batch.take(own)))

    def _count(self, batch: SimplexBatch) -> Run:
        rows = accumulate(batch)
        whole, rest = split(rows.weight)
        n_pooled = self.n_classes - self.n_ranks
        room = Cells.room(batch.n_rows * (self.n_classes - 1))
        offsets = np.empty(self.n_ranks + 1, dtype=np.int64)
        kernels.count_points(
            rows.cumulative,
            rows.first,
            rows.last,
            (whole << BITS) + rest,
            self.shift,
            np.empty((2, batch.n_rows * n_pooled), dtype=np.int64),
            np.empty((2, batch.n_rows * n_pooled), dtype=np.uint32),
            offsets,
            room,
        )
        return Run.filled(offsets, room)

    def merge(self, other: RankGrid) -> None:
        """Add the points that another one has counted."""
        self._coarsen(other.shift)
        for run in other._runs:
            self._take(run if other.shift == self.shift else self._joined(run, None))

    def _take(self, run: Run) -> None:
        if run.size:
            self._runs.append(run)
            self._fit(run)
        while len(self._runs) > 1 and (
            2 * self._runs[-1].size > self._runs[-2].size
            or sum(each.size for each in self._runs) > 1.5 * self.limit
        ):
            self._join_last()

    def _settle(self) -> Run:
        """Merge all that was taken."""
        while len(self._runs) > 1:
            self._join_last()
        return self._runs[0] if self._runs else Run.filled(*self._nothing())

    def _nothing(self) -> tuple[NDArray[np.int64], Cells]:
        return np.zeros(self.n_ranks + 1, dtype=np.int64), Cells.room(0)

    def _join_last(self) -> None:
        other = self._runs.pop()
        self._runs[-1] = self._joined(self._runs[-1], other)
        self._fit(self._runs[-1])

    def _joined(self, run: Run, other: Run | None) -> Run:
        """Cells of both, of the size that cells have now."""
        others = self._nothing() if other is None else other
        room, offsets = Cells.room(run.size + int(others[0][-1])), np.empty_like(run.offsets)
        kernels.merge_cells(*run, *others, self.shift, offsets, room)
        return Run.filled(offsets, room)

    def _fit(self, run: Run) -> None:
        """Leave out as few bits as it takes for these cells to be no more than the limit."""
        if run.size > self.limit:
            counts = np.zeros(65, dtype=np.int64)
            kernels.count_gaps(run.offsets, run.cells.code, counts)
            left = run.size - np.cumsum(counts)  # cells, by the number of bits left out
            self._coarsen(int(np.argmax(left <= self.limit)))

    def _coarsen(self, shift: int) -> None:
        """Leave out more bits."""
        if shift > self.shift:
            self.shift = shift
            for i, run in enumerate(self._runs):
                self._runs[i] = self._joined(run, None)

    def scale(self, factor: float) -> None:
        """Multiply all weights; cells that are left without any are dropped."""
        offsets, cells = self._settle()
        weight, labels = cells.sums
        weight.scale(factor)
        labels.scale(factor)
        same = labels.high == weight.high
        more = (labels.high > weight.high) | (same & (labels.low > weight.low))  # by rounding
        inside = np.where(more, weight.parts(), labels.parts())
        left = (weight.high > 0) | (weight.low > 0)
        scaled = cells.code, *weight.parts(), *inside, cells.is_single
        kept: Any = (a[left].astype(t) for a, t in zip(scaled, DTYPES, strict=True))
        self._runs = []
        self._take(Run(np.append(0, np.cumsum(left))[offsets], Cells(*kept)))

    def grid(self) -> Grid:
        """Return the cells as solvers take them."""
        offsets, cells = self._settle()
        rank = np.repeat(np.arange(1, self.n_ranks + 1, dtype=np.int32), np.diff(offsets))
        weight, labels = (sums.values() for sums in cells.sums)
        single = cells.is_single.astype(bool)
        return Grid(rank, cells.code, labels, weight, single, self.shift, self.n_ranks)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        run = self._settle()
        return {"shift": np.array([self.shift]), "offsets": run.offsets} | run.cells._asdict()

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        offsets, shift = arrays["offsets"], arrays["shift"]
        cells = Cells(*(np.ascontiguousarray(arrays[name]) for name in Cells._fields))
        _check_cells(self, shift, offsets, cells)
        self.shift, self._runs = int(shift[0]), []
        self._take(Run(np.ascontiguousarray(offsets), cells))


def _check_cells(grid: RankGrid, shift: Any, offsets: Any, cells: Any) -> None:
    """Refuse cells that no rows have."""
    n = len(cells.code)
    alike = all(a.shape == (n,) and a.dtype == t for a, t in zip(cells, DTYPES, strict=True))
    if not alike or shift.shape != (1,) or shift.dtype != np.int64 or offsets.dtype != np.int64:
        raise ValueError("cells of ranks have arrays of other kinds or lengths")
    if not 0 <= shift[0] < 64 or n > grid.limit or offsets.shape != (grid.n_ranks + 1,):
        raise ValueError(f"{n} cells of {len(offsets) - 1} ranks, {shift[0]} bits wide")
    if offsets[0] != 0 or offsets[-1] != n or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("cells are not in the order of ranks")
    later = np.ones(n + 1, dtype=bool)
    later[offsets] = False  # every cell but the first of its rank
    rising = np.diff(cells.code >> shift[0])[later[1:n]] > 0
    if np.any((cells.code < 0) | (cells.code > TOP)) or not np.all(rising):
        raise ValueError("cells of a rank do not increase within [0, 1]")
    weight, labels = cells.weight, cells.labels
    more = (labels > weight) | ((labels == weight) & (cells.labels_rest > cells.weight_rest))
    if np.any((labels < 0) | more) or weight.astype(np.float64).sum() >= LARGEST_SUM:
        raise ValueError("labels are more than the weight of their cells, or too many")
    if np.any((weight == 0) & (cells.weight_rest == 0)):
        raise ValueError("cells hold nothing")
    if np.any(cells.is_single > 1) or (shift[0] == 0 and not np.all(cells.is_single)):
        raise ValueError("cells hold more than one q, or less")
