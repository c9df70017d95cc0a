"""``PassPart`` and ``Part``: something that is counted of a calibration set, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch


class PassPart(ABC):
    """What is counted of rows in a pass over them; it is sent to where they are, and back."""

    name: str  # among the parts of statistics, and in bytes

    @abstractmethod
    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add what another one, that asked for the same, has counted."""

    @abstractmethod
    def empty(self) -> Self:
        """Return one that has counted nothing."""


class Part(PassPart):
    """What a first pass counts: it may be written, and weigh less; made of its ``settings``."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the keywords that make an empty one."""

    def empty(self) -> Self:
        """Return one that has counted nothing."""
        return type(self)(**self.settings())

    @abstractmethod
    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` of an equal one returned; it may come from a stranger's file."""
