"""Metrics of predictions in their order: what is added up is weight and labels by distinct value.

In memory cells are sorted exactly; of chunks a table counts them by (problem, score key), all of
them while they fit, and then those that agree in their leading bits together.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from calibrant import _threads as threads
from calibrant._kernels.metrics import HIT, VALUE, WEIGHT, count_above, take_cells
from calibrant._kernels.tables import LARGEST_KEY, score_of_key
from calibrant.metrics._measures import Body, EventRows
from calibrant.scale._score_table import ScoreTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._measures import Chunk
    from calibrant.metrics._predictions import Predictions
    from calibrant.scale._score_table import ScoreCells

MOST_CELLS_KEPT = 1 << 19
"""Cells of all rows in chunks: 32 MiB."""

MOST_GROUP_CELLS, CLASS_GROUP_CELLS = 1 << 16, 8
"""Cells of all groups that are kept, and of a class in a group, where that is more."""

ON_EDGE = 1e-9
"""A midpoint this close to the edge of a bin, in bins, is on it: the rest is rounding."""


class SortedCells(NamedTuple):
    """Distinct predictions of binary problems: those of the first come first, each increasing.

    A problem begins at each of ``starts``; ``sums`` (3, cell) are the weight, the weight of rows
    whose event happened, and value times weight.
    """

    starts: Wholes
    sums: Floats

    @classmethod
    def of_rows(
        cls, starts: Wholes, values: Floats, mass: Wholes | None, hits: NDArray[np.bool_]
    ) -> tuple[SortedCells, Floats]:
        """Return cells and values of rows that are sorted within each problem; masses are whole."""
        of_hits: Any = hits if mass is None else mass * hits
        weight: Any = 1.0 if mass is None else mass
        is_first = np.empty(len(values), dtype=np.bool_)
        np.not_equal(values[1:], values[:-1], out=is_first[1:])
        is_first[starts] = True
        if not is_first.all():
            first = np.flatnonzero(is_first)
            of_hits = np.add.reduceat(of_hits, first, dtype=np.int64)
            ends = np.append(first[1:], len(values))
            weight = ends - first if mass is None else np.add.reduceat(mass, first)
            starts, values = np.searchsorted(first, starts), values[first]
        sums = np.empty((3, len(values)))
        sums[WEIGHT], sums[HIT] = weight, of_hits
        np.multiply(sums[WEIGHT], values, out=sums[VALUE])
        return cls(starts, sums), values

    def edges(self, n_bins: int) -> Wholes:
        """Where each bin of equal mass of each problem begins; equal values are never split."""
        weight, last = self.sums[WEIGHT], np.append(self.starts[1:], self.sums.shape[1])
        total = np.maximum(np.add.reduceat(weight, self.starts), 1e-300)
        share = weight / (total if len(total) == 1 else np.repeat(total, last - self.starts))
        ends = np.cumsum(share)
        offset = ends[self.starts] - share[self.starts]
        place = (np.arange(n_bins) - ON_EDGE) / n_bins
        share *= -0.5
        share += ends  # the midpoints
        found = np.searchsorted(share, offset[:, None] + place)
        found[:, 0] = self.starts
        edges: Wholes = np.clip(found, self.starts[:, None], last[:, None])
        return edges

    def bin_sums(self, n_bins: int) -> Floats:
        """Weight, hits and values, all weighted, of (problem, bin of equal mass)."""
        edges = self.edges(n_bins)
        begin = edges.ravel()
        size = np.diff(np.append(begin, self.sums.shape[1]))
        found = np.zeros((3, len(begin)))
        found[:, size > 0] = np.add.reduceat(self.sums, begin[size > 0], axis=1)
        return np.moveaxis(found.reshape(3, *edges.shape), 0, -1)


class CellMeasure(Body):
    """A metric of predictions in order: of all classes, or of a ``column`` or the confidence."""

    def __init__(
        self, n_problems: int = 1, column: int | None = None, threshold: float = 0.0
    ) -> None:
        self.n_problems, self.column, self.threshold = n_problems, column, threshold

    def start(self, n_groups: int = 1, predictions: Predictions | None = None) -> CellState:
        return CellState(self, n_groups, predictions)

    @abstractmethod
    def value(self, parts: Iterable[SortedCells]) -> float:
        """Return the metric of the cells of all problems, some of them at a time."""


class PredictionTable(ScoreTable):
    """Weight, labels and values, all weighted, by (problem, score key)."""

    name = "predictions"
    n_sums = 3

    def _check(self, shift: NDArray[Any], cells: ScoreCells) -> None:
        super()._check(shift, cells)
        weight, _, values = cells.sums.T
        if not np.all((values >= 0.0) & (values <= weight * (1.0 + 1e-9))):
            raise ValueError("values are not those of predictions")

    def add_chunk(self, chunk: Chunk, body: CellMeasure) -> None:
        """Count the cells that a measure asks for; problem j of group g has number g * n + j."""
        counts = np.zeros((self.n_problems // body.n_problems, body.n_problems), dtype=np.int64)
        scores, terms = [], []
        for group, own in chunk.groups(len(counts)):
            if body.n_problems == 1:
                values, hits, weight = own.events(body.column)
                counts[group] = len(values)
            else:
                values, hits, weight = _cells_from(own, body.threshold, counts[group])
            scores.append(values)
            weight = weight * own.unit
            terms.append(np.column_stack([weight, weight * hits, weight * values]))
        starts = np.append(0, np.cumsum(counts))
        self.add_points(np.concatenate(scores), np.concatenate(terms), starts)


def _cells_from(chunk: Chunk, threshold: float, counts: Wholes) -> EventRows:
    """Cells at or above a threshold, class after class, and how many there are into ``counts``."""
    count_above(chunk.rows, threshold, counts)
    ends = np.cumsum(counts)
    values, row_of = np.empty(ends[-1]), np.empty(ends[-1], dtype=np.int64)
    take_cells(chunk.rows, 0, threshold, 0, ends - counts, values, row_of)
    column = np.repeat(np.arange(len(counts)), counts.astype(np.intp, copy=False))
    hits = chunk.class_index[row_of] == column
    return EventRows(values, hits, chunk.weight[row_of])


class CellState:
    """Cells of a ``CellMeasure``, as ``SummedState`` has sums; of groups in a coarser table."""

    name: str

    def __init__(
        self, body: CellMeasure, n_groups: int, predictions: Predictions | None = None
    ) -> None:
        self.body, self.n_groups, self._predictions = body, n_groups, predictions
        self.needs_chunks = predictions is None or n_groups > 1
        self.tables: dict[str, PredictionTable] = {}
        if predictions is None:
            limit = max(MOST_CELLS_KEPT, body.n_problems)
            self.tables["all_"] = PredictionTable(body.n_problems, limit)
        if n_groups > 1:
            n_problems = n_groups * body.n_problems
            limit = max(MOST_GROUP_CELLS, CLASS_GROUP_CELLS * n_problems)
            self.tables["group_"] = PredictionTable(n_problems, limit)

    def empty(self) -> CellState:
        return CellState(self.body, self.n_groups)

    def settle(self) -> None:
        """Do nothing: cells are counted as they are added."""

    def add(self, chunk: Chunk) -> None:
        for table in self.tables.values():
            table.add_chunk(chunk, self.body)

    def merge(self, other: Self) -> None:
        for name, table in self.tables.items():
            table.merge(other.tables[name])

    def scale(self, factor: float) -> None:
        for table in self.tables.values():
            table.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            f"{start}{name}": array
            for start, table in self.tables.items()
            for name, array in table.arrays().items()
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        for start, table in self.tables.items():
            table.restore({name: arrays[f"{start}{name}"] for name in table.arrays()})

    def value(self) -> float:
        if self._predictions is not None:
            return self.body.value(self._predictions.sorted_cells(self.body))
        cells = self.tables["all_"].cells()
        sums = cells.sums.T.copy()
        is_single = cells.is_single == 1  # the key tells the value, without rounding
        sums[VALUE, is_single] = sums[WEIGHT, is_single] * cells.scores[is_single]
        starts = cells.offsets[:-1][np.diff(cells.offsets) > 0].astype(np.intp, copy=False)
        return self.body.value([SortedCells(starts, sums)])

    def replicates(self, draws: Wholes) -> Floats:
        """Return the metric of rows drawn by group, as it differs from that of all on the table."""
        table = self.tables["group_"]
        cells = table.cells()
        sizes = np.diff(cells.offsets).astype(np.intp, copy=False)
        problem = np.repeat(np.arange(table.n_problems), sizes)
        group, column = np.divmod(problem, self.body.n_problems)
        key = cells.key >> table.shift
        order = np.lexsort((key, column))
        group, column, key = group[order], column[order], key[order]
        fresh = np.append(True, (column[1:] != column[:-1]) | (key[1:] != key[:-1]))
        first, parts = np.flatnonzero(fresh), cells.sums[order].T.copy()
        of_class = column[first]
        starts = np.flatnonzero(np.append(True, of_class[1:] != of_class[:-1]))

        def metric(counts: Wholes) -> float:
            sums = parts * counts.astype(np.float64)[group]
            if len(first) < len(group):
                sums = np.add.reduceat(sums, first, axis=1)
            return self.body.value([SortedCells(starts, sums)])

        as_they_are = metric(np.ones(self.n_groups, dtype=np.int64))
        return self.value() - as_they_are + np.array(list(threads.each(metric, list(draws))))

    def binning_error(self) -> float:
        """Return the most by which the binning of values changed an L1 error in bins.

        Only values that share a cell may be in other bins than they would be by themselves, and
        only if the edge of a bin lies within it. Of one that moves, a label takes 1 - p from one
        gap to another, and what is none takes p.
        """
        if "all_" not in self.tables or (table := self.tables["all_"]).shift == 0:
            return 0.0
        cells, n_bins = table.cells(), getattr(self.body, "n_bins", 1)
        weight, hits, _ = cells.sums.T
        first_key = cells.key >> table.shift << table.shift
        last_key = np.minimum(first_key + ((1 << table.shift) - 1), LARGEST_KEY)
        low, high = score_of_key(first_key), score_of_key(last_key)
        may_move = hits * (1.0 - low) + (weight - hits) * high
        bounds = []
        for start, end in pairwise(cells.offsets):
            if end > start:
                own = slice(start, end)
                below, total = np.cumsum(weight[own]), math.fsum(weight[own])
                first = np.floor(n_bins * (below - weight[own]) / total)
                last = np.ceil(n_bins * below / total) - 1.0
                bounds.append(2.0 * math.fsum(may_move[own][last > first]) / total)
        return math.fsum(bounds) / len(bounds)
