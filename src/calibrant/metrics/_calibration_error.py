"""Binned calibration errors: confidence, positive class, class by class, and thresholded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._kernels import metrics as kernels
from calibrant.metrics._cells import CellMeasure
from calibrant.metrics._measures import Measure, usual_column
from calibrant.metrics._reading import metric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._cells import SortedCells
    from calibrant.metrics._measures import Body, Chunk

ERROR_NORMS = ("l1", "l2", "max")
BIN_STRATEGIES = ("uniform", "quantile")


@metric
def confidence_ece(
    _: Any, *, n_bins: int = 15, strategy: str = "uniform", norm: str = "l1"
) -> Body:
    """Compute the expected calibration error of the confidence (conf-ECE, or just ECE).

    Rows are binned by their largest probability; in each bin the share of rows that are right is
    compared with the mean of that probability. Of two classes take :func:`positive_ece`: where the
    positive one is predicted too often, its error and that of the other cancel out here.

    Notes
    -----
    The estimate is biased upwards: a perfect classifier has a positive ECE on any finite sample.
    :func:`calibration_test` says how large it would be.

    References
    ----------
    .. [1] C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> from calibrant.metrics import confidence_ece
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> round(confidence_ece([0, 1, 1, 1], y_proba), 4)
    0.225
    """
    return _problem_bins(None, n_bins, strategy, norm)


@metric
def positive_ece(
    classes: Any, *, n_bins: int = 15, strategy: str = "uniform", norm: str = "l1"
) -> Body:
    """Compute the expected calibration error of the positive class of two (pos-ECE).

    Rows are binned by the probability of the positive class, the second of ``classes``; in each bin
    its share of the labels is compared with the mean probability.

    Returns
    -------
    float
        In [0, 1]; biased upwards, as :func:`confidence_ece` is.

    References
    ----------
    .. [1] M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining Well Calibrated Probabilities
       Using Bayesian Binning", AAAI 2015.

    Examples
    --------
    >>> from calibrant.metrics import confidence_ece, positive_ece
    >>> positive = [0.2, 0.2, 0.2, 0.2, 0.8, 0.8, 0.8, 0.8]
    >>> y = [0, 0, 0, 0, 1, 1, 0, 0]  # none of four where 0.2 was said, two where 0.8 was
    >>> round(positive_ece(y, positive), 3), round(confidence_ece(y, positive), 3)
    (0.25, 0.05)
    """
    column = usual_column(len(classes))
    if column is None:
        raise errors.ShapeError(
            f"y_proba has {len(classes)} classes, but positive_ece needs two; use confidence_ece "
            "or classwise_ece, or pass the column of one class and y_true == that class"
        )
    return _problem_bins(column, n_bins, strategy, norm)


def _problem_bins(column: int | None, n_bins: int, strategy: str, norm: str) -> Body:
    simplex.check_option("strategy", strategy, BIN_STRATEGIES)
    if strategy == "uniform":
        return ProblemBins(n_bins, norm, column)
    return EqualMassBins(n_bins, norm, column=column)


@metric
def classwise_ece(classes: Any, *, n_bins: int = 15, norm: str = "l1") -> Body:
    """Compute the class-wise calibration error (cw-ECE), the mean ECE of all classes.

    For each class, all rows are binned by its probability (equal width), and the share of rows
    with that label is compared with the mean probability.

    Returns
    -------
    float
        In [0, 1]. With many classes most predictions are near zero, and so is this.

    References
    ----------
    .. [1] J. Nixon et al., "Measuring Calibration in Deep Learning", CVPR Workshops 2019.

    Examples
    --------
    >>> from calibrant.metrics import classwise_ece
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> round(classwise_ece([0, 1, 1, 1], y_proba), 4)
    0.225
    """
    return ClassBins(len(classes), n_bins, norm)


@metric
def thresholded_ece(classes: Any, *, n_bins: int = 15, norm: str = "l1") -> Body:
    """Compute the thresholded calibration error (TECE) of predictions above 1 / n_classes.

    As :func:`classwise_ece`, but only over predictions that are not negligible, in bins of equal
    mass, and averaged over the classes that have such predictions.

    Notes
    -----
    Equal predictions are never split between bins: they go to the bin of the midpoint of their
    cumulative weight. The threshold is lowered by one part in 10^12, so that a uniform row counts
    whichever way its rounding went.

    References
    ----------
    .. [1] J. Nixon et al., "Measuring Calibration in Deep Learning", CVPR Workshops 2019.

    Examples
    --------
    >>> from calibrant.metrics import thresholded_ece
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> round(thresholded_ece([0, 1, 1, 1], y_proba), 4)
    0.225
    """
    return thresholded_bins(len(classes), n_bins, norm)


def check_bins(n_bins: Any, norm: Any = "l1") -> None:
    """Refuse options of binned errors that are not documented."""
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_option("norm", norm, ERROR_NORMS)


def bin_edges(n_bins: int) -> Floats:
    """Edges of bins of equal width, as scikit-learn computes them."""
    return np.linspace(0.0, 1.0, n_bins + 1)


def uniform_bins(values: Floats, edges: Floats) -> NDArray[np.int32]:
    """Bin of equal width of every value, in the shape of ``values``."""
    bins = np.empty(values.shape, dtype=np.int32)
    kernels.find_bins(values.reshape(-1), edges, bins.reshape(-1))
    return bins


class WidthBins(Measure):
    """Calibration error of one or more binary problems over bins of equal width."""

    def __init__(self, n_problems: int, n_bins: int, norm: str) -> None:
        check_bins(n_bins, norm)
        self.n_bins, self._norm = int(n_bins), norm
        super().__init__(n_problems, self.n_bins, 3)
        self._edges = bin_edges(self.n_bins)

    def errors(self, sums: Floats) -> Floats:
        """Return the error of each problem."""
        return errors_in(sums, sums[:, :, kernels.WEIGHT].sum(axis=1), self._norm)

    def value(self, sums: Floats, unit: float = 1.0) -> float:  # noqa: ARG002
        found = self.errors(sums)
        return math.fsum(found) / len(found)


class ProblemBins(WidthBins):
    """Error of the confidence, or of the class of a ``column``."""

    name = "problem bins"

    def __init__(self, n_bins: int, norm: str = "l1", column: int | None = None) -> None:
        super().__init__(1, n_bins, norm)
        self._column = column

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        events = chunk.events(self._column)
        kernels.add_binned(*events, uniform_bins(events.values, self._edges), sums[0])


class ClassBins(WidthBins):
    """Class-wise ECE: a problem for each class."""

    name = "class bins"

    def __init__(self, n_classes: int, n_bins: int, norm: str = "l1") -> None:
        super().__init__(n_classes, n_bins, norm)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        bins = uniform_bins(chunk.rows, self._edges)
        kernels.add_binned_classes(
            chunk.rows, chunk.class_index, chunk.weight, bins, self.n_bins, sums.reshape(-1, 3, 2)
        )


class EqualMassBins(CellMeasure):
    """Calibration error over bins of equal mass, mean over the problems that have cells."""

    name = "mass bins"

    def __init__(
        self,
        n_bins: int,
        norm: str = "l1",
        n_problems: int = 1,
        column: int | None = None,
        threshold: float = 0.0,
    ) -> None:
        check_bins(n_bins, norm)
        super().__init__(n_problems, column, threshold)
        self.n_bins, self._norm = int(n_bins), norm

    def value(self, parts: Iterable[SortedCells]) -> float:
        found: list[float] = []
        for cells in parts:
            sums = cells.bin_sums(self.n_bins)
            weight = sums[:, :, kernels.WEIGHT].sum(axis=1)
            present = weight > 0.0
            found += errors_in(sums[present], weight[present], self._norm).tolist()
        return math.fsum(found) / max(len(found), 1)


def thresholded_bins(n_classes: int, n_bins: int, norm: str = "l1") -> EqualMassBins:
    """Bins of equal mass of the predictions of each class that TECE counts: every row has one."""
    return EqualMassBins(n_bins, norm, n_classes, threshold=(1.0 - 1e-12) / n_classes)


def errors_in(in_bin: Floats, total: Floats, norm: str) -> Floats:
    """Calibration error of each problem from sums (problem, bin, column) and its weight."""
    gap = np.abs(in_bin[..., kernels.VALUE] - in_bin[..., kernels.HIT])
    weight = in_bin[..., kernels.WEIGHT]
    relative = np.divide(gap, weight, out=np.zeros_like(gap), where=weight > 0)
    found: Floats
    if norm == "l1":
        found = gap.sum(axis=1) / total
    elif norm == "l2":
        found = np.sqrt((gap * relative).sum(axis=1) / total)
    else:
        found = relative.max(axis=1)
    return found
