"""The cost of decisions, and the cost that calibration saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._gate import MOST_CLASSES_CROSSED, check_number, column_names
from calibrant._predictions import Predictions, read_pair, read_predictions
from calibrant._result import Estimate, Result, doc, result
from calibrant.decisions._cost_tables import (
    action_costs,
    has_one_column,
    read_costs,
    read_with_costs,
    split_pos_label,
)
from calibrant.metrics import Confusion, check_level, row_sums, student_interval, warn_of_mismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from calibrant._types import Floats, Label, Wholes


def rows_of(
    y_proba: Any,
    y_true: Any = None,
    classes: Any = None,
    pos_label: Label | None = None,
    sample_weight: Any = None,
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
        if classes is None:
            classes = names if names and n_columns > 1 else np.arange(max(2, n_columns))
        y_true = np.repeat(np.asarray(classes)[:1], shape[0] if shape else 1)  # any will do
    return read_predictions(y_true, y_proba, sample_weight, classes, pos_label)


def warn_of_permutation(rows: Predictions) -> None:
    """Warn as ``evaluate`` does if the labels fit other columns better."""
    if rows.n_classes <= MOST_CLASSES_CROSSED:
        warn_of_mismatch(Confusion().sums(rows), rows.classes)


def costs_paid(rows: Predictions, matrix: Floats, actions: Wholes) -> Floats:
    """Return the cost of the action of each row, by its label."""
    row = (np.arange(len(actions)),) if matrix.ndim == 3 else ()
    return np.asarray(matrix[(*row, rows.class_index, actions)])


def of_counted_rows(matrix: Floats, sample_weight: Any) -> Floats:
    """Return the costs of rows with a positive weight; predictions leave out the others."""
    if matrix.ndim == 2 or sample_weight is None or len(sample_weight) != len(matrix):
        return matrix
    return np.asarray(matrix[np.asarray(sample_weight) > 0])


@result()
class ExpectedCost(Result):
    """Result of :func:`expected_cost`."""

    realised: Estimate = doc("Mean cost of the decisions, computed from the labels.")
    predicted: Estimate = doc("Mean cost of the decisions, as predicted by the probabilities.")
    confidence_level: float = doc("Confidence level of the intervals.")


def expected_cost(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    costs: ArrayLike | Mapping[str, Any] | None = None,
    *,
    abstain: float | None = None,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> ExpectedCost:
    """Compute the mean cost per row of the decisions with the smallest expected cost.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or Predictions
        True labels, or one-hot rows; or predictions with their labels.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    costs : array-like of shape (n_classes, n_actions), data frame or mapping
        Costs of each true class (row, in the order of the columns of ``y_proba``) and action
        (column). Rows of a data frame are matched by name. For two classes, a mapping with
        ``"false_positive"`` and ``"false_negative"``; the positive class is ``pos_label``, the last
        of ``classes``, or known from the labels. Negative costs are gains. Costs that differ by
        row, such as the exposure of a loan, are an array of shape (n_rows, n_classes, n_actions),
        or a mapping to arrays of shape (n_rows,).
    abstain : float, optional
        Cost of not deciding, which becomes one more action. For a cost that depends on the class,
        add a column to ``costs``.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all; in intervals it is one row
        that counts double.
    classes, pos_label : optional
        Label of each column, as of :func:`calibrant.metrics.evaluate`, and the positive class of
        costs by name and of a single column: by default the larger one of 0 and 1, -1 and 1.

    Returns
    -------
    ExpectedCost
        Realised and predicted mean cost, each as (value, low, high). For calibrated probabilities
        they agree.

    Notes
    -----
    Intervals are Student's, from the standard error of the mean over rows, and end at the smallest
    and the largest cost. Those of few rows, of which hardly any is costly, are too short.

    Examples
    --------
    >>> from calibrant.decisions import expected_cost
    >>> y_proba = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.7, 0.3]]
    >>> result = expected_cost([0, 0, 1, 1], y_proba, {"false_positive": 1, "false_negative": 5})
    >>> result.realised.value, round(result.predicted.value, 3)
    (0.25, 0.575)

    A missed default costs the amount of the loan:

    >>> loans = {"false_positive": 1, "false_negative": [5, 2, 2, 20]}
    >>> result = expected_cost([0, 0, 1, 1], y_proba, loans)
    >>> result.realised.value, round(result.predicted.value, 3)
    (0.0, 0.475)
    """
    check_level(confidence_level)
    rows, table = read_with_costs(
        y_true, y_proba, costs, abstain, sample_weight, classes, pos_label
    )
    warn_of_permutation(rows)
    matrix, level = of_counted_rows(table.matrix, sample_weight), float(confidence_level)
    expected = action_costs(rows.rows, matrix)
    paid = costs_paid(rows, matrix, expected.argmin(axis=1))
    ends = float(matrix.min()), float(matrix.max())
    realised, predicted = (
        student_interval(row_sums(cost, rows.weight), level, *ends)
        for cost in (paid, expected.min(axis=1))
    )
    return ExpectedCost(realised, predicted, level)


@result()
class CalibrationValue(Result):
    """Result of :func:`value_of_calibration`."""

    per_row: Estimate = doc("Mean cost saved per row by calibration; negative if the cost rises.")
    total: Estimate = doc("Cost saved in ``n_decisions`` rows.")
    before: Estimate = doc("Mean cost per row of decisions on the uncalibrated probabilities.")
    after: Estimate = doc("Mean cost per row of decisions on the calibrated probabilities.")
    changed: float = doc("Share of rows whose decision changes.")
    n_decisions: float = doc("Number of rows of ``total``.")
    confidence_level: float = doc("Confidence level of the intervals.")


def value_of_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    y_calibrated: ArrayLike,
    costs: ArrayLike | Mapping[str, Any],
    *,
    abstain: float | None = None,
    n_decisions: float = 1000,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> CalibrationValue:
    """Measure the cost that calibration saves.

    Decisions with the smallest expected cost are made on the uncalibrated and on the calibrated
    probabilities; the labels give the cost of both.

    Parameters
    ----------
    y_true, y_proba, costs, abstain, confidence_level, sample_weight, classes, pos_label
        As in :func:`expected_cost`; ``y_proba`` are the probabilities before calibration.
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
    Intervals are Student's, from the standard error of the mean over rows; that of the saving is of
    the differences of both costs of a row. Of a few hundred rows, of which few are decided
    otherwise, they are a little too short.

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
    check_number("n_decisions", n_decisions, low=0)
    check_level(confidence_level)
    if has_one_column(y_proba) != has_one_column(y_calibrated):
        raise errors.ShapeError(
            "one of y_proba and y_calibrated has one column, the other has several; pass the same "
            "columns of both"
        )
    of_rows, of_costs = split_pos_label(y_proba, costs, pos_label)
    both = read_pair(y_true, y_proba, y_calibrated, (sample_weight, classes, of_rows))
    first = both[0]
    is_ordered = has_one_column(y_proba) or classes is not None
    table = read_costs(costs, first.classes, abstain, None, of_costs, is_ordered)
    matrix, level = of_counted_rows(table.matrix, sample_weight), float(confidence_level)
    for rows in both:
        warn_of_permutation(rows)
    old, new = (action_costs(rows.rows, matrix).argmin(axis=1) for rows in both)
    before, after = (costs_paid(first, matrix, actions) for actions in (old, new))
    low, high = float(matrix.min()), float(matrix.max())
    saved = student_interval(row_sums(before - after, first.weight), level, low - high, high - low)
    return CalibrationValue(
        saved,
        Estimate(*(n_decisions * part for part in saved)),
        student_interval(row_sums(before, first.weight), level, low, high),
        student_interval(row_sums(after, first.weight), level, low, high),
        float(first.weight[old != new].sum() / first.weight.sum()),
        float(n_decisions),
        level,
    )
