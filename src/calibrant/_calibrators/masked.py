"""``MaskedCalibrator``: rows of which each has some of the options only."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._calibrators.around import Around
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import fit_part, stage_of
from calibrant._calibrators.parameters import fitted, number
from calibrant._gate import two_column_kind
from calibrant._maps.base import MaskedMap, fill_absent
from calibrant.errors import LabelError, ParameterError, in_words

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap

CAPABLE = ("auto", "ts", "structured", "spline", "fir", "na-fir", "scir")
"""Methods that work where a class has probability 0 in some rows: the others fit a map to the
scores of each class, or count how often it was offered."""

DEPTH = 100.0
"""Logit of an absent option below the largest, in units of the spread of the others."""


class MaskedCalibrator(Around):
    """Calibrator for rows that have only some of the options, such as exam questions.

    An option whose probability is exactly 0, or whose logit is minus infinity, is absent from its
    row. It keeps probability 0 and does not enter the likelihood. Temperature scaling and shared
    isotonic maps are the same as without it; structured scaling has parameters for each class,
    which are used where the class is present.

    Parameters
    ----------
    calibrator : calibrator, optional
        What is fitted to the options that are there: ``AutoCalibrator`` (the default),
        ``TemperatureScaling``, ``StructuredScaling``, ``MonotoneSpline``, ``FlattenedIsotonic``,
        ``NormalizationAwareIsotonic`` or ``SortedCumulativeIsotonic``. Its ``min_probability``
        is the floor of the options that are there.
    min_probability : float, default=0.0
        Always 0, as absent options keep probability 0.

    Attributes
    ----------
    calibrator_ : calibrator
        The fitted calibrator.
    depth_ : float
        Gap to the largest logit of a row at which an absent option is passed to the calibrator.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import MaskedCalibrator, TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> scores, y = simulated_scores()
    >>> narrow = (np.arange(len(y)) % 10 == 0) & (y < 2)
    >>> scores[narrow, 2] = 0.0  # no such option in these rows
    >>> scores /= scores.sum(axis=1, keepdims=True)
    >>> masked = MaskedCalibrator(TemperatureScaling()).fit(scores, y)
    >>> bool((masked.predict_proba(scores)[narrow, 2] == 0.0).all())
    True
    """

    method = "masked"
    title = "Masked"

    min_probability: float = number(default=0.0, high=0.0)
    calibrator_: Calibrator = fitted()
    depth_: float = fitted()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        inner = self._inner
        if not isinstance(inner, Calibrator) or inner.method not in CAPABLE:
            raise ParameterError(
                f"calibrator={type(inner).__name__} does not support absent options; use one of "
                f"{', '.join(CAPABLE)}"
            )
        inner._check_parameters()  # noqa: SLF001  (ours)
        for candidate in getattr(inner, "candidates", None) or ():
            if candidate in ("ir-ovr", "two-class"):
                raise ParameterError(
                    f"candidates has {in_words(candidate)}, which does not support absent options; "
                    "leave it out"
                )

    def _fit_parts(self, batch: SimplexBatch) -> dict[str, Any]:
        _, absent = fill_absent(batch.scores, batch.kind, np.inf)
        on_absent = absent[np.arange(batch.n_rows), batch.class_index]
        if on_absent.any():
            row = int(np.argmax(on_absent))
            label = in_words(batch.classes[batch.class_index[row]])
            raise LabelError(
                f"y: row {row} of those with a weight has the label {label}, but this option is "
                "absent (probability 0, or a logit of minus infinity); drop the row"
            )
        batch = batch.merged()  # so that a weight of 2 is two rows to the bit
        gaps, absent = fill_absent(batch.scores, batch.kind, np.inf)
        present, weight = gaps[~absent], np.broadcast_to(batch.weight[:, None], gaps.shape)[~absent]
        mean = np.average(present, weights=weight)
        spread = math.sqrt(np.average((present - mean) ** 2, weights=weight))
        depth = DEPTH * (spread or 1.0)
        filled = replace(batch, scores=np.maximum(gaps, -depth), kind="logits")
        part = fit_part(self._inner, filled)
        return {"calibrator_": part, "depth_": depth, "solver_report_": part.solver_report_}

    def _compose(self, fitted: dict[str, Any]) -> CalibrationMap:
        kind = two_column_kind(self.scores)
        return MaskedMap(stage_of(fitted["calibrator_"]), fitted["depth_"], kind)
