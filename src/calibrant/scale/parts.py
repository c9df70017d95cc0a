"""``Part``: something that is counted of a calibration set, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch


class Part(ABC):
    """What statistics are made of; counting a row is exact, so order and merges change no bit.

    The constructor takes ``settings`` as keywords and counts nothing.
    """

    name: ClassVar[str]
    """In bytes; never reused."""

    registered: ClassVar[dict[str, type[Part]]] = {}
    """Every class that has a ``name``, by it."""

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
    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add what another one, of the same settings, has counted."""

    @abstractmethod
    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` of an equal one returned; it may come from a stranger's file."""

    def empty(self) -> Self:
        """Return one that has counted nothing."""
        return type(self)(**self.settings())
