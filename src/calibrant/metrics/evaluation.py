"""``Evaluation``: every metric with its interval, as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.metrics.result import Estimate, Result
from calibrant.metrics.table import METRICS, metrics_of

if TYPE_CHECKING:
    from calibrant.maps.base import Floats


@dataclass(frozen=True, slots=True)
class Evaluation(Result):
    """Result of :func:`evaluate`: every metric as (value, low, high).

    ``print`` shows it as a table.

    Attributes
    ----------
    accuracy, negative_log_likelihood, brier_score : Estimate
    positive_ece : Estimate or None
        Of two classes; None of more.
    confidence_ece, classwise_ece, thresholded_ece, kernel_density_ece : Estimate
    n_rows, n_classes, n_bins, n_resamples : int
    confidence_level : float
        Of the intervals.
    binning_error : float
        Most that ``thresholded_ece`` may be off because predictions in chunks were binned; 0 if
        none were.
    """

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
    confidence_level: float
    binning_error: float = 0.0
    positive_ece: Estimate | None = None

    def estimates(self) -> dict[str, Estimate]:
        """Return the metrics of so many classes by name, in the order of the table."""
        return {name: getattr(self, name) for name in metrics_of(self.n_classes)}

    def __str__(self) -> str:
        has_intervals = self.n_resamples > 0
        interval = f"{100 * self.confidence_level:g} % interval"
        lines = [f"{'metric':<10}{'value':>10}" + (f"   {interval:>20}" if has_intervals else "")]
        for name, estimate in self.estimates().items():
            line = f"{METRICS[name].title:<10}{estimate.value:>10.5f}"
            if has_intervals:
                line += f"   {estimate.low:>9.5f}  {estimate.high:>9.5f}"
            lines.append(line)
        lines.append(f"{self.n_rows} rows, {self.n_classes} classes")
        return "\n".join(lines)


def basic_interval(
    value: float, replicates: Floats | None, level: float, largest: float
) -> Estimate:
    """Reflect quantiles of the replicates at the value; clip to [0, largest]; hold the value."""
    if replicates is None:
        return Estimate(value, math.nan, math.nan)
    q_low, q_high = np.quantile(replicates, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    low = min(max(2.0 * value - float(q_high), 0.0), value)
    high = max(min(2.0 * value - float(q_low), largest), value)
    return Estimate(value, low, high)
