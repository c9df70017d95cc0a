"""How far Brownian motion gets in unit time: its range, and its largest absolute value.

Each distribution has two series: one converges quickly where the other does not, and only one of
them keeps its digits where the probability is small.
"""

from __future__ import annotations

import math

TERMS = 12
"""At the seam, the first term left out is below 1e-30."""

SHORTEST = 0.05
"""Brownian motion gets farther than this, but for a probability below 1e-200."""


def range_exceeds(x: float) -> float:
    """Probability that the range, largest minus smallest value, exceeds ``x`` (Feller 1951)."""
    if x < SHORTEST:
        return 1.0
    if x < 2.0:
        below = math.fsum(
            8.0 * (1.0 / (n * math.pi) ** 2 + 1.0 / x**2) * math.exp(-0.5 * (n * math.pi / x) ** 2)
            for n in range(1, 2 * TERMS, 2)
        )
        return min(max(1.0 - below, 0.0), 1.0)
    return math.fsum(
        4.0 * (-1.0) ** (k - 1) * k * math.erfc(k * x / math.sqrt(2.0)) for k in range(1, TERMS + 1)
    )


def peak_exceeds(x: float) -> float:
    """Probability that the largest absolute value exceeds ``x``."""
    if x < SHORTEST:
        return 1.0
    if x < 1.2:
        below = math.fsum(
            4.0 / math.pi * (-1.0) ** k / n * math.exp(-((n * math.pi / x) ** 2) / 8.0)
            for k, n in enumerate(range(1, 2 * TERMS, 2))
        )
        return min(max(1.0 - below, 0.0), 1.0)
    return math.fsum(
        2.0 * (-1.0) ** k * math.erfc((2 * k + 1) * x / math.sqrt(2.0)) for k in range(TERMS)
    )
