"""Objective of structured scaling: an affine map of the logits, shrunk to temperature scaling.

After Berta et al., "Structured matrix scaling for multi-class calibration" (2025), with three
departures. Probabilities are bounded from below before their logarithms enter the matrix, so that
a class at 1e-45 weighs no more than one at 1e-3. The bounded logarithms have a common slope of
their own, besides the temperature. The penalties are numbers of rows, adapted to the evidence.
Of two classes the logarithms less their mean would be one number, and nothing could bend the two
differently: there they are taken less that of 1/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant._gate import to_logits
from calibrant._kernels.softmax import (
    add_class_sums,
    common_curvature,
    curve_rows,
    map_logits,
    spread_rows,
    weighted_softmax,
)
from calibrant._maps.logits import StructuredMap, bounded_features
from calibrant._objectives import Objective

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._gate import SimplexBatch
    from calibrant._types import Floats, Wholes

TEMPERATURE, COMMON, DIAGONAL, OFF_DIAGONAL, INTERCEPT = range(5)
"""Kinds of parameters."""


def parameter_kinds(k: int, *, full: bool) -> Wholes:
    """Kind of each parameter, as an index of penalties."""
    slopes = np.full((k, k) if full else (k,), DIAGONAL)
    if full:
        slopes[~np.eye(k, dtype=bool)] = OFF_DIAGONAL
    return np.concatenate([[TEMPERATURE, COMMON], slopes.ravel(), np.full(k, INTERCEPT)])


def read_gaps(batch: SimplexBatch, zero_logit: float) -> Floats:
    """Return the logits of each row less the largest."""
    logits = to_logits(batch.scores, batch.kind, zero_logit)
    logits -= logits.max(axis=1, keepdims=True)
    return logits


@dataclass(frozen=True, slots=True, eq=False)
class StructuredObjective(Objective):
    """Penalised mean NLL of softmax(alpha u + (gamma + W) x + c) in t = (alpha, gamma, W, c).

        mean_i NLL_i(t) + 1/2 sum_j w_j (t_j - start_j)^2 - <prior_gradient, t - start>,

    where u are ``inverse_temperature`` times the logits, x = log(softmax(scale z) + bound) less its
    mean over the row or, of two classes, less log(1/2 + bound), W a diagonal or a full matrix, and
    the start alpha = 1, all others 0, is temperature scaling; w are the ``penalty_weights``.
    ``prior_gradient`` is that of pseudo-observations which draw alpha and gamma to the start. A
    ``unit`` of a parameter changes the gradient by about one.
    """

    kind: str
    n_classes: int
    full: bool
    inverse_temperature: float
    zero_logit: float
    scale: float
    bound: float
    penalty_weights: Floats
    prior_gradient: Floats
    unit: Floats

    @property
    def origin(self) -> float | None:
        """What is taken from x; None is its mean over the row."""
        return math.log(0.5 + self.bound) if self.n_classes == 2 else None

    @property
    def start(self) -> Floats:
        """Temperature scaling."""
        start = np.zeros_like(self.penalty_weights)
        start[0] = 1.0
        return start

    def row_loss(self, batch: SimplexBatch, total: float = 1.0) -> StructuredRows:
        """Return the loss of some rows."""
        logits = read_gaps(batch, self.zero_logit)
        return self.rows_of_gaps(logits, batch.class_index, batch.weight / total)

    def rows_of_gaps(self, gaps: Floats, class_index: Wholes, share: Floats) -> StructuredRows:
        """Return the loss of rows of logits less their largest, which are overwritten."""
        x = bounded_features(self.scale * gaps, self.bound, self.origin)
        gaps *= self.inverse_temperature
        return StructuredRows(gaps, x, class_index, share, full=self.full)

    def penalty(self, point: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        gap = point.copy()
        gap[0] -= 1.0  # as in ``start``
        held = self.penalty_weights * gap
        prior = self.prior_gradient
        return 0.5 * float(gap @ held) - float(gap @ prior), held - prior

    def map(self, point: Floats) -> StructuredMap:
        """Return the map of a point."""
        k, slope = self.n_classes, point[2 : -self.n_classes]
        slope = slope.reshape(k, k) + point[1] * np.eye(k) if self.full else slope + point[1]
        inverse = float(point[0]) * self.inverse_temperature
        features = self.scale, self.bound, self.zero_logit
        return StructuredMap(inverse, slope, point[-k:].copy(), *features, self.kind, self.origin)


class StructuredRows:
    """Loss of rows; the Hessian is that of the last point that was asked for.

    ``rough`` products with it are in single precision, twice as fast.
    """

    def __init__(
        self, logits: Floats, x: Floats, class_index: Wholes, share: Floats, *, full: bool
    ) -> None:
        self.logits, self.x, self._class_index, self._share = logits, x, class_index, share
        self._full, self.rough = full, True
        self._weighted = np.zeros_like(x)  # probabilities times the rows' shares
        self._weighted[np.arange(len(x)), class_index] = share
        self._label_sums = self._sums(self._weighted, x)
        self._single = x.astype(np.float32)
        self._scratch: NDArray[np.floating] = np.empty_like(self._single)

    def _apply(self, point: Floats, x: NDArray[np.generic], out: NDArray[np.generic]) -> None:
        """Write alpha u + (gamma + W) x + c."""
        k = x.shape[1]
        slope, own = point[2:-k], np.full(k, point[1])
        if self._full:
            np.matmul(x, slope.reshape(k, k).T.astype(x.dtype), out=out)
        else:
            out.fill(0.0)
            own += slope
        map_logits(self.logits, self.x, point[0], own, point[-k:], out)

    def _sums(self, rows: NDArray[np.floating], x: NDArray[np.floating]) -> Floats:
        """Transpose of ``_apply``."""
        k = x.shape[1]
        by_slope, by_intercept = np.zeros(k), np.zeros(k)
        by_alpha = add_class_sums(rows, self.logits, self.x, by_slope, by_intercept)
        slopes = (rows.T @ x).ravel() if self._full else by_slope
        return np.concatenate([[by_alpha, by_slope.sum()], slopes, by_intercept])

    def value(self, point: Floats) -> tuple[float, Floats]:
        """Weighted NLL and its gradient."""
        self._apply(point, self.x, self._weighted)
        loss = weighted_softmax(self._weighted, self._class_index, self._share)
        return float(loss), self._sums(self._weighted, self.x) - self._label_sums

    def hessian_product(self, direction: Floats) -> Floats:
        """Hessian times ``direction``."""
        x = self._single if self.rough else self.x
        if self._scratch.dtype != x.dtype:
            self._scratch = np.empty_like(x)
        self._apply(direction, x, self._scratch)
        curve_rows(self._weighted, self._share, self._scratch)
        return self._sums(self._scratch, x)

    def curvature(self) -> tuple[Floats, Floats]:
        """Hessian of alpha and gamma, and the diagonal of it for all others."""
        spread, squares = np.empty_like(self._single), self._single**2
        spread_rows(self._weighted, self._share, spread)
        if self._full:
            slopes = (spread.T @ squares).ravel()
        else:
            slopes = np.einsum("ij,ij->j", spread, squares, dtype=np.float64)
        common = np.zeros((2, 2))
        common_curvature(self._weighted, self._share, self.logits, self.x, common)
        return common, np.concatenate([slopes, spread.sum(axis=0)]).astype(np.float64)
