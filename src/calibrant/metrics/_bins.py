"""Bins of equal width, and the calibration error over bins."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant._kernels import metrics as kernels
from calibrant.metrics._measures import Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._chunk import Chunk

ERROR_NORMS = ("l1", "l2", "max")
BIN_STRATEGIES = ("uniform", "quantile")


def check_bins(n_bins: Any, norm: Any = "l1") -> None:
    """Refuse options of binned errors that are not documented."""
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_option("norm", norm, ERROR_NORMS)


def bin_edges(n_bins: int) -> Floats:
    """Edges of bins of equal width, as scikit-learn computes them."""
    return np.linspace(0.0, 1.0, n_bins + 1)


def threshold_of(n_classes: int) -> float:
    """From where TECE counts a prediction; every row has one."""
    return (1.0 - 1e-12) / n_classes


class WidthBins(Measure):
    """Calibration error of one or more binary problems over bins of equal width."""

    def __init__(self, n_problems: int, n_bins: int, norm: str) -> None:
        check_bins(n_bins, norm)
        self.n_bins, self._norm = int(n_bins), norm
        super().__init__(n_problems, self.n_bins, 3)

    @cached_property
    def _edges(self) -> Floats:
        return bin_edges(self.n_bins)

    def errors(self, sums: Floats) -> Floats:
        """Return the error of each problem."""
        return errors_in(sums, sums[:, :, kernels.WEIGHT].sum(axis=1), self._norm)

    def value(self, sums: Floats, unit: float = 1.0) -> float:  # noqa: ARG002
        """Return the mean error over the problems."""
        errors = self.errors(sums)
        return math.fsum(errors) / len(errors)


class ProblemBins(WidthBins):
    """Error of the confidence, or of the class of a ``column``."""

    name = "problem bins"

    def __init__(self, n_bins: int, norm: str = "l1", column: int | None = None) -> None:
        super().__init__(1, n_bins, norm)
        self._column = column

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Add weights, hits and values to their bins."""
        events = chunk.events(self._column)
        kernels.add_binned(*events, uniform_bins(events.values, self._edges), sums[0])


class ClassBins(WidthBins):
    """Class-wise ECE: a problem for each class."""

    name = "class bins"

    def __init__(self, n_classes: int, n_bins: int, norm: str = "l1") -> None:
        super().__init__(n_classes, n_bins, norm)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Add weights, labels and probabilities of every class to their bins."""
        bins = uniform_bins(chunk.rows, self._edges)
        kernels.add_binned_classes(
            chunk.rows, chunk.class_index, chunk.weight, bins, self.n_bins, sums.reshape(-1, 3, 2)
        )


def uniform_bins(values: Floats, edges: Floats) -> NDArray[np.int32]:
    """Bin of equal width of every value, in the shape of ``values``."""
    bins = np.empty(values.shape, dtype=np.int32)
    kernels.find_bins(values.reshape(-1), edges, bins.reshape(-1))
    return bins


def errors_in(in_bin: Floats, total: Floats, norm: str) -> Floats:
    """Calibration error of each problem from sums (problem, bin, column) and its weight."""
    gap = np.abs(in_bin[..., kernels.VALUE] - in_bin[..., kernels.HIT])
    weight = in_bin[..., kernels.WEIGHT]
    relative = np.divide(gap, weight, out=np.zeros_like(gap), where=weight > 0)
    errors: Floats
    if norm == "l1":
        errors = gap.sum(axis=1) / total
    elif norm == "l2":
        errors = np.sqrt((gap * relative).sum(axis=1) / total)
    else:
        errors = relative.max(axis=1)
    return errors
