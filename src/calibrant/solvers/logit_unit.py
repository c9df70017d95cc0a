"""The unit of logits: solvers work on logits of ordinary size, whatever scale they came in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_EXPONENT = 333
"""Units between 1e-100 and 1e100."""


def divide_by_unit(logits: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Divide ``logits`` in place by a power of two near their typical spread; returns it.

    That is the geometric mean of the rows' spreads, which one row of another scale hardly moves.
    Dividing by a power of two rounds nothing.
    """
    spread = logits.max(axis=1) - logits.min(axis=1)
    used = spread > 0.0
    if not used.any():
        return 1.0
    share = weight[used] / weight[used].max()
    mean = math.fsum(share * np.log2(spread[used])) / math.fsum(share)
    exponent = min(max(round(mean), -LARGEST_EXPONENT), LARGEST_EXPONENT)
    unit = math.ldexp(1.0, exponent)
    logits /= unit
    return unit
