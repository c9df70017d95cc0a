"""``Predictions``: labels and probabilities that are checked once; every metric takes them.

A metric is a ``Statistic``: sums over rows, and a value of the sums. The sums of rows in memory and
of chunks anywhere are of the same form, and add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logit

from calibrant import _gate as gate
from calibrant import errors
from calibrant._gate import check_labels, is_single_column
from calibrant._kernels.metrics import top_labels
from calibrant.scale import Chunks, as_chunks, has_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from calibrant._types import Array, Bools, Floats, Label, Labels, Wholes

    Options = tuple[object, object, Label | None]


class MetricArguments(errors.Arguments):
    """How metrics name what they are given."""

    y = "y_true"
    if_logits = "for logits, pass their softmax"
    if_unnormalized = "divide rows by their sums"
    if_margins = "for margins, pass scipy.special.expit(margins); divide percent by 100"

    def if_unknown_positive(self, other: str, own: str) -> str:
        """Say how to tell the class of a single column."""
        return f"pass pos_label={own} or pos_label={other}, or probabilities of both classes"

    def if_of_other(self, other: str, own: str) -> str:  # noqa: ARG002
        """Say how to make the other class that of a single column."""
        return f"pass pos_label={other}"

    def __init__(self, scores: str = "y_proba") -> None:
        self.scores = scores


NAMED = MetricArguments()

SMALLEST_ODDS = 1e-12  # probabilities closer to 0 or 1 than this have the log-odds of this


class EventRows(NamedTuple):
    """One probability of each row, whether its event happened, and the row's weight."""

    values: Floats
    hits: Bools
    weight: Floats

    def take(self, rows: Array) -> EventRows:
        """Return some of the rows, by index or mask."""
        return EventRows(self.values[rows], self.hits[rows], self.weight[rows])


class EventCells(NamedTuple):
    """Distinct predictions of one event, increasing, and sums over their rows.

    ``weight`` is the sum of the weights, ``hits`` that of rows whose event happened, and
    ``squares`` the sum of the squared weights.
    """

    values: Floats
    weight: Floats
    hits: Floats
    squares: Floats

    @classmethod
    def of_rows(cls, events: EventRows) -> EventCells:
        """Return the cells of rows."""
        order = np.argsort(events.values, kind="stable")
        values, weight = events.values[order], events.weight[order]
        hits = np.where(events.hits[order], weight, 0.0)
        first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        sums = (np.add.reduceat(terms, first) for terms in (weight, hits, weight * weight))
        return cls(values[first], *sums)


def log_odds(values: Floats) -> Floats:
    """Return the log-odds of probabilities, finite for 0 and 1."""
    odds: Floats = logit(np.clip(values, SMALLEST_ODDS, 1.0 - SMALLEST_ODDS))
    return odds


def usual_column(n_classes: int) -> int | None:
    """Column that predictions are judged by: the positive one of two; None for the confidence."""
    return 1 if n_classes == 2 else None


@dataclass(frozen=True, eq=False)
class Predictions:
    """Labels and probabilities, checked once; every metric accepts them instead of both.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_classes)
        Probabilities that sum to 1 in every row, as float64 in C order.
    class_index : ndarray of shape (n_rows,)
        Column of each row's label.
    weight : ndarray of shape (n_rows,)
        Positive weights.
    classes : ndarray of shape (n_classes,)
        Label of each column.
    n_counted : int, optional
        Number of rows of which these are a sample; None if they are all.

    Examples
    --------
    >>> from calibrant.metrics import Predictions, accuracy, brier_score
    >>> predictions = Predictions.read([0, 1, 1], [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    >>> round(accuracy(predictions), 3), round(brier_score(predictions), 3)
    (0.667, 0.163)
    """

    rows: Floats
    class_index: Wholes
    weight: Floats
    classes: Labels
    n_counted: int | None = None

    @classmethod
    def read(
        cls,
        y_true: object,
        y_proba: object,
        *,
        sample_weight: object = None,
        classes: object = None,
        pos_label: Label | None = None,
    ) -> Predictions:
        """Check labels, probabilities and weights, as every metric does; drop weights of 0."""
        return read_predictions(y_true, y_proba, sample_weight, classes, pos_label)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def _top(self) -> tuple[Floats, Bools]:
        values, hits = np.empty(self.n_rows), np.empty(self.n_rows, dtype=np.bool_)
        top_labels(self.rows, self.class_index, values, hits)
        return values, hits

    def events(self, column: int | None) -> EventRows:
        """Each row's confidence and whether it was right, or one class's probability and label."""
        if column is None:
            return EventRows(*self._top, self.weight)
        values = np.ascontiguousarray(self.rows[:, column])
        return EventRows(values, self.class_index == column, self.weight)

    def own(self) -> Floats:
        """Return the probability of each row's label."""
        result: Floats = self.rows[np.arange(self.n_rows), self.class_index]
        return result

    def take(self, rows: Array) -> Predictions:
        """Return some of the rows, by index or mask."""
        parts = self.rows[rows], self.class_index[rows], self.weight[rows]
        return Predictions(*parts, self.classes, self.n_counted)

    def add_up(self, statistics: Mapping[str, Statistic]) -> dict[str, Floats]:
        """Return the sums of some statistics over the rows."""
        return {name: own.sums(self) for name, own in statistics.items()}

    def in_memory(self) -> Predictions:
        """Return all rows."""
        return self


class ChunkedPredictions:
    """Predictions in chunks: sums are of all rows, what needs an order is of a sample."""

    def __init__(self, chunks: Chunks, classes: Labels, kind: str) -> None:
        self._chunks, self.classes, self._kind = chunks, classes, kind

    def add_up(self, statistics: Mapping[str, Statistic]) -> dict[str, Floats]:
        """Return the sums of some statistics over the rows of all chunks, in one pass."""
        count = partial(_count, dict(statistics), self.classes, self._kind)
        return self._chunks.reduce(count, _merge)

    @cached_property
    def _sample(self) -> Predictions:
        sample = self._chunks.sample(self.classes, scores=self._kind)
        if sample.n_kept == 0:
            raise errors.ShapeError("no chunk has a row with a positive weight; pass at least one")
        batch = sample.batch()
        # As many rows as were kept: those that they stand for make no interval shorter.
        unit = 1.0 if batch.unit is None else float((batch.weight / batch.unit).sum())
        weight = batch.weight if batch.unit is None else batch.weight * (unit / batch.weight.sum())
        parts = batch.probabilities(), batch.class_index, weight, self.classes
        return Predictions(*parts, None if sample.is_complete else sample.n_rows)

    def in_memory(self) -> Predictions:
        """Return the rows, or a sample of them."""
        return self._sample


Source = Predictions | ChunkedPredictions


class Statistic(ABC):
    """Sums over rows, and the metric that they give; a frozen dataclass of its options."""

    @abstractmethod
    def sums(self, rows: Predictions) -> Floats:
        """Return sums over rows, an array of fixed shape."""

    def value(self, sums: Floats) -> float:
        """Return the metric of rows that have these sums."""
        raise TypeError(f"{type(self).__name__} of shape {sums.shape} is not one number")


Rule = Statistic | Callable[[Predictions], float]
"""A metric: sums over rows, or a function of rows in memory where it needs their order."""


def metric_of(source: Source, rule: Rule) -> float:
    """Return a metric of all rows, or of a sample of them where it needs their order."""
    if isinstance(rule, Statistic):
        return rule.value(source.add_up({"metric": rule})["metric"])
    return rule(source.in_memory())


def _count(
    statistics: dict[str, Statistic],
    classes: Labels,
    kind: str,
    scores: object,
    y: object,
    sample_weight: object = None,
) -> dict[str, Floats]:
    """Return the sums of a chunk."""
    rows = Predictions(np.empty((0, len(classes))), np.empty(0, np.intp), np.empty(0), classes)
    if has_rows(y, sample_weight):
        with errors.naming(NAMED):
            batch = gate.check_batch(
                scores, y, sample_weight, kind=kind, classes=classes, is_chunk=True
            )
        rows = Predictions(batch.probabilities(), batch.class_index, batch.weight, classes)
    return rows.add_up(statistics)


def _merge(first: dict[str, Floats], second: dict[str, Floats]) -> dict[str, Floats]:
    return {name: own + second[name] for name, own in first.items()}


def source_of(
    y_true: object,
    y_proba: object = None,
    sample_weight: object = None,
    classes: object = None,
    pos_label: Label | None = None,
) -> Source:
    """Return predictions in memory, or chunks of them."""
    if isinstance(y_true, Predictions):
        if any(given is not None for given in (y_proba, sample_weight, classes, pos_label)):
            raise errors.ParameterError(
                "Predictions have labels, weights and classes of their own; pass nothing else",
                argument="y_true",
            )
        return y_true
    if isinstance(y_true, Chunks):
        y_true, y_proba = None, y_true
    if y_proba is None:
        raise errors.ContainerError("y_proba is None; pass the predicted probabilities")
    chunks = as_chunks(y_proba, y_true, sample_weight)
    if chunks is None:
        return read_predictions(y_true, y_proba, sample_weight, classes, pos_label)
    kind = "positive" if chunks.n_columns == 1 else "probabilities"
    labels = chunks.labels() if classes is None else np.asarray(classes)
    if pos_label is not None:
        classes = _positive_last(labels, classes, pos_label, kind, NAMED)
    shape, names = (chunks.n_columns, kind), chunks.names
    with errors.naming(NAMED):
        known = gate.assign_classes(labels, len(labels), *shape, names=names, classes=classes)[1]
    return ChunkedPredictions(chunks, known, kind)


def check_beside(y_true: object, y_proba: object, given: object, argument: str) -> None:
    """Refuse groups or features whose index is that of the rows in another order."""
    with errors.naming(NAMED):
        gate.refuse_other_index(y_proba, y_true, given, argument)


def read_predictions(
    y_true: object,
    y_proba: object,
    sample_weight: object = None,
    classes: object = None,
    pos_label: Label | None = None,
    named: MetricArguments = NAMED,
) -> Predictions:
    """Check labels, probabilities and weights; rows of weight 0 are left out."""
    kind = "positive" if is_single_column(y_proba) else "probabilities"
    if pos_label is not None:
        classes = _positive_last(y_true, classes, pos_label, kind, named)
    with errors.naming(named):
        batch = gate.check_batch(
            y_proba, y_true, sample_weight, kind=kind, classes=classes, is_chunk=True
        )
    return Predictions(batch.scores, batch.class_index, batch.weight, batch.classes)


def _positive_last(
    y_true: object, classes: object, pos_label: Label | None, kind: str, named: MetricArguments
) -> Labels:
    """Return the two classes of a single column with ``pos_label``, whose it is, as the second."""
    label = errors.in_words(pos_label)
    if kind != "positive":
        raise errors.ParameterError(
            f"pos_label={label} names the class of a single column, but {named.scores} has several "
            "columns; pass the column of that class alone",
            argument="pos_label",
            value=pos_label,
        )
    n_rows = len(y_true) if hasattr(y_true, "__len__") else 0
    with errors.naming(named):
        _, known = check_labels(y_true, n_rows, 2, classes=classes)
    place = np.flatnonzero(known == pos_label)
    if len(place) != 1:
        raise errors.ParameterError(
            f"pos_label={label} is not one of the classes {errors.some_in_words(known)}",
            argument="pos_label",
            value=pos_label,
        )
    return known if place[0] == 1 else known[::-1]


def column_of(classes: Labels, kind: object) -> int | None:
    """Column of a class, None for the confidence; if nothing is said, the usual one."""
    if kind is None:
        return usual_column(len(classes))
    if isinstance(kind, str) and kind == "confidence":
        return None
    matches = np.flatnonzero(classes == kind)
    if len(matches) != 1:
        raise errors.ParameterError(
            f"kind={errors.in_words(kind)} is neither 'confidence' nor one of the classes "
            f"{errors.some_in_words(classes)}",
            argument="kind",
            value=kind,
        )
    return int(matches[0])


def name_of(classes: Labels, column: int | None) -> Label:
    """Label of a column, "confidence" for None."""
    return "confidence" if column is None else classes[column : column + 1].tolist()[0]
