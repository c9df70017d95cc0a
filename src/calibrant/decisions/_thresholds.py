"""``threshold_for``: thresholds with a guaranteed accuracy, precision, recall or capacity."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import bdtr, betainc

from calibrant import _gate as gate
from calibrant import errors
from calibrant._predictions import name_of, usual_column
from calibrant._result import Result, doc, result
from calibrant.decisions._cost_tables import read_in_memory
from calibrant.decisions._curves import distinct_above
from calibrant.metrics import check_level

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label


@result()
class Threshold(Result):
    """Result of :func:`threshold_for`."""

    target: str = doc("'accuracy', 'precision', 'recall' or 'capacity'.")
    wanted: float = doc("Requested value of the target.")
    threshold: float = doc(
        "Smallest probability to act on; infinite if no threshold reaches the target."
    )
    reached: float = doc("Value of the target at the threshold; NaN without one.")
    coverage: float = doc("Share of these rows that are at or above the threshold.")
    confidence_level: float = doc("Confidence level of the guarantee.")
    kind: Any = doc("Label of the class whose probability has the threshold, or 'confidence'.")


def threshold_for(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    *,
    accuracy: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
    capacity: float | None = None,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> Threshold:
    """Find the threshold at which predictions reach a target, with a guarantee.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        Labels and predictions, as in :func:`expected_cost`.
    accuracy : float, optional
        Required share of right predictions among rows whose largest probability is at or above the
        threshold. The lowest such threshold is found.
    precision : float, optional
        Required share of positives among the rows whose probability of the positive class is at or
        above the threshold.
    recall : float, optional
        Required share of the positives at or above; the highest threshold is found.
    capacity : float, optional
        Largest share of rows that may be at or above; the lowest threshold is found. It is one of
        the probability of the positive class; with more than two classes, of the largest one.
    confidence_level : float, default=0.95
        Confidence level at which the target holds for new rows of the same distribution. There is
        no such guarantee for rows of unequal weights, which are refused.

    Returns
    -------
    Threshold

    Notes
    -----
    The rows must be others than those that the classifier or calibrator was fitted to. Bounds are
    exact (Clopper and Pearson's), and made valid for the choice of a threshold. For accuracy and
    precision the rows are looked at from strict to lax thresholds: tests of "the accuracy is too
    low" start at n, n / 2, n / 4, ... rows, each with an equal part of 1 - ``confidence_level``,
    and one that rejects hands its part on to the next threshold (the fallback procedure). That is
    exact if the true accuracy does not grow as the threshold falls. For recall and capacity the
    threshold is an order statistic, and nothing else is assumed.

    If no threshold reaches the target, ``threshold`` is infinite, and there is a warning.

    References
    ----------
    .. [1] B. L. Wiens and A. Dmitrienko, "The Fallback Procedure for Evaluating a Single Family of
       Hypotheses", Journal of Biopharmaceutical Statistics 15, 2005.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.decisions import threshold_for
    >>> y_proba, y = simulated_scores(4000, power=1)
    >>> result = threshold_for(y, y_proba, accuracy=0.8)
    >>> round(result.threshold, 2), round(result.coverage, 2), round(result.reached, 2)
    (0.71, 0.26, 0.82)
    """
    targets = {"accuracy": accuracy, "precision": precision, "recall": recall, "capacity": capacity}
    given = [(name, value) for name, value in targets.items() if value is not None]
    if len(given) != 1:
        raise errors.ParameterError(
            f"{len(given)} of accuracy, precision, recall and capacity are given; pass exactly one"
        )
    ((target, wanted),) = given
    gate.check_number(target, wanted, low=0.0, high=1.0)
    check_level(confidence_level)
    error = 1.0 - float(confidence_level)
    rows = read_in_memory(y_true, y_proba, sample_weight, classes, pos_label)
    if np.ptp(rows.weight) > 0.0:
        raise errors.WeightError(
            "unequal weights do not allow a binomial bound; leave sample_weight out"
        )
    column = None if target == "accuracy" else usual_column(rows.n_classes)
    if column is None and target in ("precision", "recall"):
        raise errors.ParameterError(
            f"y_proba has {rows.n_classes} classes, but {target} is of one; pass the column of "
            "that class, and y_true == that class"
        )
    rows = replace(rows, weight=np.ones(rows.n_rows))
    values, weight, hits = distinct_above(rows, column)
    find = {"recall": _for_recall, "capacity": _for_capacity}.get(target, _for_accuracy)
    place = find(weight, hits, wanted, error)
    if place < 0:
        warnings.warn(
            f"no threshold reaches {target} {wanted:g} at confidence {confidence_level:g}; ask for "
            "less, or use more rows",
            errors.CalibrantWarning,
            stacklevel=2,
        )
    share = np.append(weight / weight[-1], 0.0)  # place -1 is none
    have = {"recall": hits / (hits[-1] or 1.0), "capacity": share[:-1]}.get(target, hits / weight)
    return Threshold(
        target=target,
        wanted=float(wanted),
        threshold=float(np.append(values, math.inf)[place]),
        reached=float(np.append(have, math.nan)[place]),
        coverage=float(share[place]),
        confidence_level=float(confidence_level),
        kind=name_of(rows.classes, column),
    )


def _tail(hits: Floats, trials: Any, share: float) -> Floats:
    """Return P(Binomial(trials, share) >= hits)."""
    tails = betainc(np.maximum(hits, 1.0), trials - hits + 1.0, share)
    return np.where(hits > 0, tails, 1.0)


def _for_accuracy(weight: Floats, hits: Floats, wanted: float, error: float) -> int:
    """Return the last place, from strict to lax, of which a test says that it is right enough."""
    p_value = _tail(hits, weight, wanted)  # small where so many hits refute a lower accuracy
    n_rows = int(weight[-1])
    # Fewer rows refute nothing, were they all right.
    fewest = math.log(max(error / 8, 1e-300)) / math.log(wanted) if 0.0 < wanted < 1.0 else 1.0
    n_starts = max(1, int(math.log2(max(n_rows / fewest, 1.0))) + 1)
    starts = np.searchsorted(weight, n_rows / 2.0 ** np.arange(n_starts)[::-1])
    best, level, stops = -1, 0.0, np.append(starts[1:], len(weight))
    for start, stop in zip(starts, stops, strict=True):
        level += error / n_starts  # and what a run of rejections hands on
        failed = np.flatnonzero(p_value[start:stop] > level)
        last = int(failed[0]) if len(failed) else int(stop - start)
        best = int(start) + last - 1 if last > 0 else best
        level = 0.0 if len(failed) else level
    return best


def _for_recall(_: Floats, hits: Floats, wanted: float, error: float) -> int:
    """Return the first place that has enough of the class, and those to come with it."""
    if hits[-1] == 0:
        return -1
    # The share of the class above its m-th largest value is Beta(m, n - m + 1).
    enough = np.flatnonzero(_tail(hits, hits[-1], wanted) <= error)
    return int(np.append(enough, -1)[0])


def _for_capacity(weight: Floats, _: Floats, wanted: float, error: float) -> int:
    """Return the last place that has few enough rows, and those to come with it."""
    if wanted == 1.0:
        return len(weight) - 1
    few = np.flatnonzero(bdtr(weight, int(weight[-1]), wanted) <= error)
    return int(np.append(-1, few)[-1])
