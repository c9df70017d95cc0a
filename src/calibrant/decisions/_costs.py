"""What decisions cost: tables of costs, the cost of the best decisions, what calibration saves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._containers import column_names
from calibrant._docstrings import inherit_parameters
from calibrant.metrics._measures import RowMean
from calibrant.metrics._predictions import Predictions, exact_sum, read_predictions
from calibrant.metrics._reading import CountedRows, describe, read, shared
from calibrant.metrics._resampling import Bootstrap, drawn_by_group
from calibrant.metrics._result import Estimate, Result, doc, result
from calibrant.metrics._scores import read_pair

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._measures import Body, Chunk

ABSTAIN = "abstain"
"""The action of leaving a row to somebody else."""

N_GROUPS = 64
"""Groups of rows that intervals draw, as those of ``metrics.evaluate``."""

MEANING = "rows are true classes and columns are actions"


class CostTable(NamedTuple):
    """What each action costs for each true class: rows are classes, columns are actions."""

    matrix: Floats
    actions: NDArray[Any]


def read_costs(
    costs: Any, classes: NDArray[Any], abstain: Any = None, actions: Any = None
) -> CostTable:
    """Return the table of costs that a caller told, with abstaining as its last action."""
    n_classes, has_abstain = len(classes), abstain is not None
    cells, named = _cells(costs, classes)
    try:
        matrix = np.array(cells, dtype=np.float64)
        leaving = np.broadcast_to(np.array(abstain if has_abstain else 0.0, np.float64), n_classes)
    except (TypeError, ValueError) as error:
        raise errors.ParameterError(
            f"costs={errors.in_words(cells)} with abstain={errors.in_words(abstain)} are not "
            f"numbers; {MEANING}: pass {n_classes} rows, and one number for abstaining or one for "
            "each class"
        ) from error
    if matrix.ndim != 2 or len(matrix) != n_classes or matrix.shape[1] == 0:
        raise errors.ParameterError(
            f"costs has shape {matrix.shape} but there are {n_classes} classes; {MEANING}: pass a "
            f"matrix of shape ({n_classes}, n_actions)"
        )
    n_actions = matrix.shape[1]
    matrix = np.column_stack([matrix, leaving]) if has_abstain else matrix
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0].tolist()
        raise errors.ParameterError(
            f"costs[{row}, {column}] is {matrix[row, column]}; {MEANING}, and each is finite: pass "
            "a large number for what must not happen"
        )
    usual = named or (classes if n_actions == n_classes else np.arange(n_actions))
    told = list(usual if actions is None else actions)
    is_mixed = len({isinstance(name, str) for name in told}) > 1
    names = np.array(told, dtype=object if is_mixed else None)  # numbers stay numbers
    if (
        names.shape != (n_actions,)
        or len({*names.tolist()}) < n_actions
        or (has_abstain and ABSTAIN in names.tolist())
    ):
        raise errors.ParameterError(
            f"actions={errors.in_words(names)} for {n_actions} columns of costs; {MEANING}: give "
            f"each column a name of its own, and none is {ABSTAIN!r} if abstain= is another"
        )
    if has_abstain:
        names = np.append(names if names.dtype.kind == "U" else names.astype(object), ABSTAIN)
    return CostTable(matrix, names)


def _cells(costs: Any, classes: NDArray[Any]) -> tuple[Any, list[Any] | None]:
    """Return a matrix of costs, rows in the order of the classes, and names of its actions."""
    if isinstance(costs, Mapping):
        if {*costs} != {"false_positive", "false_negative"} or len(classes) != 2:
            raise errors.ParameterError(
                f"costs names {errors.some_in_words(sorted(map(str, costs)))} for {len(classes)} "
                "classes; of two classes name 'false_positive' and 'false_negative', else pass a "
                f"matrix: {MEANING}"
            )
        for name, value in costs.items():
            simplex.check_number(f"costs[{name!r}]", value, low=0.0)
        return [[0.0, costs["false_positive"]], [costs["false_negative"], 0.0]], None
    if not hasattr(costs, "columns"):
        return costs, None
    index, columns = [*map(str, costs.index)], [*map(str, costs.columns)]
    labels = {str(label): label for label in classes.tolist()}  # files name numbers by texts
    cells, names = costs.to_numpy(), [labels.get(str(c), c) for c in costs.columns]
    if sorted(columns) == sorted(labels):
        cells, names = cells[:, [columns.index(label) for label in labels]], [*labels.values()]
    if sorted(index) == sorted(labels):
        cells = cells[[index.index(label) for label in labels]]
    elif index != [str(place) for place in range(len(index))]:
        raise errors.ParameterError(
            f"costs has the rows {errors.some_in_words(list(costs.index))} but the classes are "
            f"{errors.some_in_words(classes)}; {MEANING}: name the rows as the classes"
        )
    is_numbered = columns == [str(place) for place in range(len(columns))]
    return cells, None if is_numbered else names


def action_costs(rows: Floats, matrix: Floats) -> Floats:
    """Return the expected cost of every action for rows of probabilities."""
    found: Floats = np.einsum("nk,ka->na", rows, matrix)  # no BLAS, whose bits depend on threads
    return found


def threshold_of(matrix: Floats) -> float:
    """Return the probability of the second class above which its action costs less."""
    if matrix.shape != (2, 2):
        raise errors.ParameterError(
            f"costs has shape {matrix.shape}, abstaining included; a threshold is of two classes "
            "(rows) and two actions (columns)"
        )
    (right, wrong), (missed, found) = matrix.tolist()
    if min(wrong - right, missed - found) < 0 or wrong - right + missed - found == 0:
        raise errors.ParameterError(
            "one action of costs is never dearer than the other, whatever the class (row); no "
            "threshold tells them apart"
        )
    return float((wrong - right) / (wrong - right + missed - found))


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
        if classes is None:
            classes = names if names and n_columns > 1 else np.arange(max(2, n_columns))
        y_true = np.repeat(np.asarray(classes)[:1], shape[0] if shape else 1)  # any will do
    return read_predictions(y_true, y_proba, None, classes, pos_label)


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

    realised: Estimate = doc("Mean cost of the decisions by the labels.")
    predicted: Estimate = doc("Mean cost that the probabilities promised for them.")
    n_resamples: int
    confidence_level: float = doc("Of the intervals.")


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
    """Mean cost per row of the decisions that the probabilities say cost least.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_actions), data frame or mapping
        Rows are true classes, in the order of the columns of ``y_proba``; columns are actions. The
        rows of a data frame are found by their names. Of two classes, the costs of
        ``"false_positive"`` and ``"false_negative"`` by name. Negative costs are gains.
    abstain : float or array-like of shape (n_classes,), optional
        Cost of leaving a row to somebody else, which is one more action then.

    Returns
    -------
    ExpectedCost
        The mean cost by the labels and the one that the probabilities promised, each as (value,
        low, high). Of calibrated probabilities they agree.

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
    predictions = read(y_true, y_proba, sample_weight, classes, pos_label)
    matrix = read_costs(costs, predictions.classes, abstain).matrix
    bodies: dict[str, Body] = {
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

    per_row: Estimate = doc("Cost that calibrated decisions save per row; negative if they lose.")
    total: Estimate = doc("The same for ``n_decisions`` rows.")
    before: Estimate = doc("Mean cost per row of decisions on the probabilities as they were.")
    after: Estimate = doc("Mean cost per row of decisions on the calibrated ones.")
    changed: float = doc("Share of rows whose decision is another one.")
    n_decisions: float = doc("Rows that ``total`` is of.")
    n_resamples: int
    confidence_level: float = doc("Of the intervals.")


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
    """Measure what calibration saves, in the units of the costs.

    Rows are decided twice, by the action of least expected cost on the probabilities as they were
    and on the calibrated ones; the labels say what both cost.

    Parameters
    ----------
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Probabilities before calibration.
    y_calibrated : array-like of the same shape
        Probabilities after calibration, of the same rows in the same order. The calibrator must
        have been fitted to others.
    n_decisions : float, default=1000
        Rows that the saving is also told for, as those of a month.

    Returns
    -------
    CalibrationValue
        The saving per row and for ``n_decisions`` rows, both costs, each as (value, low, high).

    Notes
    -----
    Intervals are percentiles over rows drawn with replacement, each with both of its decisions.

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
    told = sample_weight, classes, pos_label
    first, second = read_pair(y_true, y_proba, y_calibrated, told)
    matrix = read_costs(costs, first.classes, abstain).matrix
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
