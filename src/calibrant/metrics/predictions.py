"""``Predictions``: labels, probabilities and weights, checked chunk by chunk without a copy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from calibrant import errors, simplex
from calibrant.columns import column_order
from calibrant.containers import column_names, to_matrix
from calibrant.kernels.fixed_point import totals
from calibrant.kernels.metrics import add_weights, count_above, take_cells
from calibrant.labels import check_labels, check_weights
from calibrant.metrics.chunk import BinaryProblem, Chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes

GROUP_CELLS = 1 << 23
"""Cells of several classes that are sorted at once."""


class MetricArguments(errors.Arguments):
    """How metrics name what they are given."""

    y = "y_true"
    if_logits = "of logits, pass the softmax"
    if_unnormalized = "divide rows by their sums"

    def __init__(self, scores: str = "y_proba") -> None:
        self.scores = scores


NAMED = MetricArguments()


class Accumulator(Protocol):
    """Sums over rows that a metric is made of."""

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""

    def value(self) -> float:
        """Return the metric of all rows added."""


class ClassCells(NamedTuple):
    """Cells of some classes, sorted by value: of ``classes[c]``, ``starts[c]:starts[c + 1]``."""

    classes: Wholes
    starts: Wholes
    values: Floats
    row_of: NDArray[np.int32] | Wholes


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What every metric takes: the caller's matrix, and everything about its rows.

    Rows of weight zero are as if they were not there.

    Attributes
    ----------
    matrix : ndarray
        As the caller gave it, of any real dtype; (n, 1) holds the positive class.
    order : ndarray or None
        Columns in the order of ``classes``.
    used : ndarray or None
        Mask of the rows that have a weight; None for all.
    class_index : ndarray of shape (n_rows,)
        Column of each label, of the rows used.
    weight : ndarray or None
        Weights of the rows used, divided by ``unit``; None if they are all equal.
    unit : float
        The power of two that brings the largest weight into [1/2, 1), or the weight of all.
    classes : ndarray of shape (n_classes,)
    named : MetricArguments
        How messages name the matrix.
    """

    matrix: NDArray[Any]
    order: Wholes | None
    used: NDArray[np.bool_] | None
    class_index: Wholes
    weight: Floats | None
    unit: float
    classes: NDArray[Any]
    named: MetricArguments = NAMED

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
        given = self.matrix[part]
        if given.shape[1] == 1:
            positive = given.astype(np.float64)
            given = np.hstack([1.0 - positive, positive])
        elif self.order is not None:
            given = given[:, self.order]
        rows = simplex.check_scores(given, first_row=part.start, named=self.named)
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

    def sizes(self) -> list[int]:
        """Return the number of rows used in each chunk."""
        parts = simplex.chunks(len(self.matrix), self.n_classes)
        used = np.ones(len(self.matrix), dtype=np.bool_) if self.used is None else self.used
        return [int(np.count_nonzero(used[part])) for part in parts]

    def measure(self, *accumulators: Accumulator) -> list[float]:
        """Values of some metrics, in one pass over the rows."""
        for chunk in self.chunks():
            for accumulator in accumulators:
                accumulator.add(chunk)
        return [accumulator.value() for accumulator in accumulators]

    def row_weights(self) -> Floats:
        """One weight per row, in (0, 1]."""
        return np.ones(self.n_rows) if self.weight is None else self.weight

    def problem(self, column: int | None) -> BinaryProblem:
        """Each row's confidence and whether it was right, or one class's probability and label."""
        values, hits = np.empty(self.n_rows), np.empty(self.n_rows, dtype=np.bool_)
        for chunk in self.chunks():
            own = slice(chunk.start, chunk.start + len(chunk.rows))
            values[own], hits[own], _ = chunk.problem(column)
        return BinaryProblem(values, hits, self.row_weights())

    def all_rows(self) -> Floats:
        """Return the rows used as one matrix, for what cannot do with less than a copy."""
        found = np.empty((self.n_rows, self.n_classes))
        for chunk in self.chunks():
            found[chunk.start : chunk.start + len(chunk.rows)] = chunk.rows
        return found

    def columns(self, columns: Sequence[int]) -> Floats:
        """Return some columns of all rows."""
        found = np.empty((self.n_rows, len(columns)), order="F")
        for chunk in self.chunks():
            found[chunk.start : chunk.start + len(chunk.rows)] = chunk.rows[:, columns]
        return found

    def cells_by_class(self, threshold: float) -> Iterator[ClassCells]:
        """Cells at or above ``threshold``, class by class, as many classes as fit at a time."""
        counts = np.zeros(self.n_classes, dtype=np.int64)
        if threshold > 0.0:
            for chunk in self.chunks():
                count_above(chunk.rows, threshold, counts)
        else:
            counts += self.n_rows
        first = 0
        while first < self.n_classes:
            ends = np.cumsum(counts[first:])
            last = first + max(1, int(np.searchsorted(ends, GROUP_CELLS, side="right")))
            yield self._take_cells(threshold, first, counts[first:last])
            first = last

    def sorted_classes(self, threshold: float) -> Iterator[tuple[int, Any, Any]]:
        """Column, values and rows of the cells at or above ``threshold``, class after class."""
        for cells in self.cells_by_class(threshold):
            for c, column in enumerate(cells.classes):
                own = slice(cells.starts[c], cells.starts[c + 1])
                yield int(column), cells.values[own], cells.row_of[own]

    def _take_cells(self, threshold: float, first: int, counts: Wholes) -> ClassCells:
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        values = np.empty(starts[-1])
        row_of = np.empty(starts[-1], dtype=np.int32 if self.n_rows < 2**31 else np.int64)
        place = starts[:-1].copy()
        for chunk in self.chunks():
            take_cells(chunk.rows, chunk.start, threshold, first, place, values, row_of)
        for c in range(len(counts)):
            own = slice(starts[c], starts[c + 1])
            order = np.argsort(values[own])
            values[own] = values[own][order]
            row_of[own] = row_of[own][order]
        return ClassCells(np.arange(first, first + len(counts)), starts, values, row_of)


def read_predictions(
    y_true: Any,
    y_proba: Any,
    sample_weight: Any = None,
    classes: Any = None,
    named: MetricArguments = NAMED,
    *,
    pos_label: Any = None,
) -> Predictions:
    """Check everything but the cells, which are checked as they are read.

    ``y_proba`` of shape (n,) or (n, 1) holds the class that ``pos_label`` names.
    """
    names = column_names(y_proba)
    try:
        is_vector = len(np.shape(y_proba)) == 1
    except ValueError:  # rows of different lengths: ``to_matrix`` says so
        is_vector = False
    matrix = to_matrix(np.asarray(y_proba)[:, None] if is_vector else y_proba, named=named)
    n_rows, n_classes = len(matrix), max(2, matrix.shape[1])
    if n_rows == 0:
        raise errors.ShapeError(f"{named.scores} has no rows; at least one is needed")
    weight = check_weights(sample_weight, n_rows)
    is_used = weight > 0
    names = names if matrix.shape[1] > 1 else None
    index, known = check_labels(
        y_true, n_rows, n_classes, classes=classes, names=names, used=is_used, named=named
    )
    order = column_order(names, known, told=classes is not None, named=named)
    ordered = positive_last(known, matrix.shape[1], classes, pos_label, named)
    if ordered is not known:
        index, known = 1 - index, ordered
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
    somebody has to say it: sorted by name, "bad" and "good" would make a good risk the event.
    """
    if n_columns > 1:
        if pos_label is not None:
            raise errors.ParameterError(
                f"pos_label={errors.in_words(pos_label)} tells the class of a single column, and "
                f"{named.scores} has {n_columns}; pass the column of that class alone"
            )
        return known
    if pos_label is None:
        plain = known.dtype.kind in "biuf" and known.tolist() in ([0, 1], [-1, 1])
        if classes is None and not plain:
            raise errors.LabelError(
                f"{named.scores} has one column, and of the labels {errors.some_in_words(known)} "
                f"none is known to be its class; pass pos_label={errors.in_words(known[1])} or "
                f"pos_label={errors.in_words(known[0])}, or probabilities of both classes"
            )
        return known
    place = np.flatnonzero(known == pos_label)
    if len(place) != 1:
        raise errors.ParameterError(
            f"pos_label={errors.in_words(pos_label)} is not one of the classes "
            f"{errors.some_in_words(known)}"
        )
    return known if place[0] == 1 else known[::-1]


def whole_masses(weight: Floats, repeats: float) -> Wholes:
    """Weights in (0, 1] as positive whole numbers whose sum times ``repeats`` is below 2**62.

    Sums of them are exact, whatever the order; weights that were whole, of a sane size, are still
    in proportion.
    """
    if np.all(weight == 1.0):
        return np.ones(len(weight), dtype=np.int64)
    sums = np.zeros((1, 1, 2), dtype=np.int64)
    add_weights(weight, sums)
    scale = math.ldexp(1.0, 61 - math.frexp(repeats * float(totals(sums)[0, 0]))[1])
    return np.maximum(np.rint(weight * scale), 1.0).astype(np.int64)


def rescale(weight: Floats) -> tuple[float, Floats | None]:
    """Return the unit of the weights, and the weights in it; equal weights are no weights."""
    largest = float(weight.max())
    if np.all(weight == largest):
        return largest, None
    unit = math.ldexp(1.0, math.frexp(largest)[1])
    return unit, weight / unit
