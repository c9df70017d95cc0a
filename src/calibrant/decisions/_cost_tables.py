"""Tables of costs: rows are true classes, columns are actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._one_column import tells_positive
from calibrant._predictions import Predictions
from calibrant.scale._chunks import Chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats

ABSTAIN = "abstain"
"""The action of leaving a row to somebody else."""

MEANING = "rows are true classes and columns are actions"


class CostTable(NamedTuple):
    """What each action costs for each true class: rows are classes, columns are actions.

    Costs that differ by row are such a matrix for each of the rows that are decided.
    """

    matrix: Floats
    actions: NDArray[Any]
    positive: int = 1
    """Row of the positive class, of two."""

    @property
    def positive_last(self) -> Floats:
        """The matrix with the positive class, and its action, as the second one."""
        return self.matrix[..., ::-1, ::-1] if self.positive == 0 else self.matrix


def is_pair(costs: Any) -> bool:
    """Whether costs are named, and not a table."""
    return isinstance(costs, Mapping)


def is_frame(costs: Any) -> bool:
    """Whether costs are a data frame, of any library."""
    return hasattr(costs, "columns")


class Positive(NamedTuple):
    """What is known of the positive class of named costs.

    ``is_told`` says that somebody chose the last of two classes as the positive one.
    """

    pos_label: Any = None
    is_told: bool = False


def n_columns_of(given: Any) -> int:
    """Return how many columns probabilities have; a vector has one."""
    if isinstance(given, Predictions):
        return given.n_classes
    if isinstance(given, Chunks):
        return given.n_columns
    try:
        shape = np.shape(given)
    except ValueError:  # rows of different lengths: whoever reads them says so
        return 2
    return shape[1] if len(shape) == 2 else 1


def split_positive(given: Any, costs: Any, classes: Any, pos_label: Any) -> tuple[Any, Positive]:
    """Return the ``pos_label`` that rows are read by, and what is known of that of the costs.

    Of two columns it tells the positive class of named costs. A single column is of the positive
    class, and ``classes`` that a caller told have it last.
    """
    is_single = n_columns_of(given) == 1
    if is_pair(costs) and not is_single:
        return None, Positive(pos_label, is_told=classes is not None)
    return pos_label, Positive(is_told=is_single or classes is not None)


def read_costs(
    costs: Any,
    classes: NDArray[Any],
    abstain: Any = None,
    actions: Any = None,
    pos_label: Any = None,
    is_told: bool = False,
) -> CostTable:
    """Return the table of costs that a caller told, with abstaining as its last action.

    The last two are the fields of ``Positive``.
    """
    n_classes, has_abstain = len(classes), abstain is not None
    positive = 1
    if is_pair(costs):
        positive = _place_of_positive(costs, classes, pos_label, is_told=is_told)
    elif pos_label is not None:
        raise errors.ParameterError(
            f"pos_label={errors.in_words(pos_label)} is only for the costs 'false_positive' and "
            f"'false_negative', but costs is a table ({MEANING}); leave pos_label out"
        )
    cells, named, order = _cells(costs, classes, positive)
    abstain = _by_class("abstain", abstain, classes)
    try:
        matrix = np.array(cells, dtype=np.float64)
        leaving = np.broadcast_to(np.array(abstain if has_abstain else 0.0, np.float64), n_classes)
    except (TypeError, ValueError) as error:
        raise errors.ParameterError(
            f"costs={errors.in_words(cells)} with abstain={errors.in_words(abstain)} are not all "
            f"numbers ({MEANING}); pass {n_classes} rows, and for abstain one number, or one per "
            "class"
        ) from error
    if matrix.ndim not in (2, 3) or matrix.shape[-2] != n_classes or matrix.shape[-1] == 0:
        raise errors.ParameterError(
            f"costs has shape {matrix.shape} but there are {n_classes} classes ({MEANING}); pass "
            f"a matrix of shape ({n_classes}, n_actions), or one for each row of y_proba"
        )
    n_actions = matrix.shape[-1]
    if has_abstain:
        column = np.broadcast_to(leaving[:, None], (*matrix.shape[:-1], 1))
        matrix = np.concatenate([matrix, column], axis=-1)
    if not np.isfinite(matrix).all():
        place = tuple(np.argwhere(~np.isfinite(matrix))[0].tolist())
        raise errors.ParameterError(
            f"costs[{', '.join(map(str, place))}] is {matrix[place]}, but costs must be finite "
            f"({MEANING}); pass a large number for an action that must not happen"
        )
    usual = named or (classes if n_actions == n_classes else np.arange(n_actions))
    told = list(usual if actions is None else actions)
    is_mixed = len({isinstance(name, str) for name in told}) > 1
    names = np.array(told, dtype=object if is_mixed else None)  # numbers stay numbers
    if actions is not None and order is not None and len(names) == n_actions:
        names = names[order]  # they are told in the order of the columns as given
    if (
        names.shape != (n_actions,)
        or len({*names.tolist()}) < n_actions
        or (has_abstain and ABSTAIN in names.tolist())
    ):
        raise errors.ParameterError(
            f"actions={errors.in_words(names)} for {n_actions} columns of costs ({MEANING}); pass "
            f"one distinct name per column, and not {ABSTAIN!r} together with abstain="
        )
    if has_abstain:
        names = np.append(names if names.dtype.kind == "U" else names.astype(object), ABSTAIN)
    return CostTable(matrix, names, positive)


def _place_of_positive(
    costs: Mapping[Any, Any], classes: NDArray[Any], pos_label: Any, *, is_told: bool
) -> int:
    """Return which of two classes is positive; refuse named costs of which nobody knows it."""
    if {*costs} != {"false_positive", "false_negative"} or len(classes) != 2:
        raise errors.ParameterError(
            f"costs has the keys {errors.some_in_words(sorted(map(str, costs)))} for "
            f"{len(classes)} classes; for two classes pass 'false_positive' and 'false_negative', "
            f"otherwise a matrix ({MEANING})"
        )
    known = errors.some_in_words(classes)
    if pos_label is not None:
        place = np.flatnonzero(classes == pos_label)
        if len(place) != 1:
            raise errors.ParameterError(
                f"pos_label={errors.in_words(pos_label)} is not one of the classes {known}"
            )
        return int(place[0])
    if not is_told and not tells_positive(classes):
        raise errors.LabelError(
            "costs has 'false_positive' and 'false_negative', but it is not known which of the "
            f"classes {known} is positive; pass pos_label= (functions of calibrant.decisions), or "
            "costs as a data frame whose rows (true classes) and columns (actions) are named "
            "after the classes"
        )
    return 1


def _cells(
    costs: Any, classes: NDArray[Any], positive: int
) -> tuple[Any, list[Any] | None, list[int] | None]:
    """Return a matrix of costs, rows in the order of the classes, and names of its actions.

    The last is the order of the columns, where it is not the one they were given in.
    """
    if costs is None:
        raise errors.ParameterError(f"costs is None; pass a table of costs ({MEANING})")
    if is_pair(costs):
        wrong = [_cost_of_mistake(costs, name) for name in ("false_positive", "false_negative")]
        right_wrong = np.zeros((*np.broadcast_shapes(*(own.shape for own in wrong)), 2, 2))
        right_wrong[..., 0, 1], right_wrong[..., 1, 0] = wrong
        if positive == 0:
            return right_wrong[..., ::-1, ::-1], None, [1, 0]
        return right_wrong, None, None
    if not is_frame(costs):
        return costs, None, None
    if not hasattr(costs, "index"):
        raise errors.ParameterError(
            f"costs is a data frame of {type(costs).__module__.partition('.')[0]}, whose rows "
            f"have no names ({MEANING}); pass a pandas data frame with the classes as its index, "
            "or an array with rows in the order of the classes"
        )
    columns, order = [*map(str, costs.columns)], None
    labels = {str(label): label for label in classes.tolist()}  # files name numbers by texts
    cells, names = costs.to_numpy(), [labels.get(str(c), c) for c in costs.columns]
    if sorted(columns) == sorted(labels):
        order = [columns.index(label) for label in labels]
        cells, names = cells[:, order], [*labels.values()]
    rows = _order_of("costs", [*costs.index], classes)
    cells = cells if rows is None else cells[rows]
    is_numbered = columns == [str(place) for place in range(len(columns))]
    return cells, None if is_numbered else names, order


def _cost_of_mistake(costs: Mapping[Any, Any], name: str) -> Floats:
    """Return what one kind of mistake costs: a number, or one for each row."""
    if np.ndim(costs[name]) == 0:
        simplex.check_number(f"costs[{name!r}]", costs[name], low=0.0)
        return np.array(float(costs[name]))
    own = np.asarray(costs[name], dtype=np.float64)
    others = [np.shape(other) for other in costs.values() if np.ndim(other)]
    is_bad = ~(np.isfinite(own) & (own >= 0.0))
    if own.ndim > 1 or len({*others}) > 1:
        raise errors.ParameterError(
            f"costs has the shapes {errors.some_in_words(others)}; pass one number, or one for "
            "each row of y_proba"
        )
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise errors.ParameterError(
            f"costs[{name!r}][{row}] is {own[row]}; pass finite numbers that are not negative"
        )
    return own


def _order_of(argument: str, told: list[Any], classes: NDArray[Any]) -> list[int] | None:
    """Return where each class is among the names of rows; None if these are their numbers."""
    names, labels = [*map(str, told)], [*map(str, classes.tolist())]
    if sorted(names) == sorted(labels):
        return [names.index(label) for label in labels]
    if names != [str(place) for place in range(len(names))]:
        raise errors.ParameterError(
            f"{argument} has the rows {errors.some_in_words(told)} but the classes are "
            f"{errors.some_in_words(classes)} ({MEANING}); name the rows after the classes"
        )
    return None


def _by_class(argument: str, told: Any, classes: NDArray[Any]) -> Any:
    """Return numbers in the order of the classes, found by name in a mapping or a series."""
    if isinstance(told, Mapping):
        names, values = [*told], [*told.values()]
    elif hasattr(told, "to_numpy") and hasattr(told, "index"):
        names, values = [*told.index], told.to_numpy()
    else:
        return told
    order = _order_of(argument, names, classes)
    return values if order is None else [values[place] for place in order]


def action_costs(rows: Floats, matrix: Floats) -> Floats:
    """Return the expected cost of every action for rows of probabilities."""
    how = "nk,ka->na" if matrix.ndim == 2 else "nk,nka->na"
    if matrix.ndim == 3 and len(matrix) != len(rows):
        raise errors.ParameterError(
            f"costs are for {errors.number_of(len(matrix), 'row')}, but there are {len(rows)} rows "
            "of probabilities; pass the costs of these rows"
        )
    found: Floats = np.einsum(how, rows, matrix)  # no BLAS, whose bits depend on threads
    return found


def threshold_of(matrix: Floats) -> float:
    """Return the probability of the second class above which its action costs less."""
    if matrix.ndim == 3:
        raise errors.ParameterError("costs differ by row, so there is no threshold for all rows")
    if matrix.shape != (2, 2):
        raise errors.ParameterError(
            f"costs has shape {matrix.shape}, including abstaining; a threshold exists only for "
            "two classes (rows) and two actions (columns)"
        )
    (right, wrong), (missed, found) = matrix.tolist()
    if min(wrong - right, missed - found) < 0 or wrong - right + missed - found == 0:
        raise errors.ParameterError(
            "one action of costs is never more expensive than the other, whatever the class "
            "(row), so there is no threshold between them"
        )
    return float((wrong - right) / (wrong - right + missed - found))
