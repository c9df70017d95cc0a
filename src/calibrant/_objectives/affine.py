"""Objective of vector, matrix and Dirichlet scaling: multinomial logistic regression on logits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from calibrant._gate import to_logits
from calibrant._kernels.softmax import (
    add_class_sums,
    curve_rows,
    map_logits,
    spread_rows,
    weighted_softmax,
)
from calibrant._maps.logits import AffineMap
from calibrant._objectives import Objective

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._types import Bools, Floats, Wholes


@dataclass(frozen=True, slots=True)
class RidgePenalty:
    """Penalties on the slope matrix W and the intercept b, as Kull et al. (2019) scale them.

    ``ridge`` is multiplied by (sum W^2 + sum b^2) / (k (k + 1)), ``odir`` by the sum of squares off
    the diagonal of W / (k (k - 1)) plus the sum of squares of b / k.
    """

    ridge: float = 0.0
    odir: float = 0.0

    def weights(self, k: int, unit: float, *, full: bool) -> Floats:
        """Return the factor of the square of each parameter, for logits divided by ``unit``."""
        per_cell = self.ridge / (k * (k + 1))
        slopes = np.full((k, k) if full else (k,), per_cell)
        if full:
            slopes += self.odir / (k * (k - 1)) * (1.0 - np.eye(k))
        return np.append(slopes / unit**2, np.full(k, per_cell + self.odir / k))


def split_parameters(point: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the diagonal (1-D) or full (2-D) slope of the logits, and the intercept."""
    slope = point[:-k]
    return slope if len(slope) == k else slope.reshape(k, k), point[-k:]


@dataclass(frozen=True, slots=True, eq=False)
class AffineObjective(Objective):
    """Penalised mean NLL of softmax(W z + b) in t = (W, b).

        mean_i [log(sum_j exp(W_j z_i + b_j)) - (W_y z_i + b_y)] + sum_j w_j t_j^2 - <g, t>,

    z the logits over ``logit_unit``, W a diagonal or a full matrix, w the ``penalty_weights``, and
    g the ``prior_gradient``: rows labelled by the probabilities of the start, s of them beside n,
    change the gradient by a constant, s / (s + n) times that of the rows at the start. Parameters
    that are not ``free`` stay as they are. A ``unit`` of a parameter changes the gradient by about
    one.
    """

    kind: str
    n_classes: int
    zero_logit: float
    logit_unit: float
    penalty_weights: Floats
    free: Bools
    start: Floats  # temperature scaling
    unit: Floats
    prior_gradient: Floats

    def row_loss(self, batch: SimplexBatch, total: float = 1.0) -> AffineRows:
        """Return the loss of some rows."""
        logits = to_logits(batch.scores, batch.kind, self.zero_logit)
        logits /= self.logit_unit
        return AffineRows(logits, batch.class_index, batch.weight / total)

    def penalty(self, point: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        slope = self.penalty_weights * point
        prior = self.prior_gradient
        return float((slope - prior) @ point), 2.0 * slope - prior

    def map(self, point: Floats) -> AffineMap:
        """Return the map of a point."""
        slope, intercept = split_parameters(point, self.n_classes)
        return AffineMap(slope / self.logit_unit, intercept.copy(), self.zero_logit, self.kind)


class AffineRows:
    """Loss of rows of logits; the Hessian is that of the last point that was asked for."""

    def __init__(self, logits: Floats, class_index: Wholes, share: Floats) -> None:
        self.logits, self._class_index, self._share = logits, class_index, share
        self._weighted = np.empty_like(logits)  # probabilities times the rows' shares
        self._full = False

    @cached_property
    def _label_sums(self) -> Floats:
        """Part of the gradient that is the same at all points."""
        labels = np.zeros_like(self.logits)
        labels[np.arange(len(labels)), self._class_index] = self._share
        return self._sums(labels, self.logits)

    def value(self, point: Floats) -> tuple[float, Floats]:
        """Weighted NLL and its gradient."""
        self._full = len(point) > 2 * self.logits.shape[1]
        self._map(point, self._weighted)
        loss = weighted_softmax(self._weighted, self._class_index, self._share)
        return float(loss), self._sums(self._weighted, self.logits) - self._label_sums

    def _map(self, point: Floats, out: Floats) -> None:
        slope, intercept = split_parameters(point, self.logits.shape[1])
        if self._full:
            np.matmul(self.logits, slope.T, out=out)
            out += intercept
        else:
            out.fill(0.0)
            map_logits(self.logits, self.logits, 0.0, slope, intercept, out)

    def map_logits(self, point: Floats) -> Floats:
        """Return W z + b of every row."""
        out = np.empty_like(self.logits)
        self._map(point, out)
        return out

    def hessian_product(self, direction: Floats) -> Floats:
        """Hessian times ``direction``."""
        change = self.map_logits(direction)
        curve_rows(self._weighted, self._share, change)
        return self._sums(change, self.logits)

    def hessian_diagonal(self) -> Floats:
        """Diagonal of the Hessian."""
        spread = np.empty_like(self.logits)
        spread_rows(self._weighted, self._share, spread)
        return self._sums(spread, self.logits**2)

    def _sums(self, rows: Floats, features: Floats) -> Floats:
        """Sum rows times features, of each class or each pair of classes, and rows."""
        if self._full:
            return np.append(rows.T @ features, rows.sum(axis=0))
        by_slope, by_intercept = np.zeros((2, rows.shape[1]))
        add_class_sums(rows, features, features, by_slope, by_intercept)
        return np.append(by_slope, by_intercept)
