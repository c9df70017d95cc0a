"""Binned calibration errors: confidence, positive class, class by class, and thresholded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import errors, simplex
from calibrant.metrics.bins import (
    STRATEGIES,
    ClassBins,
    ProblemBins,
    ThresholdedBins,
    check_bins,
    mass_error,
)
from calibrant.metrics.chunk import usual_column
from calibrant.metrics.counted import measure
from calibrant.metrics.mass_cells import ProblemCells, ThresholdedCells

if TYPE_CHECKING:
    from collections.abc import Callable


def confidence_ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Compute the expected calibration error of the confidence (conf-ECE, or just ECE).

    Rows are binned by their largest probability; in each bin the share of rows that are right is
    compared with the mean of that probability. Of two classes take :func:`positive_ece`: where the
    positive one is predicted too often, its error and that of the other cancel out here.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
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
    told = {"classes": classes, "pos_label": pos_label}
    return _problem_error(
        lambda _: None, n_bins, strategy, norm, y_true, y_proba, sample_weight, told
    )


def positive_ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Compute the expected calibration error of the positive one of two classes (pos-ECE).

    All rows are binned by the probability of the positive class, the second of ``classes``; in each
    bin the share of rows that are of it is compared with the mean of that probability.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, norm, sample_weight, classes, pos_label
        As in :func:`confidence_ece`; of two classes.

    Returns
    -------
    float
        In [0, 1]; the same to the last bit for any order of the rows.

    Notes
    -----
    It is biased upwards, as :func:`confidence_ece` is; :func:`calibration_test` says how large it
    would be by chance.

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
    told = {"classes": classes, "pos_label": pos_label}
    return _problem_error(
        _positive_column, n_bins, strategy, norm, y_true, y_proba, sample_weight, told
    )


def _positive_column(n_classes: int) -> int | None:
    column = usual_column(n_classes)
    if column is None:
        raise errors.ShapeError(
            f"y_proba is of {n_classes} classes, none of them the positive one; take "
            "confidence_ece or classwise_ece, or pass the column of one class and whether each row "
            "is of it"
        )
    return column


def _problem_error(
    column_of: Callable[[int], int | None],
    n_bins: int,
    strategy: str,
    norm: str,
    y_true: Any,
    y_proba: Any,
    sample_weight: Any,
    told: dict[str, Any],
) -> float:
    """Error of the binary problem that the number of classes tells."""
    simplex.check_option("strategy", strategy, STRATEGIES)
    check_bins(n_bins, norm)
    if strategy == "uniform":
        return measure(
            lambda known: ProblemBins(n_bins, norm, column_of(len(known))),
            y_true,
            y_proba,
            sample_weight,
            **told,
        )
    return measure(
        lambda known: ProblemCells(n_bins, norm, column_of(len(known))),
        y_true,
        y_proba,
        sample_weight,
        **told,
        in_memory=lambda predictions: mass_error(
            predictions, int(n_bins), norm, column_of(predictions.n_classes)
        ),
    )


def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    norm: str = "l1",
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Class-wise calibration error (cw-ECE): the mean over classes of each one's binary ECE.

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
    check_bins(n_bins, norm)
    return measure(
        lambda known: ClassBins(len(known), n_bins, norm),
        y_true,
        y_proba,
        sample_weight,
        classes=classes,
        pos_label=pos_label,
    )


def thresholded_ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    norm: str = "l1",
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Thresholded calibration error (TECE): class by class, predictions of 1 / n_classes or more.

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
        lambda known: ThresholdedCells(len(known), n_bins, norm),
        y_true,
        y_proba,
        sample_weight,
        classes=classes,
        pos_label=pos_label,
        in_memory=lambda predictions: ThresholdedBins(predictions, int(n_bins), norm).value(),
    )
