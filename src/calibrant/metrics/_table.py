"""The table of metrics: what ``evaluate``, the command, reports and studies know of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from calibrant._predictions import Predictions, Statistic, usual_column
from calibrant.metrics._calibration_error import (
    ClassBins,
    ProblemBins,
    problem_error,
    thresholded_error,
)
from calibrant.metrics._scores import ROW_MEANS

Rule = Statistic | Callable[[Predictions], float]
"""Sums over rows, or a function of rows where the metric needs their order."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predicted probabilities, and how it is printed.

    Attributes
    ----------
    id : str
        Name of its function, of the attribute of an ``Evaluation`` and in JSON.
    title : str
        Name in tables and pictures.
    rule : callable
        ``rule(n_classes, n_bins, strategy)`` returns sums over rows or a function of rows. A
        ``strategy`` of None is the metric's own bins.
    factor, format : float, str
        It is printed times the factor, in this format.
    larger_is_better : bool
    largest : float
        No value is larger.
    is_binned : bool
        Whether it has bins.
    n_classes : int or None
        Number of classes that it is for; None for any.
    is_ordered : bool
        Whether it is for ordered classes, and shown where these are said to have an order.
    """

    id: str
    title: str
    rule: Callable[[int, int, str | None], Rule]
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

    def compute(self, rows: Predictions, n_bins: int = 15, strategy: str | None = None) -> float:
        """Return the metric of rows in memory."""
        rule = self.rule(rows.n_classes, n_bins, strategy)
        return rule.value(rule.sums(rows)) if isinstance(rule, Statistic) else rule(rows)

    def text(self, value: float) -> str:
        """Return a value as it is printed, without its unit."""
        return format(self.factor * value, self.format)

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return max(values) if self.larger_is_better else min(values)


OWN_STRATEGY = {"positive_ece": "quantile", "confidence_ece": "uniform"}
"""Bins of the metrics whose bins a ``strategy`` may choose."""


def _mean(name: str) -> Callable[..., Rule]:
    return lambda *_: ROW_MEANS[name]


def _in_bins(name: str, column: int | None) -> Callable[[int, int, str | None], Rule]:
    """Return the rule of the confidence, or of the class of a column, in bins of some kind."""

    def rule(_: int, n_bins: int, strategy: str | None) -> Rule:
        if (strategy or OWN_STRATEGY[name]) == "uniform":
            return ProblemBins(n_bins, column)
        return lambda rows: problem_error(rows, column, n_bins, "quantile")

    return rule


METRICS = {
    metric.id: metric
    for metric in (
        Metric("accuracy", "accuracy", _mean("accuracy"), larger_is_better=True),
        Metric(
            id="negative_log_likelihood",
            title="NLL",
            rule=_mean("negative_log_likelihood"),
            factor=1.0,
            format=".4f",
            largest=math.inf,
        ),
        Metric("brier_score", "Brier", _mean("brier_score"), factor=1.0, format="#.3g"),
        Metric(
            id="ranked_probability_score",
            title="RPS",
            rule=_mean("ranked_probability_score"),
            factor=1.0,
            format="#.3g",
            is_ordered=True,
        ),
        Metric(
            id="positive_ece",
            title="pos-ECE",
            rule=_in_bins("positive_ece", usual_column(2)),
            is_binned=True,
            n_classes=2,
        ),
        Metric("confidence_ece", "conf-ECE", _in_bins("confidence_ece", None), is_binned=True),
        Metric(
            id="classwise_ece",
            title="cw-ECE",
            rule=lambda _, n_bins, __: ClassBins(n_bins),
            format=".3f",
            is_binned=True,
        ),
        Metric(
            id="thresholded_ece",
            title="TECE",
            rule=lambda _, n_bins, __: lambda rows: thresholded_error(rows, n_bins),
            is_binned=True,
        ),
    )
}
"""Every metric by its id, in the order of the tables."""


def metrics_of(n_classes: int, *, ordered: bool = False) -> dict[str, Metric]:
    """Return the metrics of predictions for so many classes, by id in the order of the tables."""
    known = {name: own for name, own in METRICS.items() if own.n_classes in (None, n_classes)}
    return {name: own for name, own in known.items() if ordered or not own.is_ordered}


def headline(n_classes: int) -> Metric:
    """Return the calibration error that predictions for so many classes are judged by."""
    return METRICS["confidence_ece" if usual_column(n_classes) is None else "positive_ece"]
