"""Statistics of methods that need rows as they are: all of them while they fit, then a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant import errors
from calibrant.scale.kept_rows import KeptRows, usual_limit
from calibrant.scale.statistics import Solution, Statistics

if TYPE_CHECKING:
    from calibrant.scale.parts import Part

CELLS = 1 << 19
"""Cells of the rows that are kept: solvers that know no other way hold several copies of them, and
try many fits; a quarter of what others keep."""


class RowStatistics(Statistics):
    """The rows that were kept, for calibrators that have no statistics of their own."""

    method = "rows"

    def _start(self) -> list[Part]:
        limit = self.max_rows or usual_limit(self.n_classes, CELLS)
        return [KeptRows(self.n_classes, self.scores, limit)]

    def _solution(self) -> Solution:
        """Refuse: a calibrator knows what to do with rows."""
        raise errors.StatisticsError(
            "these are rows of any method; fit a calibrator to them by its fit_statistics"
        )
