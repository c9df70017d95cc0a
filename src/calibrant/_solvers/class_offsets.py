"""Offsets of averaged logarithms that keep the shares of the classes.

A geometric mean of probabilities that differ is smaller than their arithmetic mean, and by the
largest factor for a rare class, on whose small probability classifiers differ most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from calibrant._solvers.newton import minimise_newton

if TYPE_CHECKING:
    from calibrant._types import Bools, Floats, Wholes

VARIANCE_TO_TRUST = 40.0
"""Variance of the number of rows of a class, by what is predicted, at which half of the difference
between this number and the prediction is corrected. Chosen by the NLL of 29 tables retrained on
random halves: 10 to 40 differ by 0.03 %, and 0 costs 1 % where nearly all rows are right."""

TOLERANCE, MAX_ROUNDS = 1e-6, 100
SMALLEST_SHARE = 1e-6
"""The share of a class is reached up to ``TOLERANCE`` times itself, or times this."""


def correct_shares(shares: Floats, held_out: Floats, labels: Wholes, weight: Floats) -> Floats:
    """Multiply shares of classes by observed over predicted rows, as far as this is no chance.

    ``held_out`` are calibrated predictions for rows with these labels (column numbers).
    """
    observed = np.bincount(labels, weights=weight, minlength=len(shares))
    predicted = weight @ held_out
    variance = weight @ (held_out * (1.0 - held_out))
    ratio = observed / np.maximum(predicted, np.finfo(np.float64).tiny)
    corrected = shares * (VARIANCE_TO_TRUST + variance * ratio) / (VARIANCE_TO_TRUST + variance)
    result: Floats = corrected / corrected.sum()
    return result


def solve_class_offsets(logs: Floats, weight: Floats, shares: Floats) -> Floats:
    """Offsets b with which the rows softmax(logs_i + b) have the given mean.

    They minimise the convex mean_i log sum_c exp(logs_ic + b_c) - <shares, b>. A class that has no
    share has the offset 0; the others have the mean 0.
    """
    used = shares > 0.0
    target = shares[used] / shares[used].sum()
    function = _MeanLogSum(logs[:, used], weight / weight.sum(), target)
    unit = 1.0 / np.maximum(target, SMALLEST_SHARE)
    start = np.zeros(len(target))
    result = minimise_newton(function, start, unit, tol=TOLERANCE, max_rounds=MAX_ROUNDS).x
    offsets = np.zeros(len(shares))
    offsets[used] = result - target @ result
    return offsets


class _MeanLogSum:
    """mean_i log sum_c exp(logs_ic + b_c) - <target, b>, for Newton's method."""

    def __init__(self, logs: Floats, weight: Floats, target: Floats) -> None:
        self.logs, self.weight, self.target = logs, weight, target
        self._curvature = np.ones(len(target))

    def value(self, x: Floats) -> tuple[float, Floats]:
        """Value and gradient; the curvature is that of this point from now on."""
        moved = self.logs + x
        total = logsumexp(moved, axis=1, keepdims=True)
        rows = np.exp(moved - total)
        shares = self.weight @ rows
        # Twice the diagonal of the Hessian is no less than it, as its rows sum to 0; for two
        # classes a step by it is Newton's.
        self._curvature = 2.0 * (self.weight @ (rows * (1.0 - rows)))
        value = float(self.weight @ total[:, 0] - self.target @ x)
        return value, shares - self.target

    def newton_step(
        self,
        gradient: Floats,
        free: Bools,  # noqa: ARG002  (there are no bounds)
        ridge: Floats,
        most: int,  # noqa: ARG002
    ) -> tuple[Floats, int]:
        """Return the gradient over the bound of the Hessian."""
        least = np.finfo(np.float64).tiny
        return gradient / np.maximum(self._curvature + ridge, least), 1
