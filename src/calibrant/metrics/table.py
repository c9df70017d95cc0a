"""The table of metrics: what ``evaluate``, the command line, reports and studies know of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.metrics.calibration_error import ClassBins, ConfidenceBins, ThresholdedBins
from calibrant.metrics.kernel_density import DensityGrid
from calibrant.metrics.scores import LossMean, RowMean, chunk_hits, chunk_squares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        Takes predictions and a number of bins; returns what adds the metric up.
    factor : float
        1, or 100 for a percentage.
    format : str
        Of the value times the factor.
    larger_is_better : bool
    largest : float
        No value is above this.
    is_binned : bool
        Whether the number of bins matters.
    """

    id: str
    title: str
    start: Callable[[Predictions, int], Accumulator]
    factor: float = 100.0
    format: str = ".2f"
    larger_is_better: bool = False
    largest: float = 1.0
    is_binned: bool = False

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


_METRICS = (
    Metric("accuracy", "accuracy", lambda *_: RowMean(chunk_hits), larger_is_better=True),
    Metric("negative_log_likelihood", "NLL", lambda *_: LossMean(), 1.0, ".4f", largest=math.inf),
    Metric("brier_score", "Brier", lambda *_: RowMean(chunk_squares), 1.0, "#.3g"),
    Metric("confidence_ece", "conf-ECE", lambda _, n_bins: ConfidenceBins(n_bins), is_binned=True),
    Metric(
        "classwise_ece",
        "cw-ECE",
        lambda p, n_bins: ClassBins(p.n_classes, n_bins),
        format=".3f",
        is_binned=True,
    ),
    Metric("thresholded_ece", "TECE", ThresholdedBins, is_binned=True),
    Metric("kernel_density_ece", "KDE-ECE", lambda p, _: DensityGrid(p.unit)),
)

METRICS = {metric.id: metric for metric in _METRICS}
"""Every metric by its id, in the order of the tables."""
