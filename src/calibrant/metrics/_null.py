"""What predictions would show if they were right: draws of labels from the predictions.

If they are right, the label of a row is 1 with the probability p that was predicted, whatever the
other labels are. Labels of a moderate number of rows are drawn one by one. Of many rows the sums
over a bin are drawn from the normal distribution with their mean and variance,

    hits of bin b ~ N(sum_b w p, sum_b w^2 p (1 - p)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _threads as threads
from calibrant._kernels import metrics as kernels
from calibrant.metrics._calibration_error import sums_in_bins, uniform_bins
from calibrant.metrics._intervals import generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant._predictions import EventRows, Predictions
    from calibrant._types import Floats, Wholes
    from calibrant.metrics._intervals import Seed

MOST_ROWS_DRAWN = 50_000  # number of rows above which sums are drawn from normal distributions
MOST_COVARIANCES = 1 << 10
"""Number of bins of all classes above which their covariance matrix (8 MiB) is not computed."""

N_TASKS = 64  # number of tasks that the resamples are dealt to


class NullSums(NamedTuple):
    """Sums over the rows of each resample."""

    bins: Floats
    """Weight, hits and values of each bin, all weighted: (n_resamples, n_bins, 3)."""
    trend: Floats
    """Sum of hits - values times a factor of each row; zero without one."""


class Draws:
    """Rows of each resample and the random numbers that choose their labels.

    Rows are drawn with replacement, as many as there are, or each once. Every resample has random
    numbers of its own, so that threads change nothing.
    """

    def __init__(self, n_rows: int, n_resamples: int, random_state: Seed, *, replace: bool) -> None:
        self.n_rows, self.n_resamples, self.replace = n_rows, n_resamples, replace
        self.random_state = random_state
        self._entropy = generator(random_state).integers(0, 1 << 32, size=4).tolist()

    def _generator(self, resample: int, purpose: int) -> np.random.Generator:
        seed = np.random.SeedSequence(self._entropy, spawn_key=(resample, purpose))
        return np.random.Generator(np.random.PCG64(seed))

    def rows_and_uniforms(self, resample: int) -> tuple[Wholes, Floats]:
        """Return the rows of a resample, and numbers in [0, 1) that choose their labels."""
        rows = np.arange(self.n_rows)
        if self.replace:
            drawing = self._generator(resample, 0)
            rows = drawing.integers(0, self.n_rows, size=self.n_rows, dtype=np.int64)
        return rows.astype(np.intp, copy=False), self._generator(resample, 1).random(self.n_rows)

    def each(self, work: Callable[[int], None]) -> None:
        """Call ``work`` for each resample, in threads."""

        def do(part: range) -> None:
            for resample in part:
                work(resample)

        step = max(1, self.n_resamples // N_TASKS)
        every = range(self.n_resamples)
        list(threads.each(do, [every[start : start + step] for start in every[::step]]))


def null_sums(
    events: EventRows,
    bins: NDArray[np.generic],
    n_bins: int,
    draws: Draws,
    factor: Floats | None = None,
) -> NullSums:
    """Return sums in bins with hits drawn from the values, and their trend by a factor."""
    if draws.n_rows > MOST_ROWS_DRAWN:
        return _normal_sums(events, bins, n_bins, draws, factor)
    # Draws belong to places: in an order of the rows' own, that of the data changes nothing.
    order = np.lexsort((events.hits, events.weight, events.values))
    values, _, weight = events.take(order)
    places, one_bin = bins[order].astype(np.int32), np.zeros(len(bins), dtype=np.int32)
    scaled = None if factor is None else weight * factor[order]
    sums, along = np.zeros((draws.n_resamples, n_bins, 3)), np.zeros((draws.n_resamples, 1, 3))

    def add(r: int) -> None:
        drawn = draws.rows_and_uniforms(r)
        kernels.add_null_bins(values, weight, places, *drawn, sums[r])
        if scaled is not None:
            kernels.add_null_bins(values, scaled, one_bin, *drawn, along[r])

    draws.each(add)
    return NullSums(sums, along[:, 0, 1] - along[:, 0, 2])


def _normal_sums(
    events: EventRows, bins: NDArray[np.generic], n_bins: int, draws: Draws, factor: Floats | None
) -> NullSums:
    """Return the same of normal distributions: of labels and, with ``replace``, of rows."""
    values, _, weight = events
    total, _, said = sums_in_bins(events, bins, n_bins).T
    noise = generator(draws.random_state).standard_normal((2, draws.n_resamples, n_bins))
    variance = weight**2 * values * (1.0 - values)
    deviation = np.sqrt(np.bincount(bins, variance, n_bins))
    gaps, means = deviation * noise[0], np.broadcast_to(said, noise[0].shape)
    if draws.replace:
        # Of n_b rows drawn from a bin, the sum of their values varies by that of w (p - mean p).
        spread = weight**2 * (values - ratio(said, total)[bins]) ** 2
        means = means + np.sqrt(np.bincount(bins, spread, n_bins)) * noise[1]
    sums = np.stack([np.broadcast_to(total, gaps.shape), means + gaps, means], axis=2)
    if factor is None:
        return NullSums(sums, np.zeros(draws.n_resamples))
    # In each bin the gap and the gap times the factor are correlated: the second is a multiple of
    # the first, and a rest that is independent of it.
    both, of_factor = (np.bincount(bins, variance * f, n_bins) for f in (factor, factor**2))
    slope = np.divide(both, deviation, out=np.zeros_like(both), where=deviation > 0.0)
    rest = np.sqrt(np.maximum(of_factor - slope * slope, 0.0))
    return NullSums(sums, (slope * noise[0] + rest * noise[1]).sum(axis=1))


def class_null(rows: Predictions, n_bins: int, draws: Draws) -> Floats:
    """Return the class-wise error of each resample, with labels drawn from the rows."""
    if rows.n_rows > MOST_ROWS_DRAWN and rows.n_classes * n_bins <= MOST_COVARIANCES:
        return _normal_class_null(rows, n_bins, draws)
    bins, cumulative = uniform_bins(rows.rows, n_bins), np.cumsum(rows.rows, axis=1)
    predicted, null = np.zeros((rows.n_classes, n_bins)), np.empty(draws.n_resamples)
    kernels.add_class_gaps(rows.rows, bins, rows.weight, predicted)

    def add(r: int) -> None:
        gaps = predicted.copy()
        drawn = draws.rows_and_uniforms(r)
        kernels.subtract_null_labels(cumulative, bins, rows.weight, *drawn, gaps)
        null[r] = np.abs(gaps).sum() / (rows.weight.sum() * rows.n_classes)

    draws.each(add)
    return null


def _normal_class_null(rows: Predictions, n_bins: int, draws: Draws) -> Floats:
    """Return the class-wise error of each resample of many rows, by the covariance of the bins.

    That of the labels of one row is p_j (1 - p_j) for a class j and -p_j p_l for two classes. Since
    p_j is the sum of p_j p_l over all classes l, sums of products p_j p_l are enough.
    """
    n_cells = rows.n_classes * n_bins
    sums, bins = np.zeros((n_cells, n_cells)), uniform_bins(rows.rows, n_bins)
    kernels.add_cell_products(rows.rows, bins, rows.weight * rows.weight, n_bins, sums)
    products = sums + sums.T - np.diag(np.diag(sums))
    covariance = np.diag(products.sum(axis=1)) - products
    with threads.few_blas_threads(0):  # whose number would change the last bits
        values, vectors = np.linalg.eigh(covariance)
        noise = generator(draws.random_state).standard_normal((draws.n_resamples, n_cells))
        gaps = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    null: Floats = np.abs(gaps).sum(axis=1) / (rows.n_classes * float(rows.weight.sum()))
    return null


def _reached(statistic: Any) -> Any:
    """Return what counts as reaching a statistic: sums in another order differ in last digits."""
    return statistic * (1.0 - 1e-12) - 1e-15


def p_value(statistic: float, null: Floats) -> float:
    """Return (1 + how many resamples reach the statistic) / (1 + how many there are)."""
    return (1 + int(np.count_nonzero(null >= _reached(statistic)))) / (1 + len(null))


def joint_p_value(tests: list[tuple[float, Floats]]) -> float:
    """Return the p-value of the least p-value of tests that share their draws.

    If the predictions are right, data and draws are exchangeable, and so are their least p-values.
    """
    least = np.full(1 + len(tests[0][1]), np.inf)
    for statistic, null in tests:
        values = np.append(statistic, null)
        n_below = np.searchsorted(np.sort(values), _reached(values))
        least = np.minimum(least, len(values) - n_below)
    return float(np.count_nonzero(least <= least[0]) / len(least))


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Return quotients; NaN where the divisor is 0."""
    result: Floats = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=result, where=bottom > 0)
    return result
