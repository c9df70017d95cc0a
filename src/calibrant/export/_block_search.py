"""Find the block of each score in a formula, by bisection: formulas have no binary search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.export._operations import Operations, Value


def find_blocks(
    ops: Operations,
    x: Value,
    thresholds: Sequence[Floats],
    curve_of: Wholes | None = None,
    *,
    above: float = math.inf,
) -> tuple[Value, Value]:
    """Block of each cell, the last whose threshold is not above it, and where blocks end.

    Blocks are counted over all curves, from 1 on: block b lies between entries b - 1 and b of the
    second value, except for the first and the last of a curve, which end at ``above``, a number
    that no score reaches. ``thresholds`` are where the blocks of each curve start; what lies below
    the second is in the first, and NaN in some block. All columns have the only curve without
    ``curve_of``.
    """
    sizes = np.array([len(curve) for curve in thresholds])
    last = np.cumsum(sizes)
    first = last - sizes + 1
    n_rounds = max(1, int(sizes.max() - 1).bit_length())
    # The last steps of a search may look beyond the only curve.
    beyond = np.full((1 << n_rounds) if len(sizes) == 1 else 0, above)
    ends = np.concatenate([[above], *([*curve[1:], above] for curve in thresholds), beyond])
    edges = ops.fitted("edges", ends)

    def of_curve(name: str, values: NDArray[np.generic]) -> Value:
        """Give what belongs to the curve of a column."""
        return values[0].item() if curve_of is None else ops.fitted(name, values[curve_of])

    # The first step asks about one edge of each curve, which needs no table.
    step = 1 << (n_rounds - 1)
    middle = ends[np.minimum(first + step - 1, last)]
    block = ops.whole(x >= of_curve("middle", middle)) * step + of_curve("first_block", first)
    end = of_curve("last_block", last) if len(sizes) > 1 and n_rounds > 1 else None
    while step > 1:
        step //= 2
        probe = block + (step - 1) if step > 1 else block
        if end is not None:
            probe = ops.minimum(probe, end)
        passed = ops.whole(x >= ops.take(edges, probe))
        block = block + (passed * step if step > 1 else passed)
    return block, edges
