"""The table of metrics: what ``evaluate``, the command line, reports and studies know of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.metrics._bins import ClassBins, ProblemBins
from calibrant.metrics._calibration_error import thresholded_bins
from calibrant.metrics._chunk import usual_column
from calibrant.metrics._kernel_density import DensityGrid
from calibrant.metrics._scores import Accuracy, Brier, LogLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from calibrant.metrics._measures import Body


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predicted probabilities, and how it is printed.

    Attributes
    ----------
    id : str
        Of the function, of the attribute of an ``Evaluation`` and in JSON.
    title : str
        For people, without a unit.
    body : callable
        Takes the numbers of classes and of bins; returns what adds rows up for the metric.
    factor : float
        1, or 100 for a percentage.
    format : str
        Of the value times the factor.
    larger_is_better : bool
    largest : float
        No value is above this.
    is_binned : bool
        Whether the number of bins matters.
    n_classes : int or None
        Number of classes that it is for; None for any.
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


def _usual_bins(n_classes: int, n_bins: int) -> Body:
    return ProblemBins(n_bins, column=usual_column(n_classes))


def _usual_grid(n_classes: int, _: int) -> Body:
    return DensityGrid(column=usual_column(n_classes))


_METRICS = (
    Metric("accuracy", "accuracy", lambda *_: Accuracy(), larger_is_better=True),
    Metric("negative_log_likelihood", "NLL", lambda *_: LogLoss(), 1.0, ".4f", largest=math.inf),
    Metric("brier_score", "Brier", lambda *_: Brier(), 1.0, "#.3g"),
    Metric("positive_ece", "pos-ECE", _usual_bins, is_binned=True, n_classes=2),
    Metric("confidence_ece", "conf-ECE", lambda _, n_bins: ProblemBins(n_bins), is_binned=True),
    Metric("classwise_ece", "cw-ECE", ClassBins, format=".3f", is_binned=True),
    Metric("thresholded_ece", "TECE", thresholded_bins, is_binned=True),
    Metric("kernel_density_ece", "KDE-ECE", _usual_grid),
)

METRICS = {metric.id: metric for metric in _METRICS}
"""Every metric by its id, in the order of the tables."""


def metrics_of(n_classes: int) -> dict[str, Metric]:
    """Return the metrics of predictions for so many classes, by id and in the order of the tables.

    The calibration error that comes first is the one that a verdict goes by.
    """
    return {name: own for name, own in METRICS.items() if own.n_classes in (None, n_classes)}


def headline(n_classes: int) -> Metric:
    """Return the calibration error that predictions for so many classes are judged by."""
    return METRICS["confidence_ece" if usual_column(n_classes) is None else "positive_ece"]
