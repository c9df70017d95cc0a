"""``METRICS``: what ``evaluate``, commands, studies and reports know of each metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from calibrant._predictions import Predictions, Rule, Statistic, metric_of, usual_column
from calibrant.metrics._calibration_error import ClassBins, binned_error, thresholded_error
from calibrant.metrics._scores import Accuracy, Brier, LogLoss, RankedProbability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OWN_STRATEGY = {1: "quantile", None: "uniform"}
"""Bins of the positive class and of the confidence, where no ``strategy`` chooses them."""

Table = Literal["two classes", "more classes", "study"]
MANY: tuple[Table, ...] = ("more classes", "study")
TWO: tuple[Table, ...] = ("two classes",)
EVERY = (*TWO, *MANY)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predicted probabilities, and how it is printed.

    Attributes
    ----------
    id : str
        Name of its function, of the attribute of an ``Evaluation`` and in JSON.
    title : str
        Name in tables and pictures.
    measure : Statistic or callable
        Sums over rows, or a function of a number of bins and a ``strategy`` that returns a rule.
    tables : tuple of str, default=()
        Tables that show it beside that of ``evaluate``: those of a "study", and of ``compare`` for
        "two classes" and for "more classes", which must fit into 80 columns.
    factor, format : float, str
        It is printed times the factor, in this format.
    larger_is_better : bool
    is_binned : bool
        Whether it has bins.
    n_classes : int or None
        Number of classes that it is for; None for any.
    is_ordered : bool
        Whether it is for ordered classes, and shown where these are said to have an order.
    """

    id: str
    title: str
    measure: Statistic | Callable[[int, str | None], Rule]
    tables: tuple[Table, ...] = ()
    factor: float = 100.0
    format: str = ".2f"
    larger_is_better: bool = False
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

    def rule(self, n_bins: int, strategy: str | None = None) -> Rule:
        """Return sums over rows or a function of rows; a strategy of None is the own bins."""
        if isinstance(self.measure, Statistic):
            return self.measure
        return self.measure(n_bins, strategy)

    def compute(self, rows: Predictions, n_bins: int = 15) -> float:
        """Return the metric of rows in memory."""
        return metric_of(rows, self.rule(n_bins))

    def text(self, value: float) -> str:
        """Return a value as it is printed, without its unit."""
        return format(self.factor * value, self.format)

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return max(values) if self.larger_is_better else min(values)


def _in_bins(column: int | None, n_bins: int, strategy: str | None) -> Rule:
    return binned_error(column, n_bins, strategy or OWN_STRATEGY[column])


def _classwise(n_bins: int, _: str | None) -> Rule:
    return ClassBins(n_bins)


def _thresholded(n_bins: int, _: str | None) -> Rule:
    return partial(thresholded_error, n_bins=n_bins)


METRICS = {
    metric.id: metric
    for metric in (
        Metric("accuracy", "accuracy", Accuracy(), EVERY, larger_is_better=True),
        Metric("negative_log_likelihood", "NLL", LogLoss(), EVERY, 1.0, ".4f"),
        Metric("brier_score", "Brier", Brier(), EVERY, 1.0, "#.3g"),
        Metric(
            "ranked_probability_score", "RPS", RankedProbability(), (), 1.0, "#.3g", is_ordered=True
        ),
        Metric("positive_ece", "pos-ECE", partial(_in_bins, 1), TWO, is_binned=True, n_classes=2),
        # Of two classes, each of the next is nearly the positive class's error, or of the few
        # probabilities above one half alone.
        Metric("confidence_ece", "conf-ECE", partial(_in_bins, None), MANY, is_binned=True),
        Metric("classwise_ece", "cw-ECE", _classwise, MANY, format=".3f", is_binned=True),
        Metric("thresholded_ece", "TECE", _thresholded, MANY, is_binned=True),
    )
}
"""Every metric by its id, in the order of the tables."""


def metrics_of(n_classes: int, *, ordered: bool = False) -> dict[str, Metric]:
    """Return the metrics for a number of classes, by id in the order of the tables."""
    return {
        name: metric
        for name, metric in METRICS.items()
        if metric.n_classes in (None, n_classes) and (ordered or not metric.is_ordered)
    }


def headline(n_classes: int) -> Metric:
    """Return the calibration error by which predictions for this many classes are judged."""
    return METRICS["confidence_ece" if usual_column(n_classes) is None else "positive_ece"]
