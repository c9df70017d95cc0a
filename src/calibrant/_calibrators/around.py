"""Calibrators around one other calibrator, which may read more of a row than its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant._calibrators.auto import AutoCalibrator
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed
from calibrant._calibrators.parameters import leading
from calibrant._row_sample import RowSample
from calibrant._types import Bools
from calibrant.errors import ContainerError, ParameterError, in_words
from calibrant.scale import as_chunks

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap


class Around(Composed):
    """A calibrator around another one, by default ``AutoCalibrator``."""

    stands_alone = False
    _most_points = 0

    calibrator: Any = leading(default=None, kw_only=False)

    @property
    def _inner(self) -> Any:
        return AutoCalibrator() if self.calibrator is None else self.calibrator

    def _inside(self) -> list[Calibrator]:
        return [self._inner]

    def _fitted_inside(self, fitted: dict[str, Any]) -> list[Calibrator]:
        return [fitted["calibrator_"]]


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
            raise ParameterError(
                f"calibrator={in_words(self.calibrator)} must be a calibrator of scores alone, "
                "such as AutoCalibrator(); for groups and features, pass the group as a feature"
            )
        inner._check_parameters()  # noqa: SLF001  (ours)

    def _fit_beside(
        self, scores: object, y: object, sample_weight: object, given: object, groups: object = None
    ) -> Self:
        """Fit to rows in memory and to what is given beside them."""
        if isinstance(scores, RowSample) or as_chunks(scores, y, sample_weight) is not None:
            raise self._not_chunked("fit to arrays in memory")
        return self._fit_rows(
            scores, y, sample_weight, groups, given=given, given_weight=sample_weight
        )

    def partial_fit(self, *_: Any, **__: Any) -> Self:
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

    def _warn_of_shares(self, batch: SimplexBatch, fitted_map: CalibrationMap) -> None:
        super()._warn_of_shares(batch, fitted_map.stages[0])  # type: ignore[attr-defined]

    def _predict_lazily(self, method: str, scores: object) -> Any:  # noqa: ARG002
        raise self._not_chunked("predict partitions of rows in memory")

    def _not_chunked(self, remedy: str) -> ContainerError:
        return ContainerError(
            f"scores is in chunks, which {type(self).__name__} does not accept; {remedy}"
        )
