"""Metrics of each group of rows, as ``evaluate(..., groups=)`` has them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._gate import read_groups
from calibrant._predictions import Predictions
from calibrant._result import Estimate, Result, doc, result
from calibrant._text import align_columns
from calibrant.metrics._cumulative import holm
from calibrant.metrics._table import METRICS, headline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._predictions import Source
    from calibrant.metrics._estimates import Intervals

GROUP_METRICS = ("accuracy", "negative_log_likelihood", "brier_score")
"""Metrics of a group, beside its calibration error."""

FEW_ROWS = 100  # number of rows below which a group says little
SIGNIFICANT = 0.05  # level at which a group counts as wrong

FEWEST_RESAMPLES, RESAMPLES_PER_GROUP = 1000, 25
"""Resamples of the test of each group: Holm's correction for many groups needs small p-values."""

MOST_PRINTED = 20  # number of groups that are printed


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
        result: dict[str, object] = {"group": self.group, "n_rows": self.n_rows}
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
            nll, error = g.estimates["negative_log_likelihood"], g.estimates[self.metric]
            interval = "" if math.isnan(error.low) else f"{error.low:.4f} to {error.high:.4f}"
            p_value = "-" if math.isnan(g.p_value) else f"{g.adjusted_p_value:.3g}"
            numbers = [f"{g.n_rows}", f"{nll.value:.4f}", f"{error.value:.4f}", interval, p_value]
            rows.append([errors.in_words(g.group), *numbers, "few rows" * g.has_few_rows])
        n_left = len(self.rows) - MOST_PRINTED
        return "\n".join(
            [*align_columns(rows), *[f"and {n_left} more: to_dict() has all"] * (n_left > 0)]
        )


def judge_groups(
    source: Source, groups: object, sample_weight: object, intervals: Intervals
) -> GroupTable:
    """Judge the rows of each group by themselves, and test whether they are calibrated."""
    if not isinstance(source, Predictions):
        raise errors.ContainerError(
            "y_proba is in chunks, which groups= does not support; compute it, or evaluate the "
            "rows of each group separately"
        )
    if sample_weight is not None:  # rows without a weight are not there
        groups = np.asarray(groups)[np.asarray(sample_weight) > 0]
    names, codes = read_groups(groups, source.n_rows)
    metric = headline(source.n_classes).id
    n_draws = max(FEWEST_RESAMPLES, RESAMPLES_PER_GROUP * len(names))
    judged = []
    for g in np.unique(codes).tolist():
        rows = source.take(codes == g)
        p_value = excess = math.nan
        if intervals.n_resamples > 0:
            test = intervals.test(rows, n_draws)
            p_value, excess = test.p_value, test.statistic - test.null_mean
        estimates, _ = intervals.estimates(rows, [*GROUP_METRICS, metric])
        name = names[g : g + 1].tolist()[0]
        judged.append(GroupMetrics(name, rows.n_rows, estimates, p_value, p_value, excess))
    adjusted = holm(np.array([group.p_value for group in judged])).tolist()
    judged = [replace(g, adjusted_p_value=p) for g, p in zip(judged, adjusted, strict=True)]

    def place(group: GroupMetrics) -> tuple[bool, bool, float]:
        error = group.estimates[metric].value if math.isnan(group.excess) else group.excess
        return not group.adjusted_p_value <= SIGNIFICANT, group.has_few_rows, -error

    return GroupTable(tuple(sorted(judged, key=place)), metric)
