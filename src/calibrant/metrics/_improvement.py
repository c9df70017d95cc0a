"""PHI: what calibration gains in a score, over the predictions as they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._predictions import MetricArguments, read_predictions
from calibrant.metrics._resampling import Bootstrap
from calibrant.metrics._result import Estimate, Result
from calibrant.metrics._scores import ROW_MEANS, score_rows


@dataclass(frozen=True, slots=True)
class PostHocImprovement(Result):
    """Result of :func:`post_hoc_improvement`.

    Attributes
    ----------
    metric : str
        Id of the metric.
    improvement : Estimate
        What is gained; negative if the predictions are worse than before.
    before, after : Estimate
        The metric of both predictions.
    n_resamples : int
    confidence_level : float
        Of the intervals.
    """

    metric: str
    improvement: Estimate
    before: Estimate
    after: Estimate
    n_resamples: int
    confidence_level: float


@inherit_parameters
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
    """Post-hoc improvement (PHI): the gain in a proper score from calibration.

    The score of the predictions as they were, minus that of the calibrated ones, on the same rows.
    A map of the predictions cannot make them more refined, only less: so what is gained is gained
    in calibration, and what a map destroys is subtracted. A calibration error alone would prefer
    the frequencies of the classes to any classifier.

    Parameters
    ----------
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Probabilities before calibration.
    y_calibrated : array-like of the same shape
        Probabilities after calibration, of the same rows in the same order. The calibrator must
        have been fitted to others.
    metric : {"brier_score", "negative_log_likelihood", "accuracy"}, default="brier_score"
        Of which the gain is asked; of the accuracy it is the calibrated minus the uncalibrated, so
        that more is always better.

    Returns
    -------
    PostHocImprovement
        The gain and both scores, each as (value, low, high).

    Notes
    -----
    Intervals are percentiles over rows drawn with replacement. A row is drawn with both of its
    predictions: what they have in common, which is most of it, cancels, so that the interval of the
    gain is far narrower than those of the scores.

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
    given = {"sample_weight": sample_weight, "classes": classes, "pos_label": pos_label}
    first = read_predictions(y_true, y_proba, **given)
    named = MetricArguments("y_calibrated")
    second = read_predictions(y_true, y_calibrated, named=named, **given)
    if not np.array_equal(first.classes, second.classes):
        raise errors.ShapeError(
            f"y_calibrated has the classes {errors.some_in_words(second.classes)} but y_proba has "
            f"{errors.some_in_words(first.classes)}; pass predictions of the same classes"
        )
    before, old = score_rows(metric, first.chunks())
    after, new = score_rows(metric, second.chunks())
    sign = -1.0 if metric == "accuracy" else 1.0
    gain, of_before, of_after = bootstrap.estimates(
        [sign * (before - after), before, after],
        [sign * (old - new), old, new],
        first.row_weights(),
    )
    return PostHocImprovement(
        metric=metric,
        improvement=gain,
        before=of_before,
        after=of_after,
        n_resamples=int(n_resamples),
        confidence_level=float(confidence_level),
    )
