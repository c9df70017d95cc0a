"""What of a score is calibration: by isotonic regression, or by recalibration on held-out rows."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import entr, xlog1py, xlogy

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._kernels.rows import first_top_columns
from calibrant._row_order import deal_rows
from calibrant.metrics._measures import Chunk
from calibrant.metrics._predictions import exact_sum
from calibrant.metrics._reading import of_arrays
from calibrant.metrics._resampling import Bootstrap, not_negative
from calibrant.metrics._result import Estimate, Result, doc, result
from calibrant.metrics._scores import PROPER_SCORES, score_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._calibrators.base import Calibrator
    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._predictions import Predictions

NO_GAP = 1e-12
"""Probabilities that differ by less are equal, but for rounding, which must not choose a side."""


@result()
class CrossFittedDecomposition(Result):
    """Result of :func:`cross_fitted_decomposition`: score = calibration + refinement."""

    metric: str = doc("Name of the score.")
    score: Estimate = doc("Score of the predictions.")
    calibration: Estimate = doc("Gain of recalibration on held-out rows; may be negative.")
    refinement: Estimate = doc("Score of the recalibrated predictions.")
    n_folds: int = doc("Number of folds; 1 if all rows are equal.")
    n_resamples: int
    confidence_level: float = doc("Confidence level of the intervals.")


@of_arrays
def cross_fitted_decomposition(
    predictions: Predictions,
    *,
    metric: str = "negative_log_likelihood",
    recalibrator: Any = None,
    n_folds: int = 5,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> CrossFittedDecomposition:
    """Split a proper score into calibration and refinement by cross-fitted recalibration.

    Each fold is recalibrated by a calibrator fitted to the other folds. The score of the result is
    the refinement, and the gain is the calibration part: on average at most the true one, whatever
    the recalibrator, since no row is used for its own recalibration.

    Parameters
    ----------
    metric : {"negative_log_likelihood", "brier_score", "ranked_probability_score"}, \
default="negative_log_likelihood"
        Name of the score.
    sample_weight : array-like of shape (n_rows,), optional
        Weight 2 is the row twice in every value, and may be in two folds; the intervals draw as one
        row what of it is in one fold.

    See Also
    --------
    score_decomposition : The same by isotonic regression of each class, on the rows themselves.

    Notes
    -----
    Intervals are percentiles of the mean over rows drawn with replacement, with the recalibrators
    as they are; that of the calibration part reaches up to zero at least. Its low end is a bound,
    its high end only as far as the recalibrator can be right (docs/evidence/intervals.md). Several
    matrices of the size of ``y_proba`` are in memory at once.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Rethinking Early Stopping: Refine,
       Then Calibrate", 2025.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics import cross_fitted_decomposition
    >>> bold, y = simulated_scores(2000)
    >>> found = cross_fitted_decomposition(y, bold)
    >>> round(found.score.value, 2), round(found.refinement.value, 2)
    (1.17, 0.84)
    >>> found.calibration.low > 0.25
    True
    """
    simplex.check_option("metric", metric, PROPER_SCORES)
    bootstrap = Bootstrap(n_resamples, confidence_level, random_state, n_jobs)
    recalibrator = check_recalibrator(recalibrator, n_folds)
    held = hold_out(predictions, recalibrator, int(n_folds), n_jobs)
    score, before = score_rows(metric, held.chunks(held.rows))
    refinement, after = score_rows(metric, held.chunks(held.recalibrated))
    whole, gained, left = bootstrap.estimates(
        [score, score - refinement, refinement], [before, before - after, after], held.weight
    )
    parts = whole, not_negative(gained), left
    return CrossFittedDecomposition(metric, *parts, held.n_folds, *bootstrap.settings)


class RecalibratedRows(NamedTuple):
    """Rows by fold and their weights there, as predicted and as recalibrated by other folds."""

    rows: Floats
    recalibrated: Floats
    class_index: Wholes
    weight: Floats
    unit: float
    n_folds: int

    def chunks(self, rows: Floats) -> Iterator[Chunk]:
        """Predictions for these rows in chunks."""
        for own in simplex.chunks(*rows.shape):
            yield Chunk(own.start, rows[own], self.class_index[own], self.weight[own], self.unit)


def check_recalibrator(recalibrator: Any, n_folds: Any) -> Calibrator:
    """Return the calibrator that was asked for; refuse what is none."""
    from calibrant._calibrators.base import Calibrator  # here, as most metrics need none
    from calibrant._calibrators.structured import StructuredScaling

    simplex.check_number("n_folds", n_folds, low=2, whole=True)
    if recalibrator is None:
        return StructuredScaling()
    if not isinstance(recalibrator, Calibrator):
        raise errors.ParameterError(
            f"recalibrator={errors.in_words(recalibrator)} is not a calibrator; pass one such as "
            "calibrant.TemperatureScaling()"
        )
    recalibrator._check_parameters()  # noqa: SLF001  (ours)
    return recalibrator


def hold_out(
    predictions: Predictions, recalibrator: Calibrator, n_folds: int, n_jobs: int | None
) -> RecalibratedRows:
    """Recalibrate each fold by what was fitted to the others; one row alone stays as it is."""
    from calibrant._calibrators.composition import out_of_fold

    rows, unit = predictions.all_rows(), predictions.unit
    batch = simplex.SimplexBatch(
        rows,
        "probabilities",
        predictions.class_index,
        predictions.row_weights() * unit,
        predictions.classes,
    )
    # Without a look at labels: folds that are balanced by them know of each other.
    row, folds, weight = deal_rows(
        rows, "probabilities", batch.class_index, batch.weight, n_folds, stratify=False
    )
    batch = replace(batch.take(row), weight=weight)
    found = len(np.unique(folds))
    recalibrated = batch.scores
    if found > 1:
        with threads.jobs(n_jobs):
            recalibrated = out_of_fold(recalibrator, batch, folds)
    return RecalibratedRows(
        batch.scores, recalibrated, batch.class_index, weight / unit, unit, found
    )


@result()
class VariationalErrors(Result):
    """Result of :func:`variational_errors`."""

    error: Estimate = doc("Lp calibration error of the whole vector of probabilities.")
    top_label: Estimate = doc("Calibration error of the confidence.")
    over_confidence: Estimate = doc("Mean of confidence - accuracy where positive, else 0.")
    under_confidence: Estimate = doc("Mean of accuracy - confidence where positive, else 0.")
    p: float
    n_folds: int = doc("Number of folds; 1 if all rows are equal.")
    n_resamples: int
    confidence_level: float = doc("Confidence level of the intervals.")


@of_arrays
def variational_errors(
    predictions: Predictions,
    *,
    p: float = 1.0,
    recalibrator: Any = None,
    n_folds: int = 5,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> VariationalErrors:
    """Compute Lp calibration errors without bins and without upward bias.

    The Lp calibration error is the mean of ``|E[Y | f] - f|_p``, with f the predicted probabilities
    and Y the one-hot label. A recalibrator that was fitted to other folds says of each row in
    which direction f is off; how far the labels lie in these directions is on average at most the
    error, and the error itself if the directions are right.

    Parameters
    ----------
    p : float, default=1
        Order of the norm, at least 1; ``math.inf`` is the largest entry. The errors of the
        confidence do not depend on it.

    Notes
    -----
    For any s of dual norm 1 that depends on f and other rows alone, ``s · (E[Y | f] - f)`` is at
    most ``|E[Y | f] - f|_p`` (Hölder), and equal if s is the gradient of that norm. The gradient is
    taken at g - f, with g the recalibrated probabilities, and the value is the mean of s · (Y - f).
    Cells in which g and f differ by less than 1e-12 count as equal; of equal largest gaps, p = inf
    takes the mean. Over-confidence is a confidence above the accuracy at any level.

    Intervals are as in :func:`cross_fitted_decomposition`, and no test: for that see
    :func:`cumulative_differences` and :func:`calibration_test`.

    References
    ----------
    .. [1] "A Variational Estimator for Lp Calibration Errors", arXiv:2602.24230, 2026.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics import variational_errors
    >>> bold, y = simulated_scores(2000)
    >>> found = variational_errors(y, bold)
    >>> round(found.over_confidence.value, 2), round(found.under_confidence.high, 2)
    (0.21, 0.0)
    >>> honest, y = simulated_scores(2000, power=1)
    >>> variational_errors(y, honest).error.low < 0
    True
    """
    simplex.check_number("p", p, low=1.0, infinite=True)
    bootstrap = Bootstrap(n_resamples, confidence_level, random_state, n_jobs)
    recalibrator = check_recalibrator(recalibrator, n_folds)
    held = hold_out(predictions, recalibrator, int(n_folds), n_jobs)
    parts = _terms(held.rows, held.recalibrated, held.class_index, float(p))
    total = exact_sum(held.weight)
    values = [2.0 * exact_sum(0.5 * part * held.weight) / total for part in parts]  # in [-2, 2]
    error, top, over, under = map(not_negative, bootstrap.estimates(values, parts, held.weight))
    about = float(p), held.n_folds, *bootstrap.settings
    return VariationalErrors(error, top, over, under, *about)


def _terms(rows: Floats, recalibrated: Floats, class_index: Wholes, p: float) -> list[Floats]:
    """Terms of each row: of the vector, of the top label, of over- and of under-confidence."""
    terms = np.empty((4, len(rows)))
    for own in simplex.chunks(*rows.shape):
        before, after, label = rows[own], recalibrated[own], class_index[own]
        s = directions(after - before, p)
        number = np.arange(len(before))
        terms[0, own] = s[number, label] - (s * before).sum(axis=1)
        top = np.empty(len(before), dtype=np.intp)
        first_top_columns(before, top)
        confidence, hit = before[number, top], top == label
        gap = after[number, top] - confidence
        terms[2, own] = np.where(gap < -NO_GAP, confidence - hit, 0.0)
        terms[3, own] = np.where(gap > NO_GAP, hit - confidence, 0.0)
    terms[1] = terms[2] + terms[3]
    return list(terms)


def directions(gaps: Floats, p: float) -> Floats:
    """Gradient of the p-norm at each row of gaps; zero where there is none."""
    sizes = np.abs(gaps)
    sizes[sizes <= NO_GAP] = 0.0
    signs: Floats = np.sign(gaps) * (sizes > 0.0)
    if p == 1.0:
        return signs
    largest = sizes.max(axis=1, keepdims=True)
    share = sizes / np.where(largest > 0.0, largest, 1.0)
    if math.isinf(p):
        largest_of = (share > 1.0 - NO_GAP).astype(np.float64)
        equals: Floats = np.maximum(largest_of.sum(axis=1, keepdims=True), 1.0)
        return signs * largest_of / equals
    norm = (share**p).sum(axis=1, keepdims=True) ** (1.0 / p)
    length: Floats = (share / np.where(norm > 0.0, norm, 1.0)) ** (p - 1.0)
    return signs * length


@result()
class ScoreDecomposition(Result):
    """Result of :func:`score_decomposition`."""

    score: float = doc("Mean score: miscalibration - discrimination + uncertainty, or infinite.")
    miscalibration: float = doc("Gain of recalibration, not negative; infinite if the score is.")
    discrimination: float = doc("Gain of the recalibrated predictions over constant ones.")
    uncertainty: float = doc("Score of constant predictions, the class frequencies.")
    refinement: float = doc("Score of the recalibrated predictions: score - miscalibration.")


@of_arrays
def score_decomposition(predictions: Predictions, *, score: str = "brier") -> ScoreDecomposition:
    """Split a proper score into miscalibration, discrimination and uncertainty (CORP).

    For each class, isotonic regression of the label on the probability is the best monotone
    recalibration, and the class frequency the best constant; the parts are differences of the three
    mean scores.

    Parameters
    ----------
    score : {"brier", "log"}, default="brier"
        Squared error, or binary log loss, of each class; averaged over rows and classes. With
        "brier" the score is :func:`brier_score`. With "log" it is not the negative
        log-likelihood, which looks at the label's probability alone; a probability of exactly 0
        or 1 on the wrong side makes it infinite.

    References
    ----------
    .. [1] T. Dimitriadis, T. Gneiting and A. I. Jordan, "Stable reliability diagrams for
       probabilistic classifiers", PNAS 118, 2021.

    Examples
    --------
    >>> from calibrant.metrics import score_decomposition
    >>> parts = score_decomposition([0, 1, 1, 0], [0.2, 0.3, 0.8, 0.4])
    >>> round(parts.score, 4), round(parts.miscalibration, 4), round(parts.uncertainty, 4)
    (0.1825, 0.0575, 0.25)
    """
    simplex.check_option("score", score, ("brier", "log"))
    is_log = score == "log"
    by_class = []
    for cells, values in predictions.sorted_classes(0.0):
        for start, end in pairwise([*cells.starts, len(values)]):
            weight, hits = cells.sums[:2, start:end]
            by_class.append(_losses(values[start:end], weight, hits, is_log))
    means = [math.fsum(part) / predictions.n_classes for part in zip(*by_class, strict=True)]
    whole, refinement, uncertainty = means
    gained, told_apart = max(whole - refinement, 0.0), max(uncertainty - refinement, 0.0)
    return ScoreDecomposition(whole, gained, told_apart, uncertainty, refinement)


def _losses(values: Floats, weight: Floats, hits: Floats, is_log: bool) -> list[float]:
    """Mean loss of the predictions of a class, recalibrated ones, and constant ones."""
    if is_log:
        raw = -float(np.sum(xlogy(hits, values) + xlog1py(weight - hits, -values)))
    else:
        raw = float(np.sum(values * (weight * values - 2.0 * hits)) + hits.sum())
    # A block of the fit starts at a positive cell: moving others down always helps.
    starts = np.flatnonzero(np.append(True, hits[1:] > 0.0))
    _, top, bottom = pool_adjacent_violators(
        np.add.reduceat(hits, starts), np.add.reduceat(weight, starts)
    )
    whole = np.array([hits.sum()]), np.array([weight.sum()])
    losses = raw, _fitted_loss(top, bottom, is_log), _fitted_loss(*whole, is_log)
    return [loss / float(whole[1][0]) for loss in losses]


def _fitted_loss(positives: Floats, weight: Floats, is_log: bool) -> float:
    """Loss of predicting in each block the share of its positives."""
    value = positives / weight
    if not is_log:  # n v (1 - v)^2 + n (1 - v) v^2 = n v (1 - v)
        return float(np.sum(positives * (1.0 - value)))
    negatives = weight - positives
    return float(np.sum(entr(value) * weight) + np.sum(entr(negatives / weight) * weight))
