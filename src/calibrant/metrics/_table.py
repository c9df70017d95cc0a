"""The table of metrics, and ``Evaluation``: each of them with its interval.

What ``evaluate``, the command line, reports and studies know of a metric is here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from calibrant import _notices as notices
from calibrant import errors
from calibrant._html import table
from calibrant._kernels.metrics import BITS, add_confusion
from calibrant.metrics._calibration_error import ClassBins, ProblemBins, thresholded_bins
from calibrant.metrics._measures import RowSums, usual_column
from calibrant.metrics._resampling import basic_interval, drawn_by_group
from calibrant.metrics._result import Estimate, Result, doc, result
from calibrant.metrics._scores import Accuracy, Brier, LogLoss, RankedProbability
from calibrant.metrics._smooth import N_STEPS, DensityGrid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._groups import GroupTable
    from calibrant.metrics._measures import Body, Chunk

MOST_GROUPS, FEWEST_GROUPS = 64, 8
GROUP_BYTES = 60 << 20
"""Sums of all groups."""

MOST_GAIN_BY_ORDER = 0.2
"""Gain in accuracy by another order of columns above which that is told."""

MOST_CLASSES_MATCHED = 100
FEWEST_ROWS_OF_A_CLASS = 20

MOST_CLASSES_CROSSED = 1024
"""Most classes of which rows are counted by label and prediction: 16 MiB."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predicted probabilities, and how it is printed.

    ``id`` is the name of its function, of the attribute of an ``Evaluation`` and in JSON, ``body``
    takes the numbers of classes and of bins, ``format`` is that of the value times ``factor``, no
    value is above ``largest``, and ``n_classes`` is the number that it is for, None for any; one
    that ``is_ordered`` is for classes in their order, and shown where these are said to have one.
    """

    id: str
    title: str
    body: Callable[[int, int], Body]
    factor: float = 100.0
    format: str = ".2f"
    larger_is_better: bool = False
    largest: float = 1.0
    is_binned: bool = False
    n_classes: int | None = None
    is_ordered: bool = False

    @property
    def short(self) -> str:
        """Name in the files of a study."""
        return self.title.lower()

    @property
    def heading(self) -> str:
        """Title with its unit."""
        return self.title if self.factor == 1.0 else f"{self.title}, %"

    def text(self, value: float) -> str:
        """Return a value as it is printed, without its unit."""
        return format(self.factor * value, self.format)

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return max(values) if self.larger_is_better else min(values)


def _bins_of(column: int | None) -> Callable[[int, int], Body]:
    return lambda _, n_bins: ProblemBins(n_bins, column=column)


_METRICS = (
    Metric("accuracy", "accuracy", lambda *_: Accuracy(), larger_is_better=True),
    Metric("negative_log_likelihood", "NLL", lambda *_: LogLoss(), 1.0, ".4f", largest=math.inf),
    Metric("brier_score", "Brier", lambda *_: Brier(), 1.0, "#.3g"),
    Metric(
        *("ranked_probability_score", "RPS", lambda *_: RankedProbability(), 1.0, "#.3g"),
        is_ordered=True,
    ),
    Metric("positive_ece", "pos-ECE", _bins_of(usual_column(2)), is_binned=True, n_classes=2),
    Metric("confidence_ece", "conf-ECE", _bins_of(None), is_binned=True),
    Metric("classwise_ece", "cw-ECE", ClassBins, format=".3f", is_binned=True),
    Metric("thresholded_ece", "TECE", thresholded_bins, is_binned=True),
    Metric("kernel_density_ece", "KDE-ECE", lambda k, _: DensityGrid(column=usual_column(k))),
)

METRICS = {metric.id: metric for metric in _METRICS}
"""Every metric by its id, in the order of the tables."""


def metrics_of(n_classes: int, *, ordered: bool = False) -> dict[str, Metric]:
    """Return the metrics of predictions for so many classes, by id in the order of the tables."""
    known = {name: own for name, own in METRICS.items() if own.n_classes in (None, n_classes)}
    return {name: own for name, own in known.items() if ordered or not own.is_ordered}


def headline(n_classes: int) -> Metric:
    """Return the calibration error that predictions for so many classes are judged by."""
    return METRICS["confidence_ece" if usual_column(n_classes) is None else "positive_ece"]


@result()
class Evaluation(Result):
    """Result of :func:`evaluate`: each metric as (value, low, high); ``print`` shows a table."""

    accuracy: Estimate
    negative_log_likelihood: Estimate
    brier_score: Estimate
    confidence_ece: Estimate
    classwise_ece: Estimate
    thresholded_ece: Estimate
    kernel_density_ece: Estimate
    n_rows: int
    n_classes: int
    n_bins: int
    n_resamples: int
    confidence_level: float = doc("Confidence level of the intervals.")
    binning_error: float = doc("Bound on the error of ``thresholded_ece`` by binning chunks.", 0.0)
    positive_ece: Estimate | None = doc("None for more than two classes.", default=None)
    ranked_probability_score: Estimate | None = doc("If classes are ordered.", default=None)
    by_group: GroupTable | None = doc("Metrics of each group, if groups were given.", default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers."""
        found = Result.to_dict(self)
        if self.by_group is None:
            del found["by_group"]
            return found
        return found | {"by_group": self.by_group.to_dict()}

    def estimates(self) -> dict[str, Estimate]:
        """Return the metrics of so many classes by name, in the order of the table."""
        is_ordered = self.ranked_probability_score is not None
        return {n: getattr(self, n) for n in metrics_of(self.n_classes, ordered=is_ordered)}

    def __str__(self) -> str:
        has_intervals = self.n_resamples > 0
        head = f"{'metric':<10}{'value':>10}"
        lines = [head + (f"   {self._interval:>20}" if has_intervals else "")]
        for name, estimate in self.estimates().items():
            line = f"{METRICS[name].title:<10}{estimate.value:>10.5f}"
            if has_intervals:
                line += f"   {estimate.low:>9.5f}  {estimate.high:>9.5f}"
            lines.append(line)
        lines.append(self._size)
        lines += [] if self.by_group is None else ["", str(self.by_group)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        n_columns = 3 if self.n_resamples > 0 else 2
        rows = [["metric", "value", self._interval]]
        for name, own in self.estimates().items():
            interval = f"{own.low:.5f} to {own.high:.5f}"
            rows.append([METRICS[name].title, f"{own.value:.5f}", interval])
        head, *rows = (row[:n_columns] for row in rows)
        groups = "" if self.by_group is None else self.by_group._repr_html_()
        return table(head, rows, [self._size]) + groups

    @property
    def _interval(self) -> str:
        return f"{100 * self.confidence_level:g} % interval"

    @property
    def _size(self) -> str:
        return f"{self.n_rows} rows, {self.n_classes} classes"


def evaluated_bodies(n_classes: int, n_bins: int, *, ordered: bool = False) -> dict[str, Body]:
    """Return what is added up for every metric, and to see whether columns are permuted."""
    known = metrics_of(n_classes, ordered=ordered)
    found = {name: own.body(n_classes, n_bins) for name, own in known.items()}
    if n_classes <= MOST_CLASSES_CROSSED:
        found |= {"confusion": Confusion(n_classes), "labels": LabelCounts(n_classes)}
    return found


def usual_groups(n_classes: int, n_bins: int) -> int:
    """Return how many groups rows are dealt to for intervals: fewer if there are many classes."""
    n_bytes = 16 * (3 * n_classes * n_bins + 2 * (N_STEPS + 1)) + 64 * 8 * n_classes
    return min(max(GROUP_BYTES // n_bytes, FEWEST_GROUPS), MOST_GROUPS)


def judge_states(
    states: dict[str, Any],
    classes: NDArray[Any],
    *,
    n_bins: int,
    n_rows: int,
    n_resamples: int,
    confidence_level: float,
    random_state: Any,
    tell: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Return every metric of what was added up, each with an interval."""
    if "confusion" in states:
        mismatch = find_mismatch(states["confusion"].total, states["labels"].total, classes)
        if mismatch is not None:
            notices.warn(mismatch)
    known = metrics_of(len(classes), ordered=True)
    measures = {name: states[name] for name in known if name in states}
    options: dict[str, Any] = {"n_resamples": n_resamples, "confidence_level": confidence_level}
    estimates: dict[str, Any] = estimates_of(
        measures, random_state=random_state, tell=tell, **options
    )
    return Evaluation(
        **estimates,
        n_rows=n_rows,
        n_classes=len(classes),
        n_bins=n_bins,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        binning_error=states["thresholded_ece"].binning_error(),
    )


def estimates_of(
    measures: dict[str, Any],
    *,
    n_resamples: int,
    confidence_level: float,
    random_state: Any,
    tell: Callable[[], None] = lambda: None,
) -> dict[str, Estimate]:
    """Return some metrics of what was added up, accuracy among them, each with an interval."""
    replicates = {}
    if n_resamples > 0:
        present = measures["accuracy"].by_group[:, 0] > 0.0
        replicates = drawn_by_group(
            measures, present, n_resamples, confidence_level, random_state, tell
        )
    return {
        name: basic_interval(
            state.value(), replicates.get(name), confidence_level, METRICS[name].largest
        )
        for name, state in measures.items()
    }


class Confusion(RowSums):
    """Weight of every (label, prediction), of at most ``MOST_CLASSES_CROSSED`` classes."""

    name = "confusion"
    is_drawn = False

    def __init__(self, n_classes: int) -> None:
        if n_classes not in range(1, MOST_CLASSES_CROSSED + 1):
            raise ValueError(f"{n_classes} classes")
        super().__init__(n_classes, n_classes)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        add_confusion(chunk.rows, chunk.class_index, chunk.weight, sums)


class LabelCounts(RowSums):
    """Number of rows of every label, whatever their weights."""

    name = "label counts"
    power = 0
    is_drawn = False

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        sums[:, 0] += np.bincount(chunk.class_index, minlength=len(sums)).astype(np.int64) << BITS


def find_mismatch(weights: Floats, counts: Floats, classes: NDArray[Any]) -> Warning | None:
    """Return a warning if the frequent classes fit other columns far better than their own."""
    frequent = np.argsort(-counts, kind="stable")[:MOST_CLASSES_MATCHED]
    frequent = frequent[counts[frequent] >= FEWEST_ROWS_OF_A_CLASS]
    if len(frequent) < 2:
        return None
    weight = float(weights[frequent].sum())
    confusion = weights[np.ix_(frequent, frequent)]
    label, column = linear_sum_assignment(confusion, maximize=True)
    now = float(np.trace(confusion)) / weight
    best = float(confusion[label, column].sum()) / weight
    if best - now <= MOST_GAIN_BY_ORDER + 2.0 / math.sqrt(counts[frequent].sum()):
        return None
    a = int(np.flatnonzero(label != column)[0])
    is_now, should_be = (classes[frequent[j]] for j in (column[a], label[a]))
    return errors.ColumnMismatchWarning(
        f"the labels fit another order of the columns far better: the accuracy is {now:.2f}, but "
        f"{best:.2f} if, for instance, the column of {errors.in_words(is_now)} belongs to "
        f"{errors.in_words(should_be)}; check the order of the columns"
    )
