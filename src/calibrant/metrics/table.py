"""The table of metrics: what ``evaluate``, the command line, reports and studies know of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant.metrics.bins import ClassBins, ProblemBins, ThresholdedBins
from calibrant.metrics.chunk import usual_column
from calibrant.metrics.kernel_density import DensityGrid
from calibrant.metrics.mass_cells import ThresholdedCells
from calibrant.metrics.scores import Accuracy, Brier, LossMean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from calibrant.metrics.measures import Measure
    from calibrant.metrics.predictions import Accumulator, Predictions


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predicted probabilities, and how it is printed.

    Attributes
    ----------
    id : str
        Of the function, of the attribute of an ``Evaluation`` and in JSON.
    title : str
        For people, without a unit.
    start : callable
        Takes the numbers of classes and of bins; returns what counts rows for the metric.
    in_memory : callable or None
        Takes predictions and a number of bins; for what needs all rows of arrays at once.
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
    start: Callable[[int, int], Measure]
    factor: float = 100.0
    format: str = ".2f"
    larger_is_better: bool = False
    largest: float = 1.0
    is_binned: bool = False
    n_classes: int | None = None
    in_memory: Callable[[Predictions, int], Accumulator] | None = None

    def accumulator(self, predictions: Predictions, n_bins: int) -> Accumulator:
        """Return what adds the metric of arrays up."""
        if self.in_memory is not None:
            return self.in_memory(predictions, n_bins)
        summed: Any = self.start(predictions.n_classes, n_bins)
        found: Accumulator = summed
        return found

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


def _usual_bins(n_classes: int, n_bins: int) -> Measure:
    return ProblemBins(n_bins, column=usual_column(n_classes))


def _usual_grid(n_classes: int, _: int) -> Measure:
    return DensityGrid(column=usual_column(n_classes))


_METRICS = (
    Metric("accuracy", "accuracy", lambda *_: Accuracy(), larger_is_better=True),
    Metric("negative_log_likelihood", "NLL", lambda *_: LossMean(), 1.0, ".4f", largest=math.inf),
    Metric("brier_score", "Brier", lambda *_: Brier(), 1.0, "#.3g"),
    Metric("positive_ece", "pos-ECE", _usual_bins, is_binned=True, n_classes=2),
    Metric("confidence_ece", "conf-ECE", lambda _, n_bins: ProblemBins(n_bins), is_binned=True),
    Metric("classwise_ece", "cw-ECE", ClassBins, format=".3f", is_binned=True),
    Metric("thresholded_ece", "TECE", ThresholdedCells, is_binned=True, in_memory=ThresholdedBins),
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
