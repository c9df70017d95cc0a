"""``Predictions``: labels, probabilities and weights, checked chunk by chunk without a copy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._columns import column_order
from calibrant._containers import column_names, is_vector, single_name, to_matrix
from calibrant._kernels.fixed_point import totals
from calibrant._kernels.metrics import add_weights, count_above, take_cells
from calibrant._labels import check_labels, check_weights
from calibrant._one_column import check_positive
from calibrant.metrics._cells import SortedCells
from calibrant.metrics._measures import Chunk, EventRows, rescale, usual_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._cells import CellMeasure
    from calibrant.metrics._measures import Body

CELLS_SORTED = 1 << 23
"""Cells of several classes that are sorted at once."""


class MetricArguments(errors.Arguments):
    """How metrics name what they are given."""

    y = "y_true"
    if_logits = "for logits, pass their softmax"
    if_unnormalized = "divide rows by their sums"
    if_margins = "for margins, pass scipy.special.expit(margins); divide percent by 100"

    def if_unknown_positive(self, other: str, own: str) -> str:
        """Say how to tell the class of a single column."""
        return f"pass pos_label={own} or pos_label={other}, or probabilities of both classes"

    def __init__(self, scores: str = "y_proba") -> None:
        self.scores = scores


NAMED = MetricArguments()


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What every metric takes: the matrix as given, and all about its rows that have a weight."""

    matrix: NDArray[Any]
    """As the caller gave it, of any real dtype; (n, 1) holds the positive class."""
    order: Wholes | None
    """Columns in the order of ``classes``; None where they are."""
    used: NDArray[np.bool_] | None
    """Mask of the rows that have a weight; None for all. What follows is of these."""
    class_index: Wholes
    weight: Floats | None
    """Divided by ``unit``; None if they are all equal."""
    unit: float
    """The power of two that brings the largest weight into [1/2, 1), or the weight of all."""
    classes: NDArray[Any]
    named: MetricArguments = NAMED
    is_checked: bool = False
    """Whether the rows of the matrix are float64 on the simplex, in the order of ``classes``."""

    @property
    def n_rows(self) -> int:
        """Number of rows used."""
        return len(self.class_index)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def _chunk(self, part: slice, start: int) -> Chunk:
        """Check the caller's rows ``part``, whose first one used is number ``start``."""
        rows = self.matrix[part]
        if not self.is_checked:
            kind = "positive" if rows.shape[1] == 1 else "probabilities"
            rows = rows if self.order is None else rows[:, self.order]
            rows = simplex.check_scores(rows, kind, first_row=part.start, named=self.named)
        if self.used is not None:
            rows = rows[self.used[part]]
        own = slice(start, start + len(rows))
        weight = np.ones(len(rows)) if self.weight is None else self.weight[own]
        return Chunk(start, rows, self.class_index[own], weight, self.unit)

    def chunks(self) -> Iterator[Chunk]:
        """Rows in chunks of a fixed number of bytes."""
        start = 0
        for part in simplex.chunks(len(self.matrix), self.n_classes):
            chunk = self._chunk(part, start)
            yield chunk
            start += len(chunk.rows)

    def checked(self) -> Predictions:
        """Check all rows now, so that nobody who reads them checks them again."""
        whole = replace(self, used=None, class_index=np.zeros(len(self.matrix), dtype=np.intp))
        rows = whole._chunk(slice(0, len(self.matrix)), 0).rows  # noqa: SLF001  (its own)
        return replace(self, matrix=rows, order=None, is_checked=True)

    def add_up(
        self, bodies: dict[Any, Any], n_groups: int = 1, tell: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Return what metrics add up, in one pass over the rows; ``tell`` after each chunk."""
        states = {name: body.start(n_groups, self) for name, body in bodies.items()}
        reading = [state for state in states.values() if state.needs_chunks]
        for chunk in self.chunks() if reading else ():
            for state in reading:
                state.add(chunk)
            tell()
        for state in reading:
            state.settle()
        return states

    def measure(self, *bodies: Body) -> list[float]:
        """Values of some metrics, in one pass over the rows."""
        return [state.value() for state in self.add_up(dict(enumerate(bodies))).values()]

    def row_weights(self) -> Floats:
        """One weight per row, in (0, 1]."""
        return np.ones(self.n_rows) if self.weight is None else self.weight

    def events(self, column: int | None) -> EventRows:
        """Each row's confidence and whether it was right, or one class's probability and label."""
        values, hits = np.empty(self.n_rows), np.empty(self.n_rows, dtype=np.bool_)
        for chunk in self.chunks():
            own = slice(chunk.start, chunk.start + len(chunk.rows))
            values[own], hits[own], _ = chunk.events(column)
        return EventRows(values, hits, self.row_weights())

    def all_rows(self) -> Floats:
        """Return the rows used as one matrix, for what cannot do with less than a copy."""
        found = np.empty((self.n_rows, self.n_classes))
        for chunk in self.chunks():
            found[chunk.start : chunk.start + len(chunk.rows)] = chunk.rows
        return found

    def sorted_cells(self, body: CellMeasure) -> Iterator[SortedCells]:
        """Cells that a measure asks for, some problems at a time."""
        if body.n_problems > 1:
            for cells, _ in self.sorted_classes(body.threshold):
                yield cells
        else:
            yield self.sort_events(self.events(body.column))[0]

    def sort_events(self, events: EventRows) -> tuple[SortedCells, Floats]:
        """Cells of one problem of all rows, and their values."""
        order = np.argsort(events.values)
        mass = None if self.weight is None else whole_masses(events.weight[order])
        first = np.zeros(1, dtype=np.intp)
        return SortedCells.of_rows(first, events.values[order], mass, events.hits[order])

    def sorted_classes(self, threshold: float) -> Iterator[tuple[SortedCells, Floats]]:
        """Cells at or above ``threshold``, and their values, of as many classes as fit at once."""
        counts = np.zeros(self.n_classes, dtype=np.int64)
        if threshold > 0.0:
            for chunk in self.chunks():
                count_above(chunk.rows, threshold, counts)
        else:
            counts += self.n_rows
        first = 0
        while first < self.n_classes:
            ends = np.cumsum(counts[first:])
            last = first + max(1, int(np.searchsorted(ends, CELLS_SORTED, side="right")))
            if counts[first:last].any():
                yield self._take_cells(threshold, first, counts[first:last])
            first = last

    def _take_cells(
        self, threshold: float, first: int, counts: Wholes
    ) -> tuple[SortedCells, Floats]:
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        values = np.empty(starts[-1])
        row_of = np.empty(starts[-1], dtype=np.int32 if self.n_rows < 2**31 else np.int64)
        place = starts[:-1].astype(np.int64)
        for chunk in self.chunks():
            take_cells(chunk.rows, chunk.start, threshold, first, place, values, row_of)
        mass = None if self.weight is None else np.empty(len(values), dtype=np.int64)
        hits = np.empty(len(values), dtype=np.bool_)
        for c in np.flatnonzero(counts):
            own = slice(starts[c], starts[c + 1])
            order = np.argsort(values[own])
            values[own], rows = values[own][order], row_of[own][order]
            hits[own] = (self.class_index == first + c)[rows]
            if self.weight is not None and mass is not None:
                # In a unit of their own: a class counts as much as any, whatever its weights.
                mass[own] = whole_masses(self.weight[rows])
        return SortedCells.of_rows(starts[:-1][counts > 0], values, mass, hits)


def read_predictions(
    y_true: Any,
    y_proba: Any,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    named: MetricArguments = NAMED,
) -> Predictions:
    """Check everything but the cells, which are checked as they are read."""
    if isinstance(y_proba, Predictions):
        return y_proba
    names = column_names(y_proba)
    matrix = to_matrix(y_proba, "positive" if is_vector(y_proba) else "probabilities", named)
    n_rows, n_classes = len(matrix), max(2, matrix.shape[1])
    if n_rows == 0:
        raise errors.ShapeError(f"{named.scores} has no rows; pass at least one")
    weight = check_weights(sample_weight, n_rows)
    is_used = weight > 0
    is_single = matrix.shape[1] == 1
    names = None if is_single else names
    how: dict[str, Any] = {"names": names, "used": is_used, "is_single": is_single}
    index, known = check_labels(y_true, n_rows, n_classes, classes=classes, named=named, **how)
    order = column_order(names, known, told=classes is not None, named=named)
    ordered = positive_last(known, matrix.shape[1], classes, pos_label, named)
    if ordered is not known:
        index, known = 1 - index, ordered
    if is_single:
        check_positive(known, single_name(y_proba), told=True, named=named)
    used = None if is_used.all() else is_used
    if used is not None:
        index, weight = index[used], weight[used]
    unit, scaled = rescale(weight)
    return Predictions(matrix, order, used, index, scaled, unit, known, named)


def positive_last(
    known: NDArray[Any], n_columns: int, classes: Any, pos_label: Any, named: MetricArguments
) -> NDArray[Any]:
    """Return the two classes of a single column with its own as the second; others as they are.

    As in scikit-learn, 0 and 1, -1 and 1, False and True tell which of them it is. Of other labels
    somebody has to say it.
    """
    if n_columns > 1:
        if pos_label is not None:
            raise errors.ParameterError(
                f"pos_label={errors.in_words(pos_label)} names the class of a single column, but "
                f"{named.scores} has {n_columns} columns; pass the column of that class alone"
            )
        return known
    if pos_label is None:
        check_positive(known, told=classes is not None, named=named)
        return known
    place = np.flatnonzero(known == pos_label)
    if len(place) != 1:
        raise errors.ParameterError(
            f"pos_label={errors.in_words(pos_label)} is not one of the classes "
            f"{errors.some_in_words(known)}"
        )
    return known if place[0] == 1 else known[::-1]


def column_of(classes: NDArray[Any], kind: Any) -> int | None:
    """Column of a class, None for the confidence; if nothing is said, the usual one."""
    if kind is None:
        return usual_column(len(classes))
    if isinstance(kind, str) and kind == "confidence":
        return None
    matches = np.flatnonzero(classes == kind)
    if len(matches) != 1:
        raise errors.ParameterError(
            f"kind={errors.in_words(kind)} is neither 'confidence' nor one of the classes "
            f"{errors.some_in_words(classes)}"
        )
    return int(matches[0])


def name_of(classes: NDArray[Any], column: int | None) -> Any:
    """Label of a column, "confidence" for None."""
    return "confidence" if column is None else classes[column : column + 1].tolist()[0]


def whole_masses(weight: Floats) -> Wholes:
    """Weights as positive whole numbers of a sum below 2**61: sums are exact in any order."""
    scaled = rescale(weight)[1]
    if scaled is None:
        return np.ones(len(weight), dtype=np.int64)
    scale = math.ldexp(1.0, 61 - math.frexp(exact_sum(scaled))[1])
    return np.maximum(np.rint(scaled * scale), 1.0).astype(np.int64)


def exact_sum(terms: Floats) -> float:
    """Sum of terms in [-1, 1], whatever their order."""
    sums = np.zeros((1, 1, 2), dtype=np.int64)
    add_weights(np.ascontiguousarray(terms), sums)
    return float(totals(sums)[0, 0])
