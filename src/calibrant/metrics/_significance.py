"""``calibration_test``: whether predictions are right, by consistency resampling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._gate import check_number, check_option
from calibrant._predictions import in_memory, log_odds
from calibrant._result import Result, doc, result
from calibrant.metrics._calibration_error import (
    BIN_STRATEGIES,
    ClassBins,
    check_bins,
    errors_in,
    find_bins,
    sums_in_bins,
)
from calibrant.metrics._null import Draws, class_null, joint_p_value, null_sums, p_value

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._predictions import EventRows, Predictions
    from calibrant._types import Floats, Label
    from calibrant.metrics._intervals import Seed
    from calibrant.scale import Chunks

TESTED_METRICS = ("positive", "confidence", "classwise")

ROUNDING = 1e-9
"""A sum over rows that is zero but for rounding, in units of the root of squared weights."""


@result()
class CalibrationTest(Result):
    """Result of :func:`calibration_test`."""

    metric: str
    statistic: float = doc("Calibration error of the predictions.")
    p_value: float = doc("P-value: of the error and, for the positive class, of the trend as one.")
    null_mean: float = doc("Mean calibration error under calibration.")
    n_resamples: int
    strategy: str = doc("Bins of equal width ('uniform') or of equal mass ('quantile').")
    error_p_value: float = doc("P-value of the calibration error alone.")
    trend_p_value: float = doc(
        "P-value of intercept 0 and slope 1 of Cox's recalibration alone, for the positive class."
    )


def calibration_test(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    metric: Literal["positive", "confidence", "classwise"] | None = None,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] | None = None,
    n_resamples: int = 1000,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> CalibrationTest:
    """Test the hypothesis that predictions are calibrated, by consistency resampling.

    Labels are drawn from the predictions, which gives the calibration error of a perfectly
    calibrated classifier. The p-value is the share of resamples whose error is at least as large as
    that of the data, (1 + number of these) / (1 + n_resamples).

    The positive class of two is tested twice on the same draws: by its error, and by the score test
    of intercept 0 and slope 1 in logit(q) = a + b logit(p), which sees reversed, shifted and too
    extreme predictions also of a rare class. The p-value is that of both as one test.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label, random_state, n_jobs
        As in :func:`evaluate`.
    metric : {None, "positive", "confidence", "classwise"}, default=None
        Test statistic: :func:`positive_ece`, :func:`confidence_ece` or :func:`classwise_ece`. None
        is "positive" for two classes, and "confidence" for more.
    n_bins : int, default=15
        Number of bins.
    strategy : {None, "uniform", "quantile"}, default=None
        Bins of equal width or of equal mass. None is "quantile" for "positive" and "uniform" for
        the others; "classwise" has no other.
    n_resamples : int, default=1000
        Number of resamples; the p-value is at least 1 / (1 + n_resamples).
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A row of weight 2 is one event that counts double, not two events.

    Returns
    -------
    CalibrationTest
        The error, its p-value, and its distribution under calibration.

    Notes
    -----
    For the confidence, rows are drawn as well as labels, as published. For the others, only labels
    are drawn, and p-values are exact at any size: a draw of rows leaves a third of them out, and
    with few rows p-values would be too small. Of more than 50,000 rows, labels in bins are drawn
    from the normal distribution with their mean and (co)variance. Chunks are tested by a sample of
    their rows.

    References
    ----------
    .. [1] J. Vaicenavicius et al., "Evaluating Model Calibration in Classification", AISTATS 2019.
    .. [2] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability Diagrams",
       Weather and Forecasting 22, 2007.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics import calibration_test
    >>> honest, y = simulated_scores(500, power=1)
    >>> calibration_test(y, honest).p_value > 0.05
    True
    >>> bold = honest**2 / (honest**2).sum(axis=1, keepdims=True)
    >>> calibration_test(y, bold).p_value < 0.01
    True
    """
    check_option("metric", metric, (None, *TESTED_METRICS))
    check_option("strategy", strategy, (None, *BIN_STRATEGIES))
    check_bins(n_bins)
    check_number("n_resamples", n_resamples, low=1, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    rows = in_memory(y_true, y_proba, sample_weight, classes, pos_label)
    tested = metric or ("positive" if rows.n_classes == 2 else "confidence")
    if tested == "positive" and rows.n_classes != 2:
        raise errors.ParameterError(
            f"metric='positive' is for two classes, but there are {rows.n_classes}; use "
            "'confidence' or 'classwise'"
        )
    draws = Draws(rows.n_rows, int(n_resamples), random_state, replace=tested == "confidence")
    with threads.jobs(n_jobs):
        if tested != "classwise":
            return test_problem(rows, tested, int(n_bins), strategy, draws)
        if strategy == "quantile":
            raise errors.ParameterError(
                f"strategy={strategy!r} is for metric='positive' and 'confidence'; the class-wise "
                "error has bins of equal width"
            )
        statistic = float(errors_in(ClassBins(int(n_bins)).sums(rows)).mean())
        null = class_null(rows, int(n_bins), draws)
    chance = p_value(statistic, null)
    return CalibrationTest(
        metric=tested,
        statistic=statistic,
        p_value=chance,
        null_mean=float(null.mean()),
        n_resamples=len(null),
        strategy="uniform",
        error_p_value=chance,
        trend_p_value=math.nan,
    )


def test_problem(
    rows: Predictions, metric: str, n_bins: int, strategy: str | None, draws: Draws
) -> CalibrationTest:
    """Test the predictions of one event by their error in bins and, of a class, by the trend."""
    is_positive = metric == "positive"
    strategy = strategy or ("quantile" if is_positive else "uniform")
    events = rows.events(1 if is_positive else None)
    bins = find_bins(events, n_bins, strategy)
    sums = sums_in_bins(events, bins)
    statistic = float(errors_in(sums))
    score = TrendScore.of(events) if is_positive else None
    drawn = null_sums(events, bins, len(sums), draws, None if score is None else score.factor)
    null = errors_in(drawn.bins)
    error_p_value = chance = p_value(statistic, null)
    trend_p_value = math.nan
    if score is not None:
        gap = events.weight * (events.hits - events.values)
        trend = float(score.statistic(gap.sum(), gap @ score.factor))
        null_gap = (drawn.bins[..., 1] - drawn.bins[..., 2]).sum(axis=1)
        null_trend = score.statistic(null_gap, drawn.trend)
        trend_p_value = p_value(trend, null_trend)
        chance = joint_p_value([(statistic, null), (trend, null_trend)])
    return CalibrationTest(
        metric=metric,
        statistic=statistic,
        p_value=chance,
        null_mean=float(null.mean()),
        n_resamples=len(null),
        strategy=strategy,
        error_p_value=error_p_value,
        trend_p_value=trend_p_value,
    )


class TrendScore(NamedTuple):
    """Score statistic of a = 0 and b = 1 in logit(q) = a + b logit(p).

    With x the log-odds of p, less their mean weighted by w^2 p (1 - p), the gaps
    U = sum w (y - p) and V = sum w (y - p) x are uncorrelated if q = p, and the statistic is
    U^2 / Var U + V^2 / Var V.
    """

    factor: Floats
    """x of each row."""
    variances: tuple[float, float]
    """Of U and V."""
    rounding: float
    """A sum that is zero but for rounding."""

    @classmethod
    def of(cls, events: EventRows) -> TrendScore:
        """Return the statistic of some rows."""
        squares = events.weight**2
        variance = squares * events.values * (1.0 - events.values)
        total = float(variance.sum())
        factor = log_odds(events.values)
        factor -= float(variance @ factor) / total if total > 0.0 else 0.0
        variances = total, float(variance @ (factor * factor))
        return cls(factor, variances, ROUNDING * math.sqrt(float(squares.sum())))

    def statistic(self, *sums: Any) -> Any:
        """Return the statistic; infinite for a sum that cannot be, unless it is rounding."""
        result = np.zeros(np.shape(sums[0]))
        for value, variance in zip(sums, self.variances, strict=True):
            impossible = np.where(np.abs(value) > self.rounding, np.inf, 0.0)
            result += value * value / variance if variance > self.rounding**2 else impossible
        return result
