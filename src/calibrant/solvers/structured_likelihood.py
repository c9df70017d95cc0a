"""Likelihood of structured scaling in its parameters, with what Newton's method asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.softmax import (
    add_class_sums,
    common_curvature,
    curve_rows,
    map_logits,
    spread_rows,
    weighted_softmax,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

TEMPERATURE, COMMON, DIAGONAL, OFF_DIAGONAL, INTERCEPT = range(5)
"""Kinds of parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Mean NLL at some parameters, with its gradient."""

    theta: Array
    loss: float
    gradient: Array

    def gap(self) -> Array:
        """Distance from temperature scaling."""
        gap = self.theta.copy()
        gap[0] -= 1.0
        return gap

    def penalised(self, penalty: Array, pull: Array) -> tuple[float, Array]:
        """Value and gradient with half the penalty times squared distances from the start.

        ``pull`` is that of pseudo-observations, which is linear.
        """
        gap = self.gap()
        value = self.loss + 0.5 * float(gap @ (penalty * gap)) - float(gap @ pull)
        return value, self.gradient + penalty * gap - pull

    def divergence(self, start: Point) -> float:
        """Mean divergence of the rows from those of ``start``."""
        return self.loss - start.loss - float(start.gradient @ self.gap())


class Preconditioner:
    """Hessian of alpha and gamma, which do nearly the same, and a diagonal for all others.

    A direction without curvature would get an endless step: it has at least a billionth of the
    largest.
    """

    def __init__(self, common: Array, rest: Array) -> None:
        least = 1e-9 * max(float(rest.max()), float(common.max())) + 1e-300
        common = common + 1e-9 * np.trace(common) * np.eye(2)
        common[np.diag_indices(2)] = np.maximum(np.diag(common), least)
        self._inverse = np.linalg.inv(common)
        self._rest = np.maximum(rest, least)
        self.unit = 1.0 / np.sqrt(np.concatenate([np.diag(common), self._rest]))

    def solve(self, gradient: Array) -> Array:
        """Curvature^-1 gradient."""
        return np.concatenate([self._inverse @ gradient[:2], gradient[2:] / self._rest])


class Likelihood:
    """Mean NLL of softmax(alpha u + (gamma + W) x + c) in (alpha, gamma, W, c).

    W is a vector (a diagonal matrix) or a matrix. ``value`` remembers the probabilities, which
    ``product``, the Hessian times a vector, takes. ``rough`` products are in single precision,
    twice as fast.
    """

    def __init__(
        self, logits: Array, x: Array, class_index: NDArray[np.int64], share: Array, *, full: bool
    ) -> None:
        self.logits, self.x, self._class_index, self.share = logits, x, class_index, share
        k = x.shape[1]
        self.shape = (k, k) if full else (k,)
        self.weighted = np.zeros_like(x)
        self.weighted[np.arange(len(x)), class_index] = share
        self._label_sums = self._sums(self.weighted, x)
        self._single = x.astype(np.float32)
        self._scratch: NDArray[Any] = np.empty_like(self._single)
        self.rough = True
        self._near: Array | None = None

    def match(self, theta: Array, gradient: Array, rest: Array) -> None:
        """Give the gradient that all rows have at ``theta``, where these are a sample of them.

        Where the curvature of one of the ``rest`` of the parameters is less than that of all rows,
        what is missing draws to ``theta``.
        """
        self._near = None
        own = self.value(theta)
        missing = np.maximum(rest - self.curvature()[1], 0.0)
        self._near, self._tilt = theta, gradient - own.gradient
        self._extra = np.concatenate([[0.0, 0.0], missing])

    def kinds(self) -> NDArray[np.int64]:
        """Kind of each parameter, as an index of ``PENALTIES``."""
        k = self.shape[0]
        slopes = np.full(self.shape, DIAGONAL)
        if slopes.ndim == 2:
            slopes[~np.eye(k, dtype=bool)] = OFF_DIAGONAL
        return np.concatenate([[TEMPERATURE, COMMON], slopes.ravel(), np.full(k, INTERCEPT)])

    def drop_logits(self) -> None:
        """Make alpha do nothing."""
        self.logits = np.zeros_like(self.logits)
        self._label_sums[0] = 0.0
        if self._near is not None:
            self._tilt[0] = 0.0

    def _apply(self, theta: Array, x: NDArray[Any], out: NDArray[Any]) -> None:
        k = self.shape[0]
        slope = theta[2:-k].reshape(self.shape)
        own = np.full(k, theta[1])
        if slope.ndim == 2:
            np.matmul(x, slope.T.astype(x.dtype), out=out)
        else:
            out.fill(0.0)
            own += slope
        map_logits(self.logits, self.x, theta[0], own, theta[-k:], out)

    def _sums(self, rows: NDArray[Any], x: NDArray[Any]) -> Array:
        """Transpose of ``_apply``."""
        k = self.shape[0]
        by_slope, by_intercept = np.zeros(k), np.zeros(k)
        by_alpha = add_class_sums(rows, self.logits, self.x, by_slope, by_intercept)
        slopes = by_slope if len(self.shape) == 1 else (rows.T @ x).ravel()
        return np.concatenate([[by_alpha, by_slope.sum()], slopes, by_intercept])

    def value(self, theta: Array) -> Point:
        """Mean NLL and its gradient."""
        self._apply(theta, self.x, self.weighted)
        loss = weighted_softmax(self.weighted, self._class_index, self.share)
        gradient = self._sums(self.weighted, self.x) - self._label_sums
        if self._near is not None:
            gap = theta - self._near
            bent = self._extra * gap
            loss += float(self._tilt @ gap) + 0.5 * float(gap @ bent)
            gradient += self._tilt + bent
        return Point(theta, float(loss), gradient)

    def product(self, direction: Array) -> Array:
        """Hessian at the last ``value`` times ``direction``."""
        x = self._single if self.rough else self.x
        if self._scratch.dtype != x.dtype:
            self._scratch = np.empty_like(x)
        self._apply(direction, x, self._scratch)
        curve_rows(self.weighted, self.share, self._scratch)
        bent = self._sums(self._scratch, x)
        return bent if self._near is None else bent + self._extra * direction

    def curvature(self) -> tuple[Array, Array]:
        """Curvature at the last ``value``, without what couples one parameter to another."""
        spread, squares = np.empty_like(self._single), self._single**2
        spread_rows(self.weighted, self.share, spread)
        if len(self.shape) == 2:
            slopes = (spread.T @ squares).ravel()
        else:
            slopes = np.einsum("ij,ij->j", spread, squares, dtype=np.float64)
        common = np.zeros((2, 2))
        common_curvature(self.weighted, self.share, self.logits, self.x, common)
        rest = np.concatenate([slopes, spread.sum(axis=0)]).astype(np.float64)
        return common, rest if self._near is None else rest + self._extra[2:]
