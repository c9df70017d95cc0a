"""Cells and labels, counted by score: what isotonic fits need of all rows.

While few distinct scores came, each has a bin of its own, and nothing is lost. When more came, bins
are made wider, by as few levels as it takes: at each some octaves of the odds drop one more of the
last bits by which scores are told apart, in a fixed order. So how wide they end up depends on all
scores together and on nothing else. In a bin with several scores their order is lost; that is all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import calibrant.kernels.cells as kernels
from calibrant.scale.exact import BITS, Sums
from calibrant.scale.parts import Part
from calibrant.simplex import chunks, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]

MOST_BINS = 1 << 17
"""Bins that may hold something: more than there are of the widest."""

AHEAD = 1 << 20
"""Cells that are looked at to find out how wide bins have to be."""

MANTISSA = 52
NONE_CAME = np.iinfo(np.int64).max
"""Smallest score, as bits, where none came."""

# Columns of records.
KEY, HIGHS, LOWS, SUMS = 0, slice(1, 9, 2), slice(2, 9, 2), slice(1, 9)
SMALLEST, LARGEST, LABEL, N_COLUMNS = 9, 10, 11, 12


def _levels() -> Wholes:
    """Bits that each octave drops at each level.

    Where labels are neither rare nor nearly certain, most of them lie and few cells: there bits are
    dropped later, and fewer of them. The widest bins are 2**12 in an octave from 1/32 to 31/32,
    2**11 from there to 1/512 and 511/512, 2**10 as far as 2**-26, 2**8 further out, and 1 below
    2**-64.
    """
    half = kernels.N_OCTAVES // 2
    out = half - 2 - np.arange(half)  # octaves between it and [1/4, 1/2); -1 is 1/2 itself
    zones = [out < 4, out < 8, out < 24]
    later = np.append(np.tile(np.select(zones, [20, 10, 5], 0), 2), 0)
    most = np.append(np.tile(np.select(zones, [40, 41, 42], 44), 2), MANTISSA)
    level = np.arange(np.max(later + most) + 1)[:, None]
    shifts: Wholes = np.clip(level - later, 0, most).astype(np.int64)
    return shifts


LEVELS = _levels()
FIRST_LEVEL = np.array(  # at which each octave drops each bit
    [np.searchsorted(octave, np.arange(MANTISSA), side="right") for octave in LEVELS.T]
)


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The bins that hold something, by increasing scores.

    Attributes
    ----------
    cells, labels : ndarray of shape (n_bins,)
        Weight of the cells, and of those that hold the label.
    mass : ndarray of shape (n_bins,)
        Sum of weight times score.
    tops : ndarray of shape (n_bins,)
        Weight of the rows whose largest cell lies here.
    smallest, largest : ndarray of shape (n_bins,)
        Scores.
    starts : ndarray of shape (n_bins,)
        Smallest score of a label; of any cell, where there is no label. Cells without a label do
        better in the block below, so a block starts at a label.
    """

    cells: Array
    labels: Array
    mass: Array
    tops: Array
    smallest: Array
    largest: Array
    starts: Array

    @property
    def is_pure(self) -> NDArray[np.bool_]:
        """Whether all scores of a bin are the same."""
        return np.equal(self.smallest, self.largest)


class CellCounts(Part):
    """Weight of cells and labels by score, with the extreme scores of each bin.

    Parameters
    ----------
    most : int, default=131072
        Bins that may hold something before they are made wider.
    """

    name = "cells"

    def __init__(self, most: int = MOST_BINS) -> None:
        if not (isinstance(most, int) and 1 <= most <= MOST_BINS):
            raise ValueError(f"cells in {most!r} bins")
        self.most = most
        self.level = 0
        """How often bins were made wider."""
        self._take(np.empty((0, N_COLUMNS), dtype=np.int64))

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"most": self.most}

    @property
    def _filled(self) -> Wholes:
        return self._records[: self._n]

    def _take(self, records: Wholes, level: int | None = None, room: int = 0) -> None:
        """Start again with these records, in bins of this level, and with room for more."""
        if level is not None:
            self.level = level
        size = max(2 * len(records), 1024)
        if self.level < len(LEVELS) - 1:  # too many records are widened first
            size = max(min(size, 2 * self.most), len(records))
        size += room
        self._table = np.full(1 << (2 * size).bit_length(), -1, dtype=np.int32)
        self._records = np.empty((size, N_COLUMNS), dtype=np.int64)
        self._n = 0
        self._add_records(records)

    def _add_records(self, records: Wholes) -> None:
        shifts = LEVELS[self.level]
        self._n = kernels.add_records(records, shifts, self._table, self._records, self._n)
        self._carry()

    def _carry(self) -> None:
        low = self._filled[:, LOWS]
        self._filled[:, HIGHS] += low >> BITS
        low &= (1 << BITS) - 1

    def _level_of(self, keys: Wholes) -> int:
        """First level at which these keys, not wider than that of now, have few enough bins."""
        n_merges = np.zeros(len(LEVELS) + 1, dtype=np.int64)
        kernels.count_merges(np.sort(keys), FIRST_LEVEL, n_merges)
        enough = len(keys) - np.cumsum(n_merges) <= self.most
        enough[len(LEVELS) - 1] = True
        return max(int(np.argmax(enough)), self.level)

    def _widen(self, room: int = 0) -> None:
        if self._n > self.most:
            level = self._level_of(self._filled[:, KEY])
            if level > self.level:
                self._take(self._filled, level, room)

    def add(self, batch: SimplexBatch) -> None:
        """Count the cells of a checked chunk."""
        for own in chunks(batch.n_rows, batch.n_classes):
            rows = batch.scores[own]
            rows = softmax(rows) if batch.kind == "logits" else rows
            self._add(rows, batch.class_index[own], batch.weight[own])

    def _look_ahead(self, rows: Array) -> None:
        """Make bins as wide as many cells ask for, at once: time and again costs much more."""
        keys = np.empty(min(rows.size, AHEAD), dtype=np.int64)
        kernels.find_keys(rows.ravel()[:AHEAD], LEVELS[0], keys)
        self.level = self._level_of(keys)

    def _add(self, rows: Array, class_index: Wholes, weight: Array) -> None:
        row, n_classes = 0, rows.shape[1]
        if self._n == 0 and rows.size > 2 * self.most:
            self._look_ahead(rows)
        while True:
            shifts = LEVELS[self.level]
            row, self._n = kernels.add_scores(
                rows, class_index, weight, row, shifts, self._table, self._records, self._n
            )
            self._carry()
            if row == len(rows):
                break
            if self._n > 2 * self.most:  # not as soon as it is more: that, too, costs
                self._widen(n_classes)
            self._take(self._filled, room=n_classes)
        self._widen()

    def merge(self, other: CellCounts) -> None:
        """Add what another one has counted."""
        level = max(self.level, other.level)
        if level > self.level or len(self._records) < self._n + other._n:
            self._take(self._filled, level, other._n)
        self._add_records(other._filled)
        self._widen()

    def scale(self, factor: float) -> None:
        """Multiply all weights; a bin that is left without any is empty."""
        records = self._filled
        sums = Sums.of(records[:, HIGHS], records[:, LOWS])
        sums.scale(factor)
        records[:, HIGHS], records[:, LOWS] = sums.high, sums.low
        holds = (records[:, HIGHS] != 0) | (records[:, LOWS] != 0)
        records[~holds[:, 1], LABEL] = NONE_CAME
        self._take(records[holds[:, 0]])

    def _sorted(self) -> Wholes:
        """Return the records by increasing scores."""
        return self._filled[np.argsort(self._filled[:, SMALLEST])]

    def bins(self) -> Bins:
        """Return what is in the bins."""
        records = self._sorted()
        cells, labels, mass, tops = Sums.of(records[:, HIGHS], records[:, LOWS]).values().T.copy()
        smallest, largest, label = (records[:, c].copy() for c in (SMALLEST, LARGEST, LABEL))
        starts = np.where(labels > 0, label, smallest)
        return Bins(
            cells,
            np.minimum(labels, cells),  # scaled, they were rounded apart
            mass,
            tops,
            smallest.view(np.float64),
            (-largest).view(np.float64),
            starts.view(np.float64),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the records, by increasing scores."""
        return {"level": np.array([self.level]), "records": self._sorted()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        records, level = arrays["records"], int(arrays["level"].item())
        if records.ndim != 2 or records.shape[1] != N_COLUMNS or records.dtype != np.int64:
            raise ValueError("counts of cells have the wrong shape or type")
        if not 0 <= level < len(LEVELS):
            raise ValueError(f"counts of cells at level {level}")
        smallest, largest = records[:, SMALLEST], -records[:, LARGEST]
        has_label = records[:, LABEL] != NONE_CAME
        label = np.where(has_label, records[:, LABEL], smallest)
        holds = (records[:, HIGHS] != 0) | (records[:, LOWS] != 0)
        if not (
            np.all(records[:, SUMS] >= 0)
            and np.all(records[:, LOWS] < 1 << BITS)
            and np.all(holds[:, 0])
            and np.array_equal(holds[:, 1], has_label)
            and np.all((smallest <= label) & (label <= largest))
            and np.all(np.diff(smallest) > 0)
            and np.array_equal(_keys(smallest, LEVELS[level]), records[:, KEY])
            and np.array_equal(_keys(largest, LEVELS[level]), records[:, KEY])
            and len(np.unique(records[:, KEY])) == len(records)
        ):
            raise ValueError("counts of cells do not belong to their bins")
        self._take(np.ascontiguousarray(records), level)
        self._widen()


def _keys(bits: Wholes, shifts: Wholes) -> Wholes:
    """Key of the bin of each score, given as bits."""
    scores = np.ascontiguousarray(bits).view(np.float64)
    if not np.all((bits >= 0) & (scores <= 1.0)):  # false for NaN
        raise ValueError("counts of cells whose scores are none")
    out = np.empty(len(bits), dtype=np.int64)
    kernels.find_keys(scores, shifts, out)
    return out
