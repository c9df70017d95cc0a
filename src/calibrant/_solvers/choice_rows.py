"""Rows that a choice by cross-validation is made on: as many as it takes, and not more.

A choice between a few strengths of a prior or a penalty needs far fewer rows than a fit. From a
thousand rows on, what is chosen hardly changes, and what it changes in the fit to all rows is less
still: with more rows, strengths that differ by a factor give nearly the same fit. How the bound was
found is told in ``docs/choices.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._row_order import sample_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch

CELLS = 1 << 16
LEAST_ROWS = 2500
"""Different rows that are looked at: so many cells of them, but never fewer rows than these."""


def choice_rows(batch: SimplexBatch) -> NDArray[np.bool_] | None:
    """Which rows a choice is made on, by their content alone; None if it is all of them."""
    most = max(CELLS // batch.n_classes, LEAST_ROWS)
    if batch.n_rows <= most:
        return None
    chosen = sample_rows(batch.scores, batch.kind, most)
    return None if chosen.all() else chosen
