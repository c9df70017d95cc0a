"""Is the difference between two methods more than chance? A paired bootstrap over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import threads
from calibrant.metrics.shares import holm

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST = 2000
"""Resamples, unless there are very many rows: p-values of 0.001, many times corrected."""

DRAWS = 200_000_000
"""Rows drawn in all."""

DRAWN_AT_ONCE = 4_000_000
"""Rows drawn before they are counted in threads."""


@dataclass(frozen=True, slots=True)
class Difference:
    """NLL of a method minus that of the baseline, on the same rows.

    Attributes
    ----------
    value : float
        Below zero if the method is better.
    low, high : float
        Bootstrap percentile interval; NaN without resamples.
    p_value : float
        Two-sided, of "there is no difference".
    p_holm : float
        The same after Holm's correction for the number of methods compared.
    """

    value: float
    low: float
    high: float
    p_value: float
    p_holm: float


def paired_differences(
    losses: NDArray[np.float64],
    baseline: NDArray[np.float64],
    weight: NDArray[np.float64],
    *,
    n_resamples: int,
    level: float,
    random_state: Any,
) -> list[Difference]:
    """Compare the losses of several methods, one row of ``losses`` each, with the baseline's.

    All methods are judged on the same draws of rows. Rows are drawn with their weights.
    """
    gaps = losses - baseline
    share = weight / weight.sum()
    values = gaps @ share
    if n_resamples == 0:
        nan = float("nan")
        return [Difference(float(v), nan, nan, nan, nan) for v in values]
    draws = _draw(gaps, share, n_resamples, random_state)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
    below = np.count_nonzero(draws <= 0, axis=1)
    above = np.count_nonzero(draws >= 0, axis=1)
    p = np.minimum(2 * (1 + np.minimum(below, above)) / (1 + n_resamples), 1.0)
    return [
        Difference(*(float(v) for v in found))
        for found in zip(values, low, high, p, holm(p), strict=True)
    ]


def _draw(
    gaps: NDArray[np.float64], share: NDArray[np.float64], n_resamples: int, random_state: Any
) -> NDArray[np.float64]:
    """Weighted means of the gaps on each resample: (method, resample)."""
    rng = np.random.default_rng(random_state)
    n_rows = len(share)
    terms = np.vstack([gaps * share, share])
    out = np.empty((len(gaps), n_resamples))

    def means(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        counts = np.bincount(rows, minlength=n_rows)
        sums = np.einsum("ij,j->i", terms, counts.astype(np.float64))
        found: NDArray[np.float64] = sums[:-1] / sums[-1]
        return found

    step = max(1, DRAWN_AT_ONCE // n_rows)
    for start in range(0, n_resamples, step):
        block = range(start, min(start + step, n_resamples))
        drawn = [rng.integers(0, n_rows, n_rows) for _ in block]  # one after the other
        for r, found in zip(block, threads.each(means, drawn), strict=True):
            out[:, r] = found
    return out


def paired_resamples(n_rows: int, n_resamples: int) -> int:
    """How many resamples the paired comparison needs and can afford, if any were asked for."""
    wanted = max(25 * n_resamples, LEAST) if n_resamples else 0
    return min(wanted, max(1000, DRAWS // max(n_rows, 1)))
