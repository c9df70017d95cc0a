"""``Part``: something that is counted of a calibration set, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from calibrant.scale.exact import Sums
    from calibrant.scale.outer_sums import OuterSums
    from calibrant.scale.wide_sums import WideSums
    from calibrant.simplex import SimplexBatch


class PassPart(ABC):
    """What is counted of rows in a pass over them; it is sent to where they are, and back."""

    name: str

    @abstractmethod
    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add what another one, that asked for the same, has counted."""

    @abstractmethod
    def empty(self) -> Self:
        """Return one that has counted nothing."""


class Counting(ABC):
    """What is counted of rows, and can be written to bytes.

    The constructor takes ``settings`` as keywords and counts nothing.
    """

    name: ClassVar[str]
    """In bytes; never reused."""

    registered: ClassVar[dict[str, Any]]
    """Every class of this kind that has a ``name``, by it."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" in vars(cls):
            cls.registered[cls.name] = cls

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the keywords that make an empty one: numbers, texts, lists and arrays.

        Arrays come back from bytes as lists.
        """

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add what another one, of the same settings, has counted."""

    @abstractmethod
    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""


class Part(Counting, PassPart):
    """What statistics of a first pass are made of: they may be written, and weigh less."""

    name: ClassVar[str]
    registered: ClassVar[dict[str, type[Part]]] = {}

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` of an equal one returned; it may come from a stranger's file."""

    def empty(self) -> Self:
        """Return one that has counted nothing."""
        return type(self)(**self.settings())


class SummedPart(Part):
    """A part that consists of exact sums.

    Parameters
    ----------
    sums : mapping of str to Sums or WideSums
        By their names in bytes.
    outer : mapping of str to OuterSums, optional
        By what is put before their names in bytes.
    """

    def __init__(
        self, sums: Mapping[str, Sums | WideSums], outer: Mapping[str, OuterSums] | None = None
    ) -> None:
        self._named, self._outer_named = dict(sums), dict(outer or {})

    def _all(self) -> list[Any]:
        return [*self._named.values(), *self._outer_named.values()]

    def merge(self, other: Self) -> None:
        """Add what another one has counted."""
        for own, others in zip(self._all(), other._all(), strict=True):
            own.merge(others)

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        for own in self._all():
            own.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        found: dict[str, NDArray[Any]] = {name: own.parts() for name, own in self._named.items()}
        for start, outer in self._outer_named.items():
            found |= {f"{start}{name}": array for name, array in outer.arrays().items()}
        return found

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        for name, sums in self._named.items():
            sums.restore(arrays[name])
        for start, outer in self._outer_named.items():
            own = {k.removeprefix(start): a for k, a in arrays.items() if k.startswith(start)}
            outer.restore(own)
