"""Is the calibration error larger than chance? Consistency resampling.

If the predictions are right, the hits of a bin are a sum of independent events of known
probabilities: of rows in chunks, and of very many, their mean and variance are counted, and hits
are drawn from the normal distribution that has both, instead of row by row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._kernels import resampling
from calibrant._kernels.metrics import HIT, VALUE, WEIGHT, add_binned, add_cell_products
from calibrant.metrics import _calibration_error as binned
from calibrant.metrics import _resampling as draw
from calibrant.metrics._measures import RowSums, usual_column
from calibrant.metrics._predictions import Predictions
from calibrant.metrics._reading import of_predictions
from calibrant.metrics._result import Result, doc, result

if TYPE_CHECKING:
    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._measures import Chunk, SummedState
    from calibrant.metrics._reading import Source

TESTED_METRICS = ("positive", "confidence", "classwise")
NULL_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

MOST_COVARIANCES = 1 << 10
"""Bins of all classes whose covariances are counted: 16 MiB."""


@result()
class CalibrationTest(Result):
    """Result of :func:`calibration_test`."""

    metric: str
    statistic: float = doc("Calibration error of the predictions.")
    p_value: float = doc("(1 + number of resamples whose error is as large) / (1 + n_resamples).")
    null_mean: float = doc("Mean calibration error under calibration.")
    null_quantiles: tuple[tuple[float, float], ...] = doc("Quantiles of this error.")
    n_resamples: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers."""
        return Result.to_dict(self) | {"null_quantiles": dict(self.null_quantiles)}


@of_predictions
def calibration_test(
    predictions: Source,
    *,
    metric: str | None = None,
    n_bins: int = 15,
    n_resamples: int = 1000,
    resample_rows: bool | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> CalibrationTest:
    """Test the hypothesis that predictions are calibrated, by consistency resampling.

    Rows are drawn with replacement and labels from the predictions, which gives the calibration
    error of a perfectly calibrated classifier with these predictions. The p-value is the share of
    resamples whose error is at least as large as that of the data.

    Parameters
    ----------
    metric : {None, "positive", "confidence", "classwise"}, default=None
        Test statistic: :func:`positive_ece`, :func:`confidence_ece` or :func:`classwise_ece`. None
        is "positive" for two classes, and "confidence" for more.
    n_resamples : int, default=1000
        Number of resamples; the p-value is at least 1 / (1 + n_resamples).
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A row of weight 2 is one event that counts double, not two events.
    resample_rows : bool, optional
        Whether to resample rows as well as labels, as published. By default rows are kept for
        ``metric="classwise"``, whose p-values would be too small.

    Notes
    -----
    With ``resample_rows=False`` the p-value is exact at any size. A draw of rows leaves a third of
    them out, so that p-values are too small where there are about as many bins as rows.

    Of Dask collections, of ``Chunks``, and of more than 50,000 rows unless class-wise, resamples
    are drawn from the normal distribution with the means and (co)variances of the labels in bins.
    ``metric="classwise"`` takes at most 1,024 bins of all classes then. How often honest
    predictions are rejected is in docs/evidence/intervals.md.

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
    binned.check_bins(n_bins)
    simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    draws = {"n_resamples": int(n_resamples), "random_state": random_state}
    size = len(predictions.classes), int(n_bins)
    metric = tested_metric(metric, size[0])
    is_classwise, column = metric == "classwise", usual_column(2) if metric == "positive" else None
    replace = not is_classwise if resample_rows is None else bool(resample_rows)
    body = binned.ClassBins(*size) if is_classwise else binned.ProblemBins(size[1], column=column)
    with threads.jobs(n_jobs):
        if isinstance(predictions, Predictions):
            if is_classwise:
                null = _class_null(predictions, size[1], replace, **draws)
                return _result(metric, predictions.measure(body)[0], null)
            if predictions.n_rows <= draw.MOST_ROWS_DRAWN:
                events = predictions.events(column)
                bins = binned.uniform_bins(events.values, binned.bin_edges(size[1]))
                sums = draw.null_bins(events, bins, size[1], replace=replace, **draws)
                return _result(metric, predictions.measure(body)[0], draw.null_errors(sums))
            draws["replace"] = replace
        more = CellProducts(*size) if is_classwise else BinMoments(size[1], column)
        return judge_sums(metric, **predictions.add_up({"bins": body, "moments": more}), **draws)


def tested_metric(metric: str | None, n_classes: int) -> str:
    """Return what is tested of so many classes; refuse the positive one of more than two."""
    column = usual_column(n_classes)
    if metric is None:
        return "confidence" if column is None else "positive"
    if metric == "positive" and column is None:
        raise errors.ParameterError(
            f"metric='positive' is for two classes, but there are {n_classes}; use 'confidence' "
            "or 'classwise'"
        )
    return metric


def _result(metric: str, statistic: float, null: Floats) -> CalibrationTest:
    return CalibrationTest(
        metric=metric,
        statistic=statistic,
        p_value=draw.p_value(statistic, null),
        null_mean=math.fsum(null) / len(null),
        null_quantiles=tuple(
            zip(NULL_LEVELS, np.quantile(null, NULL_LEVELS).tolist(), strict=True)
        ),
        n_resamples=len(null),
    )


def judge_sums(
    metric: str, bins: SummedState, moments: SummedState, **draws: Any
) -> CalibrationTest:
    """Test predictions from sums over the bins."""
    if metric == "classwise":
        return _result(metric, bins.value(), null_classes(bins, moments, **draws))
    return _result(metric, bins.value(), draw.null_errors(null_problem(bins, moments, **draws)))


def _class_null(
    predictions: Predictions, n_bins: int, replace: bool, n_resamples: int, random_state: Any
) -> Floats:
    """Class-wise error of each resample, with labels drawn from the rows."""
    resamples = draw.Resamples(predictions.n_rows, n_resamples, random_state, replace=replace)
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
    resamples: draw.Resamples, block: range, c: int, chunk: Chunk, gaps: Floats, weights: Floats
) -> None:
    """Add the rows of the ``c``-th chunk, as they are drawn, with labels drawn from them."""
    bins = binned.uniform_bins(chunk.rows, binned.bin_edges(gaps.shape[2]))
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


class BinMoments(RowSums):
    """Sums of squared weights, and with the value and its square, in the bins of a problem."""

    name = "bin moments"
    power = 2
    is_drawn = False

    def __init__(self, n_bins: int, column: int | None = None) -> None:
        binned.check_bins(n_bins)
        self._n_bins, self._column = int(n_bins), column
        super().__init__(2, self._n_bins, 3)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        values, hits, weight = chunk.events(self._column)
        bins, square = binned.uniform_bins(values, binned.bin_edges(self._n_bins)), weight * weight
        none = np.zeros_like(hits)
        add_binned(values, none, square, bins, sums[0])
        add_binned(values * values, none, square, bins, sums[1])


class CellProducts(RowSums):
    """Sums of w^2 p_j p_l over rows, by the bins of both: covariances of the labels of classes."""

    name = "cell products"
    power = 2
    is_drawn = False

    def __init__(self, n_classes: int, n_bins: int) -> None:
        binned.check_bins(n_bins)
        if n_classes * n_bins > MOST_COVARIANCES:
            raise errors.ParameterError(
                f"{n_classes} classes of {n_bins} bins have too many covariances for chunks (at "
                f"most {MOST_COVARIANCES} bins in all); use metric='confidence', "
                f"n_bins={max(MOST_COVARIANCES // n_classes, 1)}, or a sample of rows in memory"
            )
        self._n_classes, self._n_bins = n_classes, int(n_bins)
        super().__init__(n_classes * self._n_bins, n_classes * self._n_bins)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        bins = binned.uniform_bins(chunk.rows, binned.bin_edges(self._n_bins))
        add_cell_products(chunk.rows, bins, chunk.weight * chunk.weight, self._n_bins, sums)


def covariance(sums: Floats) -> Floats:
    """Return the covariance of the weighted labels in all (class, bin), if they are drawn.

    Of one row it is p_j (1 - p_j), and -p_j p_l for two classes; p_j is the sum of p_j p_l over all
    classes, so that the sums of ``CellProducts`` are enough.
    """
    products = sums + sums.T - np.diag(np.diag(sums))
    return np.diag(products.sum(axis=1)) - products


def null_problem(
    bins: SummedState,
    moments: SummedState,
    n_resamples: int,
    random_state: Any,
    replace: bool = False,
) -> Floats:
    """Draw the sums in bins of each resample: labels, and with ``replace`` means, are normal."""
    in_bin = bins.total[0]
    squares, second, third = moments.total[[0, 0, 1], :, [WEIGHT, VALUE, VALUE]]
    mean = np.divide(
        in_bin[:, VALUE], in_bin[:, WEIGHT], out=np.zeros(len(in_bin)), where=in_bin[:, WEIGHT] > 0
    )
    spread = np.maximum(third - 2.0 * mean * second + mean * mean * squares, 0.0)
    noise = draw.generator(random_state).standard_normal((2, n_resamples, len(in_bin)))
    sums = np.empty((n_resamples, len(in_bin), 3))
    sums[:, :, WEIGHT] = in_bin[:, WEIGHT]
    sums[:, :, VALUE] = in_bin[:, VALUE] + (np.sqrt(spread) * noise[1] if replace else 0.0)
    sums[:, :, HIT] = sums[:, :, VALUE] + np.sqrt(np.maximum(second - third, 0.0)) * noise[0]
    return sums


def null_classes(
    bins: SummedState, products: SummedState, n_resamples: int, random_state: Any
) -> Floats:
    """Class-wise error of each resample."""
    n_classes, weight = len(bins.total), float(bins.total[0, :, WEIGHT].sum())
    with threads.few_blas_threads(0):
        values, vectors = np.linalg.eigh(covariance(products.total))
        noise = draw.generator(random_state).standard_normal((n_resamples, len(values)))
        gaps = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    found: Floats = np.abs(gaps).sum(axis=1) / (n_classes * weight)
    return found
