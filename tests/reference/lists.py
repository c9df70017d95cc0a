"""What rows can be that lists were taken of: all corners of the unlisted probabilities."""

from __future__ import annotations

from itertools import product

import numpy as np


def completions(listed, rest, n, low):
    """Yield unlisted probabilities: in [low, least listed], of sum ``rest``.

    At a corner all but one are at a bound.
    """
    high = min(listed)
    for ends in product((low, high), repeat=n - 1):
        last = rest - sum(ends)
        if low - 1e-12 <= last <= high + 1e-12:
            yield np.array([*ends, min(max(last, low), high)])
    yield np.full(n, rest / n)


def nll_range(listed, rest, n, low, place, function):
    """Return the least and the largest NLL of a row over its completions.

    ``place`` is that of the label in the list, or None if it is any of the others.
    """
    found = []
    for others in completions(listed, rest, n, low):
        values = function(np.concatenate([listed, others]))
        labels = [place] if place is not None else range(len(listed), len(values))
        found += [-np.log(max(values[i] / values.sum(), 1e-300)) for i in labels]
    return min(found), max(found)
