"""Step functions of one variable, and of one variable and a rank; and the maps made of one."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._kernels.lookup import apply_step
from calibrant._kernels.ranked_lookup import apply_ranked, pack_rows, rises_with_rank
from calibrant._kernels.tables import (
    TIED,
    Lookup,
    PowerTable,
    RankedLookup,
    build_lookup,
    build_powers,
    build_ranked_lookup,
)
from calibrant._maps.base import DEEPEST_LOGIT, CalibrationMap, check_field, ensure, freeze, frozen
from calibrant._types import Floats, Wholes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

CELLS_AT_ONCE = 1 << 15
"""Cells mapped at once: what the second-level cache holds."""

FEW_CELLS = 1 << 12
"""Cells below which the lock of the interpreter is kept; see ``_kernels.lock``."""

MOST_SHORT_KEYS = 1 << 15
"""Classes up to which 32 bits are enough to sort a row by."""


class Pieces(NamedTuple):
    """A curve in pieces: ``value + slope * (x - start)`` from each start on, first 0."""

    starts: Floats
    values: Floats
    slopes: Floats


@frozen
class Histogram:
    """A step function on [0, 1], continuous from the right, that need not increase.

    Its blocks, or bins, start at ``thresholds``, which increase from 0, have ``values`` in [0, 1]
    and ``sizes``, the total weight of their calibration cells.
    """

    thresholds: Floats
    values: Floats
    sizes: Floats

    def __post_init__(self) -> None:
        freeze(self, "thresholds", "values", "sizes")
        t, v, s = self.thresholds, self.values, self.sizes
        alike = t.ndim == 1 and t.shape == v.shape == s.shape and t.size > 0
        ensure(alike, "thresholds, values and sizes must be 1-D, of the same length and not empty")
        inside = t[0] == 0 and t[-1] <= 1 and (t[1:] > t[:-1]).all()  # false for NaN
        ensure(inside, "thresholds must start at 0 and increase strictly within [0, 1]")
        self._check_values(v)
        # The tables over the bits of a double put -0.0 elsewhere than 0.0.
        ensure(not (np.signbit(t).any() or np.signbit(v).any()), "there is a negative zero")
        ensure(s.min() >= 0 and s.max() < np.inf, "sizes must be finite and not negative")

    def _check_values(self, v: Floats) -> None:
        ensure(v.min() >= 0 and v.max() <= 1, "values must be in [0, 1]")

    def __call__(self, x: ArrayLike) -> Floats:
        """Value at each ``x``; below 0 as at 0."""
        block = np.searchsorted(self.thresholds, np.asarray(x, dtype=np.float64), side="right") - 1
        return self.values[np.maximum(block, 0)]

    @property
    def pieces(self) -> Pieces:
        """Its blocks."""
        return Pieces(self.thresholds, self.values, np.zeros(len(self.values)))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.values)


@frozen
class StepFunction(Histogram):
    """A histogram whose values never fall; they are finite and not negative, and may exceed 1."""

    def _check_values(self, v: Floats) -> None:
        rising = v[0] >= 0 and v[-1] < np.inf and (v[1:] >= v[:-1]).all()
        ensure(rising, "values must be finite, not negative and non-decreasing")


@frozen
class RankedStepFunction:
    """One step function of q for every rank, non-decreasing in q and from rank to rank.

    The blocks of rank r, ``offsets[r - 1] .. offsets[r] - 1``, start at ``thresholds``, which
    increase from 0, and have ``values`` in [0, 1].
    """

    thresholds: Floats
    values: Floats
    offsets: Wholes

    def __post_init__(self) -> None:
        freeze(self, "thresholds", "values")
        freeze(self, "offsets", dtype=np.int64)
        t, v, o = self.thresholds, self.values, self.offsets
        alike = t.ndim == 1 and t.shape == v.shape and o.ndim == 1 and len(o) > 1
        ensure(alike, "thresholds and values must be 1-D and of the same length, and offsets 1-D")
        counted = o[0] == 0 and o[-1] == len(t) and np.all(np.diff(o) > 0)
        ensure(counted, "offsets must increase strictly from 0 to the number of blocks")
        inside = np.ones(len(t), dtype=bool)
        inside[o[:-1]] = False  # every block but the first of its rank
        within = np.all((t >= 0) & (t <= 1)) and np.all(t[~inside] == 0)
        ensure(within, "thresholds must start at 0 in every rank and stay within [0, 1]")
        increasing = np.all(np.diff(t)[inside[1:]] > 0)
        ensure(increasing, "thresholds must increase strictly within a rank")
        rising = np.all((v >= 0) & (v <= 1)) and np.all(np.diff(v)[inside[1:]] >= 0)
        ensure(rising, "values must be in [0, 1] and non-decreasing within a rank")
        ensure(not (np.signbit(t).any() or np.signbit(v).any()), "there is a negative zero")
        ensure(rises_with_rank(t, v, o), "values must be non-decreasing from rank to rank")

    def __call__(self, q: ArrayLike, rank: ArrayLike) -> Floats:
        """Value at each (q, rank), ranks from 1; those beyond the last are as the last."""
        sums, ranks = np.broadcast_arrays(np.asarray(q, dtype=np.float64), np.asarray(rank))
        ranks = np.minimum(ranks, self.n_ranks)
        out = np.empty(sums.shape)
        for r in np.unique(ranks):
            here = ranks == r
            thresholds, values = self.curve(int(r))
            block = np.searchsorted(thresholds, sums[here], side="right") - 1
            out[here] = values[np.maximum(block, 0)]
        return out

    def curve(self, rank: int) -> tuple[Floats, Floats]:
        """Thresholds and values of one rank."""
        part = slice(self.offsets[rank - 1], self.offsets[rank])
        return self.thresholds[part], self.values[part]

    @cached_property
    def lookup(self) -> RankedLookup:
        """Table that finds the block of a cell."""
        return build_ranked_lookup(self.thresholds, self.values, self.offsets)

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return len(self.offsets) - 1

    @property
    def n_blocks(self) -> int:
        """Number of distinct values."""
        return len(np.unique(self.values))


@frozen
class SharedSteps(CalibrationMap):
    """One step function for every class, then division by the sum of the row."""

    step_function: StepFunction
    kind: str = "probabilities"

    keeps_order = same_for_all_classes = True

    def __post_init__(self) -> None:
        self._check_kind()
        ensure(type(self.step_function) is StepFunction, "step_function is not a StepFunction")
        top = self.step_function.values[-1]
        ensure(0 < top <= 1, f"step_function: the largest value is {top}")

    @cached_property
    def _lookup(self) -> Lookup:
        return build_lookup(self.step_function.thresholds)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        out = np.empty_like(rows)
        apply_step(rows, rows.view(np.int64), *self._lookup, self.step_function.values, out)
        return out


@frozen
class RankedSteps(CalibrationMap):
    """Differences of a function of cumulative probability and rank, mixed with the scaled row.

    The row that ``prior_share`` is mixed in of is softmax(inverse_temperature log p), an exact
    zero read as exp(zero_logit).
    """

    step_function: RankedStepFunction
    prior_share: float
    inverse_temperature: float
    zero_logit: float
    kind: str = "probabilities"

    same_for_all_classes = True

    def __post_init__(self) -> None:
        self._check_kind()
        ranked = type(self.step_function) is RankedStepFunction
        ensure(ranked, "step_function is not a RankedStepFunction")
        check_field(self, "prior_share", low=0.0, high=1.0)
        check_field(self, "inverse_temperature", low=0.0)
        check_field(self, "zero_logit", low=DEEPEST_LOGIT, high=0.0)

    def takes(self, n_classes: int) -> bool:
        """Whether there are more classes than ranks."""
        return self.step_function.n_ranks < n_classes

    @cached_property
    def _powers(self) -> PowerTable:
        return build_powers(self.inverse_temperature, math.exp(self.zero_logit))

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        n_rows, n_classes = rows.shape
        width = (n_classes - 1).bit_length()
        size = 31 if n_classes <= MOST_SHORT_KEYS else 63  # no sign
        shift = 52 - (size - width - 6)  # six bits for 64 octaves, the rest for the mantissa
        mask, largest = (1 << width) - 1, (1 << (size - width)) - 1
        lookup, powers = self.step_function.lookup, self._powers
        out = np.empty_like(rows)
        step = max(1, CELLS_AT_ONCE // n_classes)
        room = np.empty((min(step, n_rows), n_classes), np.int32 if size == 31 else np.int64)
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            bits = rows[part].view(np.int64)
            keys = room[: len(bits)]
            pack_rows(bits, shift, width, largest, keys)
            if keys.size >= FEW_CELLS:
                keys.sort(axis=1)  # of few, which the kernel sorts, numpy would let the lock go
            how = keys, mask, lookup, self.prior_share, powers, TIED
            apply_ranked(rows[part], bits, *how, out[part])
        return out
