"""The bootstrap: draws of rows, or of groups of rows, which weigh the sums of a metric.

Also draws of labels under the hypothesis that the predictions are right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri, stdtrit

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._kernels.resampling import add_null_bins
from calibrant.metrics._result import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._measures import EventRows

BLOCK_BYTES = 1 << 27
"""Sums of several resamples that are held at once."""

N_TASKS = 64
"""Tasks that the resamples are dealt to."""

MOST_ROWS_DRAWN = 50_000
"""Rows up to which tests draw labels one by one.

Of more, sums over bins say the same: their labels are normal, to the digits that are printed.
"""

KEPT_BYTES = 1 << 25
"""Draws that are kept for the next problem with the same seed, as the next class of a diagram."""


def generator(random_state: Any) -> np.random.Generator:
    """Return the random numbers that a caller asked for."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise errors.ParameterError(
            f"random_state={errors.in_words(random_state)} cannot seed "
            f"numpy.random.default_rng: {error}"
        ) from error


def _entropy(random_state: Any) -> list[int]:
    """Return seeds for generators of several tasks; those of a generator move it on."""
    return [int(word) for word in generator(random_state).integers(0, 1 << 32, size=4)]


class Resamples:
    """Rows drawn with replacement, as many as there are, or each once; again and in any order."""

    def __init__(
        self, n_rows: int, n_resamples: int, random_state: Any, *, replace: bool = True
    ) -> None:
        self.n_rows, self.n_resamples, self.replace = n_rows, n_resamples, replace
        self._entropy = _entropy(random_state)
        self._kept: dict[int, tuple[Wholes, Floats]] = {}
        self._keeps = 16 * n_rows * n_resamples <= KEPT_BYTES

    def _generator(self, resample: int, part: int, purpose: int) -> np.random.Generator:
        seed = np.random.SeedSequence(self._entropy, spawn_key=(resample, part, purpose))
        return np.random.Generator(np.random.PCG64(seed))

    def rows(self, resample: int) -> Wholes:
        """Rows drawn."""
        if not self.replace:
            return np.arange(self.n_rows)
        drawing = self._generator(resample, 0, 0)
        rows = drawing.integers(0, self.n_rows, size=self.n_rows, dtype=np.int64)
        return rows.astype(np.intp, copy=False)

    def uniforms(self, resample: int, n_draws: int, part: int = 0) -> Floats:
        """Numbers in [0, 1) that choose the labels of the rows drawn, in a part of the rows."""
        return self._generator(resample, part, 1).random(n_draws)

    def rows_and_uniforms(self, resample: int) -> tuple[Wholes, Floats]:
        """Rows drawn and what chooses their labels, kept if all of them are small."""
        if resample in self._kept:
            return self._kept[resample]
        drawn = self.rows(resample), self.uniforms(resample, self.n_rows)
        if self._keeps:
            self._kept[resample] = drawn
        return drawn

    def each(self, work: Callable[[int], None], block: range | None = None) -> None:
        """Call ``work`` for each resample, of a block if one is given, in threads."""
        block = range(self.n_resamples) if block is None else block

        def do(part: range) -> None:
            for r in part:
                work(r)

        step = max(1, len(block) // N_TASKS)
        parts = [block[start : start + step] for start in range(0, len(block), step)]
        list(threads.each(do, parts))

    def blocks(self, bytes_each: int) -> Iterator[range]:
        """Ranges of resamples whose sums fit into memory together."""
        step = max(1, BLOCK_BYTES // bytes_each)
        for start in range(0, self.n_resamples, step):
            yield range(start, min(start + step, self.n_resamples))


def drawn_by_group(
    states: Mapping[str, Any],
    present: NDArray[np.bool_],
    n_resamples: int,
    level: float,
    random_state: Any,
    tell: Callable[[], None] = lambda: None,
) -> dict[str, Floats]:
    """Return each metric of draws of the groups that are ``present``; ``tell`` after each."""
    n_present = int(np.count_nonzero(present))
    draws: Wholes = generator(random_state).multinomial(
        n_present, present / n_present, size=n_resamples
    )
    stretch = _stretch(int(np.count_nonzero(draws.any(axis=0))), level)
    found = {}
    for name, state in states.items():
        replicates = state.replicates(draws)
        middle = math.fsum(replicates) / n_resamples
        found[name] = middle + stretch * (replicates - middle)
        tell()
    return found


def _stretch(n_groups: int, level: float) -> float:
    """Return how much wider than their draws the intervals of few groups are, by Student's rule."""
    if n_groups < 2:
        return 1.0
    wider = 1.0
    if 0.0 < level < 1.0:
        wider = stdtrit(n_groups - 1, (1.0 + level) / 2.0) / ndtri((1.0 + level) / 2.0)
    return float(wider * math.sqrt(n_groups / (n_groups - 1)))


def basic_interval(
    value: float, replicates: Floats | None, level: float, largest: float
) -> Estimate:
    """Reflect quantiles of the replicates at the value; clip to [0, largest]; hold the value."""
    if replicates is None:
        return Estimate(value, math.nan, math.nan)
    q_low, q_high = np.quantile(replicates, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    low = min(max(2.0 * value - float(q_high), 0.0), value)
    high = max(min(2.0 * value - float(q_low), largest), value)
    return Estimate(value, low, high)


def drawn_means(
    terms: Floats, weight: Floats, n_resamples: int, random_state: Any
) -> NDArray[np.float64]:
    """Weighted means of several terms of the rows, (term, row), of each resample: (term, draw)."""
    n_rows = len(weight)
    weighted = np.vstack([terms * weight, weight])
    means = np.empty((len(terms), n_resamples))
    seeds = np.random.SeedSequence(_entropy(random_state)).spawn(min(N_TASKS, n_resamples))

    def draw(task: int) -> None:
        drawing = np.random.default_rng(seeds[task])
        for r in range(task, n_resamples, len(seeds)):
            rows = drawing.integers(0, n_rows, size=n_rows).astype(np.intp, copy=False)
            counts = np.bincount(rows, minlength=n_rows).astype(np.float64)
            sums = np.einsum("tn,n->t", weighted, counts)  # no BLAS, whose bits depend on threads
            means[:, r] = sums[:-1] / sums[-1]

    list(threads.each(draw, range(len(seeds))))
    return means


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals of means over rows are drawn; refuses what cannot be drawn."""

    n_resamples: int
    level: float
    random_state: Any
    n_jobs: int | None

    def __post_init__(self) -> None:
        simplex.check_number("n_resamples", self.n_resamples, low=0, whole=True)
        simplex.check_number("confidence_level", self.level, low=0.0, high=1.0)
        threads.check_jobs("n_jobs", self.n_jobs)

    @property
    def settings(self) -> tuple[int, float]:
        """Number of resamples and level, as results tell them."""
        return int(self.n_resamples), float(self.level)

    def estimates(
        self, values: Sequence[float], parts: Sequence[Floats], weight: Floats
    ) -> list[Estimate]:
        """Return each value with the percentile interval of the mean of its terms, around it."""
        if self.n_resamples == 0:
            return [Estimate(value, math.nan, math.nan) for value in values]
        order = np.lexsort((weight, *parts))  # so that the order of rows changes no bit
        terms = np.stack([part[order] for part in parts])
        with threads.jobs(self.n_jobs):
            means = drawn_means(terms, weight[order], int(self.n_resamples), self.random_state)
        ends = [(1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0]
        found = []
        for value, own in zip(values, means, strict=True):
            low, high = np.quantile(own, ends).tolist()
            found.append(Estimate(value, min(low, value), max(high, value)))
        return found


def not_negative(estimate: Estimate) -> Estimate:
    """Reach up to zero with the interval of what cannot be negative, but may be estimated so."""
    return estimate._replace(high=max(estimate.high, 0.0))


_seeded = lru_cache(maxsize=1)(Resamples)


def null_bins(
    events: EventRows,
    bins: NDArray[np.int32],
    n_bins: int,
    *,
    n_resamples: int,
    random_state: Any,
    replace: bool,
) -> Floats:
    """Weight, hits and values in each bin of each resample, with hits drawn from the values."""
    is_seed = type(random_state) is int and random_state >= 0  # the draws of the last are at hand
    make: Any = _seeded if is_seed else Resamples
    resamples: Resamples = make(len(bins), n_resamples, random_state, replace=replace)
    sums = np.zeros((n_resamples, n_bins, 3))

    def add(r: int) -> None:
        add_null_bins(events.values, events.weight, bins, *resamples.rows_and_uniforms(r), sums[r])

    resamples.each(add)
    return sums


def null_errors(sums: Floats) -> Floats:
    """Calibration error of each resample from its sums of weight, hits and values."""
    gaps = np.abs(sums[:, :, 1] - sums[:, :, 2]).sum(axis=1)
    errors: Floats = gaps / sums[:, :, 0].sum(axis=1)
    return errors


def p_value(statistic: float, null: Floats) -> float:
    """(1 + how many resamples reach the statistic) / (1 + how many there are).

    Sums in another order differ in the last digits: what agrees to twelve counts as reached.
    """
    reached = np.count_nonzero(null >= statistic * (1.0 - 1e-12) - 1e-15)
    return (1 + int(reached)) / (1 + len(null))
