"""History of a monitor: means with their intervals, and sums by period."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from calibrant._result import Estimate

if TYPE_CHECKING:
    from calibrant.monitor._bets import Floats

MOST_PERIODS, LARGEST_PART = 64, 1000
FIELDS = ("rows", "hits", "confidence", "log_e")
"""Columns of a period: sums over its rows, and the evidence at its end."""

_GROWTH, _POWER, _ZETA = 2.0, 1.4, 3.105  # of the epochs, of their prior, and zeta(1.4)
_K1, _K2 = (_GROWTH**0.25 + _GROWTH**-0.25) / math.sqrt(2.0), (math.sqrt(_GROWTH) + 1.0) / 2.0


@dataclass
class MeanSequence:
    """Mean of numbers in [low, high].

    The interval covers the mean of the conditional expectations of the rows counted, at all times
    at once, whatever they are and however they change: the empirical Bernstein confidence sequence
    with the stitched boundary of Howard, Ramdas, McAuliffe and Sekhon (2021, Theorem 4, eq. 10).
    """

    low: float
    high: float
    n_rows: int = 0
    total: float = 0.0
    variance: float = 0.0
    KEPT: ClassVar[tuple[str, ...]] = ("n_rows", "total", "variance")

    def count(self, values: Floats) -> None:
        """Add rows; each is compared with the mean of those before it."""
        totals = np.cumsum(values)
        middle = 0.5 * (self.low + self.high)
        n_before = self.n_rows + 1.0 + np.arange(len(values))  # and one row at the middle
        deviation = values - (self.total + middle + totals - values) / n_before
        self.variance += float(deviation @ deviation)
        self.n_rows += len(values)
        self.total += float(totals[-1])

    def estimate(self, alpha: float) -> Estimate:
        """Return the mean and its interval, which misses at some time with probability alpha."""
        if self.n_rows == 0:
            return Estimate(math.nan, self.low, self.high)
        v, scale = max(self.variance, 1.0), self.high - self.low
        epochs = _POWER * math.log(math.log(_GROWTH * v) / math.log(_GROWTH))
        level = epochs + math.log(2.0 * _ZETA / alpha)
        bound = math.sqrt(_K1**2 * v * level + (_K2 * scale * level) ** 2) + _K2 * scale * level
        mean, half = self.total / self.n_rows, bound / self.n_rows
        return Estimate(mean, max(mean - half, self.low), min(mean + half, self.high))


class Periods:
    """Sums over stretches of rows; when there are too many, neighbours become one."""

    KEPT: ClassVar[tuple[str, ...]] = ("table", "fewest_rows")

    def __init__(self) -> None:
        self.table = np.zeros((0, len(FIELDS)))
        self.fewest_rows = 1

    def column(self, name: str) -> Floats:
        """One field of all periods."""
        return self.table[:, FIELDS.index(name)]

    def add(self, confidence: Floats, hit: Floats, log_e: Floats) -> None:
        """Add rows, in several parts if they are many: a large batch has a course as well."""
        step = max(self.fewest_rows, LARGEST_PART)
        for start in range(0, len(hit), step):
            part = slice(start, start + step)
            sums = len(hit[part]), hit[part].sum(), confidence[part].sum(), log_e[part][-1]
            self._add(np.array(sums, dtype=np.float64))

    def _add(self, new: Floats) -> None:
        """Add sums, to the last period if that is not full."""
        if len(self.table) and self.column("rows")[-1] < self.fewest_rows:
            self.table[-1] = _join(self.table[-1], new)
        else:
            self.table = np.concatenate([self.table, new[None]])
        if len(self.table) > MOST_PERIODS:
            odd = self.table[len(self.table) // 2 * 2 :]
            self.table = np.concatenate([_join(self.table[:-1:2], self.table[1::2]), odd])
            self.fewest_rows = int(self.column("rows")[:-1].min())


def _join(first: Floats, second: Floats) -> Floats:
    """Add up periods that follow each other; the evidence is that at the end."""
    joined = first + second
    joined[..., -1] = second[..., -1]
    return joined
