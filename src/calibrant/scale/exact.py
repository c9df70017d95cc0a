"""Sums that do not depend on the order: of whole numbers of 2**-32, high and low part apart.

Chunks come in any order and are merged in any tree; sums of floats would tell. A weight is taken
to the nearest 2**-32, a term of a real-valued sum, too; what is added up is exact from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant import errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Wholes = NDArray[np.int64]

BITS = 32
UNIT = 2.0**BITS
LARGEST = 2.0**30
"""Largest weight of a row, and size of a term: sums of 2**22 of them are exact in a double."""

MOST = 1 << 20
"""Terms that are added up at once."""


class Sums:
    """An array of exact sums: ``high + low / 2**32``.

    Parameters
    ----------
    shape : tuple of int
    signed : bool, default=False
        Whether a sum may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.scale.exact import Sums
    >>> sums = Sums((3,))
    >>> sums.add(np.array([0.5, 0.25, 1.0]))
    >>> sums.add_at(np.array([0, 0, 2]), np.array([1.0, 0.125, 0.0]))
    >>> sums.values()
    array([1.625, 0.25 , 1.   ])
    """

    __slots__ = ("high", "low", "signed")

    def __init__(self, shape: tuple[int, ...], *, signed: bool = False) -> None:
        self.signed = signed
        self.high: Wholes = np.zeros(shape, dtype=np.int64)
        self.low: Wholes = np.zeros(shape, dtype=np.int64)

    @classmethod
    def of(cls, high: Wholes, low: Wholes) -> Sums:
        """Return sums with these parts."""
        found = cls.__new__(cls)
        found.signed = False
        found.high, found.low = np.asarray(high, np.int64), np.asarray(low, np.int64)
        return found

    def parts(self) -> Wholes:
        """Return high and low parts, one above the other."""
        return np.stack([self.high, self.low])

    def restore(self, parts: Any) -> Self:
        """Take what ``parts`` of one of the same shape returned; refuse what no sum can be."""
        if len(parts) != 2:
            raise ValueError(f"{len(parts)} parts of sums")
        high, low = parts
        for part in (high, low):
            if part.dtype != np.int64 or part.shape != self.high.shape:
                shape = self.high.shape
                raise ValueError(f"sums are {part.dtype} of shape {part.shape}, not int64, {shape}")
        if np.any((low < 0) | (low >> BITS > 0)) or not (self.signed or np.all(high >= 0)):
            raise ValueError("sums are out of range")
        self.high, self.low = high, low
        return self

    def values(self) -> NDArray[np.float64]:
        """Return the doubles next to the sums."""
        return self.high + self.low / UNIT

    def add(self, terms: NDArray[np.float64]) -> None:
        """Add a term to each sum."""
        self._carry(*split(terms))

    def add_rows(self, terms: NDArray[np.float64]) -> None:
        """Add terms, one row of them after the other, to each sum."""
        for start in range(0, len(terms), MOST):
            high, low = split(terms[start : start + MOST])
            self._carry(high.sum(axis=0), low.sum(axis=0))

    def add_at(self, places: NDArray[Any], terms: NDArray[np.float64]) -> None:
        """Add each term to the sum at its place; sums are in one dimension."""
        n = len(self.high)
        for start in range(0, len(places), MOST):
            own = slice(start, start + MOST)
            high, low = split(terms[own])
            parts = [np.bincount(places[own], part, minlength=n) for part in (high, low)]
            self._carry(*(part.astype(np.int64) for part in parts))

    def merge(self, other: Sums) -> None:
        """Add the sums of another."""
        self._carry(other.high, other.low)

    def scale(self, factor: float) -> None:
        """Multiply all sums, to the nearest 2**-32."""
        high = self.high * factor  # its fraction goes to the low part
        whole = np.floor(high)
        low = np.rint((high - whole) * UNIT + self.low * factor)
        self.high, self.low = whole.astype(np.int64), np.zeros_like(self.low)
        self._carry(np.int64(0), low.astype(np.int64))

    def _carry(self, high: Any, low: Any) -> None:
        self.low = self.low + low
        self.high = self.high + high + (self.low >> BITS)
        self.low &= (1 << BITS) - 1


def split(terms: NDArray[np.float64]) -> tuple[Wholes, Wholes]:
    """Whole part, and the rest in units of 2**-32, of terms below ``LARGEST`` in size."""
    whole = np.floor(terms)
    rest = np.rint((terms - whole) * UNIT)
    return whole.astype(np.int64), rest.astype(np.int64)


def check_sizes(weight: NDArray[np.float64]) -> None:
    """Refuse positive weights that such sums cannot hold."""
    largest, smallest = float(weight.max(initial=0.0)), float(weight.min(initial=1.0))
    if largest > LARGEST or smallest < 1e6 / UNIT:
        extreme = largest if largest > LARGEST else smallest
        raise errors.WeightError(
            f"sample_weight has a weight of {extreme:.3g}; statistics take weights between "
            f"{1e6 / UNIT:.2g} and {LARGEST:.2g}: multiply all of them by one number"
        )
