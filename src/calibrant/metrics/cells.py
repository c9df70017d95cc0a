"""Metrics of predictions in their order: what is added up is weight and labels by distinct value.

In memory cells are sorted exactly; of chunks a table counts them by (problem, score key), all of
them while they fit, and then those that agree in their leading bits together.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from calibrant.kernels.metrics import HIT, VALUE, WEIGHT
from calibrant.metrics.bins import check_bins, errors_in
from calibrant.metrics.cell_table import CellTable, collect, scores_of
from calibrant.metrics.measures import Body, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.cell_table import Cells
    from calibrant.metrics.chunk import Chunk
    from calibrant.metrics.predictions import Predictions

MOST_CELLS_KEPT = 1 << 19
"""Cells of all rows in chunks: 32 MiB."""

MOST_GROUP_CELLS, CLASS_GROUP_CELLS = 1 << 16, 8
"""Cells of all groups that are kept, and of a class in a group, where that is more."""

ON_EDGE = 1e-9
"""A midpoint this close to the edge of a bin, in bins, is on it: the rest is rounding."""


class SortedCells(NamedTuple):
    """Distinct predictions of binary problems: those of the first come first, each increasing.

    Attributes
    ----------
    starts : ndarray
        Where the cells of each problem begin.
    values, weight, hits : ndarray
        Prediction, weight of its rows, and weight of those whose event happened.
    """

    starts: Wholes
    values: Floats
    weight: Floats
    hits: Floats

    @classmethod
    def of_rows(cls, values: Floats, mass: Wholes | None, hits: NDArray[np.bool_]) -> SortedCells:
        """Return the cells of a problem's rows, sorted by value; whole masses add up exactly."""
        first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        if mass is None:
            mass = np.ones(len(values), dtype=np.int64)
        weight, of_hits = (np.add.reduceat(part, first) for part in (mass, mass * hits))
        return cls(np.zeros(1, dtype=np.int64), values[first], weight, of_hits)

    def bins(self, n_bins: int) -> tuple[Wholes, Wholes]:
        """Problem of each cell, and its bin of equal mass.

        Equal values are never split: the bin is that of the midpoint of their cumulative weight.
        """
        weight = self.weight
        sizes = np.diff(np.append(self.starts, len(weight)))
        problem = np.repeat(np.arange(len(self.starts)), sizes)
        ends = np.cumsum(weight)
        offset = (ends - weight)[self.starts]
        total = np.append(offset[1:], ends[-1]) - offset
        middle = ends - offset[problem] - 0.5 * weight
        place = n_bins * middle / np.maximum(total, 1e-300)[problem] + ON_EDGE
        return problem, np.clip(place.astype(np.int64), 0, n_bins - 1)

    def bin_sums(self, n_bins: int) -> Floats:
        """Weight, hits and values, all weighted, of (problem, bin of equal mass)."""
        problem, bins = self.bins(n_bins)
        cell, shape = bins + n_bins * problem, (len(self.starts), n_bins)
        found = np.empty((*shape, 3))
        parts = (self.weight, self.hits, self.weight * self.values)
        for column, part in zip((WEIGHT, HIT, VALUE), parts, strict=True):
            found[..., column] = np.bincount(cell, part, math.prod(shape)).reshape(shape)
        return found


class CellMeasure(Body):
    """A metric of predictions in their order: of classes above a threshold, or of one problem.

    Parameters
    ----------
    n_problems : int
        Number of classes, or 1.
    column : int or None
        Class of the one problem; None for the confidence.
    threshold : float
        From where cells are looked at.
    """

    def __init__(self, n_problems: int = 1, column: int | None = None, threshold: float = 0.0):
        self.n_problems, self.column, self.threshold = n_problems, column, threshold

    def start(self, n_groups: int = 1, unit: float = 1.0) -> CellState:  # noqa: ARG002
        """Return the state of no rows."""
        return CellState(self, n_groups)

    def in_memory(self, predictions: Predictions, n_groups: int) -> CellState:
        """Return the state of rows in memory, whose value is exact."""
        return CellState(self, n_groups, predictions)

    @abstractmethod
    def value(self, parts: Iterable[SortedCells]) -> float:
        """Return the metric of the cells of all problems, some of them at a time."""


class MassBins(CellMeasure):
    """Calibration error over bins of equal mass, mean over the problems that have cells."""

    name = "mass bins"

    def __init__(
        self,
        n_bins: int,
        norm: str = "l1",
        n_problems: int = 1,
        column: int | None = None,
        threshold: float = 0.0,
    ) -> None:
        check_bins(n_bins, norm)
        super().__init__(n_problems, column, threshold)
        self.n_bins, self._norm = int(n_bins), norm

    def settings(self) -> dict[str, Any]:
        """Return what makes an equal one."""
        own = {"n_bins": self.n_bins, "norm": self._norm, "n_problems": self.n_problems}
        return {**own, "column": self.column, "threshold": self.threshold}

    def value(self, parts: Iterable[SortedCells]) -> float:
        """Return the mean error over the problems that have rows."""
        errors: list[float] = []
        for cells in parts:
            sums = cells.bin_sums(self.n_bins)
            weight = sums[:, :, WEIGHT].sum(axis=1)
            present = weight > 0.0
            errors += errors_in(sums[present], weight[present], self._norm).tolist()
        return math.fsum(errors) / max(len(errors), 1)


class CellState(State):
    """Cells of a ``CellMeasure``, and those of groups, in a coarser table.

    Of rows in memory the cells themselves are not kept: ``value`` sorts those of the predictions.
    """

    def __init__(
        self, body: CellMeasure, n_groups: int, predictions: Predictions | None = None
    ) -> None:
        self.body, self.n_groups, self._predictions = body, n_groups, predictions
        self._table = CellTable(body.n_problems, MOST_CELLS_KEPT)
        n_problems = n_groups * body.n_problems
        limit = max(MOST_GROUP_CELLS, CLASS_GROUP_CELLS * n_problems)
        self._by_group = CellTable(n_problems, limit)
        self.needs_chunks = predictions is None or n_groups > 1

    def _tables(self) -> dict[str, CellTable]:
        found = {} if self._predictions is not None else {"": self._table}
        return found if self.n_groups == 1 else {**found, "group_": self._by_group}

    def add(self, chunk: Chunk) -> None:
        """Count the cells of a chunk."""
        rows, index, weight = chunk.rows, chunk.class_index, chunk.weight
        if self._predictions is None:  # in memory all weights have one unit
            weight = weight * chunk.unit
        if self.body.n_problems == 1:
            values, hits, _ = chunk.events(self.body.column)
            rows, index = values[:, None], np.where(hits, 0, 1)
        group = np.zeros(len(rows), dtype=np.int64)
        for table in self._tables().values():
            n_groups = table.n_problems // self.body.n_problems
            if n_groups > 1:
                group = chunk.group_of_rows(n_groups)
            table.take(collect(rows, index, weight, group, n_groups, self.body.threshold, table))

    def merge(self, other: Self) -> None:
        """Add the cells of another."""
        for own, others in zip(self._tables().values(), other._tables().values(), strict=True):
            own.merge(others)

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row added so far."""
        for table in self._tables().values():
            table.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the cells."""
        return {
            f"{start}{name}": array
            for start, table in self._tables().items()
            for name, array in table.arrays().items()
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        for start, table in self._tables().items():
            own = {name: arrays[f"{start}{name}"] for name in table.arrays()}
            table.restore(own)

    def value(self) -> float:
        """Return the metric of all rows added."""
        if self._predictions is not None:
            body = self.body
            return body.value(self._predictions.sorted_cells(body))
        return self.body.value([_sorted(self._table.cells)])

    def replicates(self, draws: Wholes) -> Floats:
        """Return the metric of rows drawn by group, as it differs from that of all on the table."""
        cells = self._by_group.cells
        group, column = np.divmod(cells.problem, self.body.n_problems)
        order = np.lexsort((cells.key, column))
        group, column, key = group[order], column[order], cells.key[order]
        fresh = np.append(True, (column[1:] != column[:-1]) | (key[1:] != key[:-1]))
        cell = np.cumsum(fresh) - 1
        weight, hits, values = (part[order] for part in sums_of(cells))
        starts = _starts(column[fresh])

        def metric(counts: Wholes) -> float:
            times = counts[group]
            n_cells = int(cell[-1]) + 1
            own = [np.bincount(cell, times * part, n_cells) for part in (weight, hits, values)]
            mean = np.divide(own[2], own[0], out=np.zeros(n_cells), where=own[0] > 0.0)
            return self.body.value([SortedCells(starts, mean, own[0], own[1])])

        as_they_are = metric(np.ones(self.n_groups, dtype=np.int64))
        return self.value() - as_they_are + np.array([metric(counts) for counts in draws])

    def binning_error(self) -> float:
        """Return the most by which the binning of values changed an L1 error in bins.

        Only values that share a cell may be in other bins than they would be by themselves, and
        only if the edge of a bin lies within it. Of one that moves, a label takes 1 - p from one
        gap to another, and what is none takes p.
        """
        cells = self._table.cells
        if cells.shift == 0 or self._predictions is not None:
            return 0.0
        weight, hits, _ = sums_of(cells)
        low, high = cells.edges()
        may_move = hits * (1.0 - low) + (weight - hits) * high
        n_bins = getattr(self.body, "n_bins", 1)
        bounds = []
        starts = _starts(cells.problem)
        for start, end in zip(starts, [*starts[1:], len(weight)], strict=True):
            own = slice(start, end)
            below, total = np.cumsum(weight[own]), math.fsum(weight[own])
            first = np.floor(n_bins * (below - weight[own]) / total)
            last = np.ceil(n_bins * below / total) - 1.0
            bounds.append(2.0 * math.fsum(may_move[own][last > first]) / total)
        return math.fsum(bounds) / len(bounds)


def _starts(problem: Wholes) -> Wholes:
    """Where the cells of each problem that has any begin."""
    return np.flatnonzero(np.append(True, problem[1:] != problem[:-1]))


def _sorted(cells: Cells) -> SortedCells:
    weight, hits, values = sums_of(cells)
    return SortedCells(_starts(cells.problem), values / weight, weight, hits)


def sums_of(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Return weight, labels and values of each cell; where keys are whole, values are exact."""
    sums = cells.sums()
    weight = sums[:, WEIGHT]
    values = weight * scores_of(cells.key) if cells.shift == 0 else sums[:, VALUE]
    return weight, sums[:, HIT], values
