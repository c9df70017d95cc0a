"""Means over rows with Student's intervals, from sums that add up over chunks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from calibrant._result import Estimate

if TYPE_CHECKING:
    from calibrant._maps.base import Floats


def row_sums(terms: Floats, weight: Floats) -> Floats:
    """Return the sums over rows that a mean of terms and its standard error are made of."""
    squares, products = weight * weight, weight * terms
    parts = weight, products, squares, weight * products, products * products
    return np.array([*(part.sum() for part in parts), len(weight)])


def standard_error(
    mean: Any, weight: Any, squares: Any, of_terms: Any, of_squares: Any, n_rows: Any
) -> Any:
    """Return the standard error of a mean, from the sums of w, w^2, w^2 x and w^2 x^2.

    A row is one draw whatever its weight.
    """
    variance = np.maximum(of_squares - 2.0 * mean * of_terms + mean * mean * squares, 0.0)
    return np.sqrt(variance * n_rows / np.maximum(n_rows - 1.0, 1.0)) / weight


def student_interval(sums: Floats, level: float, low: float, high: float) -> Estimate:
    """Return a mean with Student's interval, inside of [low, high]; one row has none."""
    weight, product, squares, of_terms, of_squares, n_rows = sums.tolist()
    mean = product / weight
    if n_rows < 2:
        return Estimate(mean, math.nan, math.nan)
    error = float(standard_error(mean, weight, squares, of_terms, of_squares, n_rows))
    if error == 0.0:
        return Estimate(mean, mean, mean)
    # Rows of unequal weights tell as much as n of equal weight, of which 1 is the least.
    n_equal = weight * weight / squares
    reach = float(stdtrit(max(n_equal - 1.0, 1e-3), 0.5 + 0.5 * level)) * error
    return Estimate(mean, min(max(mean - reach, low), mean), max(min(mean + reach, high), mean))
