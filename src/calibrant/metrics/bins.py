"""Bins of equal width and of equal mass, and the calibration error over them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.kernels import metrics as kernels
from calibrant.kernels.fixed_point import totals
from calibrant.metrics.chunk import BinaryProblem
from calibrant.metrics.measures import SummedMeasure
from calibrant.metrics.predictions import rescale, whole_masses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import Chunk
    from calibrant.metrics.predictions import Predictions

NORMS = ("l1", "l2", "max")
STRATEGIES = ("uniform", "quantile")


def check_bins(n_bins: Any, norm: Any) -> None:
    """Refuse options of binned errors that are not documented."""
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_option("norm", norm, NORMS)


def bin_edges(n_bins: int) -> Floats:
    """Edges of bins of equal width, as scikit-learn computes them."""
    return np.linspace(0.0, 1.0, n_bins + 1)


def threshold_of(n_classes: int) -> float:
    """From where TECE counts a prediction; every row has one."""
    return (1.0 - 1e-12) / n_classes


class WidthBins(SummedMeasure):
    """Calibration error of one or more binary problems over bins of equal width."""

    def __init__(self, n_problems: int, n_bins: int, norm: str = "l1") -> None:
        check_bins(n_bins, norm)
        self.n_bins, self._norm = int(n_bins), norm
        super().__init__(n_problems, self.n_bins, 3)

    @cached_property
    def _edges(self) -> Floats:
        return bin_edges(self.n_bins)

    def errors(self) -> Floats:
        """Return the error of each problem, of all rows added."""
        weight = self.totals(lambda pairs: pairs[:, :, kernels.WEIGHT].sum(axis=1))
        return errors_in(self.totals(), weight, self._norm)

    def value(self) -> float:
        """Return the mean error over the problems, of all rows added."""
        errors = self.errors()
        return math.fsum(errors) / len(errors)

    def value_of(self, sums: Floats) -> float:
        """Return the mean error over the problems."""
        errors = errors_in(sums, sums[:, :, kernels.WEIGHT].sum(axis=1), self._norm)
        return math.fsum(errors) / len(errors)


class ProblemBins(WidthBins):
    """Error of the confidence, or of the class of a ``column``, added up chunk by chunk."""

    name = "problem bins"

    def __init__(self, n_bins: int, norm: str = "l1", column: int | None = None) -> None:
        super().__init__(1, n_bins, norm)
        self._column = column

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_bins": self.n_bins, "norm": self._norm, "column": self._column}

    def _count(self, chunk: Chunk, pairs: Wholes) -> None:
        problem = chunk.problem(self._column)
        kernels.add_binned(*problem, uniform_bins(problem.values, self._edges), pairs[0])


class ClassBins(WidthBins):
    """Class-wise ECE, added up chunk by chunk; a problem for each class."""

    name = "class bins"

    def __init__(self, n_classes: int, n_bins: int, norm: str = "l1") -> None:
        super().__init__(n_classes, n_bins, norm)
        self._n_classes = n_classes

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_classes": self._n_classes, "n_bins": self.n_bins, "norm": self._norm}

    def _count(self, chunk: Chunk, pairs: Wholes) -> None:
        bins = uniform_bins(chunk.rows, self._edges)
        kernels.add_binned_classes(
            chunk.rows, chunk.class_index, chunk.weight, bins, self.n_bins, pairs.reshape(-1, 3, 2)
        )


class ThresholdedBins:
    """TECE, which sorts the cells of each class: computed from all rows at once."""

    def __init__(self, predictions: Predictions, n_bins: int, norm: str = "l1") -> None:
        self._predictions = predictions
        self._n_bins = n_bins
        self._norm = norm

    def add(self, chunk: Chunk) -> None:
        """Leave the rows of a chunk for later."""

    def value(self) -> float:
        """Return the mean error over the classes that have cells, of all rows."""
        weight = self._predictions.weight
        threshold = threshold_of(self._predictions.n_classes)
        sums = []
        for column, values, rows in self._predictions.sorted_classes(threshold):
            if len(values) == 0:
                continue
            # In a unit of their own: a class counts as much as any, whatever its weights.
            own = None if weight is None else rescale(weight[rows])[1]
            own = np.ones(len(values)) if own is None else own
            hits = (self._predictions.class_index == column)[rows]
            bins = _sorted_mass_bins(values, own, self._n_bins)
            sums.append(problem_sums(BinaryProblem(values, hits, own), bins, self._n_bins))
        errors = errors_of(np.array(sums), self._norm)
        return math.fsum(errors) / len(errors)


def mass_error(predictions: Predictions, n_bins: int, norm: str, column: int | None) -> float:
    """Error of the confidence or of a class over bins of equal mass, of all rows at once."""
    problem = predictions.problem(column)
    sums = problem_sums(problem, mass_bins(problem, n_bins), n_bins)
    return float(errors_of(sums[None], norm)[0])


def uniform_bins(values: Floats, edges: Floats) -> NDArray[np.int32]:
    """Bin of equal width of every value, in the shape of ``values``."""
    bins = np.empty(values.shape, dtype=np.int32)
    kernels.find_bins(values.reshape(-1), edges, bins.reshape(-1))
    return bins


def mass_bins(problem: BinaryProblem, n_bins: int) -> NDArray[np.int32]:
    """Bin of equal mass of every row of a binary problem."""
    order = np.argsort(problem.values)
    bins = np.empty(len(order), dtype=np.int32)
    bins[order] = _sorted_mass_bins(problem.values[order], problem.weight[order], n_bins)
    return bins


def _sorted_mass_bins(values: Floats, weight: Floats, n_bins: int) -> NDArray[np.int32]:
    bins = np.empty(len(values), dtype=np.int32)
    kernels.find_mass_bins(values, whole_masses(weight, 2.0 * n_bins), n_bins, bins)
    return bins


def problem_sums(problem: BinaryProblem, bins: NDArray[np.int32], n_bins: int) -> Wholes:
    """Fixed-point sums of weight, hits and values over the bins of a binary problem."""
    sums = np.zeros((n_bins, 3, 2), dtype=np.int64)
    kernels.add_binned(*problem, bins, sums)
    return sums


def errors_of(sums: Wholes, norm: str) -> Floats:
    """Calibration error of each problem from fixed-point sums (problem, bin, column, 2)."""
    return errors_in(totals(sums), totals(sums[:, :, kernels.WEIGHT].sum(axis=1)), norm)


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
