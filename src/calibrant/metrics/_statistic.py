"""What a metric is: sums over rows, and a value of the sums.

The sums of rows in memory, of a resample, and of chunks anywhere are of the same form, and add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels import metrics as kernels

if TYPE_CHECKING:
    from calibrant._maps.base import Floats
    from calibrant.metrics._predictions import Predictions, Source


class Statistic(ABC):
    """Sums over rows, and the metric that they give; a frozen dataclass of its options."""

    @abstractmethod
    def sums(self, rows: Predictions) -> Floats:
        """Return sums over rows, an array of fixed shape."""

    def value(self, sums: Floats) -> float:
        """Return the metric of rows that have these sums."""
        raise TypeError(f"{type(self).__name__} of shape {sums.shape} is not one number")


class RowMean(Statistic):
    """A weighted mean of a term of every row: the sums are those of weight and weight * term."""

    @abstractmethod
    def terms(self, rows: Predictions) -> Floats:
        """Return the term of each row."""

    @abstractmethod
    def table(self, rows: Predictions) -> Floats:
        """Return the term that each row would have with every label: (row, class)."""

    def sums(self, rows: Predictions) -> Floats:
        """Return the sums of weight, weight * term, and (weight * term)^2 and its parts."""
        weight, terms = rows.weight, self.terms(rows)
        squares, products = weight * weight, weight * terms
        return np.array(
            [
                weight.sum(),
                products.sum(),
                squares.sum(),
                (weight * products).sum(),
                (products * products).sum(),
                len(weight),
            ]
        )

    def value(self, sums: Floats) -> float:
        """Return the mean."""
        return float(sums[1] / sums[0])


@dataclass(frozen=True)
class ProblemBins(Statistic):
    """Weight, hits and values, all weighted, in bins of equal width of one binary problem.

    The problem is the confidence, or the class of a ``column``.
    """

    n_bins: int
    column: int | None = None
    norm: str = "l1"

    def sums(self, rows: Predictions) -> Floats:
        """Return sums of shape (n_bins, 3)."""
        values, hits, weight = rows.events(self.column)
        return sums_in_bins(values, hits, weight, uniform_bins(values, self.n_bins), self.n_bins)

    def value(self, sums: Floats) -> float:
        """Return the calibration error."""
        return float(errors_in(sums[None], self.norm)[0])


@dataclass(frozen=True)
class ClassBins(Statistic):
    """The same for the binary problem of every class: sums of shape (n_classes, n_bins, 3)."""

    n_bins: int
    norm: str = "l1"

    def sums(self, rows: Predictions) -> Floats:
        """Return sums of shape (n_classes, n_bins, 3)."""
        found = np.zeros((rows.n_classes, self.n_bins, 3))
        bins = uniform_bins(rows.rows, self.n_bins)
        kernels.add_binned_classes(rows.rows, rows.class_index, rows.weight, bins, found)
        return found

    def value(self, sums: Floats) -> float:
        """Return the mean error of the classes."""
        return float(errors_in(sums, self.norm).mean())


def measure(source: Source, statistic: Statistic) -> float:
    """Return a metric of all rows."""
    return statistic.value(source.add_up({"metric": statistic})["metric"])


def bin_edges(n_bins: int) -> Floats:
    """Edges of bins of equal width, as scikit-learn computes them."""
    return np.linspace(0.0, 1.0, n_bins + 1)


def uniform_bins(values: Floats, n_bins: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Bin (low, high] of equal width of every value, 0 in the first; in the shape of ``values``."""
    bins = np.empty(values.shape, dtype=np.int32)
    kernels.find_bins(values.reshape(-1), bin_edges(n_bins), bins.reshape(-1))
    return bins


def sums_in_bins(
    values: Floats, hits: np.ndarray, weight: Floats, bins: np.ndarray, n_bins: int
) -> Floats:
    """Sum weight, weighted hits and weighted values in each bin."""
    parts = weight, np.where(hits, weight, 0.0), weight * values
    return np.stack([np.bincount(bins, own, n_bins) for own in parts], axis=1)


def errors_in(sums: Floats, norm: str = "l1") -> Floats:
    """Calibration error of each problem from sums (problem, bin, weight / hits / values).

    l1: sum_b |values_b - hits_b| / sum_b weight_b,    l2: root of the mean squared gap,
    max: the largest gap of a bin.
    """
    weight, hits, values = (sums[..., column] for column in range(3))
    gap = np.abs(values - hits)
    total = np.maximum(weight.sum(axis=-1), np.finfo(np.float64).tiny)
    relative = np.divide(gap, weight, out=np.zeros_like(gap), where=weight > 0)
    found: Floats
    if norm == "l1":
        found = gap.sum(axis=-1) / total
    elif norm == "l2":
        found = np.sqrt((gap * relative).sum(axis=-1) / total)
    else:
        found = relative.max(axis=-1)
    return found
