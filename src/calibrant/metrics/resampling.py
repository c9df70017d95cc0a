"""Draws of rows, and of labels under the hypothesis that the predictions are right."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex, threads
from calibrant.kernels.resampling import add_null_bins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import BinaryProblem

BLOCK_BYTES = 1 << 27
"""Sums of several resamples that are held at once."""

TASKS = 64
"""Tasks that the resamples are dealt to."""

MOST_ROWS_DRAWN = 50_000
"""Rows up to which resamples draw rows and labels one by one.

Of more, sums over groups and bins say the same: a draw of so many is normal, to the digits that are
printed.
"""

KEPT_BYTES = 1 << 25
"""Draws that are kept for the next problem with the same seed, as the next class of a diagram."""


def _say_nothing() -> None:
    pass


class Steps:
    """How far a long computation is: ``tell(done, total)`` after each step, in any thread."""

    def __init__(self, tell: Callable[[int, int], None] | None, total: int) -> None:
        self._tell, self._total, self._done = tell, total, 0
        self._lock = Lock()

    def step(self) -> None:
        """Tell of one more step."""
        if self._tell is not None:
            with self._lock:
                self._done += 1
                self._tell(min(self._done, self._total), self._total)


def generator(random_state: Any) -> np.random.Generator:
    """Return the random numbers that a caller asked for."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise errors.ParameterError(
            f"random_state={errors.in_words(random_state)} cannot seed "
            f"numpy.random.default_rng: {error}"
        ) from error


class Resamples:
    """Rows drawn with replacement, as many as there are, chunk by chunk and again at will.

    Every (resample, chunk) has a random generator of its own, so resamples can be taken in any
    order and as often as needed without storing them. How many draws fall to each chunk is
    multinomial, so the whole is an ordinary draw of rows. ``sizes`` are the numbers of rows of
    the chunks; without ``replace`` every row comes once.
    """

    def __init__(
        self, sizes: Sequence[int], n_resamples: int, random_state: Any, *, replace: bool = True
    ) -> None:
        root = generator(random_state)
        self.n_resamples = n_resamples
        self.replace = replace
        self._entropy = [int(word) for word in root.integers(0, 1 << 32, size=4)]
        self._sizes = np.asarray(sizes, dtype=np.int64)
        n_rows = int(self._sizes.sum())
        shares = self._sizes / n_rows
        self._draws = root.multinomial(n_rows, shares, size=n_resamples)
        self._kept: dict[tuple[int, int], tuple[Wholes, Floats]] = {}
        self._keeps = 16 * n_rows * n_resamples <= KEPT_BYTES
        self.tell: Callable[[], None] = _say_nothing
        """Called after each resample of a chunk."""

    def _generator(self, resample: int, chunk: int, purpose: int) -> np.random.Generator:
        seed = np.random.SeedSequence(self._entropy, spawn_key=(resample, chunk, purpose))
        return np.random.Generator(np.random.PCG64(seed))

    def rows(self, resample: int, chunk: int) -> Wholes:
        """Rows drawn, as numbers within the chunk."""
        size = int(self._sizes[chunk])
        if not self.replace:
            return np.arange(size, dtype=np.int64)
        draws = int(self._draws[resample, chunk])
        return self._generator(resample, chunk, 0).integers(0, size, size=draws, dtype=np.int64)

    def counts(self, resample: int, chunk: int) -> Wholes:
        """How often each row of the chunk is drawn."""
        size = int(self._sizes[chunk])
        counts: Wholes = np.bincount(self.rows(resample, chunk), minlength=size)
        return counts

    def all_counts(self, resample: int) -> Wholes:
        """How often each row of all chunks is drawn."""
        ends = np.cumsum(self._sizes)
        counts = np.empty(ends[-1], dtype=np.int64)
        for c, end in enumerate(ends):
            counts[end - self._sizes[c] : end] = self.counts(resample, c)
        return counts

    def uniforms(self, resample: int, chunk: int, n_draws: int) -> Floats:
        """Numbers in [0, 1) that choose the labels of the rows drawn."""
        return self._generator(resample, chunk, 1).random(n_draws)

    def rows_and_uniforms(self, resample: int, chunk: int) -> tuple[Wholes, Floats]:
        """Rows drawn and what chooses their labels, kept if all of them are small."""
        if (resample, chunk) in self._kept:
            return self._kept[resample, chunk]
        rows = self.rows(resample, chunk)
        drawn = rows, self.uniforms(resample, chunk, len(rows))
        if self._keeps:
            self._kept[resample, chunk] = drawn
        return drawn

    def each(self, work: Callable[[int], None], block: range) -> None:
        """Call ``work`` for each resample of a block, in threads."""

        def do(part: range) -> None:
            for r in part:
                work(r)
                self.tell()

        step = max(1, len(block) // TASKS)
        parts = [block[start : start + step] for start in range(0, len(block), step)]
        for _ in threads.each(do, parts):
            pass

    def blocks(self, bytes_each: int) -> Iterator[range]:
        """Ranges of resamples whose sums fit into memory together."""
        step = max(1, BLOCK_BYTES // bytes_each)
        for start in range(0, self.n_resamples, step):
            yield range(start, min(start + step, self.n_resamples))


_seeded = lru_cache(maxsize=1)(Resamples)


def null_bins(
    problem: BinaryProblem,
    bins: NDArray[np.int32],
    n_bins: int,
    *,
    n_resamples: int,
    random_state: Any,
    replace: bool,
) -> Floats:
    """Weight, hits and values in each bin of each resample, with hits drawn from the values."""
    parts = list(simplex.chunks(len(problem.values), 1))
    sizes = tuple(part.stop - part.start for part in parts)
    # The draws of the last seed are at hand.
    is_seed = type(random_state) is int and random_state >= 0
    make: Any = _seeded if is_seed else Resamples
    resamples = make(sizes, n_resamples, random_state, replace=replace)
    sums = np.zeros((n_resamples, n_bins, 3))
    for c, part in enumerate(parts):
        own = problem.values[part], problem.weight[part], bins[part]
        _add_null_bins(resamples, c, own, sums)
    return sums


def _add_null_bins(resamples: Resamples, c: int, chunk: tuple[Any, ...], sums: Floats) -> None:
    """Add the values, weights and bins of the ``c``-th chunk, as they are drawn."""

    def add(r: int) -> None:
        add_null_bins(*chunk, *resamples.rows_and_uniforms(r, c), sums[r])

    resamples.each(add, range(len(sums)))


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
