"""Tables of metrics: what ``evaluate``, commands and reports know of each, and metrics by group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._extras import needed
from calibrant._gate import read_groups
from calibrant._html import table
from calibrant._predictions import Predictions, Statistic, usual_column
from calibrant._result import Estimate, Result, doc, result
from calibrant.metrics._calibration_error import (
    ClassBins,
    ProblemBins,
    problem_error,
    thresholded_error,
)
from calibrant.metrics._cumulative import holm
from calibrant.metrics._scores import ROW_MEANS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from calibrant.metrics._significance import CalibrationTest

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
    """Return the metrics for a number of classes, by id in the order of the tables."""
    return {
        name: metric
        for name, metric in METRICS.items()
        if metric.n_classes in (None, n_classes) and (ordered or not metric.is_ordered)
    }


def headline(n_classes: int) -> Metric:
    """Return the calibration error by which predictions for this many classes are judged."""
    return METRICS["confidence_ece" if usual_column(n_classes) is None else "positive_ece"]


FEW_ROWS, SIGNIFICANT = 100, 0.05
FEWEST_RESAMPLES, RESAMPLES_PER_GROUP = 1000, 25
"""Resamples of the test of each group: Holm's correction for many groups needs small p-values."""

MOST_PRINTED = 20


@result()
class GroupMetrics:
    """One group of a :class:`GroupTable`."""

    group: Any
    n_rows: int
    estimates: dict[str, Estimate] = doc("Estimate of each metric, by its name.")
    p_value: float = doc("P-value of the test of calibration; NaN without resamples.")
    adjusted_p_value: float = doc("P-value after Holm's correction for the number of groups.")
    excess: float = doc("Calibration error minus its mean under calibration.")

    @property
    def has_few_rows(self) -> bool:
        """Whether there are fewer than 100 rows, which say little."""
        return self.n_rows < FEW_ROWS

    def row(self) -> dict[str, Any]:
        """Return all numbers by name, as a row of a table."""
        result: dict[str, Any] = {"group": self.group, "n_rows": self.n_rows}
        for name, estimate in self.estimates.items():
            result |= {
                name: estimate.value,
                f"{name}_low": estimate.low,
                f"{name}_high": estimate.high,
            }
        result |= {"p_value": self.p_value, "adjusted_p_value": self.adjusted_p_value}
        return result | {"excess": self.excess, "has_few_rows": self.has_few_rows}


@result()
class GroupTable(Result):
    """Metrics by group, the worst first; ``print`` shows a table.

    Worse is a group whose error is more than chance at the level of 5 % after Holm's correction,
    then one with rows enough, then one whose calibration error exceeds by more what calibrated
    predictions like these would have.
    """

    rows: tuple[GroupMetrics, ...] = doc("Metrics of each group.")
    metric: str = doc("Name of the calibration error that is tested.")

    @property
    def worst(self) -> Any:
        """Name of the worst group."""
        return self.rows[0].group

    def __iter__(self) -> Iterator[GroupMetrics]:
        return iter(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers."""
        return {"metric": self.metric, "worst": self.worst, "rows": [g.row() for g in self.rows]}

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each group."""
        try:
            import pandas as pd
        except ImportError as error:
            raise needed(error, "to_frame", "cli") from error
        return pd.DataFrame([g.row() for g in self.rows]).set_index("group")

    def __str__(self) -> str:
        (head, *rows), more = self._cells()
        width = max(len(row[0]) for row in (head, *rows)) + 2
        lines = []
        for name, *numbers, p, few in (head, *rows):
            columns = "".join(map(str.rjust, numbers, (8, 9, 10, 19)))
            lines.append(f"{name:<{width}}{columns}  {p:<8}  {few}".rstrip())
        return "\n".join([*lines, *more])

    def _repr_html_(self) -> str:
        (head, *rows), more = self._cells()
        return table(head, rows, more)

    def _cells(self) -> tuple[list[list[str]], list[str]]:
        """Return the texts of the table, its head first, and how many groups it leaves out."""
        rows = [["group", "rows", "NLL", METRICS[self.metric].title, "interval", "p (Holm)", ""]]
        for g in self.rows[:MOST_PRINTED]:
            nll, error = g.estimates["negative_log_likelihood"].value, g.estimates[self.metric]
            p = "-" if math.isnan(g.p_value) else f"{g.adjusted_p_value:.3g}"
            interval = "" if math.isnan(error.low) else f"{error.low:.4f} to {error.high:.4f}"
            numbers = [str(g.n_rows), f"{nll:.4f}", f"{error.value:.4f}", interval, p]
            few = "few rows" if g.has_few_rows else ""
            rows.append([errors.in_words(g.group), *numbers, few])
        left = len(self.rows) - MOST_PRINTED
        return rows, [f"and {left} more: to_frame() has all"] * (left > 0)


def judge_groups(
    predictions: Predictions,
    groups: Any,
    judge: Callable[[Predictions], dict[str, Estimate]],
    test: Callable[[Predictions, int], CalibrationTest] | None,
) -> GroupTable:
    """Judge the rows of each group by themselves, and test whether they are calibrated.

    ``test(rows, n_resamples)`` tests the rows of a group; None is for no tests.
    """
    names, codes = read_groups(groups, predictions.n_rows)
    metric = headline(predictions.n_classes).id
    n_draws = max(FEWEST_RESAMPLES, RESAMPLES_PER_GROUP * len(names))
    result = []
    for g in np.unique(codes).tolist():
        rows = predictions.take(codes == g)
        p_value = excess = math.nan
        if test is not None:
            tested = test(rows, n_draws)
            p_value, excess = tested.p_value, tested.statistic - tested.null_mean
        name = names[g : g + 1].tolist()[0]
        result.append(GroupMetrics(name, rows.n_rows, judge(rows), p_value, p_value, excess))
    adjusted = holm(np.array([g.p_value for g in result])).tolist()
    result = [replace(g, adjusted_p_value=p) for g, p in zip(result, adjusted, strict=True)]

    def place(g: GroupMetrics) -> tuple[bool, bool, float]:
        error = g.estimates[metric].value if math.isnan(g.excess) else g.excess
        return not g.adjusted_p_value <= SIGNIFICANT, g.has_few_rows, -error

    return GroupTable(tuple(sorted(result, key=place)), metric)
