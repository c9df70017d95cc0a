"""How metrics read what they are given: rows in memory, or chunks that are counted and merged."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._columns import column_order
from calibrant._containers import is_vector, to_matrix
from calibrant._docstrings import inherit_parameters
from calibrant._labels import check_labels
from calibrant.metrics._measures import Body, chunks_of
from calibrant.metrics._predictions import NAMED, Predictions, positive_last, read_predictions
from calibrant.scale._mergeable import Mergeable
from calibrant.scale._sources import as_chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch
    from calibrant.scale._chunks import Chunks

MOST_GROUPS = 1 << 10

Own = TypeVar("Own", bound="CountedRows")
Found = TypeVar("Found")
Returned_co = TypeVar("Returned_co", covariant=True)


class CountedRows(Mergeable):
    """What metrics add up for rows in chunks; ``counts`` tells the bodies in plain values."""

    method = "counts"

    def _start(self) -> list[Any]:
        n_groups = self.options["n_groups"]
        if n_groups not in range(1, MOST_GROUPS + 1):
            raise ValueError(f"{n_groups} groups")
        states = []
        for name, (kind, settings) in self._counts().items():
            states.append(Body.registered[kind](**settings).start(n_groups))
            states[-1].name = name
        return states

    def _counts(self) -> dict[str, Any]:
        found: dict[str, Any] = self.options["counts"]
        return found

    def add(self, batch: SimplexBatch) -> None:
        for chunk in chunks_of(batch):
            for state in self.parts.values():
                state.add(chunk)
        for state in self.parts.values():
            state.settle()
        self._add_labels(batch)

    def update(
        self, scores: Any, y: Any, sample_weight: Any = None, *, named: errors.Arguments = NAMED
    ) -> Self:
        """Count rows; two classes may come as one column, the probability of the second."""
        if self.n_classes == 2 and self.scores == "probabilities":
            is_single = is_vector(scores) or to_matrix(scores, named=named).shape[1] == 1
            if is_single:
                scores = simplex.check_scores(scores, "positive", named=named)
        return super().update(scores, y, sample_weight, named=named)


def describe(bodies: dict[str, Body]) -> dict[str, Any]:
    """Return what makes equal ones, in plain values."""
    return {
        name: [own.name, {key: np.array(v).tolist() for key, v in own.settings.items()}]
        for name, own in bodies.items()
    }


class ChunkedPredictions(NamedTuple):
    """Chunks of predictions, and the class of each column."""

    chunks: Chunks
    classes: NDArray[Any]

    def add_up(self, bodies: dict[str, Any]) -> dict[str, Any]:
        """Return what metrics add up, in one pass over the rows."""
        empty = CountedRows(self.classes, n_groups=1, counts=describe(bodies))
        return self.counted(empty).parts

    def counted(self, empty: Own) -> Own:
        """Count all chunks."""
        found = self.chunks.count(empty)
        if found.n_rows == 0:
            raise errors.ShapeError("no chunk has a row with a positive weight; pass at least one")
        return found


Source = Predictions | ChunkedPredictions


def read(
    y_true: Any, y_proba: Any, sample_weight: Any = None, classes: Any = None, pos_label: Any = None
) -> Source:
    """Return predictions in memory, or chunks of them."""
    if isinstance(y_proba, Predictions):
        return y_proba
    chunks = as_chunks(y_proba, y_true, sample_weight, NAMED)
    if chunks is not None:
        return ChunkedPredictions(chunks, known_classes(chunks, classes, pos_label))
    return read_predictions(y_true, y_proba, sample_weight, classes, pos_label)


def known_classes(chunks: Chunks, classes: Any = None, pos_label: Any = None) -> NDArray[Any]:
    """Return the class of each column, told or by the rule of ``_labels.check_labels``."""
    n_classes = max(2, chunks.n_classes)
    names = chunks.names if chunks.n_classes > 1 else None
    y = chunks.labels() if classes is None else classes
    how: dict[str, Any] = {"names": names, "is_single": chunks.n_classes == 1}
    _, known = check_labels(y, len(y), n_classes, classes=classes, named=NAMED, **how)
    column_order(names, known, told=classes is not None, named=NAMED)
    return positive_last(known, chunks.n_classes, classes, pos_label, NAMED)


def shared() -> float:  # type: ignore[empty-body]
    """Describe the parameters that many functions share, and what a metric returns.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        True labels, or one-hot rows.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, (low, high] with 0 in the first, as in scikit-learn's
        ``calibration_curve``; or of equal mass, where ties are not split: equal predictions go to
        the bin of the midpoint of their cumulative weight.
    norm : {"l1", "l2", "max"}, default="l1"
        Mean absolute gap over rows, root mean squared gap, or largest gap (MCE).
    kind : None, "confidence" or a label, default=None
        "confidence" compares the largest probability of each row with whether it is right; a label
        compares the probability of that class with whether it is the label. None is the positive
        (second) class of two, and the confidence for more.
    recalibrator : calibrator, optional
        Any calibrator of this package, which is copied. By default ``StructuredScaling()``, which
        is fast, corrects single classes, too, and stays close to temperature scaling with few rows.
    n_folds : int, default=5
        Number of folds. Rows are assigned to folds at random, independently of their labels and
        order, and in the same way in every run.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all; resampling draws it once.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y_true`` lacks a class. For a single column: the negative
        and the positive label.
    pos_label : object, optional
        Label of the class of a single column. Not needed for 0 and 1, -1 and 1, or False and True,
        where it is the larger one.
    n_resamples : int, default=1000
        Number of bootstrap resamples; 0 for no intervals.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    random_state : None, int, SeedSequence or Generator, default=0
        Seed of the random numbers.
    n_jobs : int, optional
        Number of threads; results do not depend on it. -1 means all cores, -2 all but one, None the
        setting of ``joblib.parallel_config``, else 1.

    Returns
    -------
    float
        In [0, 1]; it does not depend on the order of the rows.
    """


class OfPredictions(Protocol[Returned_co]):
    """What static checkers see of a function of labels and probabilities."""

    def __call__(
        self,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        classes: Any = None,
        pos_label: Any = None,
        **options: Any,
    ) -> Returned_co: ...


def of_predictions(
    function: Callable[..., Found], reads: Callable[..., Any] = read
) -> OfPredictions[Found]:
    """Return a function of labels and probabilities, by one of what is read of them."""

    @wraps(function)
    def reading(
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        classes: Any = None,
        pos_label: Any = None,
        **options: Any,
    ) -> Found:
        return function(reads(y_true, y_proba, sample_weight, classes, pos_label), **options)

    returned = function.__globals__.get(function.__annotations__["return"])
    if isinstance(returned, type) and is_dataclass(returned):
        names = fill(f"With the fields {', '.join(own.name for own in fields(returned))}.", 88)
        text = f"Returns\n-------\n{returned.__name__}\n{indent(names, 4 * ' ')}"
        reading.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{text}"
    _, *own = inspect.signature(function).parameters.values()
    whole = inspect.signature(reading, follow_wrapped=False)
    y_true, y_proba, *told, _ = whole.parameters.values()
    vars(reading)["__signature__"] = whole.replace(
        parameters=[y_true, y_proba, *own, *told],
        return_annotation=function.__annotations__.get("return"),
    )
    return inherit_parameters(shared)(reading)


of_arrays = partial(of_predictions, reads=read_predictions)
"""The same for a function that needs all rows in memory."""


def metric(body: Callable[..., Body]) -> OfPredictions[float]:
    """Return a metric by the body that a function of classes and options makes."""

    @wraps(body)
    def measured(predictions: Source, **options: Any) -> float:
        made = body(predictions.classes, **options)
        return float(predictions.add_up({"metric": made})["metric"].value())

    measured.__annotations__ = {"return": "float"}
    return of_predictions(measured)
