"""Predictions that a calibrator recalibrates without having seen the labels of their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import errors, simplex, threads
from calibrant.metrics.chunk import Chunk
from calibrant.row_order import deal_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant.calibrators.base import Calibrator
    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.predictions import Predictions


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


def hold_out(
    predictions: Predictions, recalibrator: Calibrator, n_folds: int, n_jobs: int | None
) -> RecalibratedRows:
    """Recalibrate each fold by what was fitted to the others.

    Rows are dealt to folds without a look at their labels. Folds that are balanced by them know of
    each other, and what is found on one is then found on the next, also where it is chance. One row
    alone stays as it is.
    """
    from calibrant.calibrators.composition import out_of_fold

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
