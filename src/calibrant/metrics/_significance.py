"""Is the calibration error larger than chance? Consistency resampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._kernels import resampling
from calibrant.metrics._bins import ClassBins, ProblemBins, bin_edges, check_bins, uniform_bins
from calibrant.metrics._chunk import usual_column
from calibrant.metrics._counted import add_up, classes_of, read
from calibrant.metrics._normal_null import (
    CellProducts,
    null_classes,
    null_problem,
    problem_bodies,
)
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._predictions import Predictions
from calibrant.metrics._resampling import (
    MOST_ROWS_DRAWN,
    Resamples,
    null_bins,
    null_errors,
    p_value,
)
from calibrant.metrics._result import Result

if TYPE_CHECKING:
    from calibrant._maps.base import Floats
    from calibrant.metrics._chunk import Chunk

TESTED_METRICS = ("positive", "confidence", "classwise")
NULL_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


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


@inherit_parameters
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
    metric : {None, "positive", "confidence", "classwise"}, default=None
        The statistic: :func:`positive_ece`, :func:`confidence_ece` or :func:`classwise_ece`. None
        is that of the positive class if there are two classes, and of the confidence if more.
    n_resamples : int, default=1000
        The p-value is no smaller than 1 / (1 + n_resamples).
    sample_weight : array-like of shape (n_rows,), optional
        A row of weight 2 is one event that counts double here, not two events.
    resample_rows : bool, optional
        Draw rows as well as labels, as published; False keeps the rows and draws labels only. By
        default rows are kept for ``metric="classwise"``, whose p-values would be too small.

    Returns
    -------
    CalibrationTest
        The statistic, its p-value and quantiles of the error under the hypothesis.

    Notes
    -----
    With ``resample_rows=False`` the p-value is exact at any size: given the rows, the labels of
    the data and the labels drawn are alike under the hypothesis. A draw of rows leaves a third of
    them out, so bins with few rows have fewer: the error of the draws comes out too small, and the
    p-value with it, when there are about as many bins (times classes) as rows.

    Of Dask collections and ``Chunks`` rows stay as they are, and no labels are drawn: given the
    rows, the labels in a bin are a sum of independent events, whose means, variances and, between
    classes, covariances are counted in one pass; resamples are drawn from the normal distribution
    that has them. So are those of the positive class and of the confidence of more than 50,000 rows
    in memory. ``metric="classwise"`` takes at most 1,024 bins then, of all classes together, and
    needs some thousand rows. docs/metrics.md has how often honest predictions are rejected.

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
    simplex.check_option("metric", metric, (None, *TESTED_METRICS))
    check_bins(n_bins)
    simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    draws = {"n_resamples": int(n_resamples), "random_state": random_state}
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    n_classes = len(classes_of(source))
    metric = tested_metric(metric, n_classes)
    column = usual_column(2) if metric == "positive" else None
    replace = metric != "classwise" if resample_rows is None else bool(resample_rows)
    with threads.jobs(n_jobs):
        if not isinstance(source, Predictions):
            return judge_sums(metric, add_up(source, _bodies(metric, n_classes, n_bins)), **draws)
        if metric == "classwise":
            statistic = source.measure(ClassBins(n_classes, int(n_bins)))[0]
            return _result(metric, statistic, _class_null(source, int(n_bins), replace, **draws))
        if source.n_rows > MOST_ROWS_DRAWN:
            states = add_up(source, _bodies(metric, n_classes, n_bins))
            return judge_sums(metric, states, replace=replace, **draws)
        statistic = source.measure(ProblemBins(int(n_bins), column=column))[0]
        events = source.events(column)
        bins = uniform_bins(events.values, bin_edges(int(n_bins)))
        null = null_bins(events, bins, int(n_bins), replace=replace, **draws)
        return _result(metric, statistic, null_errors(null))


def _bodies(metric: str, n_classes: int, n_bins: int) -> dict[str, Any]:
    """Return what is added up for a test without rows."""
    if metric == "classwise":
        size = n_classes, int(n_bins)
        return {"bins": ClassBins(*size), "products": CellProducts(*size)}
    return problem_bodies(int(n_bins), usual_column(2) if metric == "positive" else None)


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
        null_quantiles=tuple(
            zip(NULL_LEVELS, np.quantile(null, NULL_LEVELS).tolist(), strict=True)
        ),
        n_resamples=len(null),
    )


def judge_sums(metric: str, states: dict[str, Any], **draws: Any) -> CalibrationTest:
    """Test predictions from sums over the bins."""
    statistic = states["bins"].value()
    if metric == "classwise":
        return _result(metric, statistic, null_classes(**states, **draws))
    return _result(metric, statistic, null_errors(null_problem(**states, **draws)))


def _class_null(
    predictions: Predictions, n_bins: int, replace: bool, n_resamples: int, random_state: Any
) -> Floats:
    """Class-wise error of each resample, with labels drawn from the rows."""
    resamples = Resamples(predictions.n_rows, n_resamples, random_state, replace=replace)
    found = []
    for block in resamples.blocks(8 * predictions.n_classes * n_bins):
        gaps = np.zeros((len(block), predictions.n_classes, n_bins))
        weights = np.zeros(len(block))
        for c, chunk in enumerate(predictions.chunks()):
            _add_null_gaps(resamples, block, c, chunk, gaps, weights)
        found.append(np.abs(gaps).sum(axis=(1, 2)) / weights)
    errors: Floats = np.concatenate(found) / predictions.n_classes
    return errors


def _add_null_gaps(
    resamples: Resamples, block: range, c: int, chunk: Chunk, gaps: Floats, weights: Floats
) -> None:
    """Add the rows of the ``c``-th chunk, as they are drawn, with labels drawn from them."""
    bins = uniform_bins(chunk.rows, bin_edges(gaps.shape[2]))
    cumulative = np.cumsum(chunk.rows, axis=1)
    if not resamples.replace:  # the same rows every time
        kept = np.zeros(gaps.shape[1:])
        resampling.add_class_gaps(chunk.rows, bins, chunk.weight, kept)
        gaps += kept

    def add(r: int) -> None:
        at, rows = r - block.start, resamples.rows(r) - chunk.start
        if len(bins) < resamples.n_rows:
            rows = rows[(rows >= 0) & (rows < len(bins))]
        if resamples.replace:
            mass = np.bincount(rows, minlength=len(bins)) * chunk.weight
            resampling.add_class_gaps(chunk.rows, bins, mass, gaps[at])
        weights[at] += chunk.weight[rows].sum()
        uniforms = resamples.uniforms(r, len(rows), c)
        resampling.subtract_null_labels(cumulative, bins, chunk.weight, rows, uniforms, gaps[at])

    resamples.each(add, block)
