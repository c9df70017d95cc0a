"""What is kept of the past: means with their intervals, sums by period, and the last rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import stats

from calibrant._calibrators.structured import StructuredScaling
from calibrant._result import Estimate
from calibrant._simplex import SimplexBatch
from calibrant.monitor._results import Proposal
from calibrant.monitor._state import LARGEST_LOG, Bounds, require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats

MOST_PERIODS, N_BINS, LARGEST_PART = 64, 10, 1000
_SUMS = ("rows", "weight", "hits", "confidence", "unlabelled", "expected")
FIELDS = (*_SUMS, "first", "last", "log_e")
"""Columns of a period; those behind them are sums by bin."""

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
    KEPT: ClassVar[Bounds] = {
        **dict.fromkeys(("weight", "variance"), (0.0, 1e18)),
        "total": (-1e18, 1e18),
    }

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

    KEPT: ClassVar[Bounds] = {"table": None, "fewest_rows": (1, 2**53)}

    def __init__(self) -> None:
        self.table = np.zeros((0, len(FIELDS) + 3 * N_BINS))
        self.fewest_rows = 1

    def check_state(self) -> None:
        """Refuse sums that rows cannot have; times may be absent."""
        table, width = self.table, len(FIELDS) + 3 * N_BINS
        is_table = table.shape[1] == width and len(table) <= MOST_PERIODS
        require(is_table, f"the table of periods has shape {table.shape}")
        times = table[:, 6:8]
        require(not np.isinf(times).any(), "a time of a period is infinite")
        require((np.isnan(times) == np.isnan(times[:, :1])).all(), "a period lacks one of its ends")
        log_e, sums = table[:, 8], np.delete(table, [6, 7, 8], axis=1)
        require((np.abs(log_e) <= LARGEST_LOG).all(), "the evidence of a period is too large")
        require(((sums >= 0.0) & (sums <= 1e18)).all(), "a sum of a period is no sum")
        rows, weight, hits, said, other, expected = sums[:, :6].T
        slack = 1e-6 * (1.0 + weight)
        is_possible = (hits <= weight + slack) & (said <= weight + slack) & (weight <= rows + slack)
        is_possible &= (expected <= other + 1e-6 * (1.0 + other)) & (rows + other > 0)
        is_possible &= (rows == 0) == (weight == 0)
        bins = sums[:, 6:].reshape(-1, 3, N_BINS)
        is_possible &= np.abs(bins[:, 0].sum(axis=1) - weight) <= slack
        is_possible &= (bins[:, 1:] <= bins[:, :1] + slack[:, None, None]).all(axis=(1, 2))
        require(is_possible.all(), "the sums of a period do not agree")

    def column(self, name: str) -> Floats:
        """One field of all periods."""
        return self.table[:, FIELDS.index(name)]

    def parts(self, n_rows: int) -> Iterator[slice]:
        """Divide many rows, so that the course within a large batch is seen."""
        step = max(self.fewest_rows, LARGEST_PART)
        return (slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step))

    def add(self, confidence: Floats, hit: Any, weight: Any, time: Any, log_e: float) -> None:
        """Add rows, to the last period if that is not full."""
        new = np.zeros(self.table.shape[1])
        if hit is None:
            new[[4, 5]] = len(confidence), confidence.sum()
        else:
            new[:4] = len(confidence), weight.sum(), weight @ hit, weight @ confidence
            at = np.minimum((N_BINS * confidence).astype(np.intp), N_BINS - 1)
            parts = (weight, weight * hit, weight * confidence)
            new[len(FIELDS) :] = np.concatenate([np.bincount(at, x, N_BINS) for x in parts])
        span = (np.nan, np.nan) if time is None else (time.min(), time.max())
        new[6:9] = *span, log_e
        if len(self.table) and self.table[-1, [0, 4]].sum() < self.fewest_rows:
            self.table[-1] = _join(self.table[-1:], new[None])[0]
        else:
            self.table = np.concatenate([self.table, new[None]])
        if len(self.table) > MOST_PERIODS:
            odd = self.table[len(self.table) // 2 * 2 :]
            self.table = np.concatenate([_join(self.table[:-1:2], self.table[1::2]), odd])
            self.fewest_rows = int(self.table[:-1, [0, 4]].sum(axis=1).min())

    def pooled(self, most: int) -> Iterator[tuple[int, float, float, Floats]]:
        """Join periods with labels to a few stretches: rows, first and last time, sums by bin."""
        table = self.table[self.column("rows") > 0]
        for part in np.array_split(table, min(most, len(table))) if len(table) else ():
            first, last = float(np.fmin.reduce(part[:, 6])), float(np.fmax.reduce(part[:, 7]))
            bins = part[:, len(FIELDS) :].sum(axis=0).reshape(3, N_BINS)
            yield int(part[:, 0].sum()), first, last, bins


def _join(first: Floats, second: Floats) -> Floats:
    """Add up periods that follow each other."""
    out = first + second
    out[:, 6] = np.fmin(first[:, 6], second[:, 6])
    out[:, 7] = np.fmax(first[:, 7], second[:, 7])
    out[:, 8] = second[:, 8]
    return out


class RecentRows:
    """The last 2,000 rows, or 40,000 cells, in single precision."""

    KEPT: ClassVar[Bounds] = {"p": (0.0, 1.0), "label": (0, 2**53), "gaps": (-1.0, 1.0)}

    def __init__(self) -> None:
        self.p, self.label = np.zeros((0, 0), np.float32), np.zeros(0, np.intp)
        self.gaps = np.zeros((0, 2), np.float32)  # right or not minus confidence, and the weight

    def check_state(self) -> None:
        """Refuse rows that are none."""
        n_rows, k = self.p.shape
        require(len(self.label) == n_rows <= MOST_ROWS, "recent rows and labels differ in number")
        require(n_rows == 0 or self.label.max() < k, "a recent label has no column")
        is_simplex = (np.abs(self.p.sum(axis=1) - 1.0) < 1e-3).all()
        require(is_simplex, "a recent row does not sum to 1")
        is_table = self.gaps.shape[1] == 2 and len(self.gaps) <= MOST_ROWS
        require(is_table and (self.gaps[:, 1] > 0.0).all(), "a recent weight is not positive")

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
