"""Curves over thresholds, and thresholds that keep a promise.

All of them come from one computation, :func:`sums_above`: the weight of the rows, and of their
events, at or above each threshold.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtr, betainc, psi

from calibrant import errors
from calibrant._gate import check_number
from calibrant._predictions import name_of, usual_column
from calibrant._result import Result, doc, result
from calibrant.decisions._costs import read_in_memory, read_with_costs
from calibrant.metrics import check_level, standard_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label
    from calibrant.decisions._costs import Costs


def sums_above(rows: Predictions, thresholds: Floats, column: int | None) -> Floats:
    """Return the sums of all rows, and then those of rows at or above each threshold.

    They are the weight of rows and of events, and the squares of both: (n_thresholds + 1, 4).
    """
    values, hits, weight = rows.events(column)
    bins, squares = np.searchsorted(thresholds, values, side="right"), weight * weight
    parts = weight, weight * hits, squares, squares * hits
    sums = np.stack([np.bincount(bins, part, len(thresholds) + 1) for part in parts], axis=1)
    return np.asarray(np.cumsum(sums[::-1], axis=0)[::-1])


def distinct_above(rows: Predictions, column: int | None) -> tuple[Floats, Floats, Floats]:
    """Return distinct values, largest first, and weight and hits of the rows from each on."""
    values = np.unique(rows.events(column).values)
    above = sums_above(rows, values, column)[:0:-1]
    return values[::-1], above[:, 0], above[:, 1]


def _shares(above: Floats) -> tuple[Floats, Floats, float]:
    """Return shares of rows: events and others at or above each threshold, and all events."""
    weight, hits = above[:, 0] / above[0, 0], above[:, 1] / above[0, 0]
    return hits[1:], np.maximum(weight - hits, 0.0)[1:], float(hits[0])


def _read_thresholds(thresholds: ArrayLike | None, high: float) -> Floats:
    """Return increasing thresholds in [0, high]; hundredths by default."""
    points = np.arange(1, 100) / 100.0 if thresholds is None else np.ravel(thresholds)
    for point in points.tolist():
        check_number("thresholds", point, low=0.0, high=high)
    if len(points) == 0:
        problem = "thresholds=[] is empty; pass at least one probability"
        raise errors.ParameterError(problem, argument="thresholds")
    return np.unique(points.astype(np.float64))


@result(eq=False)
class DecisionCurve(Result):
    """Result of :func:`decision_curve`; arrays have one number per threshold."""

    kind: Label = doc("Label of the positive class, or 'confidence'.")
    thresholds: Floats = doc("Threshold probabilities.")
    net_benefit: Floats = doc("Net benefit of acting on rows at or above the threshold.")
    treat_all: Floats = doc("Net benefit of acting on all rows. Acting on none has net benefit 0.")
    spread: Floats = doc("Standard error of ``net_benefit``.")
    prevalence: float = doc("Share of rows that are of the class.")


def decision_curve(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> DecisionCurve:
    """Compute the net benefit of acting above a threshold, for a range of thresholds.

    With TP and FP the shares of all rows that are acted on rightly and wrongly, the net benefit at
    the threshold t is TP - FP t / (1 - t): acting above t implies that a wrong action costs t / (1
    - t) times the benefit of a right one. Of two classes, the probability is that of the positive
    one; of more, it is the largest one, and an action is right if the class is.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        Labels and predictions, as in :func:`expected_cost`.
    thresholds : array-like, optional
        In [0, 1); 0.01, 0.02, ..., 0.99 by default.

    Returns
    -------
    DecisionCurve

    References
    ----------
    .. [1] A. J. Vickers and E. B. Elkin, "Decision Curve Analysis: A Novel Method for Evaluating
       Prediction Models", Medical Decision Making 26, 2006.

    Examples
    --------
    >>> from calibrant.decisions import decision_curve
    >>> curve = decision_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], thresholds=[0.2, 0.5])
    >>> curve.net_benefit, curve.treat_all
    (array([0.4375, 0.25  ]), array([0.375, 0.   ]))
    """
    points = _read_thresholds(thresholds, math.nextafter(1.0, 0.0))
    rows = read_in_memory(y_true, y_proba, sample_weight, classes, pos_label)
    column = usual_column(rows.n_classes)
    above = sums_above(rows, points, column)
    true, false, share = _shares(above)
    odds = points / (1.0 - points)
    benefit = true - false * odds  # the mean over rows of 1, -odds or 0
    squares, of_hits = above[:, 2], above[1:, 3]
    of_others = np.maximum(squares[1:] - of_hits, 0.0)
    moments = squares[0], of_hits - of_others * odds, of_hits + of_others * odds**2
    return DecisionCurve(
        kind=name_of(rows.classes, column),
        thresholds=points,
        net_benefit=benefit,
        treat_all=share - (1.0 - share) * odds,
        spread=standard_error(benefit, above[0, 0], *moments, rows.n_rows),
        prevalence=share,
    )


@result(eq=False)
class CostCurve(Result):
    """Result of :func:`cost_curve`; arrays have one number per threshold."""

    kind: Label = doc("Label of the positive class.")
    thresholds: Floats = doc("Threshold probabilities: rows at or above are predicted positive.")
    cost: Floats = doc("Mean cost per row.")
    best_threshold: float = doc("Threshold with the smallest cost on these rows.")
    best_cost: float = doc("Cost at ``best_threshold``.")
    threshold: float = doc("Optimal threshold of calibrated probabilities, by the costs alone.")


def cost_curve(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    costs: Costs | None = None,
    *,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> CostCurve:
    """Compute the mean cost of two classes for a range of thresholds.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        Labels and predictions, as in :func:`expected_cost`.
    costs : array-like of shape (2, 2), data frame or mapping
        Costs of each true class (row) and action (column), as of :func:`expected_cost`.
    thresholds : array-like, optional
        In [0, 1]; 0.01, 0.02, ..., 0.99 by default.

    Returns
    -------
    CostCurve
        For calibrated probabilities ``best_threshold`` is near ``threshold``.

    Examples
    --------
    >>> from calibrant.decisions import cost_curve
    >>> costs = {"false_positive": 1, "false_negative": 4}
    >>> curve = cost_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], costs, thresholds=[0.3, 0.5])
    >>> curve.cost, curve.threshold
    (array([0.25, 1.  ]), 0.2)
    """
    rows, table = read_with_costs(y_true, y_proba, costs, None, sample_weight, classes, pos_label)
    if rows.n_classes != 2:
        raise errors.ParameterError(
            f"y_proba has {rows.n_classes} classes, but a cost curve needs two; pass the "
            "column of one class, and y_true == that class",
            argument="y_proba",
        )
    points, threshold = _read_thresholds(thresholds, 1.0), table.threshold
    true, false, share = _shares(sums_above(rows, points, table.positive))
    matrix = table.matrix if table.positive == 1 else table.matrix[::-1, ::-1]
    (right, wrong), (missed, hit) = matrix.tolist()
    cost = true * hit + (share - true) * missed + false * wrong + (1 - share - false) * right
    best = int(np.argmin(cost))
    return CostCurve(
        kind=name_of(rows.classes, table.positive),
        thresholds=points,
        cost=cost,
        best_threshold=float(points[best]),
        best_cost=float(cost[best]),
        threshold=threshold,
    )


@result(eq=False)
class RiskCoverage(Result):
    """Result of :func:`risk_coverage`; arrays have one number per distinct confidence."""

    thresholds: Floats = doc("Confidences in decreasing order.")
    coverage: Floats = doc("Share of rows at or above each confidence.")
    risk: Floats = doc("Share of these rows whose predicted class is wrong.")
    aurc: float = doc("Area under the curve: the mean risk over the ranks of all rows.")
    oracle: float = doc("Area under the curve of the same rows if all wrong ones came last.")

    @property
    def excess(self) -> float:
        """Area above that of the oracle (E-AURC)."""
        return self.aurc - self.oracle


def risk_coverage(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> RiskCoverage:
    """Compute the error rate of the most confident rows, by the share of rows kept.

    The area is the mean over i = 1, ..., n of the risk of the i most confident rows, averaged over
    all orders of tied rows.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        Labels and predictions, as in :func:`expected_cost`.

    Returns
    -------
    RiskCoverage

    References
    ----------
    .. [1] Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep
       Neural Classifiers", ICLR 2019.

    Examples
    --------
    >>> from calibrant.decisions import risk_coverage
    >>> y_proba = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    >>> curve = risk_coverage([0, 1, 1, 0], y_proba)
    >>> curve.risk.round(3), round(curve.aurc, 4), round(curve.excess, 4)
    (array([0.   , 0.5  , 0.333, 0.25 ]), 0.2708, 0.2083)
    """
    rows = read_in_memory(y_true, y_proba, sample_weight, classes, pos_label)
    values, weight, hits = distinct_above(rows, None)
    wrong = np.maximum(weight - hits, 0.0)
    before, missed = np.append(0.0, weight[:-1]), np.append(0.0, wrong[:-1])
    added = weight - before  # zero where rows weigh less than the rounding of the others
    rate = np.divide(wrong - missed, added, out=np.zeros_like(added), where=added > 0.0)
    # Sum over ranks j of a group of (missed + (j - before) rate) / j, with sums of 1 / j by psi.
    ranks = psi(weight + 1.0) - psi(before + 1.0)
    area = math.fsum(wrong - missed) + math.fsum((missed - rate * before) * ranks)
    n_rows, n_wrong = float(weight[-1]), float(wrong[-1])
    right = n_rows - n_wrong
    oracle = n_wrong - right * float(psi(n_rows + 1.0) - psi(right + 1.0))
    return RiskCoverage(values, weight / n_rows, wrong / weight, area / n_rows, oracle / n_rows)


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
    kind: Label = doc("Label of the class whose probability has the threshold, or 'confidence'.")


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
    check_number(target, wanted, low=0.0, high=1.0)
    check_level(confidence_level)
    error = 1.0 - float(confidence_level)
    rows = read_in_memory(y_true, y_proba, sample_weight, classes, pos_label)
    if np.ptp(rows.weight) > 0.0:
        problem = "unequal weights do not allow a binomial bound"
        remedy = "leave sample_weight out"
        raise errors.WeightError(problem, remedy=remedy, argument="sample_weight")
    column = None if target == "accuracy" else usual_column(rows.n_classes)
    if column is None and target in ("precision", "recall"):
        raise errors.ParameterError(
            f"y_proba has {rows.n_classes} classes, but {target} is of one; pass the column of "
            "that class, and y_true == that class",
            argument="y_proba",
        )
    rows = replace(rows, weight=np.ones(rows.n_rows))
    values, weight, hits = distinct_above(rows, column)
    share = np.append(weight / weight[-1], 0.0)  # place -1 is none
    find: Callable[[Floats, Floats, float, float], int] = _for_accuracy
    reached = hits / weight
    if target == "recall":
        find, reached = _for_recall, hits / (hits[-1] or 1.0)
    elif target == "capacity":
        find, reached = _for_capacity, share[:-1]
    place = find(weight, hits, wanted, error)
    if place < 0:
        warnings.warn(
            f"no threshold reaches {target} {wanted:g} at confidence {confidence_level:g}; ask for "
            "less, or use more rows",
            errors.CalibrantWarning,
            stacklevel=2,
        )
    return Threshold(
        target=target,
        wanted=float(wanted),
        threshold=float(np.append(values, math.inf)[place]),
        reached=float(np.append(reached, math.nan)[place]),
        coverage=float(share[place]),
        confidence_level=float(confidence_level),
        kind=name_of(rows.classes, column),
    )


def _tail(hits: Floats, trials: Floats, share: float) -> Floats:
    """Return P(Binomial(trials, share) >= hits)."""
    tails = betainc(np.maximum(hits, 1.0), trials - hits + 1.0, share)
    return np.where(hits > 0, tails, 1.0)


def _for_accuracy(weight: Floats, hits: Floats, wanted: float, error: float) -> int:
    """Return the last place, from strict to lax, at which a test accepts the accuracy."""
    p_value = _tail(hits, weight, wanted)  # small where the hits refute a lower accuracy
    n_rows = int(weight[-1])
    # With fewer rows no test rejects, even if all are right.
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
