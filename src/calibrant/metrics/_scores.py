"""Accuracy and proper scores, which are means over rows, and what of a score is calibration."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _notices as notices
from calibrant import errors
from calibrant._gate import check_number
from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._kernels.metrics import row_squares
from calibrant._predictions import EventCells, Statistic, metric_of, source_of
from calibrant._result import Result, doc, result
from calibrant.metrics._intervals import row_sums

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label, Labels
    from calibrant.scale import Chunks

MIN_PROBABILITY = 1e-12
"""A label's probability counts as at least this in the likelihood by default."""

_LEADING_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def accuracy(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the share of rows whose most probable class is the label.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.

    Returns
    -------
    float
        In [0, 1]. The first of equal largest probabilities is the prediction.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> accuracy([0, 1, 1], [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    0.6666666666666666
    """
    return metric_of(source_of(y_true, y_proba, sample_weight, classes, pos_label), Accuracy())


def negative_log_likelihood(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    min_probability: float = MIN_PROBABILITY,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the mean of -log of the label's probability (log loss, cross-entropy).

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.
    min_probability : float, default=1e-12
        Smaller probabilities of the label are replaced by this, so one exact zero costs 27.6 and
        not infinity. With 0 it costs infinity.

    Returns
    -------
    float
        Natural logarithm; 0 is perfect. Equal to scikit-learn's ``log_loss``, which clips at the
        machine epsilon of the dtype.

    Examples
    --------
    >>> from calibrant.metrics import negative_log_likelihood
    >>> round(negative_log_likelihood([0, 1], [[0.8, 0.2], [0.5, 0.5]]), 4)
    0.4581
    >>> negative_log_likelihood([0, 1], [[1.0, 0.0], [1.0, 0.0]], min_probability=0)
    inf
    """
    check_number("min_probability", min_probability, low=0.0, high=1.0)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    return metric_of(source, LogLoss(float(min_probability)))


def brier_score(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the Brier score: mean over rows *and* classes of (probability - label)^2.

    scikit-learn's ``brier_score_loss`` sums over the classes instead, unless there are two.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.

    Returns
    -------
    float
        In [0, 2 / n_classes]; 0 is perfect.

    Notes
    -----
    This is the scale on which Arad and Rosset (2025) print it. scikit-learn's
    ``brier_score_loss`` is ``n_classes`` times this for three classes or more, and half the sum,
    exactly this, for two.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> round(brier_score([0, 1], [[0.8, 0.2], [0.5, 0.5]]), 4)
    0.145
    >>> round(brier_score(["good", "bad"], [0.2, 0.5], pos_label="bad"), 4)
    0.145
    """
    return metric_of(source_of(y_true, y_proba, sample_weight, classes, pos_label), Brier())


def ranked_probability_score(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> float:
    """Compute the ranked probability score, for ordered classes.

    The mean over rows and the first k - 1 classes of (cumulative probability - label)^2: a
    prediction two grades off costs more than one next to the label. Classes are in the order of the
    columns: sorted, or as in ``classes``.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.

    Returns
    -------
    float
        Mean over rows of sum_{j<k} (P_j - [y <= j])^2 / (k - 1), with P_j the sum of the first j
        probabilities; in [0, 1], 0 is perfect. Of two classes it is the Brier score.

    Notes
    -----
    A proper score (Epstein, 1969; Murphy, 1971). Some print the sum, k - 1 times as much.

    Examples
    --------
    >>> from calibrant.metrics import ranked_probability_score
    >>> ranked_probability_score([0], [[0.5, 0.5, 0.0]], classes=[0, 1, 2])
    0.125
    >>> ranked_probability_score([0], [[0.5, 0.0, 0.5]], classes=[0, 1, 2])
    0.25
    """
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    warn_of_alphabet(source.classes)
    return metric_of(source, RankedProbability())


def warn_of_alphabet(classes: Labels) -> None:
    """Warn if classes that are said to be ordered are words in the order of the alphabet.

    Those that begin with numbers that do not fall, as 1 star, 2 stars, and letters, as A to F, are
    in their own order, too.
    """
    words = [str(name) for name in classes if isinstance(name, str)]
    numbers = [float(result[0]) for word in words if (result := _LEADING_NUMBER.match(word))]
    has_own_order = bool(numbers) or any(len(word) < 2 for word in words)
    has_own_order &= numbers == sorted(numbers)  # "1", "10", "2" are not
    if len(words) > 2 and words == sorted(words) and not has_own_order:
        notices.warn(
            errors.ColumnOrderWarning(
                f"classes are in alphabetical order: {errors.some_in_words(classes)}; if their "
                "true order differs, pass the columns and classes= in that order"
            )
        )


class RowMean(Statistic):
    """A weighted mean of a term of every row: the sums are those of weight and weight * term."""

    @abstractmethod
    def terms(self, rows: Predictions) -> Floats:
        """Return the term of each row."""

    @abstractmethod
    def table(self, rows: Predictions) -> Floats:
        """Return the term that each row would have with every label: (row, class)."""

    def sums(self, rows: Predictions) -> Floats:
        """Return the sums of weight, weight * term, and (weight * term)^2 and its parts."""
        return row_sums(self.terms(rows), rows.weight)

    def value(self, sums: Floats) -> float:
        """Return the mean."""
        return float(sums[1] / sums[0])


@dataclass(frozen=True)
class Accuracy(RowMean):
    """Share of rows that are right."""

    def terms(self, rows: Predictions) -> Floats:
        """Return 1 for rows that are right, 0 for others."""
        return rows.events(None).hits.astype(np.float64)

    def table(self, rows: Predictions) -> Floats:
        """Return 1 in the column of the prediction."""
        result = np.zeros_like(rows.rows)
        result[np.arange(rows.n_rows), rows.rows.argmax(axis=1)] = 1.0
        return result


@dataclass(frozen=True)
class LogLoss(RowMean):
    """Mean of -log of the label's probability; infinite if one of them is."""

    min_probability: float = MIN_PROBABILITY

    def terms(self, rows: Predictions) -> Floats:
        """Return -log of the probability of each row's label."""
        return self._losses(rows.own())

    def table(self, rows: Predictions) -> Floats:
        """Return -log of every probability."""
        return self._losses(rows.rows)

    def _losses(self, probabilities: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            losses: Floats = -np.log(np.maximum(probabilities, self.min_probability))
        return losses


@dataclass(frozen=True)
class Brier(RowMean):
    """Mean Brier score of rows: (sum_j p_j^2 - 2 p_y + 1) / k."""

    def terms(self, rows: Predictions) -> Floats:
        """Return the Brier score of each row."""
        squares = np.empty(rows.n_rows)
        row_squares(rows.rows, rows.class_index, squares)
        return squares

    def table(self, rows: Predictions) -> Floats:
        """Return the score with every label."""
        squares: Floats = np.einsum("ij,ij->i", rows.rows, rows.rows)
        scores: Floats = np.maximum(squares[:, None] - 2.0 * rows.rows + 1.0, 0.0)
        return scores / rows.n_classes


@dataclass(frozen=True)
class RankedProbability(RowMean):
    """Mean ranked probability score of rows."""

    def terms(self, rows: Predictions) -> Floats:
        """Return the score of each row."""
        gaps = np.cumsum(rows.rows[:, :-1], axis=1)
        gaps -= rows.class_index[:, None] <= np.arange(gaps.shape[1])
        scores: Floats = np.minimum(np.square(gaps, out=gaps).mean(axis=1), 1.0)  # sums are rounded
        return scores

    def table(self, rows: Predictions) -> Floats:
        """Return the score with every label."""
        sums = np.cumsum(rows.rows[:, :-1], axis=1)
        result = np.empty_like(rows.rows)
        for c in range(rows.n_classes):
            result[:, c] = ((sums - (c <= np.arange(sums.shape[1]))) ** 2).mean(axis=1)
        return np.minimum(result, 1.0)


@result()
class ScoreDecomposition(Result):
    """Result of :func:`score_decomposition`."""

    score: float = doc("Brier score: miscalibration - discrimination + uncertainty.")
    miscalibration: float = doc("Gain of recalibration, not negative.")
    discrimination: float = doc("Gain of the recalibrated predictions over constant ones.")
    uncertainty: float = doc("Score of constant predictions, the class frequencies.")
    refinement: float = doc("Score of the recalibrated predictions: score - miscalibration.")


def score_decomposition(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> ScoreDecomposition:
    """Split the Brier score into miscalibration, discrimination and uncertainty (CORP).

    For each class, isotonic regression of the label on the probability is the best monotone
    recalibration, and the class frequency the best constant; the parts are differences of the three
    mean scores.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`evaluate`.

    Returns
    -------
    ScoreDecomposition
        The parts; their sum is :func:`brier_score`.

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
    rows = source_of(y_true, y_proba, sample_weight, classes, pos_label).in_memory()
    by_class = [_losses(EventCells.of_rows(rows.events(c))) for c in range(rows.n_classes)]
    whole, refinement, uncertainty = np.mean(by_class, axis=0).tolist()
    gained, discriminated = max(whole - refinement, 0.0), max(uncertainty - refinement, 0.0)
    return ScoreDecomposition(whole, gained, discriminated, uncertainty, refinement)


def _losses(cells: EventCells) -> Floats:
    """Mean squared error of the predictions of a class, recalibrated ones, and constant ones."""
    values, weight, hits, _ = cells
    raw = np.sum(values * (weight * values - 2.0 * hits)) + hits.sum()
    # A block of the fit starts at a positive cell: moving others down always helps.
    starts = np.flatnonzero(np.append(True, hits[1:] > 0.0))
    _, positives, sizes = pool_adjacent_violators(
        np.add.reduceat(hits, starts), np.add.reduceat(weight, starts)
    )
    total = weight.sum()
    # A block that predicts its share v of positives loses n v (1 - v)^2 + n (1 - v) v^2.
    fitted = np.sum(positives * (1.0 - positives / sizes))
    losses: Floats = np.array([raw, fitted, hits.sum() * (1.0 - hits.sum() / total)]) / total
    return losses
