"""Accuracy, the two proper scores, and what calibration gains in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._docstrings import inherit_parameters
from calibrant.metrics._measures import MIN_PROBABILITY, Body, RowMean
from calibrant.metrics._predictions import MetricArguments, read_predictions
from calibrant.metrics._reading import metric, shared
from calibrant.metrics._resampling import Bootstrap
from calibrant.metrics._result import Estimate, Result, doc, result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats
    from calibrant.metrics._measures import Chunk
    from calibrant.metrics._predictions import Predictions

_LEADING_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@metric
def accuracy(_: Any) -> Body:
    """Compute the share of rows whose most probable class is the label.

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
    return Accuracy()


@metric
def negative_log_likelihood(_: Any, *, min_probability: float = MIN_PROBABILITY) -> Body:
    """Compute the mean of -log of the label's probability (log loss, cross-entropy).

    Parameters
    ----------
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
    return LogLoss(min_probability)


@metric
def brier_score(_: Any) -> Body:
    """Compute the Brier score: mean over rows *and* classes of (probability - label)^2.

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
    return Brier()


@metric
def ranked_probability_score(classes: Any) -> Body:
    """Compute the ranked probability score, for ordered classes.

    The mean over rows and the first k - 1 classes of (cumulative probability - label)^2: a
    prediction two grades off costs more than one next to the label. Classes are in the order of the
    columns: sorted, or as in ``classes``.

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
    warn_of_alphabet(classes)
    return RankedProbability()


def warn_of_alphabet(classes: NDArray[Any]) -> None:
    """Warn if classes that are said to be ordered are words in the order of the alphabet.

    Those that begin with numbers that do not fall, as 1 star, 2 stars, and letters, as A to F, are
    in their own order, too.
    """
    words = [str(name) for name in classes if isinstance(name, str)]
    numbers = [float(found[0]) for word in words if (found := _LEADING_NUMBER.match(word))]
    is_told = bool(numbers) or any(len(word) < 2 for word in words)
    is_told &= numbers == sorted(numbers)  # "1", "10", "2" are not
    if len(words) > 2 and words == sorted(words) and not is_told:
        notices.warn(
            errors.ColumnOrderWarning(
                f"classes are in alphabetical order: {errors.some_in_words(classes)}; if their "
                "true order differs, pass the columns and classes= in that order"
            )
        )


class Accuracy(RowMean):
    """Share of rows that are right."""

    name = "accuracy"

    def terms(self, chunk: Chunk) -> Floats:
        return chunk.events(None).hits.astype(np.float64)


class Brier(RowMean):
    """Mean Brier score of rows."""

    name = "brier"

    def terms(self, chunk: Chunk) -> Floats:
        return chunk.squares()


class RankedProbability(RowMean):
    """Mean ranked probability score of rows."""

    name = "ranked probability"

    def terms(self, chunk: Chunk) -> Floats:
        gaps = np.cumsum(chunk.rows[:, :-1], axis=1)
        gaps -= chunk.class_index[:, None] <= np.arange(gaps.shape[1])
        found: Floats = np.minimum(np.square(gaps, out=gaps).mean(axis=1), 1.0)  # sums are rounded
        return found


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
        return chunk.losses(self._min_probability)


ROW_MEANS: dict[str, type[RowMean]] = {
    "accuracy": Accuracy,
    "negative_log_likelihood": LogLoss,
    "brier_score": Brier,
    "ranked_probability_score": RankedProbability,
}
"""Metrics that are means over rows, by the names of their functions."""

PROPER_SCORES = ("negative_log_likelihood", "brier_score", "ranked_probability_score")
"""Those that are proper scores."""


def score_rows(name: str, chunks: Iterable[Chunk]) -> tuple[float, Floats]:
    """Return a metric of all rows, with the bits of its function, and the term of each row."""
    body, terms = ROW_MEANS[name](), []
    state: Any = None
    for chunk in chunks:
        state = state or body.start(1, chunk)  # which has a unit of weights, too
        state.add(chunk)
        terms.append(body.terms(chunk))
    state.settle()
    return state.value(), np.concatenate(terms)


@result()
class PostHocImprovement(Result):
    """Result of :func:`post_hoc_improvement`."""

    metric: str = doc("Name of the metric.")
    improvement: Estimate = doc("Improvement by calibration; negative if the metric gets worse.")
    before: Estimate = doc("Metric before calibration.")
    after: Estimate = doc("Metric after calibration.")
    n_resamples: int
    confidence_level: float = doc("Confidence level of the intervals.")


@inherit_parameters(shared)
def post_hoc_improvement(
    y_true: Any,
    y_proba: Any,
    y_calibrated: Any,
    *,
    metric: str = "brier_score",
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> PostHocImprovement:
    """Compute the post-hoc improvement (PHI), the gain in a score by calibration.

    This is the score of the uncalibrated predictions minus the score of the calibrated ones, on the
    same rows. A map of the predictions cannot refine them, so any gain is a gain in calibration,
    minus the refinement that the map loses.

    Parameters
    ----------
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Probabilities before calibration.
    y_calibrated : array-like of the same shape
        Probabilities after calibration, of the same rows in the same order. The calibrator must
        have been fitted to other rows.
    metric : {"brier_score", "negative_log_likelihood", "accuracy", "ranked_probability_score"}, \
default="brier_score"
        Name of the score. For the accuracy the gain is calibrated minus uncalibrated, so that
        larger is always better.

    Returns
    -------
    PostHocImprovement
        The gain and both scores, each as (value, low, high).

    Notes
    -----
    Intervals are percentiles over rows drawn with replacement, each with both of its predictions.
    CalArena adds the Brier score up over the classes, which makes its gains ``n_classes`` times
    these; see :func:`brier_score`.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, F. Bach and M. I. Jordan, "CalArena: A Large-Scale Post-Hoc
       Calibration Benchmark", arXiv:2605.30188, 2026.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics import post_hoc_improvement
    >>> bold, y = simulated_scores(2000)
    >>> calibrator = TemperatureScaling().fit(bold[:1000], y[:1000])
    >>> found = post_hoc_improvement(y[1000:], bold[1000:], calibrator.predict_proba(bold[1000:]))
    >>> round(found.improvement.value, 3)
    0.031
    >>> found.improvement.low > 0
    True
    """
    simplex.check_option("metric", metric, (*ROW_MEANS,))
    bootstrap = Bootstrap(n_resamples, confidence_level, random_state, n_jobs)
    told = sample_weight, classes, pos_label
    first, second = read_pair(y_true, y_proba, y_calibrated, told)
    before, old = score_rows(metric, first.chunks())
    after, new = score_rows(metric, second.chunks())
    sign = -1.0 if metric == "accuracy" else 1.0
    values, terms = [sign * (before - after), before, after], [sign * (old - new), old, new]
    gain, old_score, new_score = bootstrap.estimates(values, terms, first.row_weights())
    return PostHocImprovement(metric, gain, old_score, new_score, *bootstrap.settings)


def read_pair(
    y_true: Any, y_proba: Any, y_calibrated: Any, told: tuple[Any, Any, Any]
) -> tuple[Predictions, Predictions]:
    """Return the same rows before and after calibration."""
    first = read_predictions(y_true, y_proba, *told)
    second = read_predictions(y_true, y_calibrated, *told, MetricArguments("y_calibrated"))
    if not np.array_equal(first.classes, second.classes):
        raise errors.ShapeError(
            f"y_calibrated has the classes {errors.some_in_words(second.classes)} but y_proba has "
            f"{errors.some_in_words(first.classes)}; pass predictions of the same classes"
        )
    return first, second
