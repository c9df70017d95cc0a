"""Judging one method after the other on the test part, and their differences by a bootstrap."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._trial import UNCALIBRATED
from calibrant.metrics import calibration_test, class_shares, evaluate, reliability_curve
from calibrant.metrics._predictions import read_predictions
from calibrant.metrics._resampling import drawn_means
from calibrant.metrics._result import doc, result
from calibrant.metrics._shares import holm
from calibrant.plots._classwise import class_curves, compute_classwise
from calibrant.plots._confidence import (
    compute_confidence_histogram,
    compute_effect,
    compute_top_r,
)
from calibrant.plots._maps import compute_map
from calibrant.report._results import BASELINE, MethodResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._simplex import SimplexBatch
    from calibrant.metrics._predictions import Predictions

KEPT_BYTES = 1 << 28
"""Predictions of methods that are kept for the diagrams of classes; more are made once more."""

MOST_RANKS = 100

FEWEST_RESAMPLES = 2000
"""Resamples, unless there are very many rows: p-values of 0.001, many times corrected."""

MOST_ROWS_DRAWN_IN_ALL = 200_000_000


class Judge:
    """The test part, and how methods are judged on it; options as in :func:`compare`."""

    def __init__(
        self, test: SimplexBatch, n_bins: int, n_resamples: int, level: float, random_state: Any
    ) -> None:
        self._test = test
        self._n_resamples, self._level = int(n_resamples), level
        self._losses: dict[str, NDArray[np.float64]] = {}
        self._kept: dict[str, Predictions] = {UNCALIBRATED: self._read(test.probabilities())}
        self._draws = {"n_resamples": self._n_resamples, "random_state": random_state}
        self._options: dict[str, Any] = {"n_bins": n_bins, **self._draws}

    def judge(self, calibrator: Calibrator | None, method: str) -> MethodResult:
        """Judge a fitted calibrator, or the predictions as they came; diagrams come later."""
        started = perf_counter()
        after = self._predict(method, calibrator)
        seconds = perf_counter() - started
        is_binary = self._test.n_classes == 2
        options = self._options
        more_draws = {**options, "n_resamples": 5 * self._n_resamples}
        top = effect = found_map = None
        if not is_binary:
            top = compute_top_r(None, after, max_rank=min(self._test.n_classes - 1, MOST_RANKS))
        if calibrator is not None:
            first, weight = self._kept[UNCALIBRATED], self._test.weight
            effect = compute_effect(first, after, sample_weight=weight)
            found_map = compute_map(calibrator)
        result = MethodResult(
            method=method,
            title="as they came" if calibrator is None else type(calibrator).__name__,
            evaluation=evaluate(None, after, confidence_level=self._level, **options),
            difference=None,
            curve=reliability_curve(None, after, **more_draws),
            shares=replace(class_shares(None, after), classes=self._test.classes),
            classwise_test=calibration_test(None, after, metric="classwise", **options)
            if self._n_resamples and not is_binary
            else None,
            confidence=compute_confidence_histogram(None, after),
            classwise=compute_classwise(None, after, n_worst=0, n_bins=options["n_bins"]),
            top_r=top,
            effect=effect,
            map=found_map,
            calibrator=calibrator,
            fit_seconds=0.0,
            predict_seconds=0.0 if calibrator is None else seconds,
            warnings=(),
        )
        self._losses[method] = np.concatenate([chunk.losses() for chunk in after.chunks()])
        return result

    def finish(
        self, results: list[MethodResult], n_diagrams: int
    ) -> tuple[list[MethodResult], tuple[int, ...]]:
        """Add the comparison with temperature scaling, and the diagrams of some classes."""
        baseline = BASELINE if BASELINE in self._losses else UNCALIBRATED
        others = [name for name in self._losses if name != baseline]
        found = paired_differences(
            np.array([self._losses[name] for name in others]).reshape(-1, self._test.n_rows),
            self._losses[baseline],
            self._test.weight,
            n_resamples=paired_resamples(self._test.n_rows, self._n_resamples),
            level=self._level,
            random_state=self._draws["random_state"],
        )
        differences = dict(zip(others, found, strict=True))
        shown = self._shown(results, n_diagrams)
        finished = [
            replace(
                result,
                difference=differences.get(result.method),
                classwise=self._with_curves(result, shown),
            )
            for result in results
        ]
        return finished, shown

    def _read(self, rows: NDArray[np.float64]) -> Predictions:
        """Check predictions for the test part, once for everything that is made of them."""
        test = self._test
        weight = None if np.all(test.weight == test.weight[0]) else test.weight
        return read_predictions(test.class_index, rows, weight, np.arange(test.n_classes)).checked()

    def _predict(self, method: str, calibrator: Calibrator | None) -> Predictions:
        if method in self._kept or calibrator is None:
            return self._kept[method]
        after = self._read(calibrator.predict_proba(self._test))
        if after.matrix.nbytes * (1 + len(self._kept)) <= KEPT_BYTES:
            self._kept[method] = after
        return after

    def _shown(self, results: list[MethodResult], n_diagrams: int) -> tuple[int, ...]:
        """Columns of the worst classes before and after, and of the most frequent, in turn.

        None of two: the first diagram is that of the positive one, and of the other its mirror.
        """
        if self._test.n_classes == 2:
            return ()
        best = min(results, key=lambda result: result.evaluation.negative_log_likelihood.value)
        counts = np.bincount(self._test.class_index, minlength=self._test.n_classes)
        lists = (
            results[0].classwise.order,
            best.classwise.order,
            np.argsort(-counts, kind="stable"),
        )
        mixed = np.array(lists).T[:n_diagrams].ravel()
        return tuple(dict.fromkeys(mixed.tolist()))[:n_diagrams]

    def _with_curves(self, result: MethodResult, shown: tuple[int, ...]) -> Any:
        if not shown:
            return result.classwise
        after = self._predict(result.method, result.calibrator)
        curves = class_curves(after, shown, **self._draws)
        return replace(result.classwise, curves=curves)


@result()
class Difference:
    """NLL of a method minus that of the baseline, on the same rows."""

    value: float = doc("Below zero if the method is better.")
    low: float = doc("Bootstrap percentile interval; NaN without resamples.")
    high: float = doc("Bootstrap percentile interval; NaN without resamples.")
    p_value: float = doc("Two-sided, of 'there is no difference'.")
    p_holm: float = doc("The same after Holm's correction for the number of methods compared.")


def paired_differences(
    losses: NDArray[np.float64],
    baseline: NDArray[np.float64],
    weight: NDArray[np.float64],
    *,
    n_resamples: int,
    level: float,
    random_state: Any,
) -> list[Difference]:
    """Compare the losses of several methods, one row of ``losses`` each, with the baseline's.

    All methods are judged on the same draws of rows. Rows are drawn with their weights.
    """
    gaps = losses - baseline
    values = gaps @ (weight / weight.sum())
    if n_resamples == 0:
        nan = float("nan")
        return [Difference(float(v), nan, nan, nan, nan) for v in values]
    draws = drawn_means(gaps, weight, n_resamples, random_state)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
    below = np.count_nonzero(draws <= 0, axis=1)
    above = np.count_nonzero(draws >= 0, axis=1)
    p = np.minimum(2 * (1 + np.minimum(below, above)) / (1 + n_resamples), 1.0)
    return [
        Difference(*(float(v) for v in found))
        for found in zip(values, low, high, p, holm(p), strict=True)
    ]


def paired_resamples(n_rows: int, n_resamples: int) -> int:
    """How many resamples the paired comparison needs and can afford, if any were asked for."""
    asked_for = max(25 * n_resamples, FEWEST_RESAMPLES) if n_resamples else 0
    return min(asked_for, max(1000, MOST_ROWS_DRAWN_IN_ALL // max(n_rows, 1)))
