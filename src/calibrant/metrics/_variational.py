"""Lp calibration errors from below: how far a recalibrator of other folds can push them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant._kernels.rows import first_top_columns
from calibrant.metrics._cross_fitted import check_recalibrator, hold_out
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._predictions import exact_sum, read_predictions
from calibrant.metrics._resampling import Bootstrap, not_negative
from calibrant.metrics._result import Estimate, Result

if TYPE_CHECKING:
    from calibrant._maps.base import Floats, Wholes

NO_GAP = 1e-12
"""Probabilities that differ by less are equal, but for rounding, which must not choose a side."""


@dataclass(frozen=True, slots=True)
class VariationalErrors(Result):
    """Result of :func:`variational_errors`.

    Attributes
    ----------
    error : Estimate
        Lp calibration error of the whole vector of probabilities.
    top_label : Estimate
        Calibration error of the confidence: ``over_confidence`` + ``under_confidence``.
    over_confidence : Estimate
        Mean of confidence - accuracy, where the confidence is too large; else 0.
    under_confidence : Estimate
        Mean of accuracy - confidence, where the confidence is too small; else 0.
    p : float
    n_folds : int
        Folds that there were; 1 if all rows are the same.
    n_resamples : int
    confidence_level : float
        Of the intervals.
    """

    error: Estimate
    top_label: Estimate
    over_confidence: Estimate
    under_confidence: Estimate
    p: float
    n_folds: int
    n_resamples: int
    confidence_level: float

    def estimates(self) -> tuple[Estimate, ...]:
        """Return the four errors, in the order of the attributes."""
        return self.error, self.top_label, self.over_confidence, self.under_confidence


@inherit_parameters
def variational_errors(
    y_true: Any,
    y_proba: Any,
    *,
    p: float = 1.0,
    recalibrator: Any = None,
    n_folds: int = 5,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> VariationalErrors:
    """Lp calibration errors, without bins, that chance does not raise.

    The Lp calibration error is the mean of |E[Y | f] - f|_p, with f the predicted probabilities
    and Y the one-hot label. A recalibrator that was fitted to other folds says of each row in
    which direction f is off; how far the labels lie in these directions is on average at most the
    error, and the error itself if the directions are right. A binned error of honest predictions
    is positive; this one is about as often below zero.

    Parameters
    ----------
    p : float, default=1
        Of the norm of the vector, at least 1; ``math.inf`` is its largest cell. The errors of
        the confidence do not depend on it.

    Returns
    -------
    VariationalErrors
        Of the vector and of the confidence, with over- and under-confidence apart, each as
        (value, low, high).

    Notes
    -----
    For any s of dual norm 1 that depends on f and other rows alone, s · (E[Y | f] - f) is at most
    |E[Y | f] - f|_p (Hölder), and equal if s is the gradient of that norm. The gradient is taken at
    g - f, with g the recalibrated probabilities, and the value is the mean of s · (Y - f). It is
    what the authors' proper losses give, as the difference between f and g. Cells in which g and f
    differ by less than 1e-12 count as equal; of equal largest gaps, p = inf takes the mean.

    Over-confidence is a confidence above the accuracy at any level. The authors' program compares
    with 1/2, as is usual for two classes, and there it is the same.

    A true error cannot be negative, so intervals reach up to zero at least. Take the low end as a
    bound; the high end is one only as far as the recalibrator can be right (docs/metrics.md).
    Neither is a test: see :func:`cumulative_differences` and :func:`calibration_test`. Several
    matrices of the size of ``y_proba`` are in memory at once.

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
    predictions = read_predictions(y_true, y_proba, sample_weight, classes, pos_label=pos_label)
    held = hold_out(predictions, recalibrator, int(n_folds), n_jobs)
    parts = _terms(held.rows, held.recalibrated, held.class_index, float(p))
    total = exact_sum(held.weight)
    values = [2.0 * exact_sum(0.5 * part * held.weight) / total for part in parts]  # in [-2, 2]
    error, top, over, under = map(not_negative, bootstrap.estimates(values, parts, held.weight))
    return VariationalErrors(
        error=error,
        top_label=top,
        over_confidence=over,
        under_confidence=under,
        p=float(p),
        n_folds=held.n_folds,
        n_resamples=int(n_resamples),
        confidence_level=float(confidence_level),
    )


def _terms(rows: Floats, recalibrated: Floats, class_index: Wholes, p: float) -> list[Floats]:
    """Terms of each row: of the vector, of the top label, of over- and of under-confidence."""
    terms = np.empty((4, len(rows)))
    for own in simplex.chunks(*rows.shape):
        before, after, label = rows[own], recalibrated[own], class_index[own]
        s = directions(after - before, p)
        number = np.arange(len(before))
        terms[0, own] = s[number, label] - (s * before).sum(axis=1)
        top = np.empty(len(before), dtype=np.int64)
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
