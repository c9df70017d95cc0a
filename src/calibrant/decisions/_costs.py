"""What decisions cost: tables of costs, the cost of the best decisions, what calibration saves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._containers import column_names
from calibrant._docstrings import inherit_parameters
from calibrant.decisions._cost_tables import action_costs, n_columns_of, read_costs, split_positive
from calibrant.metrics._measures import RowMean
from calibrant.metrics._predictions import Predictions, exact_sum, read_predictions
from calibrant.metrics._reading import CountedRows, describe, read, shared
from calibrant.metrics._resampling import Bootstrap, drawn_by_group
from calibrant.metrics._result import Estimate, Result, doc, result
from calibrant.metrics._scores import read_pair
from calibrant.metrics._table import MOST_CLASSES_CROSSED, Confusion, LabelCounts, find_mismatch

if TYPE_CHECKING:
    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._measures import Body, Chunk

N_GROUPS = 64
"""Groups of rows that intervals draw, as those of ``metrics.evaluate``."""


def read_rows(
    y_proba: Any, y_true: Any = None, classes: Any = None, pos_label: Any = None
) -> Predictions:
    """Return rows as metrics read them; without labels, names of columns are the classes."""
    shape, names = np.shape(y_proba), column_names(y_proba)
    n_columns = shape[1] if len(shape) == 2 else 1
    if classes is not None and len(classes) != max(2, n_columns):
        raise errors.ShapeError(
            f"y_proba has shape {shape} but there are {len(classes)} classes, "
            f"{errors.some_in_words(classes)}; pass one column for each"
        )
    if y_true is None:
        is_unknown = pos_label is not None and pos_label not in (0, 1)
        if classes is None and is_unknown and n_columns == 1:
            raise errors.ParameterError(
                f"pos_label={errors.in_words(pos_label)} : without y_true the other class is not "
                f"known; pass classes=[other, {errors.in_words(pos_label)}]"
            )
        if classes is None:
            classes = names if names and n_columns > 1 else np.arange(max(2, n_columns))
        y_true = np.repeat(np.asarray(classes)[:1], shape[0] if shape else 1)  # any will do
    return read_predictions(y_true, y_proba, None, classes, pos_label)


def order_bodies(n_classes: int) -> dict[str, Body]:
    """Return what is added up to see whether columns are in another order."""
    if n_classes > MOST_CLASSES_CROSSED:
        return {}
    return {"confusion": Confusion(n_classes), "labels": LabelCounts(n_classes)}


def warn_of_order(states: dict[str, Any], classes: Any) -> None:
    """Warn as ``metrics.evaluate`` does if the labels fit other columns far better."""
    if "confusion" in states:
        found = find_mismatch(states["confusion"].total, states["labels"].total, classes)
        if found is not None:
            notices.warn(found)


class DecisionCost(RowMean):
    """Mean cost of the actions of least expected cost, by the labels or by the probabilities."""

    name = "decision cost"

    def __init__(self, costs: Any, by_labels: bool = True) -> None:
        super().__init__()
        self._matrix, self._by_labels = np.asarray(costs, dtype=np.float64), by_labels
        self.bound = float(np.abs(self._matrix).max()) or 1.0

    def terms(self, chunk: Chunk) -> Floats:
        costs = action_costs(chunk.rows, self._matrix)
        if not self._by_labels:
            return np.asarray(costs.min(axis=1))
        return np.asarray(self._matrix[chunk.class_index, costs.argmin(axis=1)])


@result()
class ExpectedCost(Result):
    """Result of :func:`expected_cost`."""

    realised: Estimate = doc("Mean cost of the decisions, computed from the labels.")
    predicted: Estimate = doc("Mean cost of the decisions, as predicted by the probabilities.")
    n_resamples: int
    confidence_level: float = doc("Confidence level of the intervals.")


@inherit_parameters(shared)
def expected_cost(
    y_true: Any,
    y_proba: Any,
    costs: Any,
    *,
    abstain: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ExpectedCost:
    """Compute the mean cost per row of the decisions with the smallest expected cost.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_actions), data frame or mapping
        Costs of each true class (row, in the order of the columns of ``y_proba``) and action
        (column). Rows of a data frame are matched by name. For two classes, a mapping with
        ``"false_positive"`` and ``"false_negative"``; the positive class is ``pos_label``, the last
        of ``classes``, or known from the labels. Negative costs are gains.
    abstain : float, array-like of shape (n_classes,), series or mapping, optional
        Cost of not deciding, which becomes one more action. A series or a mapping is matched by the
        names of the classes.
    pos_label : object, optional
        Positive class of costs by name and of a single column. Not needed for 0 and 1, -1 and 1, or
        False and True, where it is the larger one.

    Returns
    -------
    ExpectedCost
        Realised and predicted mean cost, each as (value, low, high). For calibrated probabilities
        they agree.

    Notes
    -----
    Intervals are percentiles over groups of rows, drawn as :func:`calibrant.metrics.evaluate` does.

    Examples
    --------
    >>> from calibrant.decisions import expected_cost
    >>> y_proba = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.7, 0.3]]
    >>> found = expected_cost(
    ...     [0, 0, 1, 1], y_proba, {"false_positive": 1, "false_negative": 5}, n_resamples=0
    ... )
    >>> found.realised.value, round(found.predicted.value, 3)
    (0.25, 0.575)
    """
    bootstrap = Bootstrap(n_resamples, confidence_level, random_state, n_jobs)
    of_rows, of_costs = split_positive(costs, y_proba, classes, pos_label)
    predictions = read(y_true, y_proba, sample_weight, classes, of_rows)
    matrix = read_costs(costs, predictions.classes, abstain, **of_costs).matrix
    bodies: dict[str, Body] = order_bodies(len(predictions.classes)) | {
        "realised": DecisionCost(matrix),
        "predicted": DecisionCost(matrix, by_labels=False),
    }
    n_groups = N_GROUPS if n_resamples else 1
    with threads.jobs(n_jobs):
        if isinstance(predictions, Predictions):
            states = predictions.add_up(bodies, n_groups)
        else:
            empty = CountedRows(predictions.classes, n_groups=n_groups, counts=describe(bodies))
            states = predictions.counted(empty).parts
        warn_of_order(states, predictions.classes)
        states = {name: states[name] for name in ("realised", "predicted")}
        found = {
            name: Estimate(state.value(), math.nan, math.nan) for name, state in states.items()
        }
        if n_resamples:
            present = states["realised"].by_group[:, 0] > 0.0
            draws = drawn_by_group(states, present, *bootstrap.settings, random_state)
            ends = [(1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0]
            for name, (value, *_) in found.items():
                drawn = np.clip(draws[name], matrix.min(), matrix.max())  # few rows are stretched
                low, high = np.quantile(drawn, ends).tolist()
                found[name] = Estimate(value, min(low, value), max(high, value))
    return ExpectedCost(found["realised"], found["predicted"], *bootstrap.settings)


@result()
class CalibrationValue(Result):
    """Result of :func:`value_of_calibration`."""

    per_row: Estimate = doc("Mean cost saved per row by calibration; negative if the cost rises.")
    total: Estimate = doc("Cost saved in ``n_decisions`` rows.")
    before: Estimate = doc("Mean cost per row of decisions on the uncalibrated probabilities.")
    after: Estimate = doc("Mean cost per row of decisions on the calibrated probabilities.")
    changed: float = doc("Share of rows whose decision changes.")
    n_decisions: float = doc("Number of rows of ``total``.")
    n_resamples: int
    confidence_level: float = doc("Confidence level of the intervals.")


@inherit_parameters(expected_cost, shared)
def value_of_calibration(
    y_true: Any,
    y_proba: Any,
    y_calibrated: Any,
    costs: Any,
    *,
    abstain: Any = None,
    n_decisions: float = 1000,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> CalibrationValue:
    """Measure the cost that calibration saves.

    Decisions with the smallest expected cost are made on the uncalibrated and on the calibrated
    probabilities; the labels give the cost of both.

    Parameters
    ----------
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Probabilities before calibration.
    y_calibrated : array-like of the same shape
        Probabilities after calibration, of the same rows in the same order. The calibrator must
        have been fitted to others.
    n_decisions : float, default=1000
        Number of rows to scale the saving to, such as those of a month.

    Returns
    -------
    CalibrationValue
        Saving per row and for ``n_decisions`` rows, and both costs, each as (value, low, high).

    Notes
    -----
    Intervals are percentiles over rows drawn with replacement, each with both of its decisions. Of
    a few hundred rows, of which few are decided otherwise, they are a little too short.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.decisions import value_of_calibration
    >>> bold, y = simulated_scores(4000)
    >>> honest = TemperatureScaling().fit(bold[:2000], y[:2000]).predict_proba(bold[2000:])
    >>> costs = [[0, 10, 10], [1, 0, 1], [1, 1, 0]]  # class 0 must not be missed
    >>> saved = value_of_calibration(y[2000:], bold[2000:], honest, costs)
    >>> saved.per_row.low > 0
    True
    """
    simplex.check_number("n_decisions", n_decisions, low=0)
    bootstrap = Bootstrap(n_resamples, confidence_level, random_state, n_jobs)
    if pos_label is not None and (n_columns_of(y_proba) == 1) != (n_columns_of(y_calibrated) == 1):
        raise errors.ParameterError(
            f"pos_label={errors.in_words(pos_label)}does not say the order of two columns, and "
            "one of y_proba and y_calibrated has one column, the other two; pass classes=[other, "
            f"{errors.in_words(pos_label)}] and the two columns in this order"
        )
    of_rows, of_costs = split_positive(costs, y_proba, classes, pos_label)
    first, second = read_pair(y_true, y_proba, y_calibrated, (sample_weight, classes, of_rows))
    matrix = read_costs(costs, first.classes, abstain, **of_costs).matrix
    for own in (first, second):
        warn_of_order(own.add_up(order_bodies(own.n_classes)), own.classes)
    old, new = cheapest(first, matrix), cheapest(second, matrix)
    weight = first.row_weights()
    paid = [matrix[first.class_index, action] for action in (old, new)]
    terms = [paid[0] - paid[1], *paid]
    bound = 2.0 * float(np.abs(matrix).max()) or 1.0
    whole = exact_sum(weight)
    values = [exact_sum(weight * (own / bound)) / whole * bound for own in terms]
    saved, before, after = bootstrap.estimates(values, terms, weight)
    return CalibrationValue(
        saved,
        Estimate(*(n_decisions * part for part in saved)),
        before,
        after,
        exact_sum(weight * (old != new)) / whole,
        float(n_decisions),
        *bootstrap.settings,
    )


def cheapest(predictions: Predictions, matrix: Floats) -> Wholes:
    """Return the action of least expected cost of each row."""
    parts = [action_costs(chunk.rows, matrix).argmin(axis=1) for chunk in predictions.chunks()]
    return np.concatenate(parts)
