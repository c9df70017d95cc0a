"""Accuracy and the two proper scores: negative log-likelihood and Brier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant.metrics._chunk import MIN_PROBABILITY
from calibrant.metrics._counted import measure
from calibrant.metrics._measures import RowMean
from calibrant.metrics._parameters import inherit_parameters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from calibrant._maps.base import Floats
    from calibrant.metrics._chunk import Chunk


@inherit_parameters
def accuracy(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Share of rows whose largest probability is that of the label.

    Returns
    -------
    float
        In [0, 1]. The first of equal largest probabilities is the prediction.

    Notes
    -----
    All three may be Dask collections: chunks are counted where they are, and the result is a plain
    number. So it is for ``accuracy(None, chunks)`` with a ``calibrant.scale._chunks.Chunks``, which
    holds labels and weights.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> accuracy([0, 1, 1], [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    0.6666666666666666
    """
    return measure(Accuracy(), y_true, y_proba, sample_weight, classes, pos_label)


@inherit_parameters
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
    loss = LogLoss(min_probability)
    return measure(loss, y_true, y_proba, sample_weight, classes, pos_label)


@inherit_parameters
def brier_score(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Mean over rows *and* classes of (probability - label)^2.

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
    return measure(Brier(), y_true, y_proba, sample_weight, classes, pos_label)


class Accuracy(RowMean):
    """Share of rows that are right."""

    name = "accuracy"

    def terms(self, chunk: Chunk) -> Floats:
        """Return 1 for each row that is right, else 0."""
        return chunk.events(None).hits.astype(np.float64)


class Brier(RowMean):
    """Mean Brier score of rows."""

    name = "brier"

    def terms(self, chunk: Chunk) -> Floats:
        """Return the Brier score of each row."""
        return chunk.squares()


class LogLoss(RowMean):
    """Mean of -log of the label's probability; infinite if one of them is."""

    name = "loss"

    def __init__(self, min_probability: float = MIN_PROBABILITY) -> None:
        simplex.check_number("min_probability", min_probability, low=0.0, high=1.0)
        super().__init__()
        self._min_probability = float(min_probability)
        # Above every loss, so that terms are in [0, 1]: -log of the smallest double is 745.
        self.bound = 32.0 if min_probability >= 1e-13 else 1024.0

    def terms(self, chunk: Chunk) -> Floats:
        """Return the loss of each row."""
        return chunk.losses(self._min_probability)


ROW_MEANS: dict[str, type[RowMean]] = {
    "accuracy": Accuracy,
    "negative_log_likelihood": LogLoss,
    "brier_score": Brier,
}
"""Metrics that are means over rows, by the names of their functions."""

PROPER_SCORES = ("negative_log_likelihood", "brier_score")
"""Those that are proper scores."""


def score_rows(metric: str, chunks: Iterable[Chunk]) -> tuple[float, Floats]:
    """Return a metric of all rows, with the bits of its function, and the term of each row."""
    body, state, terms = ROW_MEANS[metric](), None, []
    for chunk in chunks:
        state = state or body.start(unit=chunk.unit)
        state.add(chunk)
        terms.append(body.terms(chunk))
    if state is None:
        raise ValueError("no rows")
    state.settle()
    return state.value(), np.concatenate(terms)
