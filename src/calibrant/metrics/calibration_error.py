"""Binned calibration errors: of the confidence, class by class, and thresholded."""

from __future__ import annotations

from typing import Any

from calibrant import simplex
from calibrant.metrics.bins import (
    STRATEGIES,
    ClassBins,
    ProblemBins,
    ThresholdedBins,
    check_bins,
    mass_error,
)
from calibrant.metrics.counted import measure
from calibrant.metrics.mass_cells import ConfidenceCells, ThresholdedCells


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
    if strategy == "uniform":
        bins = ProblemBins(n_bins, norm)
        return measure(lambda _: bins, y_true, y_proba, sample_weight, classes)
    cells = ConfidenceCells(n_bins, norm)
    return measure(
        lambda _: cells,
        y_true,
        y_proba,
        sample_weight,
        classes,
        in_memory=lambda predictions: mass_error(predictions, int(n_bins), norm),
    )


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
    check_bins(n_bins, norm)
    return measure(
        lambda n_classes: ClassBins(n_classes, n_bins, norm),
        y_true,
        y_proba,
        sample_weight,
        classes,
    )


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
    check_bins(n_bins, norm)
    return measure(
        lambda n_classes: ThresholdedCells(n_classes, n_bins, norm),
        y_true,
        y_proba,
        sample_weight,
        classes,
        in_memory=lambda predictions: ThresholdedBins(predictions, int(n_bins), norm).value(),
    )
