"""``Periods``: what is kept of the past for pictures, in a bounded number of stretches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats

MOST_PERIODS, N_BINS, LARGEST_PART = 64, 10, 1000
FIELDS = (
    "rows",
    "weight",
    "hits",
    "confidence",
    "unlabelled",
    "expected",
    "first",
    "last",
    "log_e",
)


class Stretch(NamedTuple):
    """Some periods: rows, first and last time, and weight, hits and confidence of each bin."""

    n_rows: int
    first: float
    last: float
    bins: Floats


class Periods:
    """Sums over stretches of rows; when there are too many, neighbours become one."""

    def __init__(self) -> None:
        self.table = np.zeros((0, len(FIELDS) + 3 * N_BINS))
        self.fewest_rows = 1

    def column(self, name: str) -> Floats:
        """One field of all periods."""
        return self.table[:, FIELDS.index(name)]

    def parts(self, n_rows: int) -> Iterator[slice]:
        """Divide many rows, so that the course within a large batch is seen."""
        step = max(self.fewest_rows, LARGEST_PART)
        return (slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step))

    def add(
        self,
        confidence: Floats,
        hit: NDArray[np.bool_] | None,
        weight: Floats | None,
        time: Floats | None,
        log_e: float,
    ) -> None:
        """Add rows, to the last period if that is not full."""
        new = np.zeros(self.table.shape[1])
        if hit is None:
            new[[4, 5]] = len(confidence), confidence.sum()
        else:
            w = np.ones(len(confidence)) if weight is None else weight
            new[:4] = len(confidence), w.sum(), w @ hit, w @ confidence
            at = np.minimum((N_BINS * confidence).astype(np.int64), N_BINS - 1)
            parts = (w, w * hit, w * confidence)
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

    def pooled(self, most: int) -> list[Stretch]:
        """Join periods with labels to at most so many stretches, with about as many each."""
        table = self.table[self.column("rows") > 0]
        parts = [part for part in np.array_split(table, most) if len(part)]
        return [
            Stretch(
                int(part[:, 0].sum()),
                float(np.fmin.reduce(part[:, 6])),
                float(np.fmax.reduce(part[:, 7])),
                part[:, len(FIELDS) :].sum(axis=0).reshape(3, N_BINS),
            )
            for part in parts
        ]


def _join(first: Floats, second: Floats) -> Floats:
    """Add up periods that follow each other."""
    out = first + second
    out[:, 6] = np.fmin(first[:, 6], second[:, 6])
    out[:, 7] = np.fmax(first[:, 7], second[:, 7])
    out[:, 8] = second[:, 8]
    return out
