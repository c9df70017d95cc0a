"""Metrics of each group of rows, as ``evaluate(..., groups=)`` has them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._gate import read_groups
from calibrant._result import Estimate, Result, doc, result
from calibrant.metrics._cumulative import holm
from calibrant.metrics._table import METRICS, headline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from calibrant._predictions import Predictions
    from calibrant.metrics._significance import CalibrationTest

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
        for name, (value, low, high) in self.estimates.items():
            result |= {name: value, f"{name}_low": low, f"{name}_high": high}
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
        """Return the fields as plain numbers; ``rows`` make a data frame."""
        return {"metric": self.metric, "worst": self.worst, "rows": [g.row() for g in self.rows]}

    def __str__(self) -> str:
        rows = [["group", "rows", "NLL", METRICS[self.metric].title, "interval", "p (Holm)", ""]]
        for g in self.rows[:MOST_PRINTED]:
            nll, error = g.estimates["negative_log_likelihood"].value, g.estimates[self.metric]
            p = "-" if math.isnan(g.p_value) else f"{g.adjusted_p_value:.3g}"
            interval = "" if math.isnan(error.low) else f"{error.low:.4f} to {error.high:.4f}"
            numbers = [str(g.n_rows), f"{nll:.4f}", f"{error.value:.4f}", interval, p]
            rows.append([errors.in_words(g.group), *numbers, "few rows" if g.has_few_rows else ""])
        width = max(len(row[0]) for row in rows) + 2
        lines = []
        for name, *numbers, p, few in rows:
            columns = "".join(map(str.rjust, numbers, (8, 9, 10, 19)))
            lines.append(f"{name:<{width}}{columns}  {p:<8}  {few}".rstrip())
        left = len(self.rows) - MOST_PRINTED
        return "\n".join([*lines, *[f"and {left} more: to_dict() has all"] * (left > 0)])


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
