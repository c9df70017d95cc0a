"""Is the calibration error larger than chance? Consistency resampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex, threads
from calibrant.kernels import resampling
from calibrant.metrics.bins import (
    ClassBins,
    ProblemBins,
    bin_edges,
    errors_of,
    problem_sums,
    uniform_bins,
)
from calibrant.metrics.counted import count, read_chunks
from calibrant.metrics.normal_null import BinMoments, CellProducts, null_classes, null_problem
from calibrant.metrics.predictions import read_predictions
from calibrant.metrics.resampling import (
    Resamples,
    null_bins,
    null_errors,
    p_value,
)
from calibrant.metrics.result import Result

if TYPE_CHECKING:
    from calibrant.maps.base import Floats
    from calibrant.metrics.chunk import Chunk
    from calibrant.metrics.predictions import Predictions
    from calibrant.scale.chunks import Chunks

METRICS = ("confidence", "classwise")
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class CalibrationTest(Result):
    """Result of :func:`calibration_test`.

    Attributes
    ----------
    metric : {"confidence", "classwise"}
    statistic : float
        The calibration error of the data.
    p_value : float
        (1 + number of resamples whose error is as large) / (1 + n_resamples).
    null_mean : float
        Mean error of perfectly calibrated predictions like these: what of the statistic is only
        the size of the sample.
    null_quantiles : tuple of (level, error)
        Quantiles of that error.
    n_resamples : int
    """

    metric: str
    statistic: float
    p_value: float
    null_mean: float
    null_quantiles: tuple[tuple[float, float], ...]
    n_resamples: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers."""
        return Result.to_dict(self) | {"null_quantiles": dict(self.null_quantiles)}


def calibration_test(
    y_true: Any,
    y_proba: Any,
    *,
    metric: str = "confidence",
    n_bins: int = 15,
    n_resamples: int = 1000,
    sample_weight: Any = None,
    classes: Any = None,
    resample_rows: bool = True,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> CalibrationTest:
    """Test the hypothesis that predictions are calibrated, by consistency resampling.

    Rows are drawn with replacement, labels are drawn from the predictions themselves, and the
    calibration error is computed: what a perfectly calibrated classifier with such predictions
    would show. The p-value says how often that is as large as the error of the data.

    Parameters
    ----------
    y_true, y_proba, classes
        As in :func:`accuracy`.
    metric : {"confidence", "classwise"}, default="confidence"
        The statistic: :func:`confidence_ece` or :func:`classwise_ece`.
    n_bins : int, default=15
        Number of bins, of equal width.
    n_resamples : int, default=1000
        The p-value is no smaller than 1 / (1 + n_resamples).
    sample_weight : array-like of shape (n_rows,), optional
        A row of weight 2 is one event that counts double here, not two events.
    resample_rows : bool, default=True
        As published. False keeps the rows as they are and draws labels only.
    random_state : None, int, SeedSequence or Generator, default=0
        Seeds the draws.
    n_jobs : int, optional
        Threads for the resamples; their number changes no bit. -1 is all cores, -2 all but one.
        None is what ``joblib.parallel_config`` says, else 1.

    Returns
    -------
    CalibrationTest
        The statistic, its p-value and quantiles of the error under the hypothesis.

    Notes
    -----
    With ``resample_rows=False`` the p-value is exact at any size: given the rows, the labels of
    the data and the labels drawn are alike under the hypothesis. A draw of rows leaves a third of
    them out, so bins with few rows have fewer: the error of the draws comes out a little small,
    and the p-value with it, when there are about as many bins (times classes) as rows. In
    simulations with 300 rows, ten classes and ``metric="classwise"``, 7 % of p-values were below
    0.05; with the confidence, 4 to 5 %.

    Of Dask collections and ``Chunks`` rows stay as they are, and no labels are drawn: given the
    rows, the labels in a bin are a sum of independent events, whose means, variances and, between
    classes, covariances are counted in one pass; resamples are drawn from the normal distribution
    that has them. In simulations with 100 rows of three classes and more, 2 to 6 % of p-values
    were below 0.05. ``metric="classwise"`` takes at most 1,024 bins, of all classes together.

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
    simplex.check_option("metric", metric, METRICS)
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    chunks = read_chunks(y_true, y_proba, sample_weight)
    if chunks is not None:
        with threads.jobs(n_jobs):
            return _test_chunks(chunks, metric, n_bins, classes, int(n_resamples), random_state)
    predictions = read_predictions(y_true, y_proba, sample_weight, classes)
    run = _test_confidence if metric == "confidence" else _test_classes
    draws = {"n_resamples": int(n_resamples), "random_state": random_state}
    draws["replace"] = bool(resample_rows)
    with threads.jobs(n_jobs):
        statistic, null = run(predictions, int(n_bins), draws)
    return _result(metric, statistic, null)


def _result(metric: str, statistic: float, null: Floats) -> CalibrationTest:
    return CalibrationTest(
        metric=metric,
        statistic=statistic,
        p_value=p_value(statistic, null),
        null_mean=math.fsum(null) / len(null),
        null_quantiles=tuple(zip(LEVELS, np.quantile(null, LEVELS).tolist(), strict=True)),
        n_resamples=len(null),
    )


def _test_chunks(
    chunks: Chunks,
    metric: str,
    n_bins: int,
    classes: Any,
    n_resamples: int,
    random_state: Any,
) -> CalibrationTest:
    """Test rows in chunks, from what one pass over them counts."""
    if metric == "confidence":
        found = count(
            chunks, classes, lambda _: {"bins": ProblemBins(n_bins), "moments": BinMoments(n_bins)}
        )
        return judge_problem(**found, n_resamples=n_resamples, random_state=random_state)
    found = count(
        chunks,
        classes,
        lambda known: {
            "bins": ClassBins(len(known), n_bins),
            "products": CellProducts(len(known), n_bins),
        },
    )
    null = null_classes(**found, n_resamples=n_resamples, random_state=random_state)
    return _result(metric, found["bins"].value(), null)


def judge_problem(
    bins: ProblemBins, moments: BinMoments, *, n_resamples: int, random_state: Any
) -> CalibrationTest:
    """Test the confidence from sums over the bins."""
    null = null_problem(bins, moments, n_resamples, random_state, replace=False)
    return _result("confidence", bins.value(), null_errors(null))


def _test_confidence(
    predictions: Predictions, n_bins: int, draws: dict[str, Any]
) -> tuple[float, Floats]:
    problem = predictions.confidence()
    bins = uniform_bins(problem.values, bin_edges(n_bins))
    statistic = float(errors_of(problem_sums(problem, bins, n_bins)[None], "l1")[0])
    return statistic, null_errors(null_bins(problem, bins, n_bins, **draws))


def _test_classes(
    predictions: Predictions, n_bins: int, draws: dict[str, Any]
) -> tuple[float, Floats]:
    statistic = predictions.measure(ClassBins(predictions.n_classes, n_bins))[0]
    resamples = Resamples(predictions.sizes(), **draws)
    null = [
        _null_class_errors(predictions, resamples, block, n_bins)
        for block in resamples.blocks(8 * predictions.n_classes * n_bins)
    ]
    return statistic, np.concatenate(null)


def _null_class_errors(
    predictions: Predictions, resamples: Resamples, block: range, n_bins: int
) -> Floats:
    """Class-wise error of some resamples, with labels drawn from the rows."""
    gaps = np.zeros((len(block), predictions.n_classes, n_bins))
    weights = np.zeros(len(block))
    edges = bin_edges(n_bins)
    for c, chunk in enumerate(predictions.chunks()):
        bins = uniform_bins(chunk.rows, edges)
        if not resamples.replace:  # the same rows every time
            own = np.zeros(gaps.shape[1:])
            resampling.add_class_gaps(chunk.rows, bins, chunk.weight, own)
            gaps += own
        _add_null_gaps(resamples, block, c, chunk, bins, gaps, weights)
    errors: Floats = np.abs(gaps).sum(axis=(1, 2)) / weights
    return errors / predictions.n_classes


def _add_null_gaps(
    resamples: Resamples,
    block: range,
    c: int,
    chunk: Chunk,
    bins: Any,
    gaps: Floats,
    weights: Floats,
) -> None:
    """Add the rows of the ``c``-th chunk, as they are drawn, with labels drawn from them."""
    cumulative = np.cumsum(chunk.rows, axis=1)

    def add(r: int) -> None:
        at, rows = r - block.start, resamples.rows(r, c)
        if resamples.replace:
            mass = np.bincount(rows, minlength=len(bins)) * chunk.weight
            resampling.add_class_gaps(chunk.rows, bins, mass, gaps[at])
        weights[at] += chunk.weight[rows].sum()
        uniforms = resamples.uniforms(r, c, len(rows))
        resampling.subtract_null_labels(cumulative, bins, chunk.weight, rows, uniforms, gaps[at])

    resamples.each(add, block)
