"""``Statistics``: all that a fit needs to know of a calibration set, in a bounded number of bytes.

Chunks of rows are counted wherever they are and merged in their order. What was counted can be
written, sent, read, weighted down and solved. A pass over the data may ask for another one:
``Solution.again`` is what that has to count.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant.scale._kept_rows import CELLS, KeptRows, usual_limit
from calibrant.scale._mergeable import Mergeable

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._maps.base import CalibrationMap
    from calibrant._simplex import SimplexBatch
    from calibrant.scale._parts import Part, PassPart


@dataclass(frozen=True)
class Solution:
    """What statistics tell, and ``again``: those of another pass, if that would better it."""

    found: dict[str, Any] | Callable[[], dict[str, Any]]
    again: Statistics | None = None

    @cached_property
    def fitted(self) -> dict[str, Any]:
        """The fitted attributes of a calibrator, ``map_`` among them."""
        return self.found() if callable(self.found) else self.found

    @property
    def is_of_kept_rows(self) -> bool:
        """Whether it is the fit of the rows that were kept, which only another pass betters."""
        return callable(self.found)


class Statistics(Mergeable):
    """Sums over a calibration set to which a method is fitted; they can be added and merged.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        Label of each column.
    scores, normalize
        As in the calibrator.
    max_rows : int, optional
        Largest number of rows that are kept unchanged. If no more are counted, the fit equals that
        in memory; by default 2**20 / n_classes, and 8,192 where memory allows it.
    **options
        Parameters of the method, by the names of its calibrator.

    Attributes
    ----------
    n_rows : int
        Number of rows counted so far, without rows of weight 0.
    weight : float
        Total weight of these rows.

    See Also
    --------
    calibrant.NormalizationAwareIsotonic.statistics : Makes those of a calibrator.

    Examples
    --------
    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import Statistics
    >>> scores, y = simulated_scores()
    >>> here = FlattenedIsotonic().statistics([0, 1, 2]).update(scores[:600], y[:600])
    >>> there = here.empty().update(scores[600:], y[600:])
    >>> merged = here.merge(Statistics.from_bytes(there.to_bytes()))
    >>> merged.n_rows, merged.weight
    (1000, 1000.0)
    >>> FlattenedIsotonic().fit_statistics(merged)
    FlattenedIsotonic()
    """

    method: ClassVar[str]
    checks: ClassVar[dict[str, Callable[[str, Any], None] | None]] = {}
    """What refuses an option, which may come from a stranger's file; the calibrator fills it in."""

    def __init__(
        self,
        classes: Any,
        *,
        scores: str = "probabilities",
        normalize: str | None = None,
        max_rows: int | None = None,
        **options: Any,
    ) -> None:
        if max_rows is not None:
            simplex.check_number("max_rows", max_rows, low=1, whole=True)
        for name, value in options.items():
            if self.checks and name not in self.checks:
                raise errors.ParameterError(
                    f"{self.method} has no option {name!r}; it has "
                    f"{errors.some_in_words([*self.checks])}"
                )
            if (check := self.checks.get(name)) is not None:
                check(name, value)
        self.max_rows = max_rows
        self.before: Self | None = None
        """Those of the pass before, where this is not the first; they are not sent anywhere."""
        super().__init__(classes, scores=scores, normalize=normalize, **options)

    @property
    def kept(self) -> KeptRows:
        """The rows that were kept."""
        if "kept" not in self.parts:
            raise errors.StatisticsError(
                "these are sums of a later pass, which cannot be solved alone; merge them into "
                "the statistics that requested them"
            )
        found: Any = self.parts["kept"]
        rows: KeptRows = found
        return rows

    def _keep(self, cells: int = CELLS, sample: int | None = None) -> KeptRows:
        """Return an empty ``KeptRows``, for ``_start``."""
        limit = self.max_rows or usual_limit(self.n_classes, cells)
        return KeptRows(self.n_classes, self.kind, limit, sample)

    def kept_batch(self) -> SimplexBatch:
        """Return the rows that were kept as a calibration set, with their own weights."""
        return self.kept.batch(self.classes)

    def check(self) -> None:
        """Refuse what no rows can have counted; it may come from a stranger's file."""
        super().check()
        if "kept" in self.parts:
            kept = self.kept_batch()
            n_labels = np.bincount(kept.class_index, minlength=self.n_classes)
            if kept.n_rows > self.n_rows or np.any(n_labels[self.labels == 0.0]):
                raise ValueError("there are more kept rows than rows")

    def solution(self) -> Solution:
        """Fit to all rows counted so far."""
        n_kept = self.kept.n_rows if self.before is None else 1  # refuses sums of a later pass
        if self.n_rows == 0:
            raise errors.ShapeError("no row with a weight was counted: there is nothing to fit")
        if n_kept == 0:
            raise errors.StatisticsError(
                "the kept rows have no weight left, perhaps after many decay factors; count the "
                "rows again"
            )
        with self._solved():
            return self._solution()

    @abstractmethod
    def _solution(self) -> Solution:
        """Fit to the rows counted so far, of which there is one at least."""

    def solve(self) -> CalibrationMap:
        """Fit to all rows counted so far, and return the map."""
        solution = self.solution()
        with self._solved():
            found: CalibrationMap = solution.fitted["map_"]
        return found

    def empty(self) -> Self:
        """Return statistics that ask for the same and have counted nothing."""
        found = super().empty()
        found.before = None
        return found

    def to_bytes(self) -> bytes:
        """Return all of it in bytes, the same for the same rows; nothing in them is code."""
        return super().to_bytes() if self.kept else b""

    def passes(self) -> list[Self]:
        """Return the statistics of all passes, the first of them first."""
        return [self] if self.before is None else [*self.before.passes(), self]

    def next_pass(self, *parts: PassPart) -> Self:
        """Return empty statistics that count other parts of the same rows, for ``again``."""
        found = self.empty()
        found.before, found.parts = self, {part.name: part for part in parts}
        return found

    def about(self) -> dict[str, Any]:
        """Return what these statistics are of, in plain values."""
        return super().about() | {"max_rows": self.max_rows}


FEWER_CELLS = CELLS >> 1
"""Cells of the rows that are kept for methods that know no other way: solvers hold several copies
of them, and try many fits."""


class RowStatistics(Statistics):
    """The rows that were kept, for calibrators that have no statistics of their own."""

    method = "rows"

    def _start(self) -> list[Part]:
        return [self._keep(FEWER_CELLS)]

    def _solution(self) -> Solution:
        """Refuse: a calibrator knows what to do with rows."""
        raise errors.StatisticsError(
            "these are kept rows, for any method; fit a calibrator with its fit_statistics"
        )
