"""Tables of costs: rows are true classes, columns are actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._gate import tells_positive
from calibrant._predictions import Predictions, read
from calibrant.scale import Chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats
    from calibrant._predictions import Source

ABSTAIN = "abstain"
"""The action of leaving a row to somebody else."""

MEANING = "rows are true classes and columns are actions"
MISTAKES = ("false_positive", "false_negative")


class CostTable(NamedTuple):
    """Cost of each action (column) for each true class (row), for all rows or for each of them."""

    matrix: Floats
    actions: NDArray[Any]
    positive: int = 1
    """Row of the positive class, of two."""

    @property
    def threshold(self) -> float:
        """Probability of the positive class above which its action costs less."""
        matrix = self.matrix[..., ::-1, ::-1] if self.positive == 0 else self.matrix
        if matrix.ndim == 3:
            raise errors.ParameterError(
                "costs differ by row, so there is no threshold for all rows"
            )
        if matrix.shape != (2, 2):
            raise errors.ParameterError(
                f"costs has shape {matrix.shape}, including abstaining; a threshold exists only "
                "for two classes (rows) and two actions (columns)"
            )
        (right, wrong), (missed, hit) = matrix.tolist()
        if min(wrong - right, missed - hit) < 0 or wrong - right + missed - hit == 0:
            raise errors.ParameterError(
                "one action of costs is never more expensive than the other, whatever the class "
                "(row), so there is no threshold between them"
            )
        return float((wrong - right) / (wrong - right + missed - hit))


class Positive(NamedTuple):
    """The positive class of named costs, as far as it is known.

    ``is_ordered`` says that the caller gave two classes in order, the positive one last.
    """

    pos_label: Any = None
    is_ordered: bool = False


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
    """Return the ``pos_label`` that rows are read by, and the positive class of named costs.

    With two columns ``pos_label`` names the positive class of the costs. A single column is that of
    the positive class, and ``classes`` that a caller passed have it last.
    """
    is_single = n_columns_of(given) == 1
    if isinstance(costs, Mapping) and not is_single:
        return None, Positive(pos_label, is_ordered=classes is not None)
    return pos_label, Positive(is_ordered=is_single or classes is not None)


def read_with_costs(
    y_true: Any,
    y_proba: Any,
    costs: Any,
    abstain: Any,
    sample_weight: Any,
    classes: Any,
    pos_label: Any,
) -> tuple[Source, CostTable]:
    """Return labelled predictions, and the costs of their classes."""
    given = y_true if y_proba is None else y_proba
    of_rows, positive = split_positive(given, costs, classes, pos_label)
    source = read(y_true, y_proba, sample_weight, classes, of_rows)
    return source, read_costs(costs, source.classes, abstain, None, *positive)


def read_costs(
    costs: Any,
    classes: NDArray[Any],
    abstain: Any = None,
    actions: Any = None,
    pos_label: Any = None,
    is_ordered: bool = False,
) -> CostTable:
    """Return costs as a table, with abstaining as its last action.

    ``pos_label`` and ``is_ordered`` are the fields of :class:`Positive`.
    """
    n_classes, has_abstain = len(classes), abstain is not None
    positive = 1
    if isinstance(costs, Mapping):
        positive = _place_of_positive(costs, classes, pos_label, is_ordered=is_ordered)
    elif pos_label is not None:
        raise errors.ParameterError(
            f"pos_label={errors.in_words(pos_label)} is only for the costs 'false_positive' and "
            f"'false_negative', but costs is a table ({MEANING}); leave pos_label out"
        )
    cells, names, order = _cells(costs, classes, positive)
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
    if actions is not None:
        names = list(actions)
        if order is not None and len(names) == n_actions:  # they name the columns as given
            names = [names[place] for place in order]
    elif names is None:
        names = [*(classes.tolist() if n_actions == n_classes else range(n_actions))]
    return CostTable(matrix, _name_actions(names, n_actions, has_abstain=has_abstain), positive)


def _name_actions(names: list[Any], n_actions: int, *, has_abstain: bool) -> NDArray[Any]:
    """Return the names of actions as an array, abstaining last; numbers stay numbers."""
    is_mixed = len({isinstance(name, str) for name in names}) > 1
    result = np.array(names, dtype=object if is_mixed else None)
    if (
        result.shape != (n_actions,)
        or len({*result.tolist()}) < n_actions
        or (has_abstain and ABSTAIN in names)
    ):
        raise errors.ParameterError(
            f"actions={errors.in_words(result)} for {n_actions} columns of costs ({MEANING}); pass "
            f"one distinct name per column, and not {ABSTAIN!r} together with abstain="
        )
    if has_abstain:
        result = np.append(result if result.dtype.kind == "U" else result.astype(object), ABSTAIN)
    return result


def _place_of_positive(
    costs: Mapping[Any, Any], classes: NDArray[Any], pos_label: Any, *, is_ordered: bool
) -> int:
    """Return which of two classes is positive; refuse named costs if it is not known."""
    if {*costs} != {*MISTAKES} or len(classes) != 2:
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
    if not is_ordered and not tells_positive(classes):
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
    """Return costs with rows in the order of the classes, and the names and order of columns."""
    if costs is None:
        raise errors.ParameterError(f"costs is None; pass a table of costs ({MEANING})")
    if isinstance(costs, Mapping):
        wrong = [_cost_of_mistake(costs, name) for name in MISTAKES]
        matrix = np.zeros((*np.broadcast_shapes(*(cost.shape for cost in wrong)), 2, 2))
        matrix[..., 0, 1], matrix[..., 1, 0] = wrong
        return (matrix, None, None) if positive else (matrix[..., ::-1, ::-1], None, [1, 0])
    if not hasattr(costs, "columns"):  # no data frame, of any library
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
    is_numbered = columns == [str(place) for place in range(len(columns))]
    return cells if rows is None else cells[rows], None if is_numbered else names, order


def _cost_of_mistake(costs: Mapping[Any, Any], name: str) -> Floats:
    """Return the cost of one kind of mistake: a number, or one for each row."""
    if np.ndim(costs[name]) == 0:
        gate.check_number(f"costs[{name!r}]", costs[name], low=0.0)
        return np.array(float(costs[name]))
    result = np.asarray(costs[name], dtype=np.float64)
    shapes = [np.shape(other) for other in costs.values() if np.ndim(other)]
    if result.ndim > 1 or len({*shapes}) > 1:
        raise errors.ParameterError(
            f"costs has the shapes {errors.some_in_words(shapes)}; pass one number, or one for "
            "each row of y_proba"
        )
    is_bad = ~(np.isfinite(result) & (result >= 0.0))
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise errors.ParameterError(
            f"costs[{name!r}][{row}] is {result[row]}; pass finite numbers that are not negative"
        )
    return result


def _order_of(argument: str, names: list[Any], classes: NDArray[Any]) -> list[int] | None:
    """Return where each class is among the names of rows; None if these are numbers of rows."""
    texts, labels = [*map(str, names)], [*map(str, classes.tolist())]
    if sorted(texts) == sorted(labels):
        return [texts.index(label) for label in labels]
    if texts != [str(place) for place in range(len(texts))]:
        raise errors.ParameterError(
            f"{argument} has the rows {errors.some_in_words(names)} but the classes are "
            f"{errors.some_in_words(classes)} ({MEANING}); name the rows after the classes"
        )
    return None


def _by_class(argument: str, given: Any, classes: NDArray[Any]) -> Any:
    """Return numbers in the order of the classes, found by name in a mapping or a series."""
    if isinstance(given, Mapping):
        names, values = [*given], [*given.values()]
    elif hasattr(given, "to_numpy") and hasattr(given, "index"):
        names, values = [*given.index], given.to_numpy()
    else:
        return given
    order = _order_of(argument, names, classes)
    return values if order is None else [values[place] for place in order]


def action_costs(rows: Floats, matrix: Floats) -> Floats:
    """Return the expected cost of every action for rows of probabilities."""
    if matrix.ndim == 3 and len(matrix) != len(rows):
        raise errors.ParameterError(
            f"costs are for {errors.number_of(len(matrix), 'row')}, but there are {len(rows)} rows "
            "of probabilities; pass the costs of these rows"
        )
    # No BLAS, whose bits depend on the number of threads.
    subscripts = "nk,ka->na" if matrix.ndim == 2 else "nk,nka->na"
    result: Floats = np.einsum(subscripts, rows, matrix)
    return result
