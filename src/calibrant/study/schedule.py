"""Which cells come first, and how long the rest will take."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from calibrant.study.cell import Cell

SQUARE = frozenset({"ms", "dirichlet", "structured", "auto"})
"""Methods with a parameter for each pair of classes."""


def cost(cell: Cell) -> float:
    """Work of a cell in units of its method's own, which only a run can tell."""
    file = cell.file
    numbers = (file.n_val + file.n_test) * file.n_classes
    return float(numbers * file.n_classes if cell.method in SQUARE else numbers)


def longest_first(cells: Iterable[Cell]) -> list[Cell]:
    """Order cells so that no long one starts when the others have ended."""
    return sorted(cells, key=lambda cell: (-cost(cell), cell.name))


class TimeLeft:
    """Learns how long methods take from the cells that are finished, some at a time."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._cost: defaultdict[str, float] = defaultdict(float)

    def learn(self, cell: Cell, seconds: float) -> None:
        """Take in how long a cell took; NaN tells nothing."""
        if math.isfinite(seconds):
            self._seconds[cell.method] += seconds
            self._cost[cell.method] += cost(cell)

    def estimate(self, cells: Iterable[Cell]) -> float:
        """Seconds until these cells are done; NaN as long as no cell is finished."""
        expected = [cost(cell) * self._rate(cell.method) for cell in cells]
        if not expected:
            return 0.0
        return max(math.fsum(expected) / self.n_workers, *expected)

    def _rate(self, method: str) -> float:
        """Seconds per unit of cost: of the method, else of those with costs of the same kind."""
        alike = [name for name in self._cost if (name in SQUARE) == (method in SQUARE)]
        known = [method] if method in self._cost else alike or list(self._cost)
        total = math.fsum(self._cost[name] for name in known)
        return math.fsum(self._seconds[name] for name in known) / total if total else math.nan
