"""Estimates of metrics: their values of all rows, and the intervals of those that have one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant import _notices as notices
from calibrant._gate import MOST_CLASSES_CROSSED, find_mismatch
from calibrant._predictions import Predictions, Statistic, usual_column
from calibrant._result import Estimate
from calibrant.metrics._calibration_error import find_bins
from calibrant.metrics._intervals import (
    error_interval,
    log_interval,
    mean_and_error,
    model_labels,
    share_interval,
    tell_enough,
)
from calibrant.metrics._null import Draws
from calibrant.metrics._scores import ROW_MEANS
from calibrant.metrics._significance import test_problem
from calibrant.metrics._table import METRICS, OWN_STRATEGY, headline

if TYPE_CHECKING:
    from calibrant._predictions import Source
    from calibrant._types import Floats, Labels
    from calibrant.metrics._intervals import Seed
    from calibrant.metrics._significance import CalibrationTest


@dataclass(frozen=True)
class Confusion(Statistic):
    """Weight and number of rows of every (label, prediction): (n_classes, n_classes, 2)."""

    def sums(self, rows: Predictions) -> Floats:
        """Return both."""
        k = rows.n_classes
        cell = rows.class_index * k + rows.rows.argmax(axis=1)
        parts = (np.bincount(cell, weight, k * k) for weight in (rows.weight, None))
        return np.stack([*parts], axis=1).reshape(k, k, 2).astype(np.float64)


def warn_of_mismatch(confusion: Floats, classes: Labels) -> None:
    """Warn if the labels fit other columns better, by the sums of ``Confusion``."""
    mismatch = find_mismatch(confusion[..., 0], confusion[..., 1].sum(axis=1), classes)
    if mismatch is not None:
        notices.warn(mismatch)


@dataclass(frozen=True)
class Intervals:
    """Options of metrics and their intervals; a ``level`` of None is no intervals."""

    n_bins: int
    strategy: Literal["uniform", "quantile"] | None
    level: float | None
    n_resamples: int
    random_state: Seed

    def estimates(
        self, source: Source, names: list[str]
    ) -> tuple[dict[str, Estimate], Floats | None]:
        """Return some metrics, each with its interval if it has one, and the sums of ``Confusion``.

        There are none of the latter for very many classes.
        """
        rules = {name: METRICS[name].rule(self.n_bins, self.strategy) for name in names}
        counted = {name: rule for name, rule in rules.items() if isinstance(rule, Statistic)}
        if len(source.classes) <= MOST_CLASSES_CROSSED:
            counted["confusion"] = Confusion()
        sums = source.add_up(counted)  # one pass over all rows
        confusion = sums.get("confusion")
        result = {}
        for name, rule in rules.items():
            if isinstance(rule, Statistic):
                result[name] = Estimate(rule.value(sums[name]))
            else:
                result[name] = Estimate(rule(source.in_memory()))
        if self.level is None:
            return result, confusion
        rows = source if isinstance(source, Predictions) else None
        labels = None if rows is None else model_labels(rows)
        for name in ROW_MEANS.keys() & rules.keys():
            mean, error, n_equal = mean_and_error(ROW_MEANS[name], sums[name], rows, labels)
            if name == "accuracy":
                result[name] = share_interval(mean, n_equal, self.level)
            else:
                largest = math.inf if name == "negative_log_likelihood" else 1.0
                result[name] = log_interval(mean, error, n_equal, self.level, largest)
        name = headline(len(source.classes)).id
        if tell_enough(source.in_memory()):
            _, low, high = self._error_interval(source.in_memory(), name, self.level)
            result[name] = Estimate(result[name].value, low, high)
        return result, confusion

    def test(self, rows: Predictions, n_resamples: int) -> CalibrationTest:
        """Test the rows of a group."""
        # Drawing labels alone is exact also of fewer rows than there are bins.
        draws = Draws(rows.n_rows, n_resamples, self.random_state, replace=False)
        metric = "positive" if rows.n_classes == 2 else "confidence"
        return test_problem(rows, metric, self.n_bins, self.strategy, draws)

    def _error_interval(self, rows: Predictions, name: str, level: float) -> Estimate:
        """Return the calibration error that predictions are judged by, with its interval."""
        events = rows.events(usual_column(rows.n_classes))
        bins = find_bins(events, self.n_bins, self.strategy or OWN_STRATEGY[name])
        return error_interval(
            events,
            bins,
            self.n_bins,
            level=level,
            n_resamples=self.n_resamples,
            random_state=self.random_state,
        )
