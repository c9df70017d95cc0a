"""Step functions of one variable, and of one variable and a rank."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._kernels.ranked_lookup import rises_with_rank
from calibrant._kernels.tables import build_ranked_lookup
from calibrant._maps.base import Floats, Wholes, freeze, frozen, require

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._kernels.tables import RankedLookup


class Pieces(NamedTuple):
    """A curve in pieces: ``value + slope * (x - start)`` from each start on, first 0."""

    starts: Floats
    values: Floats
    slopes: Floats


@frozen
class Histogram:
    """A step function on [0, 1], continuous from the right, that need not increase.

    Attributes
    ----------
    thresholds : ndarray of shape (n_blocks,)
        Where each block, or bin, starts, strictly increasing; the first is 0.
    values : ndarray of shape (n_blocks,)
        Value of each block, in [0, 1].
    sizes : ndarray of shape (n_blocks,)
        Total weight of the calibration cells in each block; 0 for an empty one.

    Examples
    --------
    >>> from calibrant._maps import Histogram
    >>> histogram = Histogram([0.0, 0.5], [0.8, 0.1], [30.0, 10.0])
    >>> histogram([0.2, 0.5, 1.0])
    array([0.8, 0.1, 0.1])
    """

    thresholds: Floats
    values: Floats
    sizes: Floats

    def __post_init__(self) -> None:
        freeze(self, "thresholds", "values", "sizes")
        t, v, s = self.thresholds, self.values, self.sizes
        alike = t.ndim == 1 and t.shape == v.shape == s.shape and t.size > 0
        require(alike, "thresholds, values and sizes must be 1-D, alike, not empty")
        inside = t[0] == 0 and t[-1] <= 1 and (t[1:] > t[:-1]).all()  # false for NaN
        require(inside, "thresholds must start at 0 and increase strictly within [0, 1]")
        self._check_values(v)
        # The tables over the bits of a double put -0.0 elsewhere than 0.0.
        require(not (np.signbit(t).any() or np.signbit(v).any()), "there is a negative zero")
        require(s.min() >= 0 and s.max() < np.inf, "sizes are no weights")

    def _check_values(self, v: Floats) -> None:
        require(v.min() >= 0 and v.max() <= 1, "values must be in [0, 1]")

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
    """A non-decreasing step function on [0, 1]: a histogram whose values never fall.

    Attributes
    ----------
    thresholds, values, sizes : ndarray of shape (n_blocks,)
        As of a ``Histogram``; the values are finite and not negative, and may exceed 1.

    Examples
    --------
    >>> from calibrant._maps import StepFunction
    >>> step = StepFunction([0.0, 0.5], [0.1, 0.8], [30.0, 10.0])
    >>> step([0.2, 0.5, 0.9])
    array([0.1, 0.8, 0.8])
    """

    def _check_values(self, v: Floats) -> None:
        rising = v[0] >= 0 and v[-1] < np.inf and (v[1:] >= v[:-1]).all()
        require(rising, "values must be finite, not negative and non-decreasing")


@frozen
class RankedStepFunction:
    """One step function of q for every rank, non-decreasing in q and from rank to rank.

    Attributes
    ----------
    thresholds : ndarray of shape (n_jumps,)
        Where each block starts, rank after rank; strictly increasing within a rank, from 0.
    values : ndarray of shape (n_jumps,)
        Value of each block, in [0, 1], non-decreasing within a rank and from rank to rank.
    offsets : ndarray of shape (n_ranks + 1,)
        The blocks of rank r are ``offsets[r - 1] .. offsets[r] - 1``.

    Examples
    --------
    >>> from calibrant._maps import RankedStepFunction
    >>> step = RankedStepFunction([0.0, 0.5, 0.0, 0.4], [0.1, 0.7, 0.2, 0.9], [0, 2, 4])
    >>> step([0.45, 0.45, 0.5], [1, 2, 1])
    array([0.1, 0.9, 0.7])
    """

    thresholds: Floats
    values: Floats
    offsets: Wholes

    def __post_init__(self) -> None:
        freeze(self, "thresholds", "values")
        freeze(self, "offsets", dtype=np.int64)
        t, v, o = self.thresholds, self.values, self.offsets
        alike = t.ndim == 1 and t.shape == v.shape and o.ndim == 1 and len(o) > 1
        require(alike, "thresholds and values must be 1-D and alike, offsets 1-D")
        counted = o[0] == 0 and o[-1] == len(t) and np.all(np.diff(o) > 0)
        require(counted, "offsets must increase strictly from 0 to the number of blocks")
        inside = np.ones(len(t), dtype=bool)
        inside[o[:-1]] = False  # every block but the first of its rank
        within = np.all((t >= 0) & (t <= 1)) and np.all(t[~inside] == 0)
        require(within, "thresholds must start at 0 in every rank and stay within [0, 1]")
        increasing = np.all(np.diff(t)[inside[1:]] > 0)
        require(increasing, "thresholds must increase strictly within a rank")
        rising = np.all((v >= 0) & (v <= 1)) and np.all(np.diff(v)[inside[1:]] >= 0)
        require(rising, "values must be in [0, 1] and non-decreasing within a rank")
        require(not (np.signbit(t).any() or np.signbit(v).any()), "there is a negative zero")
        require(rises_with_rank(t, v, o), "values must be non-decreasing from rank to rank")

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
