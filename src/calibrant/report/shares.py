"""Which classes are predicted too often and too seldom, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.plots.reliability import is_confidence
from calibrant.plots.style import p_words, percent, shorten

if TYPE_CHECKING:
    from calibrant.metrics import ClassShares
    from calibrant.report.results import MethodResult

ALPHA = 0.05
MOST_NAMED = 3
"""Classes of each direction that are named."""


def off_classes(shares: ClassShares) -> tuple[list[int], list[int]]:
    """Columns that are predicted too often and too seldom by more than chance, the worst first.

    Of two classes only the positive one is named: the other is as far off, the other way.
    """
    gap = shares.predicted - shares.observed
    order = [1] if len(gap) == 2 else np.argsort(-np.abs(gap), kind="stable").tolist()
    off = [j for j in order if shares.p_holm[j] < ALPHA]
    return [j for j in off if gap[j] > 0], [j for j in off if gap[j] < 0]


def share_words(shares: ClassShares) -> str:
    """Name the classes that are over- and under-predicted; empty if there are none."""
    words = []
    for direction, columns in zip(("over", "under"), off_classes(shares), strict=True):
        if columns:
            named = ", ".join(_one(shares, j) for j in columns[:MOST_NAMED])
            more = len(columns) - MOST_NAMED
            more_words = f" and {more} more" if more > 0 else ""
            words.append(f"{direction}-predicted: {named}{more_words}")
    return "; ".join(words)


def _one(shares: ClassShares, j: int) -> str:
    said, seen = (float(own[j]) for own in (shares.predicted, shares.observed))
    name = shorten(str(shares.classes[j]))
    chance = p_words(float(shares.p_holm[j]))
    return f"class {name} ({share(said, seen)} predicted, {share(seen, said)} observed, {chance})"


def share(value: float, other: float) -> str:
    """Format a share with as many digits as tell it from another."""
    digits = 1
    while digits < 4 and abs(value - other) < 10.0 ** (-2 - digits):
        digits += 1
    return percent(value, digits)


def said_and_seen(result: MethodResult) -> str:
    """Say what predictions claim and what is so, in the number that they are judged by."""
    if is_confidence(result.curve):
        found = result.confidence
        return (
            f"Right {percent(found.accuracy)} of the time, claims {percent(found.mean_confidence)}"
        )
    shares = result.shares
    said, seen = float(shares.predicted[1]), float(shares.observed[1])
    name = shorten(str(shares.classes[1]))
    return f"Says {share(said, seen)} for class {name} on average, observed {share(seen, said)}"
