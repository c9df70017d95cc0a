"""``StepFunction`` and ``RankedStepFunction``: what an isotonic fit is."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from calibrant.kernels.ranked_lookup import RankedLookup

Map = TypeVar("Map")


def always_checked(cls: type[Map]) -> type[Map]:
    """Let a frozen dataclass be copied and unpickled by its constructor, which checks it.

    Kernels trust what it promises; what comes by pickle keeps no other promise than this.
    """
    names = [f.name for f in fields(cls) if f.init]  # type: ignore[arg-type]

    def parts(self: Any) -> tuple[Any, ...]:
        return cls, tuple(getattr(self, name) for name in names)

    def rebuild(self: Any, state: Any) -> None:  # of older pickles, and of forged ones
        self.__init__(*state[: len(names)])

    cls.__reduce__ = parts  # type: ignore[method-assign]
    cls.__setstate__ = rebuild  # type: ignore[attr-defined]
    return cls


@always_checked
@dataclass(frozen=True, slots=True, eq=False)
class StepFunction:
    """A non-decreasing step function on [0, 1], continuous from the right.

    Attributes
    ----------
    thresholds : ndarray of shape (n_blocks,)
        Where each block starts, strictly increasing; the first is 0.
    values : ndarray of shape (n_blocks,)
        Value of each block, not negative, non-decreasing.
    sizes : ndarray of shape (n_blocks,)
        Total weight of the calibration cells in each block.

    Examples
    --------
    >>> from calibrant.step_function import StepFunction
    >>> step = StepFunction([0.0, 0.5], [0.1, 0.8], [30.0, 10.0])
    >>> step([0.2, 0.5, 0.9])
    array([0.1, 0.8, 0.8])
    """

    thresholds: NDArray[np.float64]
    values: NDArray[np.float64]
    sizes: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("thresholds", "values", "sizes"):
            array = np.array(getattr(self, name), dtype=np.float64, order="C")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        t, v = self.thresholds, self.values
        check_thresholds(t, v, self.sizes)
        if not (v[0] >= 0 and v[-1] < np.inf and (v[1:] >= v[:-1]).all()):
            raise ParameterError("values must be finite, not negative and non-decreasing")

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """Value at each ``x``; below 0 as at 0."""
        block = np.searchsorted(self.thresholds, np.asarray(x, dtype=np.float64), side="right") - 1
        return self.values[np.maximum(block, 0)]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.values)


def check_thresholds(
    thresholds: NDArray[np.float64], values: NDArray[np.float64], sizes: NDArray[np.float64]
) -> None:
    """Refuse what are no blocks of [0, 1]; comparisons are false for NaN."""
    t = thresholds
    if not (t.ndim == 1 and t.shape == values.shape == sizes.shape and t.size > 0):
        raise ParameterError("thresholds, values and sizes must be 1-D, alike, not empty")
    if not (t[0] == 0 and t[-1] <= 1 and (t[1:] > t[:-1]).all()):
        raise ParameterError("thresholds must start at 0 and increase strictly within [0, 1]")


@always_checked
@dataclass(frozen=True, slots=True, eq=False)
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
    >>> from calibrant.step_function import RankedStepFunction
    >>> step = RankedStepFunction([0.0, 0.5, 0.0, 0.4], [0.1, 0.7, 0.2, 0.9], [0, 2, 4])
    >>> step([0.45, 0.45, 0.5], [1, 2, 1])
    array([0.1, 0.9, 0.7])
    """

    thresholds: NDArray[np.float64]
    values: NDArray[np.float64]
    offsets: NDArray[np.int64]
    _lookup: RankedLookup | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        for name, dtype in (("thresholds", float), ("values", float), ("offsets", np.int64)):
            array = np.array(getattr(self, name), dtype=dtype, order="C")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        t, v, o = self.thresholds, self.values, self.offsets
        if not (t.ndim == 1 and t.shape == v.shape and o.ndim == 1 and len(o) > 1):
            raise ParameterError("thresholds and values must be 1-D and alike, offsets 1-D")
        if o[0] != 0 or o[-1] != len(t) or np.any(np.diff(o) <= 0):
            raise ParameterError("offsets must increase strictly from 0 to the number of blocks")
        inside = np.ones(len(t), dtype=bool)
        inside[o[:-1]] = False  # every block but the first of its rank
        if not np.all((t >= 0) & (t <= 1)) or np.any(t[~inside] != 0):
            raise ParameterError("thresholds must start at 0 in every rank and stay within [0, 1]")
        if np.any(np.diff(t)[inside[1:]] <= 0):
            raise ParameterError("thresholds must increase strictly within a rank")
        if not np.all((v >= 0) & (v <= 1)) or np.any(np.diff(v)[inside[1:]] < 0):
            raise ParameterError("values must be in [0, 1] and non-decreasing within a rank")
        from calibrant.kernels.ranked_lookup import rises_with_rank

        if not rises_with_rank(t, v, o):
            raise ParameterError("values must be non-decreasing from rank to rank")

    def __call__(self, q: ArrayLike, rank: ArrayLike) -> NDArray[np.float64]:
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

    def curve(self, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Thresholds and values of one rank."""
        part = slice(self.offsets[rank - 1], self.offsets[rank])
        return self.thresholds[part], self.values[part]

    @property
    def lookup(self) -> RankedLookup:
        """Table that finds the block of a cell, built when it is first asked for."""
        if self._lookup is None:
            from calibrant.kernels.ranked_lookup import build_ranked_lookup

            table = build_ranked_lookup(self.thresholds, self.values, self.offsets)
            object.__setattr__(self, "_lookup", table)
        return self._lookup  # type: ignore[return-value]

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return len(self.offsets) - 1

    @property
    def n_blocks(self) -> int:
        """Number of distinct values."""
        return len(np.unique(self.values))
