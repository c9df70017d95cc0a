"""Is the calibration error larger than chance? Consistency resampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex, threads
from calibrant.kernels import resampling
from calibrant.metrics.bins import (
    ClassBins,
    bin_edges,
    errors_of,
    problem_sums,
    uniform_bins,
)
from calibrant.metrics.chunk import usual_column
from calibrant.metrics.counted import count, read_chunks
from calibrant.metrics.normal_null import CellProducts, null_classes, null_problem
from calibrant.metrics.predictions import read_predictions
from calibrant.metrics.reliability import problem_counts
from calibrant.metrics.resampling import (
    MOST_ROWS_DRAWN,
    Resamples,
    null_bins,
    null_errors,
    p_value,
)
from calibrant.metrics.result import Result

if TYPE_CHECKING:
    from calibrant.maps.base import Floats
    from calibrant.metrics.bins import ProblemBins
    from calibrant.metrics.chunk import Chunk
    from calibrant.metrics.normal_null import BinMoments
    from calibrant.metrics.predictions import Predictions
    from calibrant.scale.chunks import Chunks

METRICS = ("positive", "confidence", "classwise")
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class CalibrationTest(Result):
    """Result of :func:`calibration_test`.

    Attributes
    ----------
    metric : {"positive", "confidence", "classwise"}
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
    metric: str | None = None,
    n_bins: int = 15,
    n_resamples: int = 1000,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    resample_rows: bool | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> CalibrationTest:
    """Test the hypothesis that predictions are calibrated, by consistency resampling.

    Rows are drawn with replacement, labels are drawn from the predictions themselves, and the
    calibration error is computed: what a perfectly calibrated classifier with such predictions
    would show. The p-value says how often that is as large as the error of the data.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label
        As in :func:`accuracy`.
    metric : {None, "positive", "confidence", "classwise"}, default=None
        The statistic: :func:`positive_ece`, :func:`confidence_ece` or :func:`classwise_ece`. None
        is that of the positive class if there are two classes, and of the confidence if more.
    n_bins : int, default=15
        Number of bins, of equal width.
    n_resamples : int, default=1000
        The p-value is no smaller than 1 / (1 + n_resamples).
    sample_weight : array-like of shape (n_rows,), optional
        A row of weight 2 is one event that counts double here, not two events.
    resample_rows : bool, optional
        Draw rows as well as labels, as published; False keeps the rows and draws labels only. By
        default rows are kept for ``metric="classwise"``, whose p-values would be too small.
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
    them out, so bins with few rows have fewer: the error of the draws comes out too small, and the
    p-value with it, when there are about as many bins (times classes) as rows. In simulations with
    honest predictions, 300 rows of ten classes and ``metric="classwise"``, 9 % of p-values were
    below 0.05 if rows were drawn, and 22 % of sharp or weighted predictions; 4 to 8 % if they were
    kept. Of the confidence and of the positive class 3 to 8 % were, either way, and 11 % of 30 rows
    of two classes.

    Of Dask collections and ``Chunks`` rows stay as they are, and no labels are drawn: given the
    rows, the labels in a bin are a sum of independent events, whose means, variances and, between
    classes, covariances are counted in one pass; resamples are drawn from the normal distribution
    that has them. Of the confidence and of the positive class that is as good: 5 to 8 % of p-values
    were below 0.05, from 30 rows on. ``metric="classwise"`` needs more rows, as most of its bins
    hold few labels: of ten classes, 10 % were with 300 rows, and 5 % with 3,000. It takes at most
    1,024 bins, of all classes together. The positive class and the confidence of more than 50,000
    rows in memory are tested from such sums as well.

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
    simplex.check_option("metric", metric, (None, *METRICS))
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    told = {"classes": classes, "pos_label": pos_label}
    draws = {"n_resamples": int(n_resamples), "random_state": random_state}
    chunks = read_chunks(y_true, y_proba, sample_weight)
    if chunks is not None:
        with threads.jobs(n_jobs):
            return _test_chunks(chunks, told, metric, int(n_bins), draws)
    predictions = read_predictions(y_true, y_proba, sample_weight, **told)
    metric = tested_metric(metric, predictions.n_classes)
    draws["replace"] = metric != "classwise" if resample_rows is None else bool(resample_rows)
    with threads.jobs(n_jobs):
        if metric == "classwise":
            return _result(metric, *_test_classes(predictions, int(n_bins), draws))
        return _test_problem(predictions, metric, int(n_bins), draws)


def tested_metric(metric: str | None, n_classes: int) -> str:
    """Return what is tested of so many classes; refuse the positive one of more than two."""
    column = usual_column(n_classes)
    if metric is None:
        return "confidence" if column is None else "positive"
    if metric == "positive" and column is None:
        raise errors.ParameterError(
            f"metric='positive' is for two classes, and there are {n_classes}; take 'confidence' "
            "or 'classwise'"
        )
    return metric


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
    chunks: Chunks, told: dict[str, Any], metric: str | None, n_bins: int, draws: dict[str, Any]
) -> CalibrationTest:
    """Test rows in chunks, from what one pass over them counts."""
    tested: list[str] = []

    def start(known: Any) -> dict[str, Any]:
        tested.append(tested_metric(metric, len(known)))
        if tested[0] == "classwise":
            size = len(known), n_bins
            return {"bins": ClassBins(*size), "products": CellProducts(*size)}
        column = usual_column(2) if tested[0] == "positive" else None
        return dict(zip(("bins", "moments"), problem_counts(n_bins, column), strict=True))

    found = count(chunks, told, start)
    if tested[0] == "classwise":
        return _result("classwise", found["bins"].value(), null_classes(**found, **draws))
    return judge_problem(tested[0], **found, **draws)


def judge_problem(
    metric: str, bins: ProblemBins, moments: BinMoments, **draws: Any
) -> CalibrationTest:
    """Test the confidence or the positive class from sums over the bins."""
    null = null_problem(bins, moments, **{"replace": False, **draws})
    return _result(metric, bins.value(), null_errors(null))


def _test_problem(
    predictions: Predictions, metric: str, n_bins: int, draws: dict[str, Any]
) -> CalibrationTest:
    column = usual_column(2) if metric == "positive" else None
    if predictions.n_rows > MOST_ROWS_DRAWN:
        bins, moments = problem_counts(n_bins, column)
        for chunk in predictions.chunks():
            bins.add(chunk)
            moments.add(chunk)
        return judge_problem(metric, bins, moments, **draws)
    problem = predictions.problem(column)
    in_bin = uniform_bins(problem.values, bin_edges(n_bins))
    statistic = float(errors_of(problem_sums(problem, in_bin, n_bins)[None], "l1")[0])
    return _result(metric, statistic, null_errors(null_bins(problem, in_bin, n_bins, **draws)))


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
