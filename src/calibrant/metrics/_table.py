"""The table of metrics: what ``evaluate``, the command, reports and studies know of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant._predictions import usual_column
from calibrant.metrics._calibration_error import (
    ClassBins,
    ProblemBins,
    problem_error,
    thresholded_error,
)
from calibrant.metrics._scores import ROW_MEANS
from calibrant.metrics._smooth import DensityGrid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from calibrant._predictions import Predictions, Statistic


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of predicted probabilities, and how it is printed.

    Attributes
    ----------
    id : str
        Name of its function, of the attribute of an ``Evaluation`` and in JSON.
    title : str
        Name in tables and pictures.
    statistic : callable
        ``statistic(n_classes, n_bins, strategy)`` returns its sums over rows; None if it needs rows
        in their order. A ``strategy`` of None is the metric's own bins.
    of_rows : callable, optional
        ``of_rows(rows, n_bins, strategy)`` returns the metric where it is no function of sums.
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
    in_tables : bool
        Whether ``compare``, reports and the demo have a column of it.
    """

    id: str
    title: str
    statistic: Callable[[int, int, str | None], Statistic | None]
    of_rows: Callable[[Predictions, int, str | None], float] | None = None
    factor: float = 100.0
    format: str = ".2f"
    larger_is_better: bool = False
    largest: float = 1.0
    is_binned: bool = False
    n_classes: int | None = None
    is_ordered: bool = False
    in_tables: bool = True

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
        statistic = self.statistic(rows.n_classes, n_bins, strategy)
        if statistic is not None:
            return statistic.value(statistic.sums(rows))
        if self.of_rows is None:
            raise TypeError(f"the metric {self.id} has neither sums nor a function of rows")
        return self.of_rows(rows, n_bins, strategy)

    def text(self, value: float) -> str:
        """Return a value as it is printed, without its unit."""
        return format(self.factor * value, self.format)

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return max(values) if self.larger_is_better else min(values)


def _mean(name: str) -> Callable[..., Statistic]:
    return lambda *_: ROW_MEANS[name]


def _bins(column: int | None, own: str) -> Callable[..., Statistic | None]:
    """Return the bins of the confidence or of a class, if they are of equal width."""

    def statistic(_: int, n_bins: int, strategy: str | None) -> Statistic | None:
        return ProblemBins(n_bins, column) if (strategy or own) == "uniform" else None

    return statistic


def _in_bins(column: int | None, own: str) -> Callable[[Predictions, int, str | None], float]:
    return lambda rows, n_bins, strategy: problem_error(rows, column, n_bins, strategy or own)


OWN_STRATEGY = {"positive_ece": "quantile", "confidence_ece": "uniform"}
"""Bins of the metrics whose bins a ``strategy`` may choose."""

METRICS = {
    metric.id: metric
    for metric in (
        Metric("accuracy", "accuracy", _mean("accuracy"), larger_is_better=True),
        Metric(
            id="negative_log_likelihood",
            title="NLL",
            statistic=_mean("negative_log_likelihood"),
            factor=1.0,
            format=".4f",
            largest=math.inf,
        ),
        Metric(
            id="brier_score",
            title="Brier",
            statistic=_mean("brier_score"),
            factor=1.0,
            format="#.3g",
        ),
        Metric(
            id="ranked_probability_score",
            title="RPS",
            statistic=_mean("ranked_probability_score"),
            factor=1.0,
            format="#.3g",
            is_ordered=True,
        ),
        Metric(
            id="positive_ece",
            title="pos-ECE",
            statistic=_bins(usual_column(2), OWN_STRATEGY["positive_ece"]),
            of_rows=_in_bins(usual_column(2), OWN_STRATEGY["positive_ece"]),
            is_binned=True,
            n_classes=2,
        ),
        Metric(
            id="confidence_ece",
            title="conf-ECE",
            statistic=_bins(None, OWN_STRATEGY["confidence_ece"]),
            of_rows=_in_bins(None, OWN_STRATEGY["confidence_ece"]),
            is_binned=True,
        ),
        Metric(
            id="classwise_ece",
            title="cw-ECE",
            statistic=lambda _, n_bins, __: ClassBins(n_bins),
            format=".3f",
            is_binned=True,
        ),
        Metric(
            id="thresholded_ece",
            title="TECE",
            statistic=lambda *_: None,
            of_rows=lambda rows, n_bins, _: thresholded_error(rows, n_bins),
            is_binned=True,
        ),
        Metric(
            id="kernel_density_ece",
            title="KDE-ECE",
            statistic=lambda n_classes, *_: DensityGrid(usual_column(n_classes)),
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
