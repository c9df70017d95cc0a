"""Costs of decisions: their tables, what decisions cost, and the cost that calibration saves.

In a table of costs rows are true classes and columns are actions. Named costs, data frames, files
and costs that differ by row all become a :class:`CostTable` in :func:`read_costs`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from calibrant._gate import MOST_CLASSES_CROSSED, check_number, is_single_column, tells_positive
from calibrant._predictions import MetricArguments, Predictions, read_predictions, source_of
from calibrant._result import Estimate, Result, doc, result
from calibrant.errors import (
    ContainerError,
    LabelError,
    ParameterError,
    ShapeError,
    in_words,
    number_of,
    some_in_words,
)
from calibrant.metrics import Confusion, check_level, row_sums, student_interval, warn_of_mismatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import ArrayLike

    from calibrant._types import Array, Floats, Label, Labels, Wholes

    Costs: TypeAlias = ArrayLike | pd.DataFrame | Mapping[str, ArrayLike]

ABSTAIN = "abstain"
"""The action of leaving a row to somebody else."""

MEANING = "rows are true classes and columns are actions"
MISTAKES = ("false_positive", "false_negative")


class CostTable(NamedTuple):
    """Cost of each action (column) for each true class (row), for all rows or for each of them."""

    matrix: Floats
    actions: Labels
    positive: int = 1
    """Row of the positive class, of two."""

    @property
    def threshold(self) -> float:
        """Probability of the positive class above which its action costs less."""
        matrix = self.matrix[..., ::-1, ::-1] if self.positive == 0 else self.matrix
        if matrix.ndim == 3:
            raise _wrong_costs(" differ by row, so there is no threshold for all rows", matrix)
        if matrix.shape != (2, 2):
            raise _wrong_costs(
                f" has shape {matrix.shape}, including abstaining; a threshold exists only for "
                "two classes (rows) and two actions (columns)",
                matrix,
            )
        (right, wrong), (missed, hit) = matrix.tolist()
        if min(wrong - right, missed - hit) < 0 or wrong - right + missed - hit == 0:
            raise _wrong_costs(
                " has an action that is never more expensive than the other, whatever the class "
                "(row), so there is no threshold between them",
                matrix,
            )
        return float((wrong - right) / (wrong - right + missed - hit))


def read_in_memory(
    y_true: object, y_proba: object, sample_weight: object, classes: object, pos_label: Label | None
) -> Predictions:
    """Return labelled predictions; refuse chunks."""
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    if not isinstance(source, Predictions):
        problem = "y_proba comes in chunks, but decisions need rows in memory"
        raise ContainerError(problem, remedy="pass a part of the rows", argument="y_proba")
    return source


def has_one_column(given: object) -> bool:
    """Whether probabilities are one column."""
    return not isinstance(given, Predictions) and is_single_column(given)


def split_pos_label(
    given: object, costs: object, pos_label: Label | None
) -> tuple[Label | None, Label | None]:
    """Return the ``pos_label`` that rows are read by, and that of named costs.

    A single column is that of ``pos_label``, which then is the last class. With two columns it
    names the positive class of the costs.
    """
    of_costs = isinstance(costs, Mapping) and not has_one_column(given)
    return (None, pos_label) if of_costs else (pos_label, None)


def read_with_costs(
    y_true: object,
    y_proba: object,
    costs: object,
    abstain: float | None,
    sample_weight: object,
    classes: object,
    pos_label: Label | None,
) -> tuple[Predictions, CostTable]:
    """Return labelled predictions, and the costs of their classes."""
    given = y_true if y_proba is None else y_proba
    of_rows, of_costs = split_pos_label(given, costs, pos_label)
    rows = read_in_memory(y_true, y_proba, sample_weight, classes, of_rows)
    is_ordered = classes is not None or has_one_column(given)
    table = read_costs(costs, rows.classes, abstain, None, of_costs, is_ordered)
    return rows, of_counted_rows(table, sample_weight)


def read_costs(
    costs: object,
    classes: Labels,
    abstain: float | None = None,
    actions: Iterable[object] | None = None,
    pos_label: Label | None = None,
    is_ordered: bool = False,
) -> CostTable:
    """Return costs as a table, with abstaining as its last action.

    The positive class of named costs is ``pos_label``; or the last one, if the caller gave two
    classes in order (``is_ordered``) or they tell it by themselves, as 0 and 1 do.
    """
    cells, names, positive = costs, actions, 1
    if isinstance(costs, Mapping):
        cells, positive = _read_mistakes(costs, classes, pos_label, is_ordered=is_ordered)
        if actions is not None and positive == 0:
            names = [*actions][::-1]  # they name the action for the negative class first
    elif pos_label is not None:
        raise ParameterError(
            f"pos_label={in_words(pos_label)} is only for the costs 'false_positive' and "
            f"'false_negative', but costs is a table ({MEANING}); leave pos_label out",
            argument="pos_label",
            value=pos_label,
        )
    elif hasattr(costs, "columns"):
        if actions is not None:
            raise ParameterError(
                "actions= is for costs without names, but the columns of costs are named; leave it "
                "out, or rename the columns",
                argument="actions",
                value=actions,
            )
        cells, names = _read_frame(costs, classes)
    matrix = _check_matrix(cells, len(classes))
    n_actions = matrix.shape[-1]
    if names is None:
        names = classes.tolist() if n_actions == len(classes) else range(n_actions)
    if abstain is not None:
        check_number("abstain", abstain, low=-math.inf)
        column = np.full((*matrix.shape[:-1], 1), float(abstain))
        matrix = np.concatenate([matrix, column], axis=-1)
    named = _name_actions([*names], n_actions, has_abstain=abstain is not None)
    return CostTable(matrix, named, positive)


def _check_matrix(cells: object, n_classes: int) -> Floats:
    """Return finite costs of shape (n_classes, n_actions), or with that shape for each row."""
    try:
        matrix = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError) as error:
        problem = f"={in_words(cells)} are not all numbers ({MEANING}); pass {n_classes} rows"
        raise _wrong_costs(f"{problem} of numbers", cells) from error
    if matrix.ndim not in (2, 3) or matrix.shape[-2] != n_classes or matrix.shape[-1] == 0:
        raise _wrong_costs(
            f" has shape {matrix.shape} but there are {n_classes} classes ({MEANING}); pass "
            f"a matrix of shape ({n_classes}, n_actions), or one for each row of y_proba",
            cells,
        )
    if not np.isfinite(matrix).all():
        place = np.argwhere(~np.isfinite(matrix))[0].tolist()
        raise _wrong_costs(
            f"{place} is {matrix[tuple(place)]}, but costs must be finite "
            f"({MEANING}); pass a large number for an action that must not happen",
            cells,
        )
    return matrix


def _wrong_costs(problem: str, value: object) -> ParameterError:
    return ParameterError(f"costs{problem}", argument="costs", value=value)


def _name_actions(names: Sequence[object], n_actions: int, *, has_abstain: bool) -> Array:
    """Return the names of actions as an array, abstaining last; numbers stay numbers."""
    whole = [*names, *[ABSTAIN] * has_abstain]
    if len(names) != n_actions or len({*whole}) < len(whole):
        raise ParameterError(
            f"actions={in_words(names)} for {n_actions} columns of costs ({MEANING}); pass "
            f"one distinct name per column, and not {ABSTAIN!r} together with abstain=",
            argument="actions",
            value=names,
        )
    is_mixed = len({isinstance(name, str) for name in whole}) > 1
    return np.array(whole, dtype=object if is_mixed else None)


def _read_mistakes(
    costs: Mapping[str, ArrayLike], classes: Labels, pos_label: Label | None, *, is_ordered: bool
) -> tuple[Floats, int]:
    """Return the matrix of named costs, and which of two classes is positive."""
    if {*costs} != {*MISTAKES} or len(classes) != 2:
        raise _wrong_costs(
            f" has the keys {some_in_words(sorted(map(str, costs)))} for {len(classes)} classes; "
            "for two classes pass 'false_positive' and 'false_negative', otherwise a matrix "
            f"({MEANING})",
            costs,
        )
    known, positive = some_in_words(classes), 1
    if pos_label is not None:
        if np.count_nonzero(classes == pos_label) != 1:
            problem = f"pos_label={in_words(pos_label)} is not one of the classes {known}"
            raise ParameterError(problem, argument="pos_label", value=pos_label)
        positive = int(np.argmax(classes == pos_label))
    elif not is_ordered and not tells_positive(classes):
        raise LabelError(
            "costs has 'false_positive' and 'false_negative', but it is not known which of the "
            f"classes {known} is positive",
            remedy="pass pos_label=, or costs as a data frame whose rows (true classes) and "
            "columns (actions) are named after the classes",
            argument="costs",
        )
    wrong = [np.asarray(costs[name], dtype=np.float64) for name in MISTAKES]
    for name, cost in zip(MISTAKES, wrong, strict=True):
        if cost.ndim > 1 or not (cost >= 0.0).all():
            raise _wrong_costs(
                f"[{name!r}]={in_words(costs[name])}; pass a number that is not negative, or one "
                "for each row of y_proba",
                costs,
            )
    sizes = {cost.size for cost in wrong if cost.ndim}  # numbers, or one for each row
    if len(sizes) > 1:
        problem = f" has {wrong[0].size} and {wrong[1].size} numbers; pass one, or one for each row"
        raise _wrong_costs(problem, costs)
    matrix = np.zeros((*sizes, 2, 2))
    matrix[..., 0, 1], matrix[..., 1, 0] = wrong
    return (matrix if positive else matrix[..., ::-1, ::-1]), positive


def _read_frame(costs: pd.DataFrame, classes: Labels) -> tuple[Array, list[object]]:
    """Return the cells and the actions of a data frame, with rows in the order of the classes.

    Columns that are named after the classes are in this order, too. Names are compared as texts,
    since files have no others.
    """
    if not hasattr(costs, "index"):
        raise _wrong_costs(
            f" is a data frame of {type(costs).__module__.partition('.')[0]}, whose rows "
            f"have no names ({MEANING}); pass a pandas data frame with the classes as its index, "
            "or an array with rows in the order of the classes",
            costs,
        )
    frame = costs.rename(index=str)
    labels, columns = [*map(str, classes.tolist())], [*frame.columns]
    if sorted(frame.index) != sorted(labels):
        raise _wrong_costs(
            f" has the rows {some_in_words(costs.index)} but the classes are "
            f"{some_in_words(classes)} ({MEANING}); name the rows after the classes, or "
            "pass classes=",
            costs,
        )
    if sorted(map(str, columns)) != sorted(labels):
        return frame.loc[labels].to_numpy(), columns
    return frame.rename(columns=str).loc[labels, labels].to_numpy(), classes.tolist()


def action_costs(rows: Floats, matrix: Floats) -> Floats:
    """Return the expected cost of every action for rows of probabilities."""
    if matrix.ndim == 3 and len(matrix) != len(rows):
        raise ParameterError(
            f"costs are for {number_of(len(matrix), 'row')}, but there are {len(rows)} rows of "
            "probabilities; pass the costs of these rows",
            argument="costs",
        )
    # No BLAS, whose bits depend on the number of threads.
    return np.asarray(np.einsum("nk,ka->na" if matrix.ndim == 2 else "nk,nka->na", rows, matrix))


def read_cost_file(
    path: Path, classes: Labels, positive: str | None, *, is_single: bool
) -> CostTable:
    """Return the costs of a file for these classes.

    The last class is positive if there ``is_single`` column of scores. In files the classes of
    columns are always known, which does not tell the positive one.
    """
    costs, pos_label = _read(path), None
    if isinstance(costs, dict):
        by_text = {str(label): label for label in classes.tolist()}
        is_told = is_single or len(classes) != 2 or tells_positive(classes)
        if positive not in by_text and (positive is not None or not is_told):
            wrong = "which of them is positive" if positive is None else f"their class {positive!r}"
            raise ParameterError(
                f"{path}: costs are 'false_positive' and 'false_negative', but the classes "
                f"{some_in_words(classes)} do not tell {wrong}; name the positive class with "
                "--positive, or write the costs as CSV with a named row for each true class"
            )
        pos_label = by_text.get(str(positive), classes[-1] if is_single else None)
    try:
        return read_costs(costs, classes, pos_label=pos_label)
    except (LabelError, ParameterError) as error:
        raise type(error)(f"{path}: {error}") from error


def _read(path: Path) -> pd.DataFrame | dict[str, float]:
    """Return a data frame of costs, or an object of JSON; all costs are numbers."""
    import pandas as pd

    costs: pd.DataFrame | dict[str, float]
    try:
        if path.suffix.lower() == ".json":
            costs = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(costs, dict):
                raise ValueError("it is no object")  # noqa: TRY301  (told like other faults)
            cells = [*costs.values()]
        else:
            costs = pd.read_csv(path, index_col=0, dtype={0: str})
            cells = costs.to_numpy().ravel().tolist()
    except (ValueError, RecursionError, AttributeError) as error:
        raise ParameterError(
            f"{path} is neither CSV with a row for each true class and a column for each "
            f'action, nor JSON {{"false_positive": 1, "false_negative": 20}}: {error}'
        ) from error
    for cell in cells:
        if not isinstance(cell, int | float):
            raise ParameterError(
                f"{path}: {cell!r} is not a number; costs that differ by row are for "
                "calibrant.decisions in Python"
            )
    return costs


def warn_of_permutation(rows: Predictions) -> None:
    """Warn as ``evaluate`` does if the labels fit other columns better."""
    if rows.n_classes <= MOST_CLASSES_CROSSED:
        warn_of_mismatch(Confusion().sums(rows), rows.classes)


def costs_paid(rows: Predictions, matrix: Floats, actions: Wholes) -> Floats:
    """Return the cost of the action of each row, by its label."""
    row = (np.arange(len(actions)),) if matrix.ndim == 3 else ()
    return np.asarray(matrix[(*row, rows.class_index, actions)])


def of_counted_rows(table: CostTable, sample_weight: object) -> CostTable:
    """Return the costs of rows with a positive weight; predictions leave out the others."""
    weight = np.asarray(sample_weight)
    if table.matrix.ndim == 2 or sample_weight is None or len(weight) != len(table.matrix):
        return table
    return table._replace(matrix=table.matrix[weight > 0])


@result()
class ExpectedCost(Result):
    """Result of :func:`expected_cost`."""

    realised: Estimate = doc("Mean cost of the decisions, computed from the labels.")
    predicted: Estimate = doc("Mean cost of the decisions, as predicted by the probabilities.")
    confidence_level: float = doc("Confidence level of the intervals.")


def expected_cost(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    costs: Costs | None = None,
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
    matrix, level = table.matrix, float(confidence_level)
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
    costs: Costs,
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
    >>> calm = TemperatureScaling().fit(bold[:2000], y[:2000]).predict_proba(bold[2000:])
    >>> costs = [[0, 10, 10], [1, 0, 1], [1, 1, 0]]  # class 0 must not be missed
    >>> saved = value_of_calibration(y[2000:], bold[2000:], calm, costs)
    >>> saved.per_row.low > 0
    True
    """
    check_number("n_decisions", n_decisions, low=0)
    check_level(confidence_level)
    shapes = np.shape(y_proba), np.shape(y_calibrated)
    if (shapes[0][1:] or (1,)) != (shapes[1][1:] or (1,)):
        problem = f"y_calibrated has shape {shapes[1]}, but y_proba has {shapes[0]}"
        remedy = "pass predictions of the same classes in the same columns"
        raise ShapeError(problem, remedy=remedy, argument="y_calibrated")
    first, table = read_with_costs(
        y_true, y_proba, costs, abstain, sample_weight, classes, pos_label
    )
    named = MetricArguments("y_calibrated")
    second = read_predictions(y_true, y_calibrated, sample_weight, first.classes, None, named)
    matrix, level, both = table.matrix, float(confidence_level), (first, second)
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
