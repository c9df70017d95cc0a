"""``calibration_test`` and ``reliability_curve``, beside what right predictions would show.

If they are right, the label of a row is 1 with the probability p that was predicted, whatever the
other labels are. Labels of a moderate number of rows are drawn one by one. Of many rows the sums
over a bin are drawn from the normal distribution with their mean and variance,

    hits of bin b ~ N(sum_b w p, sum_b w^2 p (1 - p)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._gate import check_number, check_option
from calibrant._kernels import metrics as kernels
from calibrant._predictions import column_of, log_odds, name_of, source_of
from calibrant._result import Result, doc, result
from calibrant.metrics import _calibration_error as binned
from calibrant.metrics._intervals import generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from calibrant._predictions import EventRows, Predictions
    from calibrant._types import Array, Floats, Label, Wholes
    from calibrant.metrics._intervals import Seed
    from calibrant.scale import Chunks

CONSISTENCY = 0.95  # level of the bars
TESTED_METRICS = ("positive", "confidence", "classwise")

ROUNDING = 1e-9
"""A sum over rows that is zero but for rounding, in units of the root of squared weights."""

MOST_ROWS_DRAWN = 50_000  # number of rows above which sums are drawn from normal distributions
MOST_COVARIANCES = 1 << 10
"""Number of bins of all classes above which their covariance matrix (8 MiB) is not computed."""

N_TASKS = 64  # number of tasks that the resamples are dealt to


class Draws:
    """Rows of each resample and the random numbers that choose their labels.

    Rows are drawn with replacement, as many as there are, or each once. Every resample has random
    numbers of its own, so that threads change nothing.
    """

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


def null_sums(
    events: EventRows,
    bins: Array,
    n_bins: int,
    draws: Draws,
    factor: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the sums of each resample in bins, with hits drawn from the values, and its trend.

    Sums are weight, hits and values of each bin, all weighted: (n_resamples, n_bins, 3). The trend
    is the sum of hits - values times a factor of each row; zero without one.
    """
    if draws.n_rows > MOST_ROWS_DRAWN:
        return _normal_sums(events, bins, n_bins, draws, factor)
    # Draws belong to places: in an order of the rows' own, that of the data changes nothing.
    order = np.lexsort((events.hits, events.weight, events.values))
    values, _, weight = events.take(order)
    places, one_bin = bins[order].astype(np.int32), np.zeros(len(bins), dtype=np.int32)
    scaled = None if factor is None else weight * factor[order]
    sums, along = np.zeros((draws.n_resamples, n_bins, 3)), np.zeros((draws.n_resamples, 1, 3))

    def add(r: int) -> None:
        drawn = draws.rows_and_uniforms(r)
        kernels.add_null_bins(values, weight, places, *drawn, sums[r])
        if scaled is not None:
            kernels.add_null_bins(values, scaled, one_bin, *drawn, along[r])

    draws.each(add)
    return sums, along[:, 0, 1] - along[:, 0, 2]


def _normal_sums(
    events: EventRows, bins: Array, n_bins: int, draws: Draws, factor: Floats | None
) -> tuple[Floats, Floats]:
    """Return the same of normal distributions: of labels and, with ``replace``, of rows."""
    values, _, weight = events
    total, _, said = binned.sums_in_bins(events, bins, n_bins).T
    noise = generator(draws.random_state).standard_normal((2, draws.n_resamples, n_bins))
    variance = weight**2 * values * (1.0 - values)
    deviation = np.sqrt(np.bincount(bins, variance, n_bins))
    gaps, means = deviation * noise[0], np.broadcast_to(said, noise[0].shape)
    if draws.replace:
        # Of n_b rows drawn from a bin, the sum of their values varies by that of w (p - mean p).
        spread = weight**2 * (values - ratio(said, total)[bins]) ** 2
        means = means + np.sqrt(np.bincount(bins, spread, n_bins)) * noise[1]
    sums = np.stack([np.broadcast_to(total, gaps.shape), means + gaps, means], axis=2)
    if factor is None:
        return sums, np.zeros(draws.n_resamples)
    # In each bin the gap and the gap times the factor are correlated: the second is a multiple of
    # the first, and a rest that is independent of it.
    both, of_factor = (np.bincount(bins, variance * f, n_bins) for f in (factor, factor**2))
    slope = np.divide(both, deviation, out=np.zeros_like(both), where=deviation > 0.0)
    rest = np.sqrt(np.maximum(of_factor - slope * slope, 0.0))
    return sums, (slope * noise[0] + rest * noise[1]).sum(axis=1)


def class_null(rows: Predictions, n_bins: int, draws: Draws) -> Floats:
    """Return the class-wise error of each resample, with labels drawn from the rows."""
    if rows.n_rows > MOST_ROWS_DRAWN and rows.n_classes * n_bins <= MOST_COVARIANCES:
        return _normal_class_null(rows, n_bins, draws)
    bins, cumulative = binned.uniform_bins(rows.rows, n_bins), np.cumsum(rows.rows, axis=1)
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
    """Return the class-wise error of each resample of many rows, by the covariance of the bins.

    That of the labels of one row is p_j (1 - p_j) for a class j and -p_j p_l for two classes. Since
    p_j is the sum of p_j p_l over all classes l, sums of products p_j p_l are enough.
    """
    n_cells = rows.n_classes * n_bins
    sums, bins = np.zeros((n_cells, n_cells)), binned.uniform_bins(rows.rows, n_bins)
    kernels.add_cell_products(rows.rows, bins, rows.weight * rows.weight, n_bins, sums)
    products = sums + sums.T - np.diag(np.diag(sums))
    covariance = np.diag(products.sum(axis=1)) - products
    with threads.few_blas_threads(0):  # whose number would change the last bits
        values, vectors = np.linalg.eigh(covariance)
        noise = generator(draws.random_state).standard_normal((draws.n_resamples, n_cells))
        gaps = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    null: Floats = np.abs(gaps).sum(axis=1) / (rows.n_classes * float(rows.weight.sum()))
    return null


LESS, ROUNDED = 1.0 - 1e-12, 1e-15
"""A statistic is reached by LESS times it less ROUNDED: sums in another order differ so much."""


def p_value(statistic: float, null: Floats) -> float:
    """Return (1 + how many resamples reach the statistic) / (1 + how many there are)."""
    return (1 + int(np.count_nonzero(null >= statistic * LESS - ROUNDED))) / (1 + len(null))


def joint_p_value(tests: list[tuple[float, Floats]]) -> float:
    """Return the p-value of the least p-value of tests that share their draws.

    If the predictions are right, data and draws are exchangeable, and so are their least p-values.
    """
    least = np.full(1 + len(tests[0][1]), np.inf)
    for statistic, null in tests:
        values = np.append(statistic, null)
        n_below = np.searchsorted(np.sort(values), values * LESS - ROUNDED)
        least = np.minimum(least, len(values) - n_below)
    return float(np.count_nonzero(least <= least[0]) / len(least))


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Return quotients; NaN where the divisor is 0."""
    result: Floats = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=result, where=bottom > 0)
    return result


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
    check_option("strategy", strategy, (None, *binned.BIN_STRATEGIES))
    binned.check_bins(n_bins)
    check_number("n_resamples", n_resamples, low=1, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    rows = source_of(y_true, y_proba, sample_weight, classes, pos_label).in_memory()
    tested = metric or ("positive" if rows.n_classes == 2 else "confidence")
    if tested == "positive" and rows.n_classes != 2:
        raise errors.ParameterError(
            f"metric='positive' is for two classes, but there are {rows.n_classes}; use "
            "'confidence' or 'classwise'",
            argument="metric",
            value=metric,
        )
    if tested == "classwise" and strategy == "quantile":
        raise errors.ParameterError(
            f"strategy={strategy!r} is for metric='positive' and 'confidence'; the class-wise "
            "error has bins of equal width",
            argument="strategy",
            value=strategy,
        )
    draws = Draws(rows.n_rows, int(n_resamples), random_state, replace=tested == "confidence")
    with threads.jobs(n_jobs):
        return test_problem(rows, tested, int(n_bins), strategy, draws)


def test_problem(
    rows: Predictions, metric: str, n_bins: int, strategy: str | None, draws: Draws
) -> CalibrationTest:
    """Test predictions by their error in bins and, the positive class of two, by the trend."""
    is_positive = metric == "positive"
    strategy = strategy or ("quantile" if is_positive else "uniform")
    trend_p_value = math.nan
    if metric == "classwise":
        statistic = float(binned.errors_in(binned.ClassBins(n_bins).sums(rows)).mean())
        null = class_null(rows, n_bins, draws)
        error_p_value = chance = p_value(statistic, null)
    else:
        events = rows.events(1 if is_positive else None)
        bins = binned.find_bins(events, n_bins, strategy)
        sums = binned.sums_in_bins(events, bins)
        factor, score = trend_score(events) if is_positive else (None, None)
        drawn, null_along = null_sums(events, bins, len(sums), draws, factor)
        statistic, null = float(binned.errors_in(sums)), binned.errors_in(drawn)
        error_p_value = chance = p_value(statistic, null)
        if score is not None and factor is not None:
            gap = events.weight * (events.hits - events.values)
            trend = float(score(np.asarray(gap.sum()), np.asarray(gap @ factor)))
            null_trend = score((drawn[..., 1] - drawn[..., 2]).sum(axis=1), null_along)
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


def trend_score(events: EventRows) -> tuple[Floats, Callable[[Floats, Floats], Floats]]:
    """Return x of each row, and the score statistic of a = 0, b = 1 in logit(q) = a + b logit(p).

    With x the log-odds of p, less their mean weighted by w^2 p (1 - p), the gaps
    U = sum w (y - p) and V = sum w (y - p) x are uncorrelated if q = p, and the statistic is
    U^2 / Var U + V^2 / Var V: a function of U and V. It is infinite for a sum that cannot be,
    unless that is rounding.
    """
    squares = events.weight**2
    variance = squares * events.values * (1.0 - events.values)
    total = float(variance.sum())
    x = log_odds(events.values)
    x -= float(variance @ x) / total if total > 0.0 else 0.0
    variances = total, float(variance @ (x * x))
    rounding = ROUNDING * math.sqrt(float(squares.sum()))

    def statistic(*sums: Floats) -> Floats:
        result = np.zeros(np.shape(sums[0]))
        for value, own in zip(sums, variances, strict=True):
            impossible = np.where(np.abs(value) > rounding, np.inf, 0.0)
            result += value * value / own if own > rounding**2 else impossible
        return result

    return x, statistic


@result(eq=False)
class ReliabilityCurve(Result):
    """Result of :func:`reliability_curve`; arrays have one number per bin and are read-only."""

    kind: Label = doc("Label of the class, or 'confidence'.")
    edges: Floats = doc("Bin b is (edges[b], edges[b + 1]], the first with its lower edge.")
    mean_probability: Floats = doc("Mean prediction in each bin; NaN in empty bins.")
    frequency: Floats = doc("Observed frequency of the class in each bin.")
    weight: Floats = doc("Total weight in each bin.")
    consistency_low: Floats = doc("Lower end of 95 % of frequencies under calibration.")
    consistency_high: Floats = doc("Upper end of these; NaN without resamples.")
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
    kind: object = None,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    n_resamples: int = 1000,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
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
    binned.check_bins(n_bins, strategy)
    check_number("n_resamples", n_resamples, low=0, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    rows = source_of(y_true, y_proba, sample_weight, classes, pos_label).in_memory()
    column = column_of(rows.classes, kind)
    events = rows.events(column)
    edges = np.linspace(0.0, 1.0, int(n_bins) + 1)
    bins = binned.find_bins(events, int(n_bins), strategy)
    if strategy == "quantile":
        edges, bins = binned.mass_edges(events.values, bins)
    sums = binned.sums_in_bins(events, bins, len(edges) - 1)
    weight, happened, said = sums.T
    ece, chance = float(binned.errors_in(sums)), math.nan
    bars = np.full((2, len(weight)), np.nan)
    if n_resamples > 0:
        with threads.jobs(n_jobs):
            draws = Draws(rows.n_rows, int(n_resamples), random_state, replace=True)
            null, _ = null_sums(events, bins, len(sums), draws)
        chance, seen = p_value(ece, binned.errors_in(null)), null[..., 0].any(axis=0)
        frequency = ratio(null[:, seen, 1], null[:, seen, 0])
        ends = [(1.0 - CONSISTENCY) / 2.0, (1.0 + CONSISTENCY) / 2.0]
        bars[:, seen] = np.nanquantile(frequency, ends, axis=0).clip(0.0, 1.0)
    return ReliabilityCurve(
        kind=name_of(rows.classes, column),
        edges=edges,
        mean_probability=ratio(said, weight),
        frequency=ratio(happened, weight),
        weight=weight.copy(),
        consistency_low=bars[0].copy(),
        consistency_high=bars[1].copy(),
        ece=ece,
        p_value=chance,
    )
