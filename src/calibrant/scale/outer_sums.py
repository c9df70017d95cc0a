"""Exact sums of outer products of rows: matrix products of whole numbers, which never round.

A row of each factor is divided by a power of two near its largest cell, and so is its weight; rows
of the same power are multiplied at once. Cells are taken to the nearest of a few million whole
numbers, so that a sum of products stays below 2**53, in whatever order BLAS adds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.exact_sums import largest_cells
from calibrant.scale.exact import Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST = 1 << 12
"""Rows of one product."""

LEFT, LEFT_REST, RIGHT = 18, 36, 21
"""Bits behind the point of both factors; the left one has a second part, for what is left."""

UNIT = 25
"""Sums are kept in units of 2**-25, and these to 2**-32."""

COARSE = 4
"""Powers of two of rows are multiples of this, so that there are few of them."""

MOST_GROUPS = 4096


class OuterSums:
    """Exact sums of weight * left_i * right_j over rows.

    Parameters
    ----------
    n_left, n_right : int
    is_fine : bool, default=True
        Whether what rounding takes from the left factor is multiplied, too.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.scale.outer_sums import OuterSums
    >>> sums = OuterSums(2, 1)
    >>> sums.add(np.array([[1.0, 2.0], [1e9, 0.5]]), np.array([[3.0], [1.0]]), np.ones(2))
    >>> sums.values()
    array([[1.0e+09],
           [6.5e+00]])
    """

    __slots__ = ("_parts", "_shape", "_sums")

    def __init__(self, n_left: int, n_right: int, *, is_fine: bool = True) -> None:
        self._shape = n_left, n_right
        self._parts = (LEFT, LEFT_REST) if is_fine else (LEFT,)
        self._sums: dict[int, Sums] = {}

    def add(self, left: Array, right: Array, weight: Array) -> None:
        """Add rows; a cell counts to about 2**-21 of the largest of its row."""
        of_left, of_right = _powers(left), _powers(right)
        mantissa, of_weight = np.frexp(weight)
        powers = of_left + of_right + of_weight
        for start in range(0, len(left), MOST):
            own = slice(start, start + MOST)
            scaled = left[own] * np.ldexp(mantissa[own], LEFT - of_left[own])[:, None]
            factors = [np.rint(scaled)]
            if len(self._parts) == 2:
                scaled -= factors[0]
                factors.append(np.rint(scaled * 2.0 ** (LEFT_REST - LEFT)))
            whole = np.rint(right[own] * np.ldexp(1.0, RIGHT - of_right[own])[:, None])
            for power in np.unique(powers[own]).tolist():
                sums = self._sums.setdefault(power, Sums(self._shape, signed=True))
                some = powers[own] == power
                rows: Any = slice(None) if some.all() else some
                for factor, bits in zip(factors, self._parts, strict=True):
                    product = factor[rows].T @ whole[rows]
                    sums.add(product * 2.0 ** (UNIT - bits - RIGHT))

    def merge(self, other: OuterSums) -> None:
        """Add the sums of another."""
        for power, sums in other._sums.items():
            self._sums.setdefault(power, Sums(self._shape, signed=True)).merge(sums)

    def scale(self, factor: float) -> None:
        """Multiply all sums."""
        for sums in self._sums.values():
            sums.scale(factor)

    def values(self) -> Array:
        """Return the sums as doubles."""
        found = np.zeros(self._shape)
        for power in sorted(self._sums):
            found += np.ldexp(self._sums[power].values(), power - UNIT)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        powers = sorted(self._sums)
        parts = [self._sums[power].parts() for power in powers]
        empty = np.empty((0, 2, *self._shape), dtype=np.int64)
        return {
            "outer_powers": np.array(powers, dtype=np.int64),
            "outer_sums": np.stack(parts) if parts else empty,
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` of one of the same shape returned."""
        powers, parts = arrays["outer_powers"], arrays["outer_sums"]
        is_known = powers.ndim == 1 and powers.dtype == np.int64 and len(powers) <= MOST_GROUPS
        if not is_known or np.any(np.diff(powers) <= 0) or np.any(np.abs(powers) > MOST_GROUPS):
            raise ValueError(f"powers of sums are {powers.dtype} of shape {powers.shape}")
        if parts.shape != (len(powers), 2, *self._shape):
            raise ValueError(f"{parts.shape} sums of {len(powers)} powers")
        self._sums = {
            power: Sums(self._shape, signed=True).restore(part)
            for power, part in zip(powers.tolist(), parts, strict=True)
        }


def _powers(rows: Array) -> NDArray[np.int64]:
    """Powers of two, multiples of ``COARSE``, that no cell of a row exceeds in size."""
    largest = np.empty(len(rows))
    largest_cells(rows, largest)
    powers = np.frexp(largest)[1].astype(np.int64)
    powers[largest == 0.0] = 0
    found: NDArray[np.int64] = -(-powers // COARSE) * COARSE
    return found
