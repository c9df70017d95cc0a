"""``Counts`` of rows, chunk by chunk and merged in any order, and ``Measure``: a metric of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from calibrant.kernels.fixed_point import totals
from calibrant.metrics.chunk import UNITS
from calibrant.metrics.fixed_sums import FixedSums
from calibrant.scale.parts import Counting

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import Chunk, DealtRows


LARGEST_SUM = 2.0**63
"""Of whole numbers, over all groups: they are added up as such."""


class Counts(Counting):
    """What metrics are made of."""

    registered: ClassVar[dict[str, type[Counts]]] = {}

    def settings(self) -> dict[str, Any]:
        """Return the keywords that make an empty one, in plain values."""
        return {}

    @abstractmethod
    def add_rows(self, rows: DealtRows) -> None:
        """Count rows that were dealt to groups."""

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]], n_groups: int) -> None:
        """Take what ``arrays`` of an equal one returned; it may come from a stranger's file."""


class Measure(Counts):
    """A metric, and what it counts of rows."""

    @abstractmethod
    def value(self) -> float:
        """Return the metric of all rows counted."""

    @abstractmethod
    def replicates(self, draws: Wholes) -> Floats:
        """Return the metric of rows drawn by group: ``draws`` (resample, group) says how often."""


class RowSums(Counts):
    """Sums over rows, kept by group and by unit of the weights.

    Attributes
    ----------
    slots : dict of (int, float) to FixedSums
        Sums of the rows of a group, in units of the weight.
    """

    power: ClassVar[int] = 1
    """Of the weights in the sums."""

    def __init__(self, *shape: int) -> None:
        self._shape = shape
        self.slots: dict[tuple[int, float], FixedSums] = {}

    @abstractmethod
    def _count(self, chunk: Chunk, pairs: Wholes) -> None:
        """Add the rows of a chunk, at most one term of each to every sum."""

    def _slot(self, group: int, unit: float) -> FixedSums:
        if (group, unit) not in self.slots:
            self.slots[group, unit] = FixedSums(self._shape)
        return self.slots[group, unit]

    def add(self, chunk: Chunk) -> None:
        """Count the rows of a chunk."""
        self._count(chunk, self._slot(chunk.group, chunk.unit).pairs)

    def add_rows(self, rows: DealtRows) -> None:
        """Count rows that were dealt to groups."""
        for chunk in rows.chunks:
            self.add(chunk)

    def merge(self, other: Self) -> None:
        """Add the sums of another."""
        for slot, sums in other.slots.items():
            self._slot(*slot).merge(sums)

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        for slot, sums in list(self.slots.items()):
            sums.scale(factor**self.power)
            if not sums.pairs.any():
                del self.slots[slot]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the sums, by group and unit."""
        slots = sorted(self.slots)
        sums = np.empty((len(slots), *self._shape, 2), dtype=np.int64)
        for own, slot in zip(sums, slots, strict=True):
            own[:] = self.slots[slot].array()
        groups = np.array([group for group, _ in slots], dtype=np.int64)
        return {"group": groups, "unit": np.array([unit for _, unit in slots]), "sums": sums}

    def restore(self, arrays: dict[str, NDArray[Any]], n_groups: int) -> None:
        """Take what ``arrays`` returned."""
        groups, units, sums = (arrays[name] for name in ("group", "unit", "sums"))
        if groups.dtype != np.int64 or units.dtype != np.float64:
            raise ValueError("groups or units of another type")
        slots = list(zip(groups.tolist(), units.tolist(), strict=True))
        if sums.shape != (len(slots), *self._shape, 2):
            raise ValueError(f"{len(slots)} sums of shape {sums.shape[1:]}")
        if sums.astype(np.float64).sum(axis=0).max(initial=0.0) >= LARGEST_SUM:
            raise ValueError("sums of more rows than there can be")
        if any(group not in range(n_groups) or unit not in UNITS for group, unit in slots):
            raise ValueError("sums of other groups or units")
        for slot, own in zip(slots, sums, strict=True):
            self._slot(*slot).restore(own)

    @property
    def unit(self) -> float:
        """The unit of the weights in ``totals``."""
        return max((unit for _, unit in self.slots), default=1.0)

    def pairs(self) -> dict[float, Wholes]:
        """Return the whole numbers of all groups, by unit."""
        found: dict[float, Wholes] = {}
        for (_, unit), sums in self.slots.items():
            found[unit] = found[unit] + sums.array() if unit in found else sums.array()
        return found

    def totals(self, take: Callable[[Wholes], Wholes] = lambda pairs: pairs) -> Floats:
        """Return the doubles of the sums of all rows, or of what is added up of them exactly."""
        parts = [
            (unit / self.unit) ** self.power * totals(take(pairs))
            for unit, pairs in sorted(self.pairs().items())
        ]
        found: Floats = sum(parts[1:], start=parts[0])
        return found


class SummedMeasure(RowSums, Measure):
    """A metric that is a function of sums over rows."""

    @abstractmethod
    def value_of(self, sums: Floats) -> float:
        """Return the metric of rows that have these sums, in any unit."""

    def value(self) -> float:
        """Return the metric of all rows counted."""
        return self.value_of(self.totals())

    def replicates(self, draws: Wholes) -> Floats:
        """Return the metric of rows drawn by group; sums are plain doubles here."""
        by_group: dict[int, Floats] = {}
        for (group, unit), sums in sorted(self.slots.items()):
            own = (unit / self.unit) ** self.power * totals(sums.array())
            by_group[group] = by_group[group] + own if group in by_group else own
        found = np.empty(len(draws))
        for r, drawn in enumerate(draws):
            total = np.zeros(self._shape)
            for group, own in by_group.items():  # a product of matrices depends on its threads
                if drawn[group]:
                    total += drawn[group] * own
            found[r] = self.value_of(total)
        return found
