"""Find the block of each score in a formula: by a key into a table, then a few comparisons.

Formulas have no binary search. A tree would do, and takes a step for each halving; comparing every
score with every threshold takes a step for each threshold. Here a key that rises (or falls) with
the score, but for rounding, leads to the first block that a score with this key can be in. The
thresholds that it can reach are halved, which is one comparison in most fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant._maps.base import Floats, Wholes
    from calibrant.export._operations import Operations, Value

MOST_ROOTS = 6
"""Square roots that a key may take of a score, to tell small scores apart."""

FEWEST_KEYS = 64
KEYS_PER_BLOCK = 4
"""Keys of a curve that all classes share; others, which are many, have one for each block."""

KEY_ERROR = 2.0**-20
"""Relative error of a key, with room to spare: it has 32 bits, and runtimes round differently."""

SMALLEST_KEY = 2.0**-126
"""Below it some runtimes have no numbers of 32 bits but 0."""


@dataclass(frozen=True, slots=True)
class BlockSearch:
    """How blocks are found: by a key, a table of the first blocks of keys, and some halvings."""

    low: float  # scores are in [low, low + width]; those outside are as at the ends
    width: float
    turned: bool  # whether the key is made of the distance to the upper end
    n_roots: int  # square roots of that, which tell scores near the end apart
    n_keys: Wholes  # of each curve: the key is multiplied by this number and rounded down
    first: Wholes  # where each curve begins in ``starts``
    starts: Wholes  # first block, counted over all curves from 1 on, of a score with this key
    n_rounds: int  # halvings after that

    def key(self, ops: Any, x: Value) -> Value:
        """Key of scores in [0, 1], or beyond; numpy may be the operations."""
        if (self.low, self.width) != (0.0, 1.0):
            x = ops.maximum((x - self.low) / self.width, 0.0)
        if self.turned:
            x = ops.maximum(1.0 - x, 0.0)
        x = ops.maximum(ops.single(x), SMALLEST_KEY)
        for _ in range(self.n_roots):
            x = ops.sqrt(x)
        return x


def plan_search(thresholds: Sequence[Floats], low: float = 0.0, width: float = 1.0) -> BlockSearch:
    """Return the search with the fewest halvings, of these the one with the fewest roots.

    ``thresholds`` has one increasing sequence for each curve.
    """
    sizes = np.array([len(curve) for curve in thresholds])
    n_keys = sizes if len(sizes) > 1 else np.maximum(KEYS_PER_BLOCK * sizes, FEWEST_KEYS)
    nothing = np.zeros(0, np.int64)
    searches = [
        _fill(BlockSearch(low, width, turned, n_roots, n_keys, nothing, nothing, 0), thresholds)
        for n_roots, turned in product(range(MOST_ROOTS + 1), (False, True))
    ]
    return min(searches, key=lambda search: search.n_rounds)  # the first of equals


def _fill(search: BlockSearch, thresholds: Sequence[Floats]) -> BlockSearch:
    """Return a search with its table."""
    starts: list[Wholes] = []
    offset, most = 1, 0
    for curve, n in zip(thresholds, search.n_keys.tolist(), strict=True):
        keys = search.key(np, curve[1:]).astype(np.float64) * n
        least, largest = (  # of the thresholds, for each key
            np.bincount(np.minimum(keys * factor, n).astype(np.intp), minlength=n + 1)
            for factor in (1.0 - KEY_ERROR, 1.0 + KEY_ERROR)
        )
        if search.turned:
            passed, reached = _from_above(least) - least, _from_above(largest)
        else:
            passed, reached = np.cumsum(largest) - largest, np.cumsum(least)
        starts.append(offset + passed)
        most = max(most, int((reached - passed).max()))
        offset += len(curve)
    first = np.cumsum([0, *map(len, starts[:-1])])
    return replace(search, first=first, starts=np.concatenate(starts), n_rounds=most.bit_length())


def _from_above(counts: Wholes) -> Wholes:
    """Add up from the right."""
    return np.cumsum(counts[::-1])[::-1]


def find_blocks(
    ops: Operations,
    x: Value,
    thresholds: Sequence[Floats],
    curve_of: Wholes | None = None,
    *,
    low: float = 0.0,
    width: float = 1.0,
) -> tuple[Value, Value]:
    """Block of each cell, the last whose threshold is not above it, and where blocks end.

    Blocks are counted over all curves, from 1 on: block b lies between entries b - 1 and b of the
    second value, except for the first and the last of a curve. ``thresholds`` are where the blocks
    of each curve start; what lies below the second is in the first, and NaN in some block. All
    columns have the only curve without ``curve_of``.
    """
    search = plan_search(thresholds, low, width)
    # No score is there: a step cannot leave its curve. Lines need a number.
    above = 2.0 if (low, width) == (0.0, 1.0) else np.inf
    # The last steps of a search may look beyond the only curve.
    beyond = np.full((1 << search.n_rounds) - 1 if len(thresholds) == 1 else 0, above)
    ends = np.concatenate([[above], *([*curve[1:], above] for curve in thresholds), beyond])
    edges = ops.fitted("edges", ends)

    def of_curve(name: str, values: Any) -> Value:
        """Give what belongs to the curve of a column."""
        return values[0].item() if curve_of is None else ops.fitted(name, values[curve_of])

    entry = ops.whole(search.key(ops, x) * of_curve("key_scale", search.n_keys.astype("f4")))
    entry = ops.minimum(ops.maximum(entry, 0), of_curve("n_keys", search.n_keys))
    if curve_of is not None:
        entry = entry + of_curve("first_key", search.first)
    block = ops.take(ops.fitted("starts", search.starts), entry)
    last = None
    if len(thresholds) > 1 and search.n_rounds > 1:
        last = of_curve("last_block", np.cumsum([len(curve) for curve in thresholds]))
    for r in reversed(range(search.n_rounds)):
        step = 1 << r
        probe = block + (step - 1) if step > 1 else block
        if last is not None:
            probe = ops.minimum(probe, last)
        passed = ops.whole(x >= ops.take(edges, probe))
        block = block + (passed * step if step > 1 else passed)
    return block, edges
