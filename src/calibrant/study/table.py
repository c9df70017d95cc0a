"""The tidy table of a study: one row per classifier, method and metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.calibrators.methods import methods
from calibrant.trial import UNCALIBRATED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

PAPER_METHODS = (UNCALIBRATED, *(name for name, cls in methods().items() if cls.in_paper))
"""Columns of the paper's Table 2, in its order."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One number of a study.

    Attributes
    ----------
    dataset, model : str
        The two halves of the name of the prediction file.
    method : str
        A key of ``methods()``, or "uncalibrated".
    metric : str
        "accuracy", "nll", "brier", "conf-ece", "cw-ece" or "tece"; ECEs also with a number of
        bins, as "conf-ece-10".
    value : float
        On the test part; NaN if the method failed.
    seconds : float
        Wall-clock time of the fit on the val part.
    versions : str
        Of what computed it, as "calibrant 0.1.0; numpy 2.4.0; ...".
    """

    dataset: str
    model: str
    method: str
    metric: str
    value: float
    seconds: float
    versions: str = ""


@dataclass(frozen=True, slots=True)
class StudyTable:
    """All numbers of a study.

    Examples
    --------
    >>> from calibrant.study.table import StudyRow, StudyTable
    >>> table = StudyTable.of(
    ...     [StudyRow("mnist", "lenet", "ts", "nll", 0.3, 0.1),
    ...      StudyRow("mnist", "lenet", "uncalibrated", "nll", 0.4, 0.0)])
    >>> table.methods
    ('uncalibrated', 'ts')
    >>> table.matrix("nll")
    array([[0.4, 0.3]])
    """

    rows: tuple[StudyRow, ...]

    @classmethod
    def of(cls, rows: Iterable[StudyRow]) -> StudyTable:
        """Make a table of rows in any order."""
        ordered = sorted(rows, key=lambda r: (r.dataset, r.model, r.method, r.metric))
        return cls(tuple(ordered))

    @property
    def cases(self) -> tuple[tuple[str, str], ...]:
        """Every (dataset, model), sorted: the rows of ``matrix``."""
        return tuple(sorted({(row.dataset, row.model) for row in self.rows}))

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every data set, sorted."""
        return tuple(sorted({row.dataset for row in self.rows}))

    @property
    def methods(self) -> tuple[str, ...]:
        """The columns of ``matrix``: the paper's first, in its order, then the others by name."""
        present = {row.method for row in self.rows}
        others = sorted(present.difference(PAPER_METHODS))
        return tuple(m for m in PAPER_METHODS if m in present) + tuple(others)

    @property
    def case_datasets(self) -> tuple[str, ...]:
        """The data set of every case."""
        return tuple(dataset for dataset, _ in self.cases)

    def matrix(self, metric: str, methods: Sequence[str] | None = None) -> NDArray[np.float64]:
        """Return a metric, cases by methods (all by default); NaN where there is no number."""
        return self._fill({metric}, "value", methods)

    def seconds(self, methods: Sequence[str] | None = None) -> NDArray[np.float64]:
        """Return the times of the fits, cases by methods."""
        return self._fill({row.metric for row in self.rows}, "seconds", methods)

    def _fill(
        self, metrics: set[str], field: str, methods: Sequence[str] | None
    ) -> NDArray[np.float64]:
        case = {pair: i for i, pair in enumerate(self.cases)}
        column = {method: j for j, method in enumerate(methods or self.methods)}
        out = np.full((len(case), len(column)), np.nan)
        for row in self.rows:
            if row.metric in metrics and row.method in column:
                out[case[row.dataset, row.model], column[row.method]] = getattr(row, field)
        return out
