"""Tables of costs, also from files: rows are true classes, columns are actions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._gate import tells_positive
from calibrant._predictions import Predictions, source_of
from calibrant.errors import LabelError, ParameterError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._types import Floats, Label, Labels


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


def read_in_memory(
    y_true: object, y_proba: object, sample_weight: object, classes: object, pos_label: Label | None
) -> Predictions:
    """Return labelled predictions; refuse chunks."""
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    if not isinstance(source, Predictions):
        raise errors.ContainerError(
            "y_proba comes in chunks, but decisions need rows in memory; pass a part of the rows"
        )
    return source


def has_one_column(given: object) -> bool:
    """Whether probabilities are one column."""
    return not isinstance(given, Predictions) and gate.is_single_column(given)


def split_pos_label(given: object, costs: object, pos_label: Label | None) -> tuple[Any, Any]:
    """Return the ``pos_label`` that rows are read by, and that of named costs.

    A single column is that of ``pos_label``, which then is the last class. With two columns it
    names the positive class of the costs.
    """
    if isinstance(costs, Mapping) and not has_one_column(given):
        return None, pos_label
    return pos_label, None


def read_with_costs(
    y_true: object,
    y_proba: object,
    costs: object,
    abstain: object,
    sample_weight: object,
    classes: object,
    pos_label: Label | None,
) -> tuple[Predictions, CostTable]:
    """Return labelled predictions, and the costs of their classes."""
    given = y_true if y_proba is None else y_proba
    of_rows, of_costs = split_pos_label(given, costs, pos_label)
    rows = read_in_memory(y_true, y_proba, sample_weight, classes, of_rows)
    is_ordered = classes is not None or has_one_column(given)
    return rows, read_costs(costs, rows.classes, abstain, None, of_costs, is_ordered)


def read_costs(
    costs: Any,
    classes: Labels,
    abstain: Any = None,
    actions: Any = None,
    pos_label: Label | None = None,
    is_ordered: bool = False,
) -> CostTable:
    """Return costs as a table, with abstaining as its last action.

    The positive class of named costs is ``pos_label``; or the last one, if the caller gave two
    classes in order (``is_ordered``) or they tell it by themselves, as 0 and 1 do.
    """
    names, positive = actions, 1
    if isinstance(costs, Mapping):
        positive = _place_of_positive(costs, classes, pos_label, is_ordered=is_ordered)
        cells: Any = _cells_of_mistakes(costs, positive)
        if actions is not None and positive == 0:
            names = [*actions][::-1]  # they name the action for the negative class first
    elif pos_label is not None:
        raise errors.ParameterError(
            f"pos_label={errors.in_words(pos_label)} is only for the costs 'false_positive' and "
            f"'false_negative', but costs is a table ({MEANING}); leave pos_label out"
        )
    elif hasattr(costs, "columns"):
        if actions is not None:
            raise errors.ParameterError(
                "actions= is for costs without names, but the columns of costs are named; leave it "
                "out, or rename the columns"
            )
        cells, names = _read_frame(costs, classes)
    else:
        cells = costs
    matrix = _check_matrix(cells, len(classes))
    n_actions = matrix.shape[-1]
    if names is None:
        names = [*(classes.tolist() if n_actions == len(classes) else range(n_actions))]
    if abstain is not None:
        gate.check_number("abstain", abstain, low=-math.inf)
        column = np.full((*matrix.shape[:-1], 1), float(abstain))
        matrix = np.concatenate([matrix, column], axis=-1)
    return CostTable(
        matrix, _name_actions([*names], n_actions, has_abstain=abstain is not None), positive
    )


def _check_matrix(cells: object, n_classes: int) -> Floats:
    """Return finite costs of shape (n_classes, n_actions), or with that shape for each row."""
    try:
        matrix = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.ParameterError(
            f"costs={errors.in_words(cells)} are not all numbers ({MEANING}); pass {n_classes} "
            "rows of numbers"
        ) from error
    if matrix.ndim not in (2, 3) or matrix.shape[-2] != n_classes or matrix.shape[-1] == 0:
        raise errors.ParameterError(
            f"costs has shape {matrix.shape} but there are {n_classes} classes ({MEANING}); pass "
            f"a matrix of shape ({n_classes}, n_actions), or one for each row of y_proba"
        )
    if not np.isfinite(matrix).all():
        place = tuple(np.argwhere(~np.isfinite(matrix))[0].tolist())
        raise errors.ParameterError(
            f"costs[{', '.join(map(str, place))}] is {matrix[place]}, but costs must be finite "
            f"({MEANING}); pass a large number for an action that must not happen"
        )
    return matrix


def _name_actions(names: Sequence[object], n_actions: int, *, has_abstain: bool) -> NDArray[Any]:
    """Return the names of actions as an array, abstaining last; numbers stay numbers."""
    whole = [*names, *[ABSTAIN] * has_abstain]
    if len(names) != n_actions or len({*whole}) < len(whole):
        raise errors.ParameterError(
            f"actions={errors.in_words(names)} for {n_actions} columns of costs ({MEANING}); pass "
            f"one distinct name per column, and not {ABSTAIN!r} together with abstain="
        )
    is_mixed = len({isinstance(name, str) for name in whole}) > 1
    return np.array(whole, dtype=object if is_mixed else None)


def _place_of_positive(
    costs: Mapping[Any, Any], classes: Labels, pos_label: Label | None, *, is_ordered: bool
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
            f"classes {known} is positive; pass pos_label=, or costs as a data frame whose rows "
            "(true classes) and columns (actions) are named after the classes"
        )
    return 1


def _cells_of_mistakes(costs: Mapping[Any, Any], positive: int) -> Floats:
    """Return the matrix of named costs; numbers, or one number for each row."""
    wrong = []
    for name in MISTAKES:
        cost = np.asarray(costs[name], dtype=np.float64)
        bad = np.argwhere(~(np.isfinite(cost) & (cost >= 0.0)))
        if len(bad) or cost.ndim > 1:
            fault = f"has shape {cost.shape}" if cost.ndim > 1 else f"has {cost[tuple(bad[0])]}"
            raise errors.ParameterError(
                f"costs[{name!r}] {fault}; pass a finite number that is not negative, or one for "
                "each row of y_proba"
            )
        wrong.append(cost)
    if len({cost.shape for cost in wrong if cost.ndim}) > 1:
        raise errors.ParameterError(
            f"costs has {len(wrong[0])} and {len(wrong[1])} numbers; pass one number, or one for "
            "each row of y_proba"
        )
    matrix = np.zeros((*np.broadcast_shapes(*(cost.shape for cost in wrong)), 2, 2))
    matrix[..., 0, 1], matrix[..., 1, 0] = wrong
    return matrix if positive else matrix[..., ::-1, ::-1]


def _read_frame(costs: Any, classes: Labels) -> tuple[Any, list[Any]]:
    """Return the cells and the actions of a data frame, with rows in the order of the classes.

    Columns that are named after the classes are in this order, too. Names are compared as texts,
    since files have no others.
    """
    labels = [*map(str, classes.tolist())]
    if not hasattr(costs, "index"):
        raise errors.ParameterError(
            f"costs is a data frame of {type(costs).__module__.partition('.')[0]}, whose rows "
            f"have no names ({MEANING}); pass a pandas data frame with the classes as its index, "
            "or an array with rows in the order of the classes"
        )
    rows, columns = [*map(str, costs.index)], [*map(str, costs.columns)]
    if sorted(rows) != sorted(labels):
        raise errors.ParameterError(
            f"costs has the rows {errors.some_in_words(costs.index)} but the classes are "
            f"{errors.some_in_words(classes)} ({MEANING}); name the rows after the classes, or "
            "pass classes="
        )
    cells = costs.to_numpy()[[rows.index(label) for label in labels]]
    if sorted(columns) != sorted(labels):
        return cells, [*costs.columns]
    return cells[:, [columns.index(label) for label in labels]], classes.tolist()


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


def _read(path: Path) -> Any:
    """Return a data frame of costs, or an object of JSON; all costs are numbers."""
    import pandas as pd

    try:
        if path.suffix.lower() == ".json":
            costs = json.loads(path.read_text(encoding="utf-8"))
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
