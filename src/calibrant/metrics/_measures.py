"""Rows as metrics read them, and what a metric is: what it adds up for them, a value of the sums.

``Measure`` is the one body of a metric. Its sums are over rows in memory, over chunks of rows
anywhere, or over groups of rows that a bootstrap draws; a state holds them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant._kernels.fixed_point import totals
from calibrant._kernels.metrics import (
    BITS,
    add_products,
    add_weights,
    row_losses,
    row_squares,
    top_labels,
)
from calibrant._kernels.rows import row_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant._simplex import SimplexBatch
    from calibrant.metrics._predictions import Predictions

GOLDEN_RATIO_BITS = np.uint64(0x9E3779B97F4A7C15)

MIN_PROBABILITY = 1e-12
"""A label's probability counts as at least this in the likelihood, unless told otherwise."""


class EventRows(NamedTuple):
    """One probability of each row, whether its event happened, and the row's weight."""

    values: Floats
    hits: NDArray[np.bool_]
    weight: Floats


def usual_column(n_classes: int) -> int | None:
    """Column that predictions are judged by: the positive one of two; None for the confidence."""
    return 1 if n_classes == 2 else None


@dataclass(eq=False)
class Chunk:
    """Rows from number ``start`` on, on the simplex; weights are in (0, 1], of one ``unit``."""

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
    return (_mix(hashes + _mix(salt[None])) % np.uint64(n_groups)).astype(np.intp)


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


DRAWN_AT_ONCE = 16
"""Resamples whose sums are made at once."""


class Body(ABC):
    """What is added up for rows; its constructor takes plain values."""

    name: ClassVar[str]
    """In bytes; never reused."""

    registered: ClassVar[dict[str, type[Body]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" in vars(cls):
            cls.registered[cls.name] = cls

    settings: dict[str, Any]
    """The keywords that make an equal one, in plain values."""

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Note the arguments of the constructor."""
        self = super().__new__(cls)
        names = cls.__init__.__code__.co_varnames[1:]
        self.settings = dict(zip(names, values, strict=False)) | named
        return self

    @abstractmethod
    def start(self, n_groups: int = 1, predictions: Predictions | None = None) -> Any:
        """Return the state of no rows, for chunks or for those of ``predictions`` in memory.

        It adds chunks of rows, may be merged with another, scaled, sent and restored, and returns
        the metric of all rows (``value``), or of rows drawn by group (``replicates``).
        """


class RowSums(Body):
    """Sums over rows of terms in [-1, 1], times a power of the weight.

    Within a chunk, and over all rows in memory, they are added in fixed point (see
    ``_kernels/metrics.pxd``), so that the order of rows changes no bit; over chunks as doubles, in
    the order of the chunks.
    """

    power: ClassVar[int] = 1
    """Of the weights in the sums."""

    is_drawn: ClassVar[bool] = True
    """Whether intervals draw groups of it."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    @abstractmethod
    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Add the rows of a chunk, one term at most in a sum, to fixed point (*shape, 2)."""

    def start(self, n_groups: int = 1, predictions: Any = None) -> SummedState:
        unit = 1.0 if predictions is None else predictions.unit
        return SummedState(self, n_groups if self.is_drawn else 1, unit)


class Measure(RowSums):
    """A metric that is a function of sums over rows."""

    def prepare(self, sums: Floats) -> Floats:
        """Return a linear function of sums of shape (..., *shape) that ``value`` takes."""
        return sums

    @abstractmethod
    def value(self, sums: Floats, unit: float = 1.0) -> float:
        """Return the metric of rows that have these sums, with weights in units of ``unit``."""


class RowMean(Measure):
    """A metric that is a weighted mean of a term of every row, of at most ``bound``."""

    bound: float = 1.0

    def __init__(self) -> None:
        super().__init__(3)

    @abstractmethod
    def terms(self, chunk: Chunk) -> Floats:
        """Return the term of each row."""

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        terms = self.terms(chunk)
        infinite = np.isinf(terms)
        if infinite.any():
            terms = np.where(infinite, 0.0, terms)
            add_weights(chunk.weight[infinite], sums[2:].reshape(1, 1, 2))
        add_products(chunk.weight, terms / self.bound, sums[:2].reshape(1, 2, 2))

    def value(self, sums: Floats, unit: float = 1.0) -> float:  # noqa: ARG002
        """Return the mean; infinite if a term is."""
        weight, total, infinite = sums
        return math.inf if infinite > 0.0 else float(total / weight) * self.bound


class SummedState:
    """Sums of a ``RowSums`` in units of the weight: of all rows, and by group if there are any."""

    name: str
    """Among several that are counted together."""

    needs_chunks = True
    """Whether ``add`` has anything to do."""

    def __init__(self, body: Any, n_groups: int, unit: float) -> None:
        self.body, self.n_groups, self.unit = body, n_groups, unit
        self.total: Floats = np.zeros(body.shape)
        self.by_group: Floats = np.zeros((n_groups if n_groups > 1 else 0, *body.shape))
        self._pairs: Wholes | None = None
        self._factor = 1.0

    def empty(self) -> SummedState:
        """Return one that has added nothing."""
        return SummedState(self.body, self.n_groups, self.unit)

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        if self._pairs is None:
            self._pairs = np.zeros((self.n_groups, *self.body.shape, 2), dtype=np.int64)
        for group, rows in chunk.groups(self.n_groups):
            self.body.add(rows, self._pairs[group])
        self._factor = (chunk.unit / self.unit) ** self.body.power

    def settle(self) -> None:
        """Finish what was added since the last time, all of it in chunks of one unit."""
        if self._pairs is not None:
            self.total += self._factor * totals(self._pairs.sum(axis=0))
            if self.n_groups > 1:
                unit = self._factor / 2.0**BITS  # these are drawn at random: any rounding will do
                self.by_group += unit * self._pairs[..., 0]
                self.by_group += (unit / 2.0**BITS) * self._pairs[..., 1]
            self._pairs = None

    def merge(self, other: Self) -> None:
        """Add what another one has added."""
        self.total += other.total
        self.by_group += other.by_group

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row added so far."""
        self.total *= factor**self.body.power
        self.by_group *= factor**self.body.power

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was added up."""
        found = {"total": self.total}
        return found if self.n_groups == 1 else {**found, "groups": self.by_group}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned; it may come from a stranger's file."""
        for name, own in self.arrays().items():
            given = arrays[name]
            if given.dtype != np.float64 or given.shape != own.shape:
                raise ValueError(f"{name} is {given.dtype} of shape {given.shape}")
            if not np.all(np.isfinite(given)):
                raise ValueError(f"{name} has sums that are not those of rows")
            own[...] = given

    def value(self) -> float:
        """Return the metric of all rows added."""
        return float(self.body.value(self.body.prepare(self.total), self.unit))

    def replicates(self, draws: Wholes) -> Floats:
        """Return the metric of rows drawn by group: ``draws`` (resample, group) says how often."""
        by_group = self.body.prepare(self.by_group).reshape(self.n_groups, -1)

        def draw(start: int) -> list[float]:
            sums = draws[start : start + DRAWN_AT_ONCE].astype(np.float64) @ by_group
            return [self.body.value(own.reshape(self.body.shape), self.unit) for own in sums]

        with threads.few_blas_threads(0):  # whose number would change the last bits
            parts = threads.each(draw, range(0, len(draws), DRAWN_AT_ONCE))
            return np.concatenate(list(parts))
