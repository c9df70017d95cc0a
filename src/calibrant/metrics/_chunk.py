"""Rows as metrics read them: a few at a time, on the simplex, with weights of one unit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import _simplex as simplex
from calibrant._kernels.metrics import row_losses, row_squares, top_labels
from calibrant._kernels.rows import row_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant._simplex import SimplexBatch

GOLDEN_RATIO_BITS = np.uint64(0x9E3779B97F4A7C15)

MIN_PROBABILITY = 1e-12
"""A label's probability counts as at least this in the likelihood, unless told otherwise."""


class EventRows(NamedTuple):
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
    """Some of the rows, from number ``start`` on, which are float64 on the simplex.

    Weights are in (0, 1], in units of ``unit``.
    """

    start: int
    rows: Floats
    class_index: Wholes
    weight: Floats
    unit: float = 1.0
    _parts: list[tuple[int, Chunk]] | None = field(default=None, init=False, repr=False)

    @cached_property
    def _top(self) -> tuple[Floats, NDArray[np.bool_]]:
        values = np.empty(len(self.rows))
        hits = np.empty(len(self.rows), dtype=np.bool_)
        top_labels(self.rows, self.class_index, values, hits)
        return values, hits

    def events(self, column: int | None) -> EventRows:
        """Each row's confidence and whether it was right, or one class's probability and label."""
        if column is None:
            return EventRows(*self._top, self.weight)
        hits = self.class_index == column
        return EventRows(np.ascontiguousarray(self.rows[:, column]), hits, self.weight)

    def losses(self, min_probability: float = MIN_PROBABILITY) -> Floats:
        """-log of the label's probability of each row."""
        losses = np.empty(len(self.rows))
        row_losses(self.rows, self.class_index, min_probability, losses)
        return losses

    def squares(self) -> Floats:
        """Brier score of each row."""
        squares = np.empty(len(self.rows))
        row_squares(self.rows, self.class_index, squares)
        return squares

    def groups(self, n_groups: int) -> list[tuple[int, Chunk]]:
        """Rows by the group that they are dealt to; asked for one number of groups, or 1."""
        if n_groups == 1:
            return [(0, self)]
        if self._parts is None:
            group = deal_groups(self.rows, self.class_index, n_groups)
            order = np.argsort(group.astype(np.uint16), kind="stable")
            rows, index, weight = self.rows[order], self.class_index[order], self.weight[order]
            ends = np.cumsum(np.bincount(group, minlength=n_groups)).tolist()
            self._parts = [
                (g, Chunk(start, rows[start:end], index[start:end], weight[start:end], self.unit))
                for g, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
                if end > start
            ]
        return self._parts


def deal_groups(rows: Floats, class_index: Wholes, n_groups: int) -> Wholes:
    """Group of each row, by its content, by which of equal rows it is, and by the whole chunk.

    So neither the order of rows nor a second try changes a group. Equal rows must not share one,
    nor may those of two chunks: to draw them together would make every interval too wide.
    """
    hashes = row_hashes(rows.view(np.int64), class_index)
    in_order = np.sort(hashes)
    salt = in_order.sum(dtype=np.uint64)
    if np.any(in_order[1:] == in_order[:-1]):
        order = np.argsort(hashes, kind="stable")
        fresh = np.append(True, in_order[1:] != in_order[:-1])
        starts = np.flatnonzero(fresh)
        place = np.arange(len(order)) - starts[np.cumsum(fresh) - 1]
        hashes[order] += place.astype(np.uint64) * GOLDEN_RATIO_BITS
    return (_mix(hashes + _mix(salt[None])) % np.uint64(n_groups)).astype(np.int64)


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit numbers (the end of splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def chunks_of(batch: SimplexBatch) -> Iterator[Chunk]:
    """Rows of a checked calibration set, as many at a time as fit, in one unit of weights."""
    unit, scaled = rescale(batch.weight)
    for own in simplex.chunks(batch.n_rows, batch.n_classes):
        part = batch.take(own)
        weight = np.ones(part.n_rows) if scaled is None else scaled[own]
        yield Chunk(own.start, part.probabilities(), part.class_index, weight, unit)


def rescale(weight: Floats) -> tuple[float, Floats | None]:
    """Return the unit of the weights, and the weights in it; equal weights are no weights."""
    largest = float(weight.max())
    if np.all(weight == largest):
        return largest, None
    unit = math.ldexp(1.0, math.frexp(largest)[1])
    return unit, weight / unit
