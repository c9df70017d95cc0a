"""Rows of other class frequencies: a factor for each class, and a division."""

from __future__ import annotations

import numpy as np

from calibrant._kernels.rows import divide_by_sums
from calibrant._maps.base import LARGEST, CalibrationMap, check_array, ensure, freeze, frozen
from calibrant._types import Floats


@frozen
class PriorMap(CalibrationMap):
    """p_c ratio_c, divided by the sum of the row: exact zeros stay.

    A row that only has classes of ratio 0 becomes the ratios, divided by their sum: the limit of
    rows with equal small probabilities of the other classes.
    """

    ratio: Floats
    kind: str = "probabilities"

    changes_shares = True

    def __post_init__(self) -> None:
        self._check_kind()
        freeze(self, "ratio")
        check_array(self, "ratio", [(self.ratio.size,)], low=0.0)
        positive = self.ratio[self.ratio > 0.0]
        ensure(positive.size, "ratio is 0 for every class")
        smallest = float(positive.min())
        ensure(smallest >= 1.0 / LARGEST, f"ratio has the entry {smallest}, below {1.0 / LARGEST}")

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        """Whether nothing is shifted."""
        return bool(np.ptp(self.ratio) == 0.0)

    same_for_all_classes = keeps_order

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.ratio)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        if self.keeps_order:  # no bit changes
            return rows
        out = rows * self.ratio
        # Classes that never come keep no probability, also where a row has no other class.
        out[~out.any(axis=1)] = self.ratio
        divide_by_sums(out, rows)
        return out
