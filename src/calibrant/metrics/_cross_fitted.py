"""What of a proper score is calibration, what is refinement, by recalibration on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._row_order import deal_rows
from calibrant.metrics._chunk import Chunk
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._predictions import read_predictions
from calibrant.metrics._resampling import Bootstrap, not_negative
from calibrant.metrics._result import Estimate, Result
from calibrant.metrics._scores import PROPER_SCORES, score_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._calibrators.base import Calibrator
    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._predictions import Predictions


@dataclass(frozen=True, slots=True)
class CrossFittedDecomposition(Result):
    """Result of :func:`cross_fitted_decomposition`: score = calibration + refinement.

    Attributes
    ----------
    metric : str
        Id of the score.
    score : Estimate
        Of the predictions as they are.
    calibration : Estimate
        What recalibration gains on rows that it was not fitted to; negative where it loses.
    refinement : Estimate
        Score of the recalibrated predictions.
    n_folds : int
        Folds that there were; 1 if all rows are the same.
    n_resamples : int
    confidence_level : float
        Of the intervals.
    """

    metric: str
    score: Estimate
    calibration: Estimate
    refinement: Estimate
    n_folds: int
    n_resamples: int
    confidence_level: float


@inherit_parameters
def cross_fitted_decomposition(
    y_true: Any,
    y_proba: Any,
    *,
    metric: str = "negative_log_likelihood",
    recalibrator: Any = None,
    n_folds: int = 5,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> CrossFittedDecomposition:
    """Split a proper score into calibration and refinement by a recalibrator of other folds.

    Each fold is recalibrated by what was fitted to the others. The score of these predictions is
    the refinement, what is left when the probabilities are put right; the calibration part is
    what that gains. Nothing is gained by chance: since the labels of a row are not seen before it
    is judged, the calibration part is on average at most the true one, whatever the recalibrator,
    and the better that is the closer it gets.

    Parameters
    ----------
    metric : {"negative_log_likelihood", "brier_score"}, default="negative_log_likelihood"
        The score, as its function has it by default.
    sample_weight : array-like of shape (n_rows,), optional
        Weight 2 is the row twice in every value, and may be in two folds; the intervals draw as one
        row what of it is in one fold.

    Returns
    -------
    CrossFittedDecomposition
        The score and its parts, each as (value, low, high).

    See Also
    --------
    score_decomposition : The same by isotonic regression of each class, on the rows themselves.

    Notes
    -----
    Intervals are percentiles of the mean over rows drawn with replacement, with the recalibrators
    as they are. The calibration part cannot be negative, so its interval reaches up to zero at
    least. Take its low end as a bound; the high end is one only as far as the recalibrator can be
    right (docs/metrics.md).

    Several matrices of the size of ``y_proba`` are in memory at once.

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
    predictions = read_predictions(y_true, y_proba, sample_weight, classes, pos_label=pos_label)
    held = hold_out(predictions, recalibrator, int(n_folds), n_jobs)
    score, before = score_rows(metric, held.chunks(held.rows))
    refinement, after = score_rows(metric, held.chunks(held.recalibrated))
    whole, gained, left = bootstrap.estimates(
        [score, score - refinement, refinement],
        [before, before - after, after],
        held.weight,
    )
    return CrossFittedDecomposition(
        metric=metric,
        score=whole,
        calibration=not_negative(gained),
        refinement=left,
        n_folds=held.n_folds,
        n_resamples=int(n_resamples),
        confidence_level=float(confidence_level),
    )


class RecalibratedRows(NamedTuple):
    """Rows by fold, as they were predicted and recalibrated by calibrators of other folds.

    A row that is in several folds is here once for each, with its weight there. Weights are in
    units of ``unit``, as those of ``Predictions``.
    """

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
            f"recalibrator={errors.in_words(recalibrator)} is no calibrator; pass one of "
            "calibrant's, such as calibrant.TemperatureScaling()"
        )
    recalibrator._check_parameters()  # noqa: SLF001  (ours)
    return recalibrator


def hold_out(
    predictions: Predictions, recalibrator: Calibrator, n_folds: int, n_jobs: int | None
) -> RecalibratedRows:
    """Recalibrate each fold by what was fitted to the others.

    Rows are dealt to folds without a look at their labels. Folds that are balanced by them know of
    each other, and what is found on one is then found on the next, also where it is chance. One row
    alone stays as it is.
    """
    from calibrant._calibrators.composition import out_of_fold

    rows, unit = predictions.all_rows(), predictions.unit
    batch = simplex.SimplexBatch(
        rows,
        "probabilities",
        predictions.class_index,
        predictions.row_weights() * unit,
        predictions.classes,
    )
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
