"""The doubles of the fixed-point sums that kernels of metrics add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._kernels.metrics import BITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def totals(sums: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the doubles of fixed-point ``sums``, whose last axis holds the two integers."""
    unit = 2.0**BITS
    carry = sums[..., 1] >> BITS
    rest = sums[..., 1] - (carry << BITS)
    doubles: NDArray[np.float64] = (sums[..., 0] + carry) / unit + rest / unit**2
    return doubles
