"""Means over all rows from those of a sample, by what else is known of both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FARTHEST = 6.0
"""Standard errors that a mean over all rows may be from that of a sample."""

FLAT = 1e-7
"""Spread of numbers that are the same but for rounding, by their size."""


def means_of_all(known: Array, wanted: Array, weight: Array, means: Array, ridge: float) -> Array:
    """Estimate the means over all rows of what is ``wanted`` of each row of a sample.

    By a regression on what is ``known`` of each row, whose ``means`` over all are counted;
    ``ridge`` makes it careful.
    """
    share = weight / weight.sum()
    n_rows = 1.0 / float(share @ share)
    size = np.maximum(np.abs(known).max(axis=0), 1e-300)
    centre = share @ (known / size)
    known = known / size - centre
    spread = np.sqrt(share @ known**2)
    used = spread > FLAT
    known, spread = known[:, used] / spread[used], spread[used]
    far = FARTHEST / math.sqrt(n_rows)  # rows of another scale may be missing in the sample
    gap = np.clip((means / size - centre)[used] / spread, -far, far)
    of_sample: Array = share @ wanted
    weighted = share[:, None] * known
    gram = known.T @ weighted + ridge * len(gap) / n_rows * np.eye(len(gap))
    found: Array = of_sample + gap @ np.linalg.solve(gram, weighted.T @ (wanted - of_sample))
    return found
