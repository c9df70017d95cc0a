"""Is the difference between two methods more than chance? A paired bootstrap over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.metrics._resampling import drawn_means
from calibrant.metrics._shares import holm

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST_RESAMPLES = 2000
"""Resamples, unless there are very many rows: p-values of 0.001, many times corrected."""

MOST_ROWS_DRAWN_IN_ALL = 200_000_000


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
    values = gaps @ (weight / weight.sum())
    if n_resamples == 0:
        nan = float("nan")
        return [Difference(float(v), nan, nan, nan, nan) for v in values]
    draws = drawn_means(gaps, weight, n_resamples, random_state)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
    below = np.count_nonzero(draws <= 0, axis=1)
    above = np.count_nonzero(draws >= 0, axis=1)
    p = np.minimum(2 * (1 + np.minimum(below, above)) / (1 + n_resamples), 1.0)
    return [
        Difference(*(float(v) for v in found))
        for found in zip(values, low, high, p, holm(p), strict=True)
    ]


def paired_resamples(n_rows: int, n_resamples: int) -> int:
    """How many resamples the paired comparison needs and can afford, if any were asked for."""
    asked_for = max(25 * n_resamples, FEWEST_RESAMPLES) if n_resamples else 0
    return min(asked_for, max(1000, MOST_ROWS_DRAWN_IN_ALL // max(n_rows, 1)))
