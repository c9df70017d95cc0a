"""``RowSample``: a calibration set in memory, made of as many rows as there are.

Every row has a hash of its content. While all rows fit into ``max_cells``, all are kept; then those
with the smallest hashes, by class. Which rows are kept is a function of the set of all rows, so
neither their order nor their chunks matter, nor the order in which samples are merged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._kernels.rows import row_hashes
from calibrant._maps.base import ensure
from calibrant._row_order import order_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._types import Array, Bools, Floats, Wholes

MAX_CELLS = 1 << 24  # cells that are kept by default: 128 MiB, or 1.7 million rows of ten classes
ROWS_OF_A_CLASS = 64  # that are kept at least by default, on average over more than 512 classes,
MAX_CELLS_OF_MANY = 1 << 26  # in at most 512 MiB
UNBOUNDED = np.uint64(2**64 - 1)  # bound on the hashes of a class of which every row is kept
FEWEST_WAITING = 1 << 14
"""Rows that are gathered at least before they are sorted into those that are kept."""

LARGEST_COUNT = 2.0**31  # whole weights up to here are numbers of repetitions, whose sums are exact
LARGEST_TOTAL = 2.0**200  # no class weighs more: rows weigh up to 2^100 each
ROUNDING = 1e-6  # of the weight of a class that decayed, beside that of its rows


class SampleState(NamedTuple):
    """What a sample has counted, in arrays that a model file can hold."""

    rows: Floats
    """Scores of each kept row, of shape (n_kept, n_classes)."""
    class_index: Wholes
    weight: Floats
    times: Floats
    """How often each row came."""
    hashes: Wholes
    """The 64 bits of the hash by which each row was kept."""
    bounds: Wholes
    """The 64 bits of the largest hash that is kept of each class; -1 if every row is."""
    totals: Floats
    """Of each class the sum of whole weights, and three numbers whose sum is that of the others."""


WHOLE_ARRAYS = ("class_index", "hashes", "bounds")
"""Fields of a ``SampleState`` that are whole numbers."""


class _Entries(NamedTuple):
    """Distinct rows: hash, scores, label, weight of one row, and how often it came."""

    hashes: NDArray[np.uint64]
    scores: Floats
    class_index: Wholes
    weight: Floats
    times: Floats

    @classmethod
    def of(cls, batch: gate.SimplexBatch) -> _Entries:
        """Return the rows of a batch.

        A whole weight w is w rows of weight 1. Other weights are a part of a row's content: two
        rows of weight 0.3 are not one of 0.6, since sums of such numbers depend on their order.
        """
        scores = batch.scores + 0.0  # a copy, without -0.0
        nothing = np.zeros(batch.n_rows, dtype=np.intp)
        # Labels have no part in it: rows of equal scores are kept or dropped together, so that
        # the kept ones have the labels that all rows with these scores have.
        hashes = row_hashes(scores.view(np.int64), nothing)
        is_whole = (batch.weight == np.floor(batch.weight)) & (batch.weight <= LARGEST_COUNT)
        weight = np.where(is_whole, 1.0, batch.weight)
        times = np.where(is_whole, batch.weight, 1.0)
        some = np.flatnonzero(~is_whole)
        if len(some):
            parts = np.column_stack([hashes[some].view(np.int64), weight[some].view(np.int64)])
            hashes[some] = row_hashes(parts, nothing[some])
        return cls(hashes, scores, batch.class_index.astype(np.intp), weight, times)

    def take(self, rows: Array) -> _Entries:
        return _Entries(*(array[rows] for array in self))

    def below(self, bounds: NDArray[np.uint64]) -> _Entries:
        """Return the rows whose hashes are not above the bound of their class."""
        is_below = self.hashes <= bounds[self.class_index]
        return self if is_below.all() else self.take(is_below)

    @classmethod
    def join(cls, parts: list[_Entries]) -> _Entries:
        """Sort entries by class and hash, ties by content, and count equal ones together."""
        hashes, index, order, is_new = _order_entries(parts)
        starts = np.flatnonzero(is_new)
        times = np.concatenate([part.times for part in parts])[order]
        times = np.add.reduceat(times, starts) if len(times) else times
        order = order[starts]
        # A column at a time: of samples of 128 MiB, a copy of all columns is much.
        scores = np.concatenate([part.scores for part in parts])[order]
        weight = np.concatenate([part.weight for part in parts])[order]
        return cls(hashes[order], scores, index[order], weight, times)


def _order_entries(parts: list[_Entries]) -> tuple[NDArray[np.uint64], Wholes, Wholes, Bools]:
    """Return all hashes and classes, their order, and where in it another entry begins."""
    hashes = np.concatenate([part.hashes for part in parts])
    index = np.concatenate([part.class_index for part in parts])
    weight = np.concatenate([part.weight for part in parts])
    order, is_other = order_rows(index, hashes, weight)
    is_new = is_other[: len(order)]
    is_new[1:] |= np.diff(weight[order]) != 0.0
    return hashes, index, order, is_new


class RowSample:
    """Rows of a calibration set: all of them while they fit, then a sample by content.

    The rows with the smallest hashes of their content are kept. By class: one with fewer rows than
    its share of the room keeps all of them. The kept rows of other classes get weights that restore
    the total weight of their class. The order of rows, their chunks and the order of merging change
    nothing, to the last bit.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        Label of each column of the scores.
    scores : {"probabilities", "logits", "positive", "decision"}, default="probabilities"
        Kind of the scores, as of a calibrator.
    normalize : {None, "rows"}, default=None
        "rows" divides each row by its sum.
    max_cells : int, optional
        Largest number of scores that are kept; each takes 8 bytes. The default is 2^24, and for
        more than 512 classes as many as 64 rows of each have, but at most 2^26.

    Attributes
    ----------
    n_rows : int
        Number of rows that were counted, those of weight 0 left out.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import RowSample
    >>> scores, y = simulated_scores(1000)
    >>> first = RowSample([0, 1, 2]).update(scores[:300], y[:300])
    >>> sample = RowSample([0, 1, 2]).update(scores[300:], y[300:]).merge(first)
    >>> sample.n_rows, sample.is_complete
    (1000, True)
    >>> fitted = TemperatureScaling().fit(sample)
    >>> abs(fitted.temperature_ - TemperatureScaling().fit(scores, y).temperature_) < 1e-9
    True
    """

    def __init__(
        self,
        classes: object,
        *,
        scores: str = "probabilities",
        normalize: str | None = None,
        max_cells: int | None = None,
    ) -> None:
        self.classes, self.scores, self.normalize = np.asarray(classes), scores, normalize
        n_classes = len(self.classes)
        if max_cells is None:
            # A map with a number for each class loses 1 / (2 rows of a class) nats to sampling.
            of_many = min(ROWS_OF_A_CLASS * n_classes**2, MAX_CELLS_OF_MANY)
            max_cells = max(MAX_CELLS, of_many)
        gate.check_number("max_cells", max_cells, low=n_classes, whole=True)
        self.max_cells = max_cells
        self._room = max_cells // n_classes  # rows
        self._bounds = np.full(n_classes, UNBOUNDED)  # the largest hash that is kept of each class
        self._counts = np.zeros(n_classes)
        self._rests: list[tuple[float, ...]] = [(0.0,)] * n_classes
        self.n_rows = 0
        nothing = np.empty((0, n_classes)), self._kind, np.empty(0, np.intp), np.empty(0)
        self._kept = _Entries.of(gate.SimplexBatch(*nothing, self.classes))
        self._waiting: list[_Entries] = []

    @property
    def _kind(self) -> str:
        return gate.two_column_kind(self.scores)

    def __repr__(self) -> str:
        return (
            f"RowSample({self.n_kept:,} kept of {self.n_rows:,} rows, {len(self.classes)} classes)"
        )

    @property
    def n_kept(self) -> int:
        """Number of distinct rows that are kept."""
        self._settle()
        return len(self._kept.hashes)

    @property
    def is_complete(self) -> bool:
        """Whether every row is kept."""
        self._settle()
        return bool(np.all(self._bounds == UNBOUNDED))

    def expect(self, counts: NDArray[np.integer]) -> NDArray[np.uint64]:
        """Drop rows from the start that will not be kept of ``counts`` rows of each class.

        Chunks that do not know of each other keep all of their rows, which together are many times
        the room. Hashes are uniform, so the numbers of rows tell where the bounds will be: of N
        rows of which m are kept, at about m / N of all hashes. Here they are eight standard
        deviations higher. They are returned for ``has_reached``: rows that repeat have one hash,
        and then fewer are kept than the room has.
        """
        share = max(self._room // len(counts), 1)
        n_kept = np.minimum(counts, share).astype(np.float64)
        # What classes leave of their shares goes to the smallest hashes: a common part of each.
        low, high = 0.0, 1.0
        for _ in range(64):
            part = (low + high) / 2.0
            is_small = np.maximum(n_kept, part * counts).sum() <= self._room
            low, high = (part, high) if is_small else (low, part)
        n_kept = np.maximum(n_kept, low * counts)
        some = (n_kept + 8.0 * np.sqrt(n_kept) + 64.0) / np.maximum(counts, 1)
        bounds = np.full(len(counts), UNBOUNDED)
        bounds[some < 1.0] = (some[some < 1.0] * 2.0**64).astype(np.uint64)
        self._lower(np.minimum(self._bounds, bounds))
        return bounds

    def has_reached(self, bounds: NDArray[np.uint64]) -> bool:
        """Whether no row was dropped by ``expect`` that would have been kept without it."""
        self._settle()
        return bool(np.all((self._bounds < bounds) | (bounds == UNBOUNDED)))

    def update(self, scores: object, y: Any, sample_weight: object = None) -> Self:
        """Count rows, which are given as to ``fit`` of a calibrator; return the sample."""
        if len(y) == 0:
            return self
        batch = gate.check_batch(
            scores,
            y,
            sample_weight,
            kind=self.scores,
            classes=self.classes,
            normalize=self.normalize,
            is_chunk=True,
        )
        rows = _Entries.of(batch)
        self.n_rows += len(rows.hashes)
        is_whole = rows.weight == 1.0
        counts = np.where(is_whole, rows.times, 0.0)
        self._counts += np.bincount(rows.class_index, counts, len(self._counts))
        for c in np.unique(rows.class_index[~is_whole]):
            own = rows.weight[~is_whole & (rows.class_index == c)]
            self._rests[c] = _exact_sum([*self._rests[c], *own.tolist()])
        self._wait(rows)
        return self

    def merge(self, other: RowSample) -> Self:
        """Add what another sample of the same parameters has counted; return this one."""
        for name in ("scores", "normalize", "max_cells", "classes"):
            own, theirs = getattr(self, name), getattr(other, name)
            if not np.array_equal(own, theirs):
                problem = f"the other sample has {name}={errors.in_words(theirs)}, but this one "
                problem += f"{errors.in_words(own)}; make both with the same parameters"
                raise errors.ParameterError(problem, argument=name, value=theirs)
        other._settle()
        self.n_rows += other.n_rows
        self._counts += other._counts
        self._rests = [_exact_sum([*a, *b]) for a, b in zip(self._rests, other._rests, strict=True)]
        self._lower(np.minimum(self._bounds, other._bounds))
        self._wait(other._kept)
        return self

    def scale(self, factor: float) -> Self:
        """Multiply the weights of all rows so far by a number in [0, 1]: old rows decay."""
        gate.check_number("factor", factor, low=0.0, high=1.0)
        if factor == 1.0:
            return self
        self._settle()
        self._rests = [(total * factor,) for total in self._totals()]
        self._counts[:] = 0.0
        weight = self._kept.weight * factor
        self._kept = self._kept._replace(weight=weight).take(weight > 0.0)
        return self

    def _totals(self) -> list[float]:
        """Return the weight of all rows of each class, correctly rounded."""
        pairs = zip(self._counts.tolist(), self._rests, strict=True)
        return [math.fsum((count, *rest)) for count, rest in pairs]

    def batch(self) -> gate.SimplexBatch:
        """Return the kept rows as a calibration set, in an order of their content.

        Its weights add up to those of all rows in every class.
        """
        self._settle()
        rows, totals = self._kept, np.array(self._totals())
        weight = rows.weight * rows.times
        about = rows.scores, self._kind, rows.class_index
        if self.is_complete:
            return gate.SimplexBatch(*about, weight, self.classes)
        kept = np.bincount(rows.class_index, weight, len(totals))
        is_cut = (self._bounds < UNBOUNDED) & (kept > 0.0)
        unit = np.where(is_cut, totals / np.where(is_cut, kept, 1.0), 1.0)[rows.class_index]
        return gate.SimplexBatch(*about, weight * unit, self.classes, unit)

    def _wait(self, rows: _Entries) -> None:
        """Take rows that are not above the bound of their class; sort many at a time."""
        self._waiting.append(rows.below(self._bounds))
        if sum(len(own.hashes) for own in self._waiting) >= max(self._room // 4, FEWEST_WAITING):
            self._settle()

    def _settle(self) -> None:
        """Sort what waits into the kept rows, and drop those that are too many."""
        if not self._waiting:
            return
        if len(self._kept.hashes) + sum(len(rows.hashes) for rows in self._waiting) > self._room:
            self._lower(self._find_bounds([self._kept, *self._waiting]))
        self._kept, self._waiting = _Entries.join([self._kept, *self._waiting]), []

    def _find_bounds(self, parts: list[_Entries]) -> NDArray[np.uint64]:
        """Return the largest hash to keep of each class, so that all rows fit into the room.

        A class keeps its share of the room, an equal part, or all of its rows if they are fewer;
        what is left of the room goes to the smallest of all other hashes.
        """
        hashes, index, order, is_new = _order_entries(parts)
        order = order[is_new]
        if len(order) <= self._room:
            return self._bounds
        hashes, index, n_classes = hashes[order], index[order], len(self.classes)
        starts = np.searchsorted(index, np.arange(n_classes + 1))
        sizes, share = np.diff(starts), self._room // n_classes
        # Rows are sorted by class and hash: the rank of a row is its place in its class.
        rank = np.arange(len(hashes)) - starts[index]
        others = hashes[rank >= share]
        n_others = self._room - int(np.minimum(sizes, share).sum())
        last = np.partition(others, n_others - 1)[n_others - 1] if n_others > 0 else np.uint64(0)
        ends = starts[:-1] + np.minimum(sizes, max(share, 1)) - 1
        bounds = np.where(sizes > 0, hashes[np.maximum(ends, 0)], last)
        bounds = np.maximum(bounds, last)
        largest = np.where(sizes > 0, hashes[np.maximum(starts[1:] - 1, 0)], np.uint64(0))
        return np.where(largest <= bounds, self._bounds, bounds)

    def _lower(self, bounds: NDArray[np.uint64]) -> None:
        """Drop the rows above some bounds."""
        self._bounds = bounds
        self._kept, *self._waiting = [rows.below(bounds) for rows in (self._kept, *self._waiting)]

    def state(self) -> SampleState:
        """Return all that the sample has counted; parameters and ``n_rows`` stand beside it."""
        self._settle()
        kept = _Entries.join([self._kept])  # since a decay may have made weights equal
        rests = [(*parts, 0.0, 0.0)[:3] for parts in self._rests]
        return SampleState(
            rows=kept.scores,
            class_index=kept.class_index.astype(np.int64),
            weight=kept.weight,
            times=kept.times,
            hashes=kept.hashes.view(np.int64),
            bounds=self._bounds.view(np.int64),
            totals=np.column_stack([self._counts, rests]),
        )

    @classmethod
    def from_state(
        cls,
        state: SampleState,
        classes: object,
        *,
        n_rows: int,
        scores: str,
        normalize: str | None,
        max_cells: int,
    ) -> RowSample:
        """Return the sample that has a state; refuse one that no fit could be made of."""
        sample = cls(classes, scores=scores, normalize=normalize, max_cells=max_cells)
        n_kept, k = len(state.rows), len(sample.classes)
        shapes = [array.shape for array in state]
        wanted = [(n_kept, k), *[(n_kept,)] * 4, (k,), (k, 4)]
        ensure(shapes == wanted, f"the arrays have the shapes {shapes}")
        gate.check_number("n_rows", n_rows, low=n_kept, whole=True)
        times, totals = state.times, state.totals
        is_count = np.isfinite(times) & (times >= 1.0) & (times == np.floor(times))
        ensure(is_count.all(), "a row came a number of times that is no whole number")
        ensure((np.abs(totals) <= LARGEST_TOTAL).all(), "a class has an impossible weight")
        with np.errstate(over="ignore"):  # infinite weights are refused by the gate
            weight = state.weight * times
        batch = gate.check_batch(
            state.rows,
            state.class_index,
            weight,
            kind=sample._kind,
            classes=np.arange(k),
            is_chunk=True,
        )
        is_same = np.array_equal(batch.scores, state.rows)
        ensure(is_same, "rows without a weight, or not on the simplex to the last digits")
        kept = np.bincount(state.class_index, weight, k)
        is_enough = kept <= totals.sum(axis=1) * (1.0 + ROUNDING) + np.finfo(np.float64).tiny
        ensure(is_enough.all(), "a class has less weight than its rows")
        entries = state.hashes.view(np.uint64), state.rows, state.class_index.astype(np.intp)
        # Whatever the order of the rows, and if one of them is there twice: they are joined anew.
        sample._kept = _Entries.join([_Entries(*entries, state.weight, times)])
        sample.n_rows, sample._bounds = int(n_rows), state.bounds.view(np.uint64).copy()
        sample._counts, sample._rests = totals[:, 0].copy(), [*map(tuple, totals[:, 1:].tolist())]
        return sample

    def __getstate__(self) -> dict[str, object]:
        self._settle()
        return vars(self)

    def __copy__(self) -> RowSample:
        """Return a sample that goes on by itself; arrays of rows are never changed, so shared."""
        self._settle()
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._counts, other._rests, other._waiting = self._counts.copy(), [*self._rests], []
        return other


def _exact_sum(values: list[float]) -> tuple[float, ...]:
    """Return three numbers whose sum is that of the values, with some 150 bits.

    ``fsum`` rounds correctly, so each is what is left by those before it, whatever the order.
    """
    result: list[float] = []
    for _ in range(3):
        result.append(math.fsum([*values, *(-own for own in result)]))
    return tuple(result)
