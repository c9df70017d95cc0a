"""CORP: what of a score is miscalibration, what is discrimination, what is uncertainty."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import entr, xlog1py, xlogy

from calibrant import _simplex as simplex
from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant.metrics._reading import of_arrays
from calibrant.metrics._result import Result, doc, result

if TYPE_CHECKING:
    from calibrant._maps.base import Floats
    from calibrant.metrics._predictions import Predictions


@result()
class ScoreDecomposition(Result):
    """Result of :func:`score_decomposition`.

    The score is miscalibration - discrimination + uncertainty.
    """

    score: float = doc("Mean score of the predictions; infinite if the log score is.")
    miscalibration: float = doc("What recalibration gains, not negative; infinite with the score.")
    discrimination: float = doc("What recalibrated predictions gain over constant ones.")
    uncertainty: float = doc("Score of the constant prediction of each class's frequency.")
    refinement: float = doc("Score of the recalibrated predictions: score - miscalibration.")


@of_arrays
def score_decomposition(predictions: Predictions, *, score: str = "brier") -> ScoreDecomposition:
    """Split a proper score into miscalibration, discrimination and uncertainty (CORP).

    For each class, isotonic regression of "is it the label" on its probability is the best
    recalibration that keeps the order, without division by the sum, and the frequency of the class
    the best constant; the differences of the three mean scores are the parts.

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
