"""Binned calibration errors: of the confidence, class by class, and thresholded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.kernels import metrics as kernels
from calibrant.kernels.fixed_point import totals
from calibrant.metrics.predictions import BinaryProblem, read_predictions, rescale, whole_masses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.predictions import Chunk, Predictions

NORMS = ("l1", "l2", "max")
STRATEGIES = ("uniform", "quantile")


def confidence_ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    sample_weight: Any = None,
    classes: Any = None,
) -> float:
    """Compute the expected calibration error of the confidence (conf-ECE, or just ECE).

    Rows are binned by their largest probability; in each bin the share of rows that are right is
    compared with the mean of that probability.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes
        As in :func:`accuracy`.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, (low, high] with 0 in the first, as scikit-learn's
        ``calibration_curve`` has them; or of equal mass, where ties are not split: equal
        confidences go to the bin of the midpoint of their cumulative weight.
    norm : {"l1", "l2", "max"}, default="l1"
        Mean of the gaps over rows; root of the mean of their squares; or the largest (MCE).

    Returns
    -------
    float
        In [0, 1]; the same to the last bit for any order of the rows.

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
    simplex.check_option("strategy", strategy, STRATEGIES)
    predictions = _read(n_bins, norm, y_true, y_proba, sample_weight, classes)
    if strategy == "uniform":
        return predictions.measure(ConfidenceBins(int(n_bins), norm))[0]
    problem = predictions.confidence()
    sums = problem_sums(problem, mass_bins(problem, int(n_bins)), int(n_bins))
    return float(errors_of(sums[None], norm)[0])


def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    norm: str = "l1",
    sample_weight: Any = None,
    classes: Any = None,
) -> float:
    """Class-wise calibration error (cw-ECE): the mean over classes of each one's binary ECE.

    For each class, all rows are binned by its probability (equal width), and the share of rows
    with that label is compared with the mean probability.

    Parameters
    ----------
    y_true, y_proba, n_bins, norm, sample_weight, classes
        As in :func:`confidence_ece`.

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
    predictions = _read(n_bins, norm, y_true, y_proba, sample_weight, classes)
    return predictions.measure(ClassBins(predictions.n_classes, int(n_bins), norm))[0]


def thresholded_ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    norm: str = "l1",
    sample_weight: Any = None,
    classes: Any = None,
) -> float:
    """Thresholded calibration error (TECE): class by class, predictions of 1 / n_classes or more.

    As :func:`classwise_ece`, but only over predictions that are not negligible, in bins of equal
    mass, and averaged over the classes that have such predictions.

    Parameters
    ----------
    y_true, y_proba, n_bins, norm, sample_weight, classes
        As in :func:`confidence_ece`.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    Equal predictions are never split between bins, so the result cannot depend on the order of
    the rows: they go to the bin of the midpoint of their cumulative weight. A class with fewer
    distinct predictions than bins leaves some bins empty. The threshold is lowered by one part
    in 10^12, so that a uniform row counts whichever way its rounding went.

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
    predictions = _read(n_bins, norm, y_true, y_proba, sample_weight, classes)
    return ThresholdedBins(predictions, int(n_bins), norm).value()


def _read(n_bins: Any, norm: Any, *data: Any) -> Predictions:
    """Check the options of all binned errors, and the data."""
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_option("norm", norm, NORMS)
    return read_predictions(*data)


def bin_edges(n_bins: int) -> Floats:
    """Edges of bins of equal width, as scikit-learn computes them."""
    return np.linspace(0.0, 1.0, n_bins + 1)


def threshold_of(n_classes: int) -> float:
    """From where TECE counts a prediction; every row has one."""
    return (1.0 - 1e-12) / n_classes


class _Bins:
    """Calibration error of one or more binary problems over bins of equal width."""

    def __init__(self, n_problems: int, n_bins: int, norm: str = "l1") -> None:
        self._norm = norm
        self._edges = bin_edges(n_bins)
        self.sums = np.zeros((n_problems, n_bins, 3, 2), dtype=np.int64)

    def value(self) -> float:
        """Return the mean error over the problems, of all rows added."""
        errors = errors_of(self.sums, self._norm)
        return math.fsum(errors) / len(errors)


class ConfidenceBins(_Bins):
    """Confidence ECE, added up chunk by chunk."""

    def __init__(self, n_bins: int, norm: str = "l1") -> None:
        super().__init__(1, n_bins, norm)

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        values, hits = chunk.top_labels()
        bins = uniform_bins(values, self._edges)
        kernels.add_binned(values, hits, chunk.weight, bins, self.sums[0])


class ClassBins(_Bins):
    """Class-wise ECE, added up chunk by chunk; a problem for each class."""

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        bins = uniform_bins(chunk.rows, self._edges)
        n_bins, sums = len(self._edges) - 1, self.sums.reshape(-1, 3, 2)
        kernels.add_binned_classes(chunk.rows, chunk.class_index, chunk.weight, bins, n_bins, sums)


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
    in_bin = totals(sums)
    gap = np.abs(in_bin[..., kernels.VALUE] - in_bin[..., kernels.HIT])
    weight = in_bin[..., kernels.WEIGHT]
    total = totals(sums[:, :, kernels.WEIGHT].sum(axis=1))
    relative = np.divide(gap, weight, out=np.zeros_like(gap), where=weight > 0)
    errors: Floats
    if norm == "l1":
        errors = gap.sum(axis=1) / total
    elif norm == "l2":
        errors = np.sqrt((gap * relative).sum(axis=1) / total)
    else:
        errors = relative.max(axis=1)
    return errors
