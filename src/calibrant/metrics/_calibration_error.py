"""Binned calibration errors: confidence, positive class, class by class, and thresholded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant import errors
from calibrant._gate import check_number, check_option
from calibrant._kernels import metrics as kernels
from calibrant._predictions import Statistic, metric_of, source_of, usual_column

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from calibrant._predictions import EventRows, Predictions, Rule
    from calibrant._types import Array, Floats, Label, Wholes
    from calibrant.scale import Chunks

BIN_STRATEGIES = ("uniform", "quantile")
ERROR_NORMS = ("l1", "l2", "max")

ON_EDGE = 1e-9  # distance to the edge of a bin, in bins, that is rounding


def confidence_ece(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    norm: Literal["l1", "l2", "max"] = "l1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the expected calibration error of the confidence (conf-ECE, or just ECE).

    Rows are binned by their largest probability; in each bin the share of rows that are right is
    compared with the mean of that probability::

        ECE = sum_b (w_b / w) |accuracy(b) - confidence(b)|

    Of two classes take :func:`positive_ece`: where the positive one is predicted too often, its
    error and that of the other cancel out here.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, (low, high] with 0 in the first, as in scikit-learn's
        ``calibration_curve``; or of equal mass, where ties are not split: equal predictions go to
        the bin of the midpoint of their cumulative weight.
    norm : {"l1", "l2", "max"}, default="l1"
        Mean gap over rows (ECE), root of the mean squared gap (RMS calibration error), or largest
        gap of a bin (maximum calibration error, MCE).

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    The estimate is biased upwards: a perfect classifier has a positive ECE on any finite sample.
    :func:`calibration_test` says how large it would be. With "quantile", the error of chunks is
    that of a sample of their rows.

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
    check_bins(n_bins, strategy, norm)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    return metric_of(source, binned_error(None, int(n_bins), strategy, norm))


def positive_ece(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "quantile",
    norm: Literal["l1", "l2", "max"] = "l1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the expected calibration error of the positive class of two (pos-ECE).

    Rows are binned by the probability of the positive class, the second of ``classes``; in each bin
    its share of the labels is compared with the mean probability.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal mass, where ties are not split: equal predictions go to the bin of the
        midpoint of their cumulative weight. Or of equal width, (low, high] with 0 in the first: of
        a rare class nearly all rows are in the first of these, where errors of all kinds cancel.
    norm : {"l1", "l2", "max"}, default="l1"
        As in :func:`confidence_ece`.

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
    check_bins(n_bins, strategy, norm)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    column = usual_column(len(source.classes))
    if column is None:
        raise errors.ShapeError(
            f"y_proba has {len(source.classes)} classes, but positive_ece needs two; use "
            "confidence_ece or classwise_ece, or pass the column of one class and y_true == that "
            "class"
        )
    return metric_of(source, binned_error(column, int(n_bins), strategy, norm))


def classwise_ece(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    norm: Literal["l1", "l2", "max"] = "l1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the class-wise calibration error (cw-ECE), the mean ECE of all classes.

    For each class, all rows are binned by its probability (equal width), and the share of rows
    with that label is compared with the mean probability.

    Parameters
    ----------
    y_true, y_proba, n_bins, norm, sample_weight, classes, pos_label
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
    check_bins(n_bins, norm=norm)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    return metric_of(source, ClassBins(int(n_bins), norm))


def thresholded_ece(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    norm: Literal["l1", "l2", "max"] = "l1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the thresholded calibration error (TECE) of predictions above 1 / n_classes.

    As :func:`classwise_ece`, but only over predictions that are not negligible, in bins of equal
    mass, and averaged over the classes that have such predictions.

    Parameters
    ----------
    y_true, y_proba, n_bins, norm, sample_weight, classes, pos_label
        As in :func:`confidence_ece`.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    Equal predictions go to the bin of the midpoint of their cumulative weight. The error of chunks
    is that of a sample of their rows.

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
    check_bins(n_bins, norm=norm)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    return metric_of(source, lambda rows: thresholded_error(rows, int(n_bins), norm))


def check_bins(n_bins: object, strategy: object = "uniform", norm: object = "l1") -> None:
    """Refuse options of binned errors that are not documented."""
    check_number("n_bins", n_bins, low=1, whole=True)
    check_option("strategy", strategy, BIN_STRATEGIES)
    check_option("norm", norm, ERROR_NORMS)


def binned_error(column: int | None, n_bins: int, strategy: str, norm: str = "l1") -> Rule:
    """Return the error of the confidence, or of the class of a column, in bins of some kind."""
    if strategy == "uniform":
        return ProblemBins(n_bins, column, norm)

    def of_rows(rows: Predictions) -> float:
        events = rows.events(column)
        return float(errors_in(sums_in_bins(events, find_bins(events, n_bins, strategy)), norm))

    return of_rows


def thresholded_error(rows: Predictions, n_bins: int, norm: str = "l1") -> float:
    """Return the mean error of the classes over predictions of at least 1 / n_classes."""
    least = (1.0 - 1e-12) / rows.n_classes  # a uniform row counts whichever way it was rounded
    result = []
    for column in range(rows.n_classes):
        events = rows.events(column)
        events = events.take(events.values >= least)
        if len(events.values):
            sums = sums_in_bins(events, find_bins(events, n_bins, "quantile"))
            result.append(errors_in(sums, norm))
    return float(np.mean(result))


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
        events = rows.events(self.column)
        return sums_in_bins(events, uniform_bins(events.values, self.n_bins), self.n_bins)

    def value(self, sums: Floats) -> float:
        """Return the calibration error."""
        return float(errors_in(sums, self.norm))


@dataclass(frozen=True)
class ClassBins(Statistic):
    """Sums in bins of equal width of every class's binary problem: (n_classes, n_bins, 3)."""

    n_bins: int
    norm: str = "l1"

    def sums(self, rows: Predictions) -> Floats:
        """Return sums of shape (n_classes, n_bins, 3)."""
        result = np.zeros((rows.n_classes, self.n_bins, 3))
        bins = uniform_bins(rows.rows, self.n_bins)
        kernels.add_binned_classes(rows.rows, rows.class_index, rows.weight, bins, result)
        return result

    def value(self, sums: Floats) -> float:
        """Return the mean error of the classes."""
        return float(errors_in(sums, self.norm).mean())


def uniform_bins(values: Floats, n_bins: int) -> NDArray[np.int32]:
    """Return the bin (low, high] of equal width of each value; 0 is in the first."""
    bins = np.empty(values.shape, dtype=np.int32)
    edges = np.linspace(0.0, 1.0, n_bins + 1)  # as scikit-learn computes them
    kernels.find_bins(values.reshape(-1), edges, bins.reshape(-1))
    return bins


def find_bins(events: EventRows, n_bins: int, strategy: str) -> Array:
    """Return the bin of every row, of equal width ("uniform") or of equal mass.

    Equal predictions go to the bin of equal mass of the midpoint of their cumulative weight.
    """
    if strategy == "uniform":
        return uniform_bins(events.values, n_bins)
    _, place = np.unique(events.values, return_inverse=True)
    mass = np.bincount(place, events.weight)
    middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    # A midpoint that is next to the edge of a bin is on it: the rest is rounding.
    bins: Wholes = (middle * n_bins + ON_EDGE).astype(np.int64)[place]
    return np.minimum(bins, n_bins - 1)


def mass_edges(values: Floats, bins: Array) -> tuple[Floats, Wholes]:
    """Return the edges of the bins that are not empty, and the bin of each value among these.

    A bin ends at its last value.
    """
    present, place = np.unique(bins, return_inverse=True)
    last = np.zeros(len(present))
    np.maximum.at(last, place, values)
    return np.concatenate([[0.0], last[:-1], [1.0]]), place


def sums_in_bins(events: EventRows, bins: Array, n_bins: int = 0) -> Floats:
    """Return the sums of weight, weighted hits and weighted values in each bin: (n_bins, 3)."""
    values, hits, weight = events
    parts = weight, np.where(hits, weight, 0.0), weight * values
    return np.stack([np.bincount(bins, part, n_bins) for part in parts], axis=1)


def errors_in(sums: Floats, norm: str = "l1") -> Floats:
    """Return calibration errors from sums of shape (..., n_bins, 3).

    With the gap g_b = |values_b - hits_b| / weight_b of bin b and its share s_b of all weight, the
    error of a problem is sum_b s_b g_b ("l1"), sqrt(sum_b s_b g_b^2) ("l2") or max_b g_b ("max").
    """
    weight, hits, values = (sums[..., column] for column in range(3))
    gaps = np.abs(values - hits)  # times the weight, which is 0 in empty bins
    total = np.maximum(weight.sum(axis=-1), np.finfo(np.float64).tiny)
    if norm == "l1":
        return np.asarray(gaps.sum(axis=-1) / total)
    relative = np.divide(gaps, weight, out=np.zeros_like(gaps), where=weight > 0)
    if norm == "max":
        return np.asarray(relative.max(axis=-1))
    return np.asarray(np.sqrt((gaps * relative).sum(axis=-1) / total))
