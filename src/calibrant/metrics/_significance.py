"""Consistency resampling: ``calibration_test``, and the bars of ``reliability_curve``.

If the predictions are right, the hits of a bin are a sum of independent events of known
probabilities. Of many rows they are drawn from the normal distribution that has the same mean and
variance, instead of row by row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._gate import check_number, check_option
from calibrant._kernels import metrics as kernels
from calibrant._predictions import column_of, log_odds, name_of, read_rows
from calibrant._result import Result, doc, result
from calibrant.metrics._calibration_error import (
    BIN_STRATEGIES,
    ClassBins,
    bin_edges,
    check_bins,
    errors_in,
    find_bins,
    mass_edges,
    sums_in_bins,
    uniform_bins,
)
from calibrant.metrics._intervals import generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant._predictions import EventRows, Predictions
    from calibrant.metrics._intervals import Seed
    from calibrant.scale import Chunks

TESTED_METRICS = ("positive", "confidence", "classwise")

MOST_ROWS_DRAWN = 50_000
"""Rows up to which labels are drawn one by one. Of more, their sums in bins are normal, to the
digits that are printed."""

MOST_COVARIANCES = 1 << 10  # bins of all classes whose covariances are computed: 8 MiB
N_TASKS = 64  # tasks that the resamples are dealt to
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
    pos_label: Any = None,
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
    rows = read_rows(y_true, y_proba, sample_weight, classes, pos_label)
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
    score = Score.of(events) if is_positive else None
    factor = None if score is None else score.factor
    sums, along = draws.sums(events, bins, len(sums), factor)
    null = errors_in(sums)
    error_p_value = chance = p_value(statistic, null)
    trend_p_value = math.nan
    if score is not None:
        gap = events.weight * (events.hits - events.values)
        trend = float(score.statistic(gap.sum(), gap @ score.factor))
        null_trend = score.statistic((sums[..., 1] - sums[..., 2]).sum(axis=1), along)
        trend_p_value = p_value(trend, null_trend)
        chance = _joint_p_value([(statistic, null), (trend, null_trend)])
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


def p_value(statistic: float, null: Floats) -> float:
    """Return (1 + how many resamples reach the statistic) / (1 + how many there are)."""
    # Sums in another order differ in the last digits: what agrees to twelve counts as reached.
    reached = np.count_nonzero(null >= statistic * (1.0 - 1e-12) - 1e-15)
    return (1 + int(reached)) / (1 + len(null))


def _joint_p_value(tests: list[tuple[float, Floats]]) -> float:
    """Return the p-value of the least p-value of tests that share their draws.

    If the predictions are right, data and draws are exchangeable, and so are their least p-values.
    """
    least = np.full(1 + len(tests[0][1]), np.inf)
    for statistic, null in tests:
        values = np.append(statistic, null)
        reached = values * (1.0 - 1e-12) - 1e-15  # as in p_value
        least = np.minimum(least, len(values) - np.searchsorted(np.sort(values), reached))
    return float(np.count_nonzero(least <= least[0]) / len(least))


class Score(NamedTuple):
    """Score statistic of intercept 0 and slope 1: squares of two sums that are uncorrelated.

    The sums are of label - prediction, and of the same times the ``factor``: the log-odds of the
    prediction, less their mean by variance.
    """

    factor: Floats
    variances: tuple[float, float]
    rounding: float
    """A sum that is zero but for rounding."""

    @classmethod
    def of(cls, events: EventRows) -> Score:
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


class Draws:
    """Rows drawn with replacement, as many as there are, or each once, and labels of them."""

    def __init__(self, n_rows: int, n_resamples: int, random_state: Seed, *, replace: bool) -> None:
        self.n_rows, self.n_resamples, self.replace = n_rows, n_resamples, replace
        self.random_state = random_state
        self._entropy = generator(random_state).integers(0, 1 << 32, size=4).tolist()

    def _generator(self, resample: int, purpose: int) -> np.random.Generator:
        seed = np.random.SeedSequence(self._entropy, spawn_key=(resample, purpose))
        return np.random.Generator(np.random.PCG64(seed))

    def rows_and_uniforms(self, resample: int) -> tuple[Wholes, Floats]:
        """Return the rows of a resample, and numbers in [0, 1) that choose their labels."""
        rows = np.arange(self.n_rows)
        if self.replace:
            drawing = self._generator(resample, 0)
            rows = drawing.integers(0, self.n_rows, size=self.n_rows, dtype=np.int64)
        return rows.astype(np.intp, copy=False), self._generator(resample, 1).random(self.n_rows)

    def each(self, work: Callable[[int], None]) -> None:
        """Call ``work`` for each resample, in threads."""

        def do(part: range) -> None:
            for resample in part:
                work(resample)

        step = max(1, self.n_resamples // N_TASKS)
        every = range(self.n_resamples)
        list(threads.each(do, [every[start : start + step] for start in every[::step]]))

    def sums(
        self, events: EventRows, bins: NDArray[Any], n_bins: int, factor: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return weight, hits and values in each bin of each resample, with hits drawn.

        And the sum of hits - values times a factor, which is 0 if there is none.
        """
        if self.n_rows > MOST_ROWS_DRAWN:
            return self._normal_sums(events, bins, n_bins, factor)
        # Draws belong to places: in an order of the rows' own, that of the data changes nothing.
        order = np.lexsort((events.hits, events.weight, events.values))
        values, _, weight = events.take(order)
        places, one_bin = bins[order].astype(np.int32), np.zeros(len(bins), dtype=np.int32)
        scaled = None if factor is None else weight * factor[order]
        sums, along = np.zeros((self.n_resamples, n_bins, 3)), np.zeros((self.n_resamples, 1, 3))

        def add(r: int) -> None:
            drawn = self.rows_and_uniforms(r)
            kernels.add_null_bins(values, weight, places, *drawn, sums[r])
            if scaled is not None:
                kernels.add_null_bins(values, scaled, one_bin, *drawn, along[r])

        self.each(add)
        return sums, along[:, 0, 1] - along[:, 0, 2]

    def _normal_sums(
        self, events: EventRows, bins: NDArray[Any], n_bins: int, factor: Floats | None
    ) -> tuple[Floats, Floats]:
        """Return the same of normal distributions: of labels and, with ``replace``, of rows."""
        values, _, weight = events
        total, _, said = sums_in_bins(events, bins, n_bins).T
        noise = generator(self.random_state).standard_normal((2, self.n_resamples, n_bins))
        variance = weight**2 * values * (1.0 - values)
        deviation = np.sqrt(np.bincount(bins, variance, n_bins))
        gaps, means = deviation * noise[0], np.broadcast_to(said, noise[0].shape)
        if self.replace:
            spread = weight**2 * (values - _ratio(said, total)[bins]) ** 2
            means = means + np.sqrt(np.bincount(bins, spread, n_bins)) * noise[1]
        sums = np.stack([np.broadcast_to(total, gaps.shape), means + gaps, means], axis=2)
        if factor is None:
            return sums, np.zeros(self.n_resamples)
        # In each bin the sum of label - prediction and that times the factor are correlated.
        both, of_factor = (np.bincount(bins, variance * own, n_bins) for own in (factor, factor**2))
        link = np.divide(both, deviation, out=np.zeros_like(both), where=deviation > 0.0)
        rest = np.sqrt(np.maximum(of_factor - link * link, 0.0))
        return sums, (link * noise[0] + rest * noise[1]).sum(axis=1)


def class_null(rows: Predictions, n_bins: int, draws: Draws) -> Floats:
    """Return the class-wise error of each resample, with labels drawn from the rows."""
    if rows.n_rows > MOST_ROWS_DRAWN and rows.n_classes * n_bins <= MOST_COVARIANCES:
        return _normal_class_null(rows, n_bins, draws)
    bins, cumulative = uniform_bins(rows.rows, n_bins), np.cumsum(rows.rows, axis=1)
    predicted, null = np.zeros((rows.n_classes, n_bins)), np.empty(draws.n_resamples)
    kernels.add_class_gaps(rows.rows, bins, rows.weight, predicted)

    def add(r: int) -> None:
        gaps = predicted.copy()
        drawn = draws.rows_and_uniforms(r)
        kernels.subtract_null_labels(cumulative, bins, rows.weight, *drawn, gaps)
        null[r] = np.abs(gaps).sum() / (rows.weight.sum() * rows.n_classes)

    draws.each(add)
    return null


def _normal_class_null(rows: Predictions, n_bins: int, draws: Draws) -> Floats:
    """Class-wise error of each resample of many rows, by the covariance of labels in bins.

    Of one row it is p_j (1 - p_j), and -p_j p_l for two classes; p_j is the sum of p_j p_l over all
    classes, so that sums of products are enough.
    """
    n_cells = rows.n_classes * n_bins
    sums, bins = np.zeros((n_cells, n_cells)), uniform_bins(rows.rows, n_bins)
    kernels.add_cell_products(rows.rows, bins, rows.weight * rows.weight, n_bins, sums)
    products = sums + sums.T - np.diag(np.diag(sums))
    covariance = np.diag(products.sum(axis=1)) - products
    with threads.few_blas_threads(0):
        values, vectors = np.linalg.eigh(covariance)
        noise = generator(draws.random_state).standard_normal((draws.n_resamples, n_cells))
        gaps = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    null: Floats = np.abs(gaps).sum(axis=1) / (rows.n_classes * float(rows.weight.sum()))
    return null


@result(eq=False)
class ReliabilityCurve(Result):
    """Result of :func:`reliability_curve`; arrays have one number per bin and are read-only."""

    kind: Any = doc("Label of the class, or 'confidence'.")
    edges: Floats = doc("Bin b is (edges[b], edges[b + 1]], the first with its lower edge.")
    mean_probability: Floats = doc("Mean prediction in each bin; NaN in empty bins.")
    frequency: Floats = doc("Observed frequency of the class in each bin.")
    weight: Floats = doc("Total weight in each bin.")
    consistency_low: Floats = doc("Lower end of the band of frequencies under calibration.")
    consistency_high: Floats = doc("Upper end of the band; NaN without resamples.")
    consistency_level: float = doc("Level of the band.")
    ece: float = doc("Mean over rows of |mean_probability - frequency|.")
    p_value: float = doc("P-value of ``ece`` under calibration; NaN without resamples.")

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.weight)


def reliability_curve(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    kind: Any = None,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    n_resamples: int = 1000,
    consistency_level: float = 0.95,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> ReliabilityCurve:
    """Compute predicted probabilities and observed frequencies in bins, with consistency bars.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label, random_state, n_jobs
        As in :func:`evaluate`.
    kind : None, "confidence" or a label, default=None
        Whether the largest probability of each row, or the probability of one class, is compared
        with labels. None is the positive (second) class of two, and the confidence for more.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal mass (as in :func:`confidence_ece`; empty ones are left
        out, so there may be fewer).
    n_resamples : int, default=1000
        Number of resamples for the consistency bars and the p-value; 0 for none.
    consistency_level : float, default=0.95
        Level of the consistency bars.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all; resampling draws it once.

    Returns
    -------
    ReliabilityCurve
        Predictions and frequencies in each bin, and the band of frequencies under calibration.

    Notes
    -----
    Rows are resampled as well as labels. Bars and p-value of more than 50,000 rows are of normal
    distributions (:func:`calibration_test`). The curve of chunks is that of a sample of their rows.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability Diagrams",
       Weather and Forecasting 22, 2007.

    Examples
    --------
    >>> from calibrant.metrics import reliability_curve
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> curve = reliability_curve([0, 1, 1, 1], y_proba, n_bins=4)
    >>> curve.kind, curve.edges
    (1, array([0.  , 0.25, 0.5 , 0.75, 1.  ]))
    >>> curve.mean_probability.round(3), curve.frequency.round(3)
    (array([nan, 0.3, 0.6, 0.9]), array([nan, 0.5, 1. , 1. ]))
    """
    check_bins(n_bins, strategy)
    check_number("n_resamples", n_resamples, low=0, whole=True)
    check_number("consistency_level", consistency_level, low=0.0, high=1.0)
    threads.check_jobs("n_jobs", n_jobs)
    rows = read_rows(y_true, y_proba, sample_weight, classes, pos_label)
    column, level = column_of(rows.classes, kind), float(consistency_level)
    events = rows.events(column)
    edges, bins = bin_edges(int(n_bins)), find_bins(events, int(n_bins), strategy)
    if strategy == "quantile":
        edges, bins = mass_edges(events.values, bins)
    sums = sums_in_bins(events, bins, len(edges) - 1)
    weight, happened, said = sums.T
    ece, chance = float(errors_in(sums)), math.nan
    bars = np.full((2, len(weight)), np.nan)
    if n_resamples > 0:
        with threads.jobs(n_jobs):
            draws = Draws(rows.n_rows, int(n_resamples), random_state, replace=True)
            null, _ = draws.sums(events, bins, len(sums))
        chance, seen = p_value(ece, errors_in(null)), null[..., 0].any(axis=0)
        frequency = _ratio(null[:, seen, 1], null[:, seen, 0])
        ends = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
        bars[:, seen] = np.nanquantile(frequency, ends, axis=0).clip(0.0, 1.0)
    return ReliabilityCurve(
        kind=name_of(rows.classes, column),
        edges=edges,
        mean_probability=_ratio(said, weight),
        frequency=_ratio(happened, weight),
        weight=weight.copy(),
        consistency_low=bars[0].copy(),
        consistency_high=bars[1].copy(),
        consistency_level=level,
        ece=ece,
        p_value=chance,
    )


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """Return quotients; NaN where the divisor is 0."""
    result: Floats = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=result, where=bottom > 0)
    return result
