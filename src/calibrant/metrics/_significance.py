"""Is the calibration error larger than chance? Consistency resampling.

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
from calibrant._predictions import log_odds, read_rows
from calibrant._result import Result, doc, result
from calibrant.metrics._calibration_error import (
    BIN_STRATEGIES,
    ClassBins,
    check_bins,
    errors_in,
    find_bins,
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
NULL_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

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
    null_quantiles: tuple[tuple[float, float], ...] = doc("Quantiles of this error.")
    n_resamples: int
    strategy: str = doc("Bins of equal width ('uniform') or of equal mass ('quantile').", "uniform")
    error_p_value: float = doc("P-value of the calibration error alone.", math.nan)
    trend_p_value: float = doc(
        "P-value of intercept 0 and slope 1 of Cox's recalibration alone, for the positive class.",
        math.nan,
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers."""
        return Result.to_dict(self) | {"null_quantiles": dict(self.null_quantiles)}


def calibration_test(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    metric: Literal["positive", "confidence", "classwise"] | None = None,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] | None = None,
    n_resamples: int = 1000,
    resample_rows: bool | None = None,
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
    resample_rows : bool, optional
        Whether to resample rows as well as labels, as published. By default only for
        ``metric="confidence"``: p-values of the others would be too small with few rows.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A row of weight 2 is one event that counts double, not two events.

    Returns
    -------
    CalibrationTest
        The error, its p-value, and its distribution under calibration.

    Notes
    -----
    With ``resample_rows=False`` the p-value is exact at any size. A draw of rows leaves a third of
    them out, so that p-values are too small where there are about as many bins as rows. Of more
    than 50,000 rows, labels in bins are drawn from the normal distribution with their mean and
    (co)variance. Chunks are tested by a sample of their rows.

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
    tested, binned = _chosen(metric, strategy, rows.n_classes)
    replace = tested == "confidence" if resample_rows is None else bool(resample_rows)
    draws = Draws(rows.n_rows, int(n_resamples), random_state, replace=replace)
    with threads.jobs(n_jobs):
        if tested == "classwise":
            sums = ClassBins(int(n_bins)).sums(rows)
            return _result(tested, float(errors_in(sums).mean()), class_null(rows, n_bins, draws))
        events = rows.events(1 if tested == "positive" else None)
        bins = find_bins(events, int(n_bins), binned)
        return _test_problem(tested, events, bins, binned, draws)


def _chosen(metric: str | None, strategy: str | None, n_classes: int) -> tuple[str, str]:
    """Return the metric that is tested and its bins; refuse what does not go together."""
    metric = metric or ("positive" if n_classes == 2 else "confidence")
    if metric == "positive" and n_classes != 2:
        raise errors.ParameterError(
            f"metric='positive' is for two classes, but there are {n_classes}; use 'confidence' "
            "or 'classwise'"
        )
    if metric == "classwise" and strategy == "quantile":
        raise errors.ParameterError(
            f"strategy={strategy!r} is for metric='positive' and 'confidence'; the class-wise "
            "error has bins of equal width"
        )
    return metric, strategy or ("quantile" if metric == "positive" else "uniform")


def _result(
    metric: str,
    statistic: float,
    null: Floats,
    strategy: str = "uniform",
    trend: tuple[float, Floats] | None = None,
) -> CalibrationTest:
    """Return the result of a test by an error, and by a trend if there is one."""
    both = [(statistic, null)] if trend is None else [(statistic, null), trend]
    return CalibrationTest(
        metric=metric,
        statistic=statistic,
        p_value=_joint_p_value(both),
        strategy=strategy,
        error_p_value=p_value(statistic, null),
        trend_p_value=math.nan if trend is None else p_value(*trend),
        null_mean=float(null.mean()),
        null_quantiles=tuple(
            zip(NULL_LEVELS, np.quantile(null, NULL_LEVELS).tolist(), strict=True)
        ),
        n_resamples=len(null),
    )


def p_value(statistic: float, null: Floats) -> float:
    """(1 + how many resamples reach the statistic) / (1 + how many there are)."""
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


def _test_problem(
    metric: str, events: EventRows, bins: NDArray[Any], strategy: str, draws: Draws
) -> CalibrationTest:
    """Test the predictions of one event by their error in bins and, of a class, by the trend."""
    n_bins = 1 + int(bins.max())
    statistic = float(errors_in(sums_in_bins(*events, bins, n_bins)[None])[0])
    score, factor = Score.of(events)
    if draws.n_rows <= MOST_ROWS_DRAWN:
        sums, along = draws.sums(events, bins, n_bins, factor if metric == "positive" else None)
        gaps, total = sums[:, :, 1] - sums[:, :, 2], sums[:, :, 0].sum(axis=1)
    else:
        gaps, along = _normal_gaps(events, bins, n_bins, factor, draws)
        total = events.weight.sum()
    trend = None
    if metric == "positive":
        gap = events.weight * (events.hits - events.values)
        trend = float(score(gap.sum(), gap @ factor)), score(gaps.sum(axis=1), along)
    return _result(metric, statistic, np.abs(gaps).sum(axis=1) / total, strategy, trend)


def _normal_gaps(
    events: EventRows, bins: NDArray[Any], n_bins: int, factor: Floats, draws: Draws
) -> tuple[Floats, Floats]:
    """Draw the gaps of bins, and their sum times the factor, from normal distributions.

    In each bin the sum of label - prediction and that times the factor are correlated.
    """
    variance = events.weight**2 * events.values * (1.0 - events.values)
    of_labels, both, of_factor = (
        np.bincount(bins, terms, n_bins)
        for terms in (variance, variance * factor, variance * factor**2)
    )
    first = np.sqrt(of_labels)
    link = np.divide(both, first, out=np.zeros_like(first), where=first > 0.0)
    rest = np.sqrt(np.maximum(of_factor - link * link, 0.0))
    noise = generator(draws.random_state).standard_normal((2, draws.n_resamples, n_bins))
    return first * noise[0], (link * noise[0] + rest * noise[1]).sum(axis=1)


class Score(NamedTuple):
    """Score statistic of intercept 0 and slope 1: squares of two sums that are uncorrelated."""

    of_sum: float
    """Variance of the sum of label - prediction under calibration."""
    of_factor: float
    """Variance of the same times the log-odds, less their mean by variance."""
    rounding: float
    """A sum that is zero but for rounding."""

    @classmethod
    def of(cls, events: EventRows) -> tuple[Score, Floats]:
        """Return the statistic, and the factor of each prediction in its second sum."""
        squares = events.weight**2
        variance = squares * events.values * (1.0 - events.values)
        total = float(variance.sum())
        factor = log_odds(events.values)
        factor -= float(variance @ factor) / total if total > 0.0 else 0.0
        rounding = ROUNDING * math.sqrt(float(squares.sum()))
        return cls(total, float(variance @ (factor * factor)), rounding), factor

    def __call__(self, of_sum: Any, of_factor: Any) -> Any:
        """Return the statistic; infinite for a sum that cannot be, unless it is rounding."""
        total = np.zeros(np.shape(of_sum))
        for value, variance in ((of_sum, self.of_sum), (of_factor, self.of_factor)):
            impossible = np.where(np.abs(value) > self.rounding, np.inf, 0.0)
            total += value * value / variance if variance > self.rounding**2 else impossible
        return total


class Draws:
    """Rows drawn with replacement, as many as there are, or each once, and labels of them."""

    def __init__(
        self, n_rows: int, n_resamples: int, random_state: Seed, *, replace: bool = True
    ) -> None:
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

        And the sum of hits - values times a factor, if there is one.
        """
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


def class_null(rows: Predictions, n_bins: int, draws: Draws) -> Floats:
    """Class-wise error of each resample, with labels drawn from the rows."""
    if rows.n_rows > MOST_ROWS_DRAWN and rows.n_classes * n_bins <= MOST_COVARIANCES:
        return _normal_class_null(rows, n_bins, draws)
    bins, cumulative = uniform_bins(rows.rows, n_bins), np.cumsum(rows.rows, axis=1)
    predicted, null = np.zeros((rows.n_classes, n_bins)), np.empty(draws.n_resamples)
    kernels.add_class_gaps(rows.rows, bins, rows.weight, predicted)

    def add(r: int) -> None:
        drawn, uniforms = draws.rows_and_uniforms(r)
        gaps, mass = predicted.copy(), rows.weight  # the same rows every time
        if draws.replace:
            gaps[:], mass = 0.0, np.bincount(drawn, minlength=rows.n_rows) * rows.weight
            kernels.add_class_gaps(rows.rows, bins, mass, gaps)
        kernels.subtract_null_labels(cumulative, bins, rows.weight, drawn, uniforms, gaps)
        null[r] = np.abs(gaps).sum() / (mass.sum() * rows.n_classes)

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
