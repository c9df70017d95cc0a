"""``Judge``: metrics and tests of methods on the test part, and comparisons between methods."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from calibrant import _notices as notices
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._predictions import read_predictions
from calibrant._trial import UNCALIBRATED
from calibrant.decisions import expected_cost, value_of_calibration
from calibrant.metrics import (
    LogLoss,
    calibration_segments,
    calibration_test,
    class_shares,
    evaluate,
    holm,
    reliability_curve,
    row_sums,
    student,
)
from calibrant.plots import compute_classwise
from calibrant.report._results import Decisions, Difference, MethodResult
from calibrant.report._verdict import DEFAULT, baseline_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._gate import SimplexBatch
    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Labels
    from calibrant.metrics import CalibrationTest, Evaluation, Seed
    from calibrant.report._results import Comparison


class Judge:
    """The test part, and how methods are judged on it; options as in ``compare``."""

    def __init__(
        self,
        test: SimplexBatch,
        *,
        n_bins: int,
        n_resamples: int,
        confidence_level: float,
        random_state: Seed,
        groups: Labels | None = None,
        features: dict[str, NDArray[np.generic]] | None = None,
    ) -> None:
        self._test, self._groups, self._features = test, groups, features
        self._n_bins, self._n_resamples = n_bins, int(n_resamples)
        self._level, self._seed = confidence_level, random_state
        self._losses: dict[str, Floats] = {}

    def judge(self, calibrator: Calibrator | None, method: str) -> MethodResult:
        """Judge a fitted calibrator, or the predictions as they came."""
        started = perf_counter()
        after = self._predict(calibrator)
        seconds = perf_counter() - started
        is_binary = after.n_classes == 2
        result = MethodResult(
            method=method,
            title="as they came" if calibrator is None else type(calibrator).__name__,
            evaluation=self._evaluate(after),
            difference=None,
            curve=reliability_curve(
                after,
                n_bins=self._n_bins,
                strategy="quantile" if is_binary else "uniform",  # those of the verdict's error
                n_resamples=5 * self._n_resamples,
                random_state=self._seed,
            ),
            test=self._test_predictions(after, "positive") if is_binary else None,
            shares=class_shares(after),
            classwise_test=None if is_binary else self._test_predictions(after, "classwise"),
            mean_confidence=float(np.average(after.rows.max(axis=1), weights=after.weight)),
            classwise=compute_classwise(after, n_worst=0, n_bins=self._n_bins),
            calibrator=calibrator,
            fit_seconds=0.0,
            predict_seconds=0.0 if calibrator is None else seconds,
            warnings=(),
        )
        self._losses[method] = LogLoss().terms(after)
        return result

    def with_differences(self, results: Sequence[MethodResult]) -> tuple[MethodResult, ...]:
        """Add comparisons with the baseline and with auto."""
        baseline = baseline_of(self._test.n_classes)
        differences = self._differences(baseline if baseline in self._losses else UNCALIBRATED)
        beside_auto = self._differences(DEFAULT) if DEFAULT in self._losses else {}
        return tuple(
            replace(
                result,
                difference=differences.get(result.method),
                beside_auto=beside_auto.get(result.method),
            )
            for result in results
        )

    def with_details(self, comparison: Comparison, costs: ArrayLike | None) -> Comparison:
        """Add groups, segments and decisions, before calibration and with the method applied."""
        names = (UNCALIBRATED, comparison.verdict.applied)
        after = {
            result.method: self._predict(result.calibrator)
            for result in comparison.results
            if result.method in names
        }
        if self._groups is not None:
            judged = {method: self._evaluate(rows, self._groups) for method, rows in after.items()}
            groups = {name: each.by_group for name, each in judged.items() if each.by_group}
            comparison = replace(comparison, by_group=groups)
        if self._features is not None:
            segments = {
                method: calibration_segments(rows, features=self._features, random_state=self._seed)
                for method, rows in after.items()
            }
            comparison = replace(comparison, segments=segments)
        if costs is not None:
            decisions = judge_decisions(after, costs, self._level)
            comparison = replace(comparison, decisions=decisions)
        return comparison

    def _evaluate(self, after: Predictions, groups: Labels | None = None) -> Evaluation:
        return evaluate(
            after,
            n_bins=self._n_bins,
            groups=groups,
            n_resamples=self._n_resamples,
            confidence_level=self._level,
            random_state=self._seed,
        )

    def _test_predictions(
        self, after: Predictions, metric: Literal["positive", "classwise"]
    ) -> CalibrationTest | None:
        """Test the positive class, or all of them; None without resamples."""
        n_draws = self._n_resamples
        if n_draws == 0:
            return None
        return calibration_test(
            after,
            metric=metric,
            n_bins=self._n_bins,
            n_resamples=n_draws if metric == "classwise" else 5 * n_draws,
            random_state=self._seed,
        )

    def _differences(self, reference: str) -> dict[str, Difference]:
        """Compare all methods with one of them on the same rows."""
        others = [name for name in self._losses if name != reference]
        gaps = [self._losses[name] - self._losses[reference] for name in others]
        level = self._level if self._n_resamples else None
        return dict(zip(others, paired_differences(gaps, self._test.weight, level), strict=True))

    def _predict(self, calibrator: Calibrator | None) -> Predictions:
        test = self._test
        if calibrator is None:
            rows = test.probabilities()
        elif isinstance(calibrator, GroupedCalibrator):
            rows = calibrator.predict_proba(test, groups=self._groups)
        elif isinstance(calibrator, FeatureCalibrator):
            rows = calibrator.predict_proba(test, features=self._features)
        else:
            rows = calibrator.predict_proba(test)
        # Labels were checked before: here they are columns, which get their names back.
        result = read_predictions(test.class_index, rows, test.weight, np.arange(test.n_classes))
        return replace(result, classes=test.classes)


def judge_decisions(
    judged: Mapping[str, Predictions], costs: ArrayLike, confidence_level: float
) -> Decisions:
    """Measure decisions on the predictions of two methods: as they came first, then calibrated."""
    methods = [*judged]
    first, last = judged[methods[0]], judged[methods[-1]]
    with notices.kept():  # of the order of columns metrics have warned
        paid = {
            method: expected_cost(rows, costs=costs, confidence_level=confidence_level)
            for method, rows in judged.items()
        }
        value = value_of_calibration(
            first.class_index,
            first.rows,
            last.rows,
            costs,
            confidence_level=confidence_level,
            sample_weight=first.weight,
            classes=np.arange(first.n_classes),
        )
    return Decisions(methods[-1], value, paid)


def paired_differences(
    gaps: Sequence[Floats], weight: Floats, level: float | None
) -> list[Difference]:
    """Test mean differences of losses, with Holm's correction; a level of None is no test."""
    result = [_paired_difference(gap, weight, level) for gap in gaps]
    corrected = holm(np.array([difference.p_value for difference in result])).tolist()
    return [replace(difference, p_holm=p) for difference, p in zip(result, corrected, strict=True)]


def _paired_difference(gap: Floats, weight: Floats, level: float | None) -> Difference:
    """Test a mean difference of losses, row by row, by Student's t."""
    value = float(weight @ gap / weight.sum())
    if level is None or len(gap) < 2:
        p_value = math.nan if level is None else 1.0  # one row tells nothing
        return Difference(value, math.nan, math.nan, p_value, p_value)
    _, error, n_free = student(row_sums(gap - value, weight))
    if error == 0.0:
        p_value = 1.0 if value == 0.0 else 0.0
        return Difference(value, value, value, p_value, p_value)
    reach = float(stdtrit(n_free, 0.5 + 0.5 * level)) * error
    p_value = float(2.0 * stdtr(n_free, -abs(value) / error))
    return Difference(value, value - reach, value + reach, p_value, p_value)
