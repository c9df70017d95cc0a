"""History of a monitor: means with their intervals, sums by period, and the last rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import stats

from calibrant._calibrators.structured import StructuredScaling
from calibrant._gate import SimplexBatch
from calibrant._result import Estimate
from calibrant.monitor._results import Proposal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats

MOST_PERIODS, LARGEST_PART = 64, 1000
FIELDS = ("rows", "weight", "hits", "confidence", "unlabelled", "expected", "log_e")
"""Columns of a period: sums over its rows, and the evidence at its end."""

MOST_ROWS, MOST_CELLS = 2000, 40_000
FEWEST_ROWS, SHARE = 100, 2 / 3
"""Number of rows that a proposal needs, and the share of them, the oldest, that it is fitted to."""
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
    KEPT: ClassVar[tuple[str, ...]] = ("weight", "total", "variance")

    def count(self, values: Floats, weight: Floats) -> None:
        """Add rows; each is compared with the mean of those before it."""
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


class Periods:
    """Sums over stretches of rows; when there are too many, neighbours become one."""

    KEPT: ClassVar[tuple[str, ...]] = ("table", "fewest_rows")

    def __init__(self) -> None:
        self.table = np.zeros((0, len(FIELDS)))
        self.fewest_rows = 1

    def column(self, name: str) -> Floats:
        """One field of all periods."""
        return self.table[:, FIELDS.index(name)]

    def add_labelled(self, confidence: Floats, hit: Floats, weight: Floats, log_e: Floats) -> None:
        """Add rows, in several parts if they are many: a large batch has a course as well."""
        step = max(self.fewest_rows, LARGEST_PART)
        for start in range(0, len(weight), step):
            part = slice(start, start + step)
            w = weight[part]
            sums = w.sum(), w @ hit[part], w @ confidence[part]
            self._add(np.array([len(w), *sums, 0.0, 0.0, log_e[part][-1]]))

    def add_unlabelled(self, confidence: Floats, log_e: float) -> None:
        """Add rows without labels, whose accuracy is expected to be their mean confidence."""
        n_rows, expected = len(confidence), confidence.sum()
        self._add(np.array([0.0, 0.0, 0.0, 0.0, n_rows, expected, log_e]))

    def _add(self, new: Floats) -> None:
        """Add sums, to the last period if that is not full."""
        if len(self.table) and self._n_rows()[-1] < self.fewest_rows:
            self.table[-1] = _join(self.table[-1], new)
        else:
            self.table = np.concatenate([self.table, new[None]])
        if len(self.table) > MOST_PERIODS:
            odd = self.table[len(self.table) // 2 * 2 :]
            self.table = np.concatenate([_join(self.table[:-1:2], self.table[1::2]), odd])
            self.fewest_rows = int(self._n_rows()[:-1].min())

    def _n_rows(self) -> Floats:
        return self.column("rows") + self.column("unlabelled")


def _join(first: Floats, second: Floats) -> Floats:
    """Add up periods that follow each other; the evidence is that at the end."""
    joined = first + second
    joined[..., -1] = second[..., -1]
    return joined


class RecentRows:
    """The last 2,000 rows, or 40,000 cells, in single precision."""

    KEPT: ClassVar[tuple[str, ...]] = ("p", "label", "gaps")

    def __init__(self) -> None:
        self.p, self.label = np.zeros((0, 0), np.float32), np.zeros(0, np.intp)
        self.gaps = np.zeros((0, 2), np.float32)  # right or not minus confidence, and the weight

    def gap(self, alpha: float) -> Estimate:
        """Return the mean gap of the last rows, with a normal interval, of one look at them."""
        gap, weight = self.gaps.T.astype(np.float64)
        if len(gap) < 2:
            return Estimate(float(gap.mean()) if len(gap) else math.nan, -1.0, 1.0)
        mean = float(gap @ weight / weight.sum())
        error = math.sqrt(float((weight * (gap - mean)) @ (weight * (gap - mean)))) / weight.sum()
        half = float(stats.t.ppf(1.0 - alpha / 2.0, len(gap) - 1)) * error
        return Estimate(mean, max(mean - half, -1.0), min(mean + half, 1.0))

    def add(self, p: Floats, label: NDArray[np.int64], gap: Floats, weight: Floats) -> None:
        """Keep new rows, and forget the oldest."""
        new_gaps = np.column_stack([gap, weight])[-MOST_ROWS:].astype(np.float32)
        self.gaps = np.concatenate([self.gaps, new_gaps])[-MOST_ROWS:]
        most = max(1, min(MOST_ROWS, MOST_CELLS // p.shape[1]))
        new, labels = p[-most:].astype(np.float32), label[-most:]
        if len(new) < most and len(self.p):
            keep = most - len(new)
            new = np.concatenate([self.p[-keep:], new])
            labels = np.concatenate([self.label[-keep:], labels])
        self.p, self.label = new, labels

    def propose(self, calibrator: Any, classes: Any) -> Proposal | None:
        """Fit a recalibration to the older rows, and judge it on the others, if there are many."""
        n_fitted = round(SHARE * len(self.p))
        if len(self.p) < FEWEST_ROWS:
            return None
        p = self.p.astype(np.float64)
        p /= p.sum(axis=1, keepdims=True)
        batch = SimplexBatch(p, "probabilities", self.label, np.ones(len(p)), classes)
        proposed = StructuredScaling() if calibrator is None else calibrator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            proposed.fit(batch.take(slice(n_fitted)), None)
        later, label = p[n_fitted:], self.label[n_fitted:, None]
        both = [np.take_along_axis(q, label, 1) for q in (later, proposed.predict_proba(later))]
        nll_served, nll_proposed = -np.log(np.maximum(np.hstack(both), 1e-12)).T
        gains = nll_served - nll_proposed
        return Proposal(
            n_fitted=n_fitted,
            n_judged=len(gains),
            nll_served=float(nll_served.mean()),
            nll_proposed=float(nll_proposed.mean()),
            gain=float(gains.mean()),
            gain_error=float(gains.std() / len(gains) ** 0.5),
            calibrator=proposed,
        )
