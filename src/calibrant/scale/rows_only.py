"""Statistics of methods that need rows as they are: all of them while they fit, then a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant import errors
from calibrant.scale.statistics import Solution, Statistics

if TYPE_CHECKING:
    from calibrant.scale.parts import Part


class RowStatistics(Statistics):
    """The rows that were kept, for calibrators that have no statistics of their own."""

    method = "rows"

    def _start(self) -> list[Part]:
        return [self._keep()]

    def solution(self) -> Solution:
        """Refuse: a calibrator knows what to do with rows."""
        raise errors.StatisticsError(
            "these are rows of any method; fit a calibrator to them by its fit_statistics"
        )
