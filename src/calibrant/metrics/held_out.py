"""Predictions that a calibrator recalibrates without having seen the labels of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import errors, simplex, threads
from calibrant.row_order import group_rows

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator
    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.predictions import Predictions


class HeldOut(NamedTuple):
    """Rows as they were predicted, recalibrated by calibrators of other folds, and the folds."""

    rows: Floats
    recalibrated: Floats
    n_folds: int


def check_recalibrator(recalibrator: Any, n_folds: Any) -> Calibrator:
    """Return the calibrator that was asked for; refuse what is none."""
    from calibrant.calibrators.base import Calibrator  # here, as most metrics need none
    from calibrant.calibrators.structured import StructuredScaling

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


def deal_folds(rows: Floats, n_folds: int) -> Wholes:
    """Fold of each row by its probabilities alone, rounded, whatever their order.

    Labels must not be looked at: folds that are balanced by them know of each other, and what is
    found on one is then found on the next, also where it is chance. Rows of equal probabilities
    share a fold, so that weight 2 is the row twice.
    """
    return group_rows(rows, "probabilities", None) % n_folds


def hold_out(
    predictions: Predictions, recalibrator: Calibrator, n_folds: int, n_jobs: int | None
) -> HeldOut:
    """Recalibrate each fold by what was fitted to the others.

    Rows that all have the same probabilities are one fold, and stay as they are.
    """
    from calibrant.calibrators.composition import out_of_fold

    rows = predictions.all_rows()
    folds = deal_folds(rows, n_folds)
    found = len(np.unique(folds))
    if found < 2:
        return HeldOut(rows, rows, 1)
    batch = simplex.SimplexBatch(
        rows,
        "probabilities",
        predictions.class_index,
        predictions.row_weights() * predictions.unit,
        predictions.classes,
    )
    with threads.jobs(n_jobs):
        return HeldOut(rows, out_of_fold(recalibrator, batch, folds), found)
