"""What of a proper score is calibration, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import entr, xlog1py, xlogy

from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._result import Result, doc, result
from calibrant._simplex import check_option
from calibrant.metrics._binary import EventCells
from calibrant.metrics._predictions import read_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._maps.base import Floats
    from calibrant.metrics._predictions import Predictions
    from calibrant.scale import Chunks


@result()
class ScoreDecomposition(Result):
    """Result of :func:`score_decomposition`."""

    score: float = doc("Mean score: miscalibration - discrimination + uncertainty, or infinite.")
    miscalibration: float = doc("Gain of recalibration, not negative; infinite if the score is.")
    discrimination: float = doc("Gain of the recalibrated predictions over constant ones.")
    uncertainty: float = doc("Score of constant predictions, the class frequencies.")
    refinement: float = doc("Score of the recalibrated predictions: score - miscalibration.")


def score_decomposition(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    score: Literal["brier", "log"] = "brier",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> ScoreDecomposition:
    """Split a proper score into miscalibration, discrimination and uncertainty (CORP).

    For each class, isotonic regression of the label on the probability is the best monotone
    recalibration, and the class frequency the best constant; the parts are differences of the three
    mean scores.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,), Predictions or Chunks
        True labels, or one-hot rows; or predictions with their labels.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    score : {"brier", "log"}, default="brier"
        Squared error, or binary log loss, of each class; averaged over rows and classes. With
        "brier" the score is :func:`brier_score`. With "log" it is not the negative
        log-likelihood, which looks at the label's probability alone; a probability of exactly 0
        or 1 on the wrong side makes it infinite.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y_true`` lacks a class. For a single column: the negative
        and the positive label.
    pos_label : object, optional
        Label of the class of a single column. Not needed for 0 and 1, -1 and 1, or False and True,
        where it is the larger one.

    Returns
    -------
    ScoreDecomposition
        With the fields score, miscalibration, discrimination, uncertainty and refinement.

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
    check_option("score", score, ("brier", "log"))
    rows = read_rows(y_true, y_proba, sample_weight, classes, pos_label)
    by_class = []
    for column in range(rows.n_classes):
        cells = EventCells.of_rows(rows.events(column))
        by_class.append(_losses(cells.values, cells.weight, cells.hits, score == "log"))
    whole, refinement, uncertainty = np.mean(by_class, axis=0).tolist()
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
