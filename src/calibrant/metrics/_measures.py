"""What a metric is: what it adds up for weighted rows, and a value of the sums.

``Measure`` is the one body of a metric. Its sums are over rows in memory, over chunks of rows
anywhere, or over groups of rows that a bootstrap draws; a state holds them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from calibrant import _threads as threads
from calibrant._kernels.fixed_point import totals
from calibrant._kernels.metrics import BITS, add_products, add_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._chunk import Chunk
    from calibrant.metrics._predictions import Predictions

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
    def start(self, n_groups: int = 1, unit: float = 1.0) -> Any:
        """Return the state of no rows, for weights in units of ``unit``.

        It adds chunks of rows, may be merged with another, scaled, sent and restored, and returns
        the metric of all rows (``value``), or of rows drawn by group (``replicates``).
        """

    def in_memory(self, predictions: Predictions, n_groups: int) -> Any:
        """Return the state of no rows, for those of ``predictions``."""
        return self.start(n_groups, predictions.unit)


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
        """Add the rows of a chunk to fixed-point ``sums`` of shape (*shape, 2).

        No row has more than one term in a sum.
        """

    def start(self, n_groups: int = 1, unit: float = 1.0) -> SummedState:
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
                raise ValueError(f"{name} has sums that no rows have")
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
