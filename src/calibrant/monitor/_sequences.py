"""``MeanSequence``: a mean of bounded numbers, with an interval that holds at all times at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.metrics._result import Estimate

if TYPE_CHECKING:
    from calibrant.monitor._bets import Floats

_GROWTH, _POWER, _ZETA = 2.0, 1.4, 3.105  # of the epochs, of their prior, and zeta(1.4)
_K1, _K2 = (_GROWTH**0.25 + _GROWTH**-0.25) / math.sqrt(2.0), (math.sqrt(_GROWTH) + 1.0) / 2.0


@dataclass
class MeanSequence:
    """Mean of numbers in [low, high], each with a weight of at most 1.

    The interval covers the mean of the conditional expectations of the rows counted, at all times
    at once, whatever they are and however they change: the empirical Bernstein confidence sequence
    with the stitched boundary of Howard, Ramdas, McAuliffe and Sekhon (2021, Theorem 4, eq. 10).
    """

    low: float
    high: float
    weight: float = 0.0
    total: float = 0.0
    variance: float = 0.0
    KEPT = ("weight", "total", "variance")

    def count(self, values: Floats, weight: Floats | None) -> None:
        """Add rows; each is compared with the mean of those before it."""
        weight = np.ones(len(values)) if weight is None else weight
        weighted, weights = weight * values, np.cumsum(weight)
        totals = np.cumsum(weighted)
        middle = 0.5 * (self.low + self.high)
        before = (self.total + middle + totals - weighted) / (self.weight + 1.0 + weights - weight)
        deviation = weight * (values - before)
        self.variance += float(deviation @ deviation)
        self.weight += float(weights[-1])
        self.total += float(totals[-1])

    def estimate(self, alpha: float) -> Estimate:
        """Return the mean and its interval, which misses at some time with probability alpha."""
        if self.weight == 0.0:
            return Estimate(math.nan, self.low, self.high)
        v, scale = max(self.variance, 1.0), self.high - self.low
        epochs = _POWER * math.log(math.log(_GROWTH * v) / math.log(_GROWTH))
        level = epochs + math.log(2.0 * _ZETA / alpha)
        bound = math.sqrt(_K1**2 * v * level + (_K2 * scale * level) ** 2) + _K2 * scale * level
        mean, half = self.total / self.weight, bound / self.weight
        return Estimate(mean, max(mean - half, self.low), min(mean + half, self.high))
