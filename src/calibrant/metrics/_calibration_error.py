"""Binned calibration errors: confidence, positive class, class by class, and thresholded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant.metrics._bins import BIN_STRATEGIES, ClassBins, ProblemBins, check_bins, threshold_of
from calibrant.metrics._cells import EqualMassBins
from calibrant.metrics._chunk import usual_column
from calibrant.metrics._counted import measure
from calibrant.metrics._parameters import inherit_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.metrics._measures import Body


@inherit_parameters
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
    bins = _problem_bins(lambda _: None, n_bins, strategy, norm)
    return measure(bins, y_true, y_proba, sample_weight, classes, pos_label)


@inherit_parameters
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
    bins = _problem_bins(_positive_column, n_bins, strategy, norm)
    return measure(bins, y_true, y_proba, sample_weight, classes, pos_label)


def _positive_column(n_classes: int) -> int | None:
    column = usual_column(n_classes)
    if column is None:
        raise errors.ShapeError(
            f"y_proba is of {n_classes} classes, none of them the positive one; take "
            "confidence_ece or classwise_ece, or pass the column of one class and whether each row "
            "is of it"
        )
    return column


def _problem_bins(
    column_of: Callable[[int], int | None], n_bins: int, strategy: str, norm: str
) -> Callable[[Any], Body]:
    """Bins of the binary problem that the number of classes tells."""
    simplex.check_option("strategy", strategy, BIN_STRATEGIES)
    check_bins(n_bins, norm)

    def bins(classes: Any) -> Body:
        column = column_of(len(classes))
        if strategy == "uniform":
            return ProblemBins(n_bins, norm, column)
        return EqualMassBins(n_bins, norm, column=column)

    return bins


@inherit_parameters
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

    def bins(known: Any) -> Body:
        return ClassBins(len(known), n_bins, norm)

    return measure(bins, y_true, y_proba, sample_weight, classes, pos_label)


@inherit_parameters
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

    def bins(known: Any) -> Body:
        return thresholded_bins(len(known), n_bins, norm)

    return measure(bins, y_true, y_proba, sample_weight, classes, pos_label)


def thresholded_bins(n_classes: int, n_bins: int, norm: str = "l1") -> EqualMassBins:
    """Bins of equal mass of the predictions of each class that TECE counts."""
    return EqualMassBins(n_bins, norm, n_classes, threshold=threshold_of(n_classes))
