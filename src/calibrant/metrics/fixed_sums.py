"""``FixedSums``: what kernels add up in whole numbers, so that order and merges change no bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.metrics import BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Wholes

UNIT = 2.0**BITS
MOST_TERMS = (1 << 32) - 1
"""Terms of at most 1 that a sum holds; whoever adds rows counts them."""


class FixedSums:
    """An array of sums of terms in [0, 1], each in two whole numbers (``kernels/metrics.pxd``).

    Attributes
    ----------
    pairs : ndarray of shape (..., 2)
        The whole numbers, for kernels to add to.
    """

    __slots__ = ("pairs",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.pairs: Wholes = np.zeros((*shape, 2), dtype=np.int64)

    def merge(self, other: FixedSums) -> None:
        """Add the sums of another."""
        self.pairs += other.pairs

    def scale(self, factor: float) -> None:
        """Multiply all sums, to the nearest whole number."""
        high = self.pairs[..., 0] * factor
        whole = np.floor(high)
        rest = (high - whole) * UNIT + self.pairs[..., 1] * factor
        self.pairs[..., 0], self.pairs[..., 1] = whole, np.rint(rest)

    def array(self) -> Wholes:
        """Return the numbers, the same for the same sums."""
        carried = self.pairs[..., 1] >> BITS  # what the second ones have of the first
        self.pairs[..., 0] += carried
        self.pairs[..., 1] -= carried << BITS
        return self.pairs

    def restore(self, array: NDArray[Any]) -> None:
        """Take what ``array`` returned; it may come from a stranger's file."""
        if array.dtype != np.int64 or array.min(initial=0) < 0:
            raise ValueError(f"sums of {array.dtype}, or negative ones")
        self.pairs = array.copy()
