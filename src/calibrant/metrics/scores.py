"""Accuracy and the two proper scores: negative log-likelihood and Brier."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.kernels.metrics import add_products, add_weights, row_losses, row_squares
from calibrant.metrics.counted import measure
from calibrant.metrics.measures import SummedMeasure

if TYPE_CHECKING:
    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import Chunk

MIN_PROBABILITY = 1e-12
"""A label's probability counts as at least this in the likelihood, unless told otherwise."""


def accuracy(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Share of rows whose largest probability is that of the label.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        True labels of any kind, or one-hot rows.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Probabilities, columns in the order of the sorted labels (or of ``classes``); one column
        is the positive class of a binary problem, as in scikit-learn.
    sample_weight : array-like of shape (n_rows,), optional
        Weight 2 is the row twice, weight 0 is no row.
    classes : array-like of shape (n_classes,), optional
        Label of each column, where the labels do not name every column; of a single column the
        label of the other class and its own.
    pos_label : object, optional
        Label of the class that a single column is of. Labels 0 and 1, -1 and 1, False and True tell
        it by themselves: the larger one.

    Returns
    -------
    float
        In [0, 1]. The first of equal largest probabilities is the prediction.

    Notes
    -----
    All three may be Dask collections: chunks are counted where they are, and the result is a plain
    number. So it is for ``accuracy(None, chunks)`` with a ``calibrant.scale.chunks.Chunks``, which
    holds labels and weights.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> accuracy([0, 1, 1], [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    0.6666666666666666
    """
    told = {"classes": classes, "pos_label": pos_label}
    return measure(lambda _: Accuracy(), y_true, y_proba, sample_weight, **told)


def negative_log_likelihood(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    min_probability: float = MIN_PROBABILITY,
) -> float:
    """Mean of -log of the label's probability (log loss, cross-entropy).

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`accuracy`.
    min_probability : float, default=1e-12
        A label's probability below this counts as this, so one exact zero costs 27.6 and not
        infinity; other cells are left as they are. With 0 it is infinity.

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
    loss = LossMean(min_probability)
    told = {"classes": classes, "pos_label": pos_label}
    return measure(lambda _: loss, y_true, y_proba, sample_weight, **told)


def brier_score(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Mean over rows *and* classes of (probability - label)^2.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, pos_label
        As in :func:`accuracy`.

    Returns
    -------
    float
        In [0, 2 / n_classes]; 0 is perfect.

    Notes
    -----
    This is the scale on which Arad and Rosset (2025) print it. scikit-learn's
    ``brier_score_loss`` sums over the classes: ``n_classes`` times this for three classes or more,
    and half the sum, exactly this, for two.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> round(brier_score([0, 1], [[0.8, 0.2], [0.5, 0.5]]), 4)
    0.145
    >>> round(brier_score(["good", "bad"], [0.2, 0.5], pos_label="bad"), 4)
    0.145
    """
    told = {"classes": classes, "pos_label": pos_label}
    return measure(lambda _: Brier(), y_true, y_proba, sample_weight, **told)


class RowMean(SummedMeasure):
    """Weighted mean of a term in [0, 1] of every row, whatever their order."""

    def __init__(self) -> None:
        super().__init__(1, 2)

    @abstractmethod
    def _terms(self, chunk: Chunk) -> Floats:
        """Return the term of each row."""

    def _count(self, chunk: Chunk, pairs: Wholes) -> None:
        add_products(chunk.weight, self._terms(chunk), pairs)

    def value_of(self, sums: Floats) -> float:
        """Return the mean."""
        weight, total = sums[0]
        return float(total / weight)


class Accuracy(RowMean):
    """Share of rows that are right."""

    name = "accuracy"

    def _terms(self, chunk: Chunk) -> Floats:
        return chunk.top_labels()[1].astype(np.float64)


class Brier(RowMean):
    """Mean Brier score of rows."""

    name = "brier"

    def _terms(self, chunk: Chunk) -> Floats:
        return chunk_squares(chunk)


class LossMean(SummedMeasure):
    """Mean of -log of the label's probability; infinite if one of them is."""

    name = "loss"

    def __init__(self, min_probability: float = MIN_PROBABILITY) -> None:
        simplex.check_number("min_probability", min_probability, low=0.0, high=1.0)
        super().__init__(3, 1)
        self._min_probability = float(min_probability)
        # Above every loss, so that terms are in [0, 1]: -log of the smallest double is 745.
        self._unit = 32.0 if min_probability >= 1e-13 else 1024.0

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"min_probability": self._min_probability}

    def _count(self, chunk: Chunk, pairs: Wholes) -> None:
        losses = chunk_losses(chunk, self._min_probability)
        infinite = np.isinf(losses)
        if infinite.any():
            losses[infinite] = 0.0
            add_weights(chunk.weight[infinite], pairs[2:])
        add_products(chunk.weight, losses / self._unit, pairs[:2].reshape(1, 2, 2))

    def value_of(self, sums: Floats) -> float:
        """Return the mean."""
        weight, total, infinite = sums[:, 0]
        return math.inf if infinite > 0.0 else float(total / weight) * self._unit


def chunk_losses(chunk: Chunk, min_probability: float = MIN_PROBABILITY) -> Floats:
    """-log of the label's probability of each row."""
    losses = np.empty(len(chunk.rows))
    row_losses(chunk.rows, chunk.class_index, min_probability, losses)
    return losses


def chunk_squares(chunk: Chunk) -> Floats:
    """Brier score of each row."""
    squares = np.empty(len(chunk.rows))
    row_squares(chunk.rows, chunk.class_index, squares)
    return squares
