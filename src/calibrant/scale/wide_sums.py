"""Exact sums of terms of any size: logits may be of 1e100, and their squares are added up, too.

Terms are sorted by their exponents, 24 to a sum, in units of 2**-32 of the smallest of them. So
every term is right to ten digits, whatever came before it, and order and merges change no bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.exact_sums import add_columns
from calibrant.scale.exact import MOST, Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

EXPONENTS = 24
N_GROUPS = 2048 // EXPONENTS + 1
SCALES = np.ldexp(1.0, EXPONENTS * np.arange(N_GROUPS) - 1023)


class WideSums:
    """A vector of exact sums.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.scale.wide_sums import WideSums
    >>> sums = WideSums(2)
    >>> sums.add_rows(np.array([[1e100, 0.25], [1.0, 0.25], [-1e100, 1.0]]), np.ones(3))
    >>> sums.values()
    array([1. , 1.5])
    """

    __slots__ = ("_sums",)

    def __init__(self, n_sums: int) -> None:
        self._sums = Sums((n_sums, N_GROUPS), signed=True)

    def add_rows(self, terms: Array, weight: Array) -> None:
        """Add a weighted row of terms after the other."""
        for start in range(0, len(terms), MOST):
            own = slice(start, start + MOST)
            new = Sums(self._sums.high.shape)
            add_columns(terms[own], weight[own], new.high, new.low)
            self._sums.merge(new)

    def merge(self, other: WideSums) -> None:
        """Add the sums of another."""
        self._sums.merge(other._sums)

    def scale(self, factor: float) -> None:
        """Multiply all sums."""
        self._sums.scale(factor)

    def values(self) -> Array:
        """Return the sums as doubles."""
        found: Array = np.sum(self._sums.values() * SCALES, axis=-1)
        return found

    def parts(self) -> NDArray[np.int64]:
        """Return what was counted."""
        return self._sums.parts()

    def restore(self, parts: NDArray[Any]) -> None:
        """Take what ``parts`` of one of the same shape returned."""
        self._sums.restore(parts)
