"""Rows as metrics read them: a few at a time, on the simplex, with weights of one unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import simplex
from calibrant.kernels.metrics import top_labels
from calibrant.kernels.rows import first_top_columns, row_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.simplex import SimplexBatch

UNITS = (1.0, 2.0**10, 2.0**20, 2.0**30)
"""Weights of chunks are divided by the first of these that is as large.

The heaviest row of all is not known before the last chunk, and a unit that is too large would cost
digits.
"""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class BinaryProblem(NamedTuple):
    """One probability of each row, whether its event happened, and the row's weight."""

    values: Floats
    hits: NDArray[np.bool_]
    weight: Floats


def usual_column(n_classes: int) -> int | None:
    """Column that predictions are judged by: the positive one of two; None for the confidence.

    The confidence of two classes hides the positive one: where all its probabilities are too high,
    rows above one half are over-confident and those below under-confident, and it cancels out.
    """
    return 1 if n_classes == 2 else None


@dataclass(eq=False)
class Chunk:
    """Some of the rows.

    Attributes
    ----------
    start : int
        Number of the first row.
    rows : ndarray of shape (n_rows, n_classes)
        Float64 on the simplex.
    class_index : ndarray of shape (n_rows,)
        Columns of the labels.
    weight : ndarray of shape (n_rows,)
        In (0, 1], in units of ``unit``.
    unit : float
    group : int
        Which rows these are among those that intervals draw together.
    """

    start: int
    rows: Floats
    class_index: Wholes
    weight: Floats
    unit: float = 1.0
    group: int = 0
    _top: tuple[Floats, NDArray[np.bool_]] | None = field(default=None, init=False, repr=False)

    def top_labels(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Largest probability of each row, and whether it is the label's."""
        if self._top is None:
            values = np.empty(len(self.rows))
            hits = np.empty(len(self.rows), dtype=np.bool_)
            top_labels(self.rows, self.class_index, values, hits)
            self._top = values, hits
        return self._top

    def problem(self, column: int | None) -> BinaryProblem:
        """Each row's confidence and whether it was right, or one class's probability and label."""
        if column is None:
            return BinaryProblem(*self.top_labels(), self.weight)
        hits = self.class_index == column
        return BinaryProblem(np.ascontiguousarray(self.rows[:, column]), hits, self.weight)


@dataclass(eq=False)
class DealtRows:
    """Rows of weights of any size, dealt to groups.

    Attributes
    ----------
    rows, class_index, weight : ndarray
        As in ``Chunk``, but for the weights, which are as the caller gave them.
    group : ndarray of shape (n_rows,)
        Group of each row.
    n_groups : int
        How many groups there are.
    """

    rows: Floats
    class_index: Wholes
    weight: Floats
    group: Wholes
    n_groups: int

    def top_columns(self) -> Wholes:
        """Column of the largest probability of each row, the first of equals."""
        columns = np.empty(len(self.rows), dtype=np.int64)
        first_top_columns(self.rows, columns)
        return columns

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The rows by group and unit of their weights."""
        unit = np.searchsorted(UNITS, self.weight)
        slot = (self.group * len(UNITS) + unit).astype(np.uint16)
        rows, index, weight = self.rows, self.class_index, self.weight
        if np.any(slot != slot[0]):
            order = np.argsort(slot, kind="stable")
            slot, rows, index, weight = slot[order], rows[order], index[order], weight[order]
        starts = np.flatnonzero(np.append(True, slot[1:] != slot[:-1])).tolist()
        found = []
        for start, end in zip(starts, [*starts[1:], len(slot)], strict=True):
            own = slice(start, end)
            group, of_unit = divmod(int(slot[start]), len(UNITS))
            scaled = weight[own] / UNITS[of_unit]
            found.append(Chunk(start, rows[own], index[own], scaled, UNITS[of_unit], group))
        return found


def deal(batch: SimplexBatch, n_groups: int) -> Iterator[DealtRows]:
    """Deal the rows of a checked chunk to groups, as many at a time as fit."""
    group = deal_groups(batch.scores, batch.class_index, n_groups)
    for own in simplex.chunks(batch.n_rows, batch.n_classes):
        part = batch.take(own)
        rows = part.probabilities()
        yield DealtRows(rows, part.class_index, part.weight, group[own], n_groups)


def deal_chunk(chunk: Chunk, n_groups: int) -> DealtRows:
    """Deal the rows of a chunk in memory to groups, in weights that sums of chunks hold."""
    group = deal_groups(chunk.rows, chunk.class_index, n_groups)
    weight = chunk.weight * min(max(chunk.unit, UNITS[0]), UNITS[-1])
    return DealtRows(chunk.rows, chunk.class_index, weight, group, n_groups)


def deal_groups(rows: Floats, class_index: Wholes, n_groups: int) -> Wholes:
    """Group of each row, by its content, by which of equal rows it is, and by the whole chunk.

    So neither the order of rows nor a second try changes a group. Equal rows must not share one,
    nor may those of two chunks: to draw them together would make every interval too wide.
    """
    if n_groups == 1:
        return np.zeros(len(rows), dtype=np.int64)
    hashes = row_hashes(rows.view(np.int64), class_index)
    in_order = np.sort(hashes)
    salt = in_order.sum(dtype=np.uint64)
    if np.any(in_order[1:] == in_order[:-1]):
        order = np.argsort(hashes, kind="stable")
        fresh = np.append(True, in_order[1:] != in_order[:-1])
        starts = np.flatnonzero(fresh)
        place = np.arange(len(order)) - starts[np.cumsum(fresh) - 1]
        hashes[order] += place.astype(np.uint64) * GOLDEN
    return (_mix(hashes + _mix(salt[None])) % np.uint64(n_groups)).astype(np.int64)


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit numbers (the end of splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))
