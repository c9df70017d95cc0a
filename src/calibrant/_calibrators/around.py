"""Calibrators around one other calibrator: of the options a row has, or with more to read."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from calibrant._calibrators.auto import AutoCalibrator
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed, fit_part, stage_of
from calibrant._calibrators.parameters import fitted, number, wrong
from calibrant._gate import refuse_other_index, two_column_kind
from calibrant._maps.base import MaskedMap, fill_absent
from calibrant._row_sample import RowSample
from calibrant._types import Bools, Floats
from calibrant.errors import ContainerError, LabelError, ParameterError, in_words
from calibrant.scale import as_chunks

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap


# Methods that work where a class has probability 0 in some rows: the others fit a map to the scores
# of each class, or count how often it was offered.
CAPABLE = ("auto", "ts", "structured", "spline", "fir", "na-fir", "scir")
DEPTH = 100.0  # logit of an absent option below the largest, by the spread of the others


class Around(Composed):
    """A calibrator around another one, by default ``AutoCalibrator``."""

    stands_alone = False
    _most_points = 0

    calibrator: Calibrator | None = field(default=None, kw_only=False)

    if TYPE_CHECKING:
        calibrator_: Calibrator = fitted()

    @property
    def _inner(self) -> Calibrator:
        return AutoCalibrator() if self.calibrator is None else self.calibrator

    def _inside(self) -> list[Calibrator]:
        return [self._inner]

    def _fitted_inside(self) -> list[Calibrator]:
        return [self.calibrator_]


class MaskedCalibrator(Around):
    """Calibrator for rows that have only some of the options, such as exam questions.

    An option whose probability is exactly 0, or whose logit is minus infinity, is absent from its
    row. It keeps probability 0 and does not enter the likelihood.

    Parameters
    ----------
    calibrator : calibrator, optional
        What is fitted to the options that are there: ``AutoCalibrator`` (the default), temperature
        or structured scaling, a spline, FIR, NA-FIR or SCIR. Its ``min_probability`` is their
        floor.
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
            problem = f"does not support absent options; use one of {', '.join(CAPABLE)}"
            message = f"calibrator={type(inner).__name__} {problem}"
            raise ParameterError(message, argument="calibrator", value=inner)
        inner._check_parameters()  # noqa: SLF001  (ours)
        for candidate in getattr(inner, "candidates", None) or ():
            if candidate in ("ir-ovr", "two-class"):
                problem = f"has {candidate!r}, which does not support absent options; leave it out"
                raise wrong("candidates", inner.candidates, problem)

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
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

    def _compose(self) -> CalibrationMap:
        return MaskedMap(stage_of(self.calibrator_), self.depth_, two_column_kind(self.scores))


class AroundWithColumns(Around):
    """A calibrator whose fit and predictions read something ``beside`` the scores of each row."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        inner = self._inner
        if (
            not isinstance(inner, Calibrator)
            or inner.beside is not None
            or inner.method == "masked"  # absent options would get a probability
        ):
            problem = "must be a calibrator of scores alone, such as AutoCalibrator(); for groups "
            problem += "and features, pass the group as a feature"
            raise wrong("calibrator", self.calibrator, problem)
        inner._check_parameters()  # noqa: SLF001  (ours)

    def _fit_beside(
        self, scores: object, y: object, sample_weight: object, given: object, groups: object = None
    ) -> Self:
        """Fit to rows in memory and to what is given beside them."""
        if isinstance(scores, RowSample) or as_chunks(scores, y, sample_weight) is not None:
            raise self._not_chunked("fit to arrays in memory")
        refuse_other_index(scores, y, given, self.beside or "")
        more = {"given": given, "given_weight": sample_weight}
        return self._fit_rows(scores, y, sample_weight, groups, **more)

    def partial_fit(self, *_: object, **__: object) -> Self:
        """Refuse to add rows: nothing that stood beside earlier rows is kept."""
        raise ContainerError(
            f"{type(self).__name__} has no partial_fit, as it keeps no {self.beside} of earlier "
            "rows; call fit with all rows"
        )

    @staticmethod
    def _is_used(batch: SimplexBatch, given_weight: object) -> Bools:
        """Return which of the given rows have a weight: they are those of the batch."""
        if given_weight is None:
            return np.ones(batch.n_rows, bool)
        return np.asarray(given_weight, dtype=np.float64) > 0.0

    @property
    def _map_of_scores(self) -> CalibrationMap:
        stage: CalibrationMap = self.map_.stages[0]  # type: ignore[attr-defined]
        return stage

    def _predict_lazily(self, method: str, scores: object) -> Floats:  # noqa: ARG002
        raise self._not_chunked("predict partitions of rows in memory")

    def _not_chunked(self, remedy: str) -> ContainerError:
        return ContainerError(
            f"scores is in chunks, which {type(self).__name__} does not accept; {remedy}"
        )
