"""``ScoreTable``: sums by (problem, score) of binary problems, on a grid as fine as there is room.

While the distinct scores of all problems fit, each has a cell of its own, and nothing is lost but
the order of rows. Then all cells are made larger, by one bit of the keys of scores after the other,
until they fit; how many bits that takes depends on the scores alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

import calibrant._kernels.score_table as kernels
from calibrant._kernels.tables import LARGEST_KEY, score_of_key
from calibrant._solvers.sorted_cumulative.fit import accumulate
from calibrant.scale._parts import Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]

WEIGHT, LABELS = 0, 1
POINTS = 1 << 20
"""Points that are sorted at once."""


class ScoreCells(NamedTuple):
    """Cells in the order of (problem, key); problem c has ``offsets[c]`` to ``offsets[c + 1]``.

    ``key`` is that of the least score in the cell (of the least one with a label, where the table
    asks for that and there is one), ``sums`` are those of weights and of labels, ``is_single``
    says whether all points of a cell have one score.
    """

    offsets: Wholes
    key: Wholes
    sums: Array
    is_single: NDArray[np.uint8]

    @classmethod
    def room(cls, n_problems: int, n_cells: int, n_sums: int = 2) -> ScoreCells:
        """Return cells to be written; never none, since kernels point to the first."""
        n = max(n_cells, 1)
        offsets = np.zeros(n_problems + 1, dtype=np.int64)
        return cls(offsets, np.empty(n, np.int64), np.empty((n, n_sums)), np.empty(n, np.uint8))

    def filled(self) -> ScoreCells:
        """Return the cells that were written; the rest of the room is given back."""
        n = int(self.offsets[-1])
        for array in self[1:]:
            array.resize((n, *array.shape[1:]), refcheck=False)
        return self

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(self.offsets[-1])

    @property
    def scores(self) -> Array:
        """Score of each key."""
        return score_of_key(self.key)


class ScoreTable(Part):
    """Weights of all points of some binary problems, and of their labels, in ``limit`` cells.

    One problem: all cells of a row are points of "does it hold the label?" (FIR). ``cumulative``:
    the sum of the r largest cells is a point of problem r, "is the label among them?" (SCIR); sums
    of more cells than there are problems are points of the last.
    """

    name = "scores"
    n_sums: ClassVar[int] = 2
    """Sums of a cell: weight and labels, and others where a metric asks for them."""

    def __init__(self, n_problems: int, limit: int, cumulative: bool = False) -> None:
        if not (isinstance(n_problems, int) and isinstance(limit, int) and n_problems >= 1):
            raise ValueError(f"{limit!r} cells for {n_problems!r} problems")
        if limit < n_problems or not isinstance(cumulative, bool):
            raise ValueError(f"{limit} cells for {n_problems} problems")
        self.n_problems, self.limit, self.cumulative = n_problems, limit, cumulative
        self.shift = 0  # last bits of a key that are left out
        self._runs: list[ScoreCells] = []  # of sizes that fall by half: small chunks cost little

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {
            "n_problems": self.n_problems,
            "limit": self.limit,
            "cumulative": self.cumulative,
        }

    def add(self, batch: SimplexBatch) -> None:
        """Count the points of the rows of a batch."""
        step, points = max(1, POINTS // batch.n_classes), self._sums if self.cumulative else _cells
        for start in range(0, batch.n_rows, step):
            self.add_points(*points(batch.take(slice(start, start + step))))

    def add_points(self, scores: Array, terms: Array, starts: Wholes) -> None:
        """Count points, those of problem c from ``starts[c]`` on, with their terms of the sums."""
        self._take(self._count(scores, terms, starts))

    def _sums(self, batch: SimplexBatch) -> tuple[Array, Array, Wholes]:
        """Sum up the largest cells of each row, rank by rank; tied labels come in equal steps."""
        rows, n_ranks = accumulate(batch), batch.n_classes - 1
        rank = np.arange(1, n_ranks + 1)[:, None]
        terms = np.empty((n_ranks, batch.n_rows, 2))
        terms[..., WEIGHT] = rows.weight
        inside = np.clip((rank - rows.first + 1) / (rows.last - rows.first + 1), 0.0, 1.0)
        np.multiply(inside, rows.weight, out=terms[..., LABELS])
        scores = np.ascontiguousarray(rows.cumulative[:, :n_ranks].T).ravel()
        starts = batch.n_rows * np.append(np.arange(self.n_problems), n_ranks)
        return scores, terms.reshape(-1, 2), starts

    def _count(self, scores: Array, terms: Array, starts: Wholes) -> ScoreCells:
        found = ScoreCells.room(self.n_problems, len(scores), self.n_sums)
        most = int(np.diff(starts).max())
        keys, origin = np.empty((2, most), dtype=np.int64), np.empty((2, most), dtype=np.uint32)
        settings = starts.astype(np.int64, copy=False), self.shift, not self.cumulative
        kernels.count_points(scores, terms, *settings, keys, origin, found.offsets, found[1:])
        return found.filled()

    def merge(self, other: ScoreTable) -> None:
        """Add the points that another one has counted."""
        self._coarsen(other.shift)
        for run in other._runs:
            self._take(run if other.shift == self.shift else self._joined(run, None))

    def _take(self, run: ScoreCells) -> None:
        if run.size:
            self._runs.append(run)
            self._fit(run)
        while len(self._runs) > 1 and (
            2 * self._runs[-1].size > self._runs[-2].size
            or sum(each.size for each in self._runs) > 1.5 * self.limit
        ):
            self._join_last()

    def cells(self) -> ScoreCells:
        """Return all that was counted."""
        while len(self._runs) > 1:
            self._join_last()
        nothing = ScoreCells.room(self.n_problems, 0, self.n_sums)
        return self._runs[0] if self._runs else nothing.filled()

    def _join_last(self) -> None:
        other = self._runs.pop()
        self._runs[-1] = self._joined(self._runs[-1], other)
        self._fit(self._runs[-1])

    def _joined(self, run: ScoreCells, other: ScoreCells | None) -> ScoreCells:
        """Cells of both, of the size that cells have now."""
        room = ScoreCells.room
        others = room(self.n_problems, 0, self.n_sums) if other is None else other
        found = room(self.n_problems, run.size + others.size, self.n_sums)
        about = run.offsets, run[1:], others.offsets, others[1:], self.shift, not self.cumulative
        kernels.merge_cells(*about, found.offsets, found[1:])
        return found.filled()

    def _fit(self, run: ScoreCells) -> None:
        """Leave out as few bits as it takes for these cells to be no more than the limit."""
        if run.size > self.limit:
            counts = np.zeros(65, dtype=np.int64)
            kernels.count_gaps(run.offsets, run.key, counts)
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
        offsets, key, sums, is_single = self.cells()
        sums = sums * factor
        left = sums[:, WEIGHT] > 0.0
        offsets = np.append(0, np.cumsum(left, dtype=np.int64))[offsets]
        self._runs = []
        self._take(ScoreCells(offsets, key[left], sums[left], is_single[left]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        found = self.cells()._asdict()  # which may leave out more bits
        return {"shift": np.array([self.shift], dtype=np.int64)} | found

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        cells = ScoreCells(*(np.ascontiguousarray(arrays[name]) for name in ScoreCells._fields))
        self._check(arrays["shift"], cells)
        self.shift, self._runs = int(arrays["shift"][0]), []
        self._take(cells)

    def _check(self, shift: NDArray[Any], cells: ScoreCells) -> None:
        """Refuse cells that no rows have."""
        offsets, key, sums, is_single = cells
        n = len(key)
        shapes = [array.shape for array in (shift, *cells)]
        if shapes != [(1,), (self.n_problems + 1,), (n,), (n, self.n_sums), (n,)] or n > self.limit:
            raise ValueError(f"{n} cells of {len(offsets) - 1} problems, in arrays of {shapes}")
        types = [array.dtype.name for array in (shift, *cells)]
        if types != ["int64", "int64", "int64", "float64", "uint8"] or not 0 <= shift[0] < 64:
            raise ValueError(f"cells have arrays of {types}, and leave out {shift} bits")
        if offsets[0] != 0 or offsets[-1] != n or np.any(offsets[1:] < offsets[:-1]):
            raise ValueError("cells are not in the order of problems")
        later = np.ones(n + 1, dtype=bool)
        later[offsets] = False  # every cell but the first of its problem
        if np.any((key < 0) | (key > LARGEST_KEY)) or not np.all(
            np.diff(key >> shift[0])[later[1:n]] > 0
        ):
            raise ValueError("cells of a problem do not increase within [0, 1]")
        weight, labels = sums.T[:2]
        if not np.all((labels >= 0) & (labels <= weight) & (weight > 0) & (weight < 2.0**62)):
            raise ValueError("weights are not positive, or below those of their labels")
        if np.any(is_single > 1) or (shift[0] == 0 and not np.all(is_single)):
            raise ValueError("cells do not have exactly one score")


def _cells(batch: SimplexBatch) -> tuple[Array, Array, Wholes]:
    """All cells of all rows as points of one problem."""
    probabilities, weight = batch.probabilities(), batch.weight
    terms = np.zeros((batch.n_rows, batch.n_classes, 2))
    terms[..., WEIGHT] = weight[:, None]
    terms[np.arange(batch.n_rows), batch.class_index, LABELS] = weight
    return probabilities.ravel(), terms.reshape(-1, 2), np.array([0, probabilities.size])
