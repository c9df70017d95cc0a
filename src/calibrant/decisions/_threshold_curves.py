"""What acting above a threshold is worth: net benefit and cost over all thresholds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._docstrings import inherit_parameters
from calibrant._kernels.metrics import HIT, WEIGHT, add_binned
from calibrant.decisions._cost_tables import read_costs, split_positive, threshold_of
from calibrant.decisions._costs import expected_cost
from calibrant.metrics._measures import RowSums
from calibrant.metrics._predictions import column_of, name_of
from calibrant.metrics._reading import of_predictions, read, shared
from calibrant.metrics._result import Result, doc, result

if TYPE_CHECKING:
    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._measures import Chunk
    from calibrant.metrics._reading import Source


class ThresholdSums(RowSums):
    """Weight of rows and of events between thresholds, and the squares of the weights."""

    name = "threshold sums"

    def __init__(self, thresholds: Any, column: Any = None) -> None:
        self._thresholds = np.asarray(thresholds, dtype=np.float64)
        self._column = column
        super().__init__(len(self._thresholds) + 1, 3)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        values, hits, weight = chunk.events(self._column)
        bins = np.searchsorted(self._thresholds, values, side="right").astype(np.int32)
        add_binned(values, hits, weight, bins, sums)


def _acted(predictions: Source, thresholds: Floats, column: int | None) -> tuple[Any, ...]:
    """Return shares of rows: events and others at or above each threshold, events; and rows."""
    state = predictions.add_up({"sums": ThresholdSums(thresholds, column)})["sums"]
    above = np.cumsum(state.total[::-1], axis=0)[::-1]
    weight, hits = above[:, WEIGHT] / above[0, WEIGHT], above[:, HIT] / above[0, WEIGHT]
    return hits[1:], (weight - hits)[1:], float(hits[0]), state.unit * float(above[0, WEIGHT])


def _read_thresholds(thresholds: Any, high: float) -> Floats:
    """Return increasing thresholds in [0, high]; hundredths by default."""
    found = np.arange(1, 100) / 100.0 if thresholds is None else np.ravel(thresholds)
    for one in found.tolist():
        simplex.check_number("thresholds", one, low=0.0, high=high)
    if len(found) == 0:
        raise errors.ParameterError("thresholds=[] is empty; pass at least one probability")
    return np.unique(found.astype(np.float64))


@result(eq=False)
class DecisionCurve(Result):
    """Result of :func:`decision_curve`; arrays have one number per threshold."""

    kind: Any = doc("Label of the positive class, or 'confidence'.")
    thresholds: Floats = doc("Threshold probabilities.")
    net_benefit: Floats = doc("Net benefit of acting on rows at or above the threshold.")
    treat_all: Floats = doc("Net benefit of acting on all rows. Acting on none has net benefit 0.")
    spread: Floats = doc("Standard error of ``net_benefit``.")
    prevalence: float = doc("Share of rows that are of the class.")


@of_predictions
def decision_curve(
    predictions: Source, *, kind: Any = None, thresholds: Any = None
) -> DecisionCurve:
    """Compute the net benefit of acting above a threshold, for a range of thresholds.

    With TP and FP the shares of all rows that are acted on rightly and wrongly, the net benefit at
    the threshold t is TP - FP t / (1 - t): acting above t implies that a wrong action costs t / (1
    - t) times the benefit of a right one.

    Parameters
    ----------
    thresholds : array-like, optional
        In [0, 1); 0.01, 0.02, ..., 0.99 by default.

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
    column = column_of(predictions.classes, kind)
    true, false, share, n_rows = _acted(predictions, points, column)
    odds = points / (1.0 - points)
    benefit = true - false * odds
    square = true + false * odds**2  # of the term of a row: 1, -odds or 0
    return DecisionCurve(
        kind=name_of(predictions.classes, column),
        thresholds=points,
        net_benefit=benefit,
        treat_all=share - (1.0 - share) * odds,
        spread=np.sqrt(np.maximum(square - benefit**2, 0.0) / n_rows),
        prevalence=share,
    )


@result(eq=False)
class CostCurve(Result):
    """Result of :func:`cost_curve`; arrays have one number per threshold."""

    kind: Any = doc("Label of the positive class.")
    thresholds: Floats = doc("Threshold probabilities: rows at or above are predicted positive.")
    cost: Floats = doc("Mean cost per row.")
    best_threshold: float = doc("Threshold with the smallest cost on these rows.")
    best_cost: float = doc("Cost at ``best_threshold``.")
    threshold: float = doc("Optimal threshold of calibrated probabilities, by the costs alone.")


@inherit_parameters(expected_cost, shared)
def cost_curve(
    y_true: Any,
    y_proba: Any,
    costs: Any,
    *,
    thresholds: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> CostCurve:
    """Compute the mean cost of two classes for a range of thresholds.

    Parameters
    ----------
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
    of_rows, of_costs = split_positive(costs, y_proba, classes, pos_label)
    predictions = read(y_true, y_proba, sample_weight, classes, of_rows)
    if len(predictions.classes) != 2:
        raise errors.ParameterError(
            f"y_proba has {len(predictions.classes)} classes, but a cost curve needs two; pass "
            "the column of one class, and y_true == that class"
        )
    table = read_costs(costs, predictions.classes, **of_costs)
    threshold = threshold_of(table.positive_last)
    points = _read_thresholds(thresholds, 1.0)
    true, false, share, _ = _acted(predictions, points, table.positive)
    (right, wrong), (missed, found) = table.positive_last.tolist()
    cost = true * found + (share - true) * missed + false * wrong + (1 - share - false) * right
    best = int(np.argmin(cost))
    return CostCurve(
        name_of(predictions.classes, table.positive),
        points,
        cost,
        float(points[best]),
        float(cost[best]),
        threshold,
    )
