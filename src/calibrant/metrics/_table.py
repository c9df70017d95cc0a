"""``METRICS``: what ``evaluate``, commands, studies and reports know of each metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant._predictions import Predictions, Rule, metric_of, usual_column
from calibrant.metrics._calibration_error import ClassBins, binned_error, thresholded_error
from calibrant.metrics._scores import ROW_MEANS

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN_STRATEGY = {"positive_ece": "quantile", "confidence_ece": "uniform"}
"""Bins of the metrics whose bins a ``strategy`` may choose."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predicted probabilities, and how it is printed.

    Attributes
    ----------
    id : str
        Name of its function, of the attribute of an ``Evaluation`` and in JSON.
    title : str
        Name in tables and pictures.
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
        if self.id in ROW_MEANS:
            return ROW_MEANS[self.id]
        if self.id == "classwise_ece":
            return ClassBins(n_bins)
        if self.id == "thresholded_ece":
            return lambda rows: thresholded_error(rows, n_bins)
        column = usual_column(2) if self.id == "positive_ece" else None
        return binned_error(column, n_bins, strategy or OWN_STRATEGY[self.id])

    def compute(self, rows: Predictions, n_bins: int = 15) -> float:
        """Return the metric of rows in memory."""
        return metric_of(rows, self.rule(n_bins))

    def text(self, value: float) -> str:
        """Return a value as it is printed, without its unit."""
        return format(self.factor * value, self.format)

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return max(values) if self.larger_is_better else min(values)


METRICS = {
    metric.id: metric
    for metric in (
        Metric("accuracy", "accuracy", larger_is_better=True),
        Metric("negative_log_likelihood", "NLL", factor=1.0, format=".4f"),
        Metric("brier_score", "Brier", factor=1.0, format="#.3g"),
        Metric("ranked_probability_score", "RPS", factor=1.0, format="#.3g", is_ordered=True),
        Metric("positive_ece", "pos-ECE", is_binned=True, n_classes=2),
        Metric("confidence_ece", "conf-ECE", is_binned=True),
        Metric("classwise_ece", "cw-ECE", format=".3f", is_binned=True),
        Metric("thresholded_ece", "TECE", is_binned=True),
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
