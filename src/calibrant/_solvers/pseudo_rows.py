"""Pseudo-observations that hold a fit to the point it starts from: how many, and their price.

A fit to few rows, or to rows without an error, is more certain than it should be: what is not in
the sample costs nothing. So s more rows are added to the likelihood, like those of the calibration
set but labelled by the starting point's own probabilities. With D, the mean divergence of the
fitted rows from those, their price is s D. But a start that is clearly wrong should not hold: the
price is log(1 + s D) instead, which hardly grows where D is large. As a fit it is solved by a few
convex problems, each with s / (1 + s D) pseudo-observations (a majorisation, since the logarithm is
concave); as a choice between candidates it is added to their held-out loss.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from calibrant._types import Floats

AT_SCORES = 120.0
"""Pseudo-observations that hold temperature scaling to T = 1."""

AT_TEMPERATURE = 1000.0
"""Pseudo-observations that hold the other methods to temperature scaling."""

IN_CHOICES = 2000.0
"""The same, where candidates are chosen by their held-out loss.

All three were chosen within the validation parts of real classifiers, whole and cut to a few rows,
and on simulated honest predictions; with thousands of rows they hardly matter.
"""

REWEIGHTINGS = 3
"""How often the number of pseudo-observations is adapted."""


def remaining(strength: float, divergence: float) -> float:
    """Return how many pseudo-observations are left at a distance from the start."""
    return strength / (1.0 + strength * max(divergence, 0.0))


def price(divergences: Floats) -> Floats:
    """Price of candidates by their distance from the nearest one to the start, in nats."""
    result: Floats = np.log1p(IN_CHOICES * (divergences - divergences.min()))
    return result


def share(strength: float, total: float) -> float:
    """Weight of pseudo-observations among all, beside rows of total weight ``total``."""
    return strength / (strength + total) if math.isfinite(total) else 0.0


def share_of_few_errors(loss: float, total: float) -> float:
    """Return the share that temperature scaling keeps while there are few errors to learn from.

    With E its loss in nats and h = E / n the mean of that, the share is 1 / (1 + E h): it falls as
    errors accumulate, and where they are common.
    """
    return 1.0 / (1.0 + loss * loss / total)
