"""Calibration errors over bins of equal mass, from tables of cells."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant.kernels.metrics import HIT, VALUE, WEIGHT
from calibrant.metrics.bins import check_bins, errors_in, threshold_of
from calibrant.metrics.cell_table import LIMB, CellTable, collect, scores_of
from calibrant.metrics.measures import Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.cell_table import Cells
    from calibrant.metrics.chunk import DealtRows

MOST_CELLS = 1 << 19
"""Cells that are kept: 32 MiB."""

GROUP_CELLS, A_GROUP = 1 << 16, 8
"""Cells of all groups that are kept, and of a class in a group, where that is more."""


class MassBins(Measure):
    """Calibration error of binary problems over bins of equal mass.

    Exact while all distinct (problem, value) fit; then of values that agree in their leading bits.
    """

    def __init__(self, n_problems: int, n_bins: int, norm: str = "l1") -> None:
        check_bins(n_bins, norm)
        self.n_bins, self._norm, self._n_problems = int(n_bins), norm, n_problems
        self._table = CellTable(n_problems, MOST_CELLS)

    def merge(self, other: Self) -> None:
        """Add the cells of another."""
        self._table.merge(other._table)

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        self._table.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the cells."""
        return self._table.arrays()

    def restore(self, arrays: dict[str, NDArray[Any]], n_groups: int) -> None:  # noqa: ARG002
        """Take what ``arrays`` returned; nothing of it is by group."""
        self._table.restore(arrays)

    def value(self) -> float:
        """Return the mean error over the problems that have cells."""
        in_bin = []
        cells = self._table.cells
        weight, hits, values = sums_of(cells)
        for own in problems(cells):
            bins = mass_bins(cells.high[own, WEIGHT], cells.low[own, WEIGHT], self.n_bins)
            ends = np.searchsorted(bins, np.arange(self.n_bins + 1))
            in_bin.append(
                [
                    [math.fsum(part[own][start:end]) for part in (weight, hits, values)]
                    for start, end in pairwise(ends)
                ]
            )
        sums = np.array(in_bin)
        errors = errors_in(sums, sums[:, :, WEIGHT].sum(axis=1), self._norm)
        return math.fsum(errors) / len(errors)

    def binning_error(self) -> float:
        """Return the most by which the binning of values changed the error, for norm "l1".

        Only values that share a cell may be in other bins than they would be by themselves, and
        only if the edge of a bin lies within it. Of one that moves, a label takes 1 - p from one
        gap to another, and what is none takes p.
        """
        cells = self._table.cells
        if cells.shift == 0:
            return 0.0
        weight, hits, _ = sums_of(cells)
        low, high = cells.edges()
        may_move = hits * (1.0 - low) + (weight - hits) * high
        bounds = []
        for own in problems(cells):
            end, total = np.cumsum(weight[own]), math.fsum(weight[own])
            first = np.floor(self.n_bins * (end - weight[own]) / total)
            last = np.ceil(self.n_bins * end / total) - 1.0
            bounds.append(2.0 * math.fsum(may_move[own][last > first]) / total)
        return math.fsum(bounds) / len(bounds)


class ProblemCells(MassBins):
    """Error of the confidence, or of the class of a ``column``."""

    name = "problem cells"

    def __init__(self, n_bins: int, norm: str = "l1", column: int | None = None) -> None:
        super().__init__(1, n_bins, norm)
        self._column = column

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_bins": self.n_bins, "norm": self._norm, "column": self._column}

    def add_rows(self, rows: DealtRows) -> None:
        """Count rows."""
        for chunk in rows.chunks:
            values, hits, own = chunk.problem(self._column)
            weight = own * chunk.unit
            column = np.where(hits, 0, 1)
            group = np.zeros(len(values), dtype=np.int64)
            given = values[:, None], column, weight, group
            self._table.take(collect(*given, 1, 0.0, self._table))

    def replicates(self, draws: Wholes) -> Floats:
        """Return nothing: groups are not told apart."""
        return np.full(len(draws), np.nan)


class ThresholdedCells(MassBins):
    """TECE; by groups, too, where there are any, in a table that is coarser."""

    name = "thresholded cells"

    def __init__(self, n_classes: int, n_bins: int, norm: str = "l1") -> None:
        super().__init__(n_classes, n_bins, norm)
        self._by_group: CellTable | None = None

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_classes": self._n_problems, "n_bins": self.n_bins, "norm": self._norm}

    def _groups(self, n_groups: int) -> CellTable:
        if self._by_group is None:
            n_problems = n_groups * self._n_problems
            self._by_group = CellTable(n_problems, max(GROUP_CELLS, A_GROUP * n_problems))
        return self._by_group

    def add_rows(self, rows: DealtRows) -> None:
        """Count rows."""
        given = rows.rows, rows.class_index, rows.weight
        threshold = threshold_of(self._n_problems)
        none = np.zeros(len(rows.weight), dtype=np.int64)
        self._table.take(collect(*given, none, 1, threshold, self._table))
        if rows.n_groups > 1:
            table = self._groups(rows.n_groups)
            table.take(collect(*given, rows.group, rows.n_groups, threshold, table))

    def merge(self, other: Self) -> None:
        """Add the cells of another."""
        super().merge(other)
        if other._by_group is not None:
            self._groups(other._by_group.n_problems // self._n_problems).merge(other._by_group)

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        super().scale(factor)
        if self._by_group is not None:
            self._by_group.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the cells, and those of the groups."""
        by_group = {} if self._by_group is None else self._by_group.arrays()
        return super().arrays() | {f"group_{name}": array for name, array in by_group.items()}

    def restore(self, arrays: dict[str, NDArray[Any]], n_groups: int) -> None:
        """Take what ``arrays`` returned."""
        super().restore(arrays, n_groups)
        own = {k.removeprefix("group_"): a for k, a in arrays.items() if k.startswith("group_")}
        if n_groups > 1 and own:
            self._groups(n_groups).restore(own)

    def replicates(self, draws: Wholes) -> Floats:
        """Return the error of rows drawn by group, as it differs from that of all on this table."""
        table = self._by_group
        if table is None:
            return np.full(len(draws), np.nan)
        cells = table.cells
        group, column = np.divmod(cells.problem, self._n_problems)
        order = np.lexsort((cells.key, column))
        column, key = column[order], cells.key[order]
        fresh = np.append(True, (column[1:] != column[:-1]) | (key[1:] != key[:-1]))
        drawn = DrawnCells(
            group[order],
            np.cumsum(fresh) - 1,
            column[fresh],
            np.stack(sums_of(cells))[:, order],
        )
        n_bins, norm = self.n_bins, self._norm
        found = [drawn.error(counts, n_bins, norm) for counts in draws]
        as_they_are = drawn.error(np.ones(draws.shape[1], dtype=np.int64), n_bins, norm)
        return self.value() + np.array(found) - as_they_are


class DrawnCells:
    """Cells of the groups in the order of (class, key), to be added up as groups are drawn."""

    def __init__(self, group: Wholes, cell: Wholes, column: Wholes, sums: Floats) -> None:
        self._group, self._cell, self._sums = group, cell, sums
        starts = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
        self._starts = starts  # of the cells of each class that has any
        self._problem = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(column))))

    def error(self, counts: Wholes, n_bins: int, norm: str) -> float:
        """Return the mean error over the classes that have rows among those drawn."""
        times = counts[self._group]
        n_cells, n_problems = len(self._problem), len(self._starts)
        sums = [np.bincount(self._cell, times * part, n_cells) for part in self._sums]
        ends = np.cumsum(sums[WEIGHT])
        below = ends - sums[WEIGHT]
        offset = below[self._starts]
        total = np.append(offset[1:], ends[-1]) - offset
        middle = below - offset[self._problem] + 0.5 * sums[WEIGHT]
        of_problem = np.maximum(total, 1e-300)[self._problem]
        bins = np.minimum(n_bins * middle / of_problem, n_bins - 1).astype(np.int64)
        place = np.maximum(bins, 0) + n_bins * self._problem
        in_bin = np.empty((n_problems, n_bins, 3))
        for column in (WEIGHT, HIT, VALUE):
            found = np.bincount(place, sums[column], n_problems * n_bins)
            in_bin[..., column] = found.reshape(n_problems, n_bins)
        weight = in_bin[..., WEIGHT].sum(axis=1)
        present = weight > 0.0
        errors = errors_in(in_bin[present], weight[present], norm)
        return math.fsum(errors) / max(len(errors), 1)


def problems(cells: Cells) -> list[slice]:
    """Return where the cells of each problem are that has any."""
    starts = np.flatnonzero(np.append(True, cells.problem[1:] != cells.problem[:-1]))
    ends = [*starts[1:].tolist(), len(cells.problem)]
    return [slice(start, end) for start, end in zip(starts.tolist(), ends, strict=True)]


def sums_of(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Return weight, labels and values of each cell; where keys are whole, values are exact."""
    sums = cells.sums()
    weight = sums[:, WEIGHT]
    values = weight * scores_of(cells.key) if cells.shift == 0 else sums[:, VALUE]
    return weight, sums[:, HIT], values


def mass_bins(high: Wholes, low: Wholes, n_bins: int) -> Wholes:
    """Bin of equal mass of every cell of a problem: that of the midpoint of its cumulative weight.

    Doubles tell it but for midpoints at an edge, for which whole numbers do.
    """
    limbs = [high, low >> LIMB, low & ((1 << LIMB) - 1)]
    ends = np.stack([np.cumsum(limb) for limb in limbs])
    unit = 2.0**LIMB
    end = ends[0] + (ends[1] + ends[2] / unit) / unit
    middle = end - 0.5 * (high + (limbs[1] + limbs[2] / unit) / unit)
    place = n_bins * middle / end[-1]
    bins: Wholes = np.minimum(place, n_bins - 1).astype(np.int64)
    total = exact(ends[:, -1])
    for i in np.flatnonzero(np.abs(place - np.rint(place)) < 1e-9):
        own = exact([limb[i] for limb in limbs])
        bins[i] = min(n_bins * (2 * exact(ends[:, i]) - own) // (2 * total), n_bins - 1)
    return bins


def exact(limbs: Any) -> int:
    """Return a sum of three parts as a whole number."""
    whole = 0
    for limb in limbs:
        whole = (whole << LIMB) + int(limb)
    return whole
