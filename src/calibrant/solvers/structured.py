"""Structured scaling: an affine map of the logits, shrunk to temperature scaling.

After Berta et al., "Structured matrix scaling for multi-class calibration" (2025), with three
departures. Probabilities are bounded from below before their logarithms enter the matrix, so that
a class at 1e-45 weighs no more than one at 1e-3. The bounded logarithms have a common slope of
their own, besides the temperature. The penalties are numbers of rows, adapted to the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels.structured import (
    add_products,
    bounded_logs,
    common_curvature,
    curve_rows,
    map_logits,
    multiply_rows,
    weighted_softmax,
)
from calibrant.simplex import to_logits
from calibrant.solvers.monotone_spline import SMALLEST_SHARE, feature_scale, find_repeats
from calibrant.solvers.report import SolverReport
from calibrant.solvers.temperature import minimise_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

TEMPERATURE, COMMON, DIAGONAL, OFF_DIAGONAL, INTERCEPT = range(5)
PENALTIES = np.array([1.0, 1.0, 32.0, 16.0, 4.0])
"""Strength of the penalty on each kind of parameter, times half its square, in rows.

Chosen by cross-validation within the validation parts of real classifiers, where halving or
doubling any of them changes the NLL by less than half a percent on average.
"""

WEAKEST, STRONGEST = 0.25, 64.0
"""How far the evidence may move a penalty, as a factor."""


@dataclass(frozen=True, slots=True, eq=False)
class StructuredMap:
    """logits z -> inverse_temperature z + slope x + intercept.

    x = log(softmax(scale z) + bound), less its mean over the row. The slope is a vector (one for
    each class) or a matrix.
    """

    inverse_temperature: float
    scale: float
    bound: float
    slope: Array
    intercept: Array

    def __call__(self, logits: Array) -> Array:
        """Return the mapped logits."""
        x = _features(logits, self.scale, self.bound)
        mapped = np.zeros_like(x)
        own = self.slope
        if self.slope.ndim == 2:
            multiply_rows(x, np.ascontiguousarray(self.slope.T), mapped)
            own = np.zeros_like(self.intercept)
        map_logits(logits, x, self.inverse_temperature, own, self.intercept, mapped)
        return mapped


def _features(logits: Array, scale: float, bound: float) -> Array:
    out = np.empty_like(logits)
    bounded_logs(scale * logits, bound, out)
    return out


class _Curvature:
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
        self.diagonal = np.concatenate([np.diag(common), self._rest])
        self.unit = 1.0 / np.sqrt(self.diagonal)

    def solve(self, gradient: Array) -> Array:
        """Curvature^-1 gradient."""
        return np.concatenate([self._inverse @ gradient[:2], gradient[2:] / self._rest])


class _Likelihood:
    """Mean NLL of softmax(alpha u + (gamma + W) x + c) in (alpha, gamma, W, c).

    W is a vector (a diagonal matrix) or a matrix. ``value`` remembers the probabilities, which
    ``product``, the Hessian times a vector, takes.
    """

    def __init__(
        self, logits: Array, x: Array, class_index: NDArray[np.int64], share: Array, *, full: bool
    ) -> None:
        self.logits, self.x, self.class_index, self.share = logits, x, class_index, share
        k = x.shape[1]
        self.shape = (k, k) if full else (k,)
        self._weighted = np.zeros_like(x)
        self._weighted[np.arange(len(x)), class_index] = share
        self._label_sums = self._sums(self._weighted)
        self._scratch = np.empty_like(x)

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

    def _split(self, theta: Array) -> tuple[float, float, Array, Array]:
        k = self.shape[0]
        return theta[0], theta[1], theta[2:-k].reshape(self.shape), theta[-k:]

    def _apply(self, theta: Array, out: Array) -> None:
        alpha, gamma, slope, intercept = self._split(theta)
        own = np.full(len(intercept), gamma)
        if slope.ndim == 2:
            np.matmul(self.x, slope.T, out=out)
        else:
            out.fill(0.0)
            own += slope
        map_logits(self.logits, self.x, alpha, own, intercept, out)

    def _sums(self, rows: Array) -> Array:
        """Transpose of ``_apply``."""
        k = self.shape[0]
        by_slope, by_intercept = np.zeros(k), np.zeros(k)
        by_alpha = add_products(rows, self.logits, self.x, by_slope, by_intercept)
        slopes = by_slope if len(self.shape) == 1 else (rows.T @ self.x).ravel()
        return np.concatenate([[by_alpha, by_slope.sum()], slopes, by_intercept])

    def value(self, theta: Array) -> tuple[float, Array]:
        """Mean NLL and its gradient."""
        self._apply(theta, self._weighted)
        loss = weighted_softmax(self._weighted, self.class_index, self.share)
        return float(loss), self._sums(self._weighted) - self._label_sums

    def product(self, direction: Array) -> Array:
        """Hessian at the last ``value`` times ``direction``."""
        self._apply(direction, self._scratch)
        curve_rows(self._weighted, self.share, self._scratch)
        return self._sums(self._scratch)

    def curvature(self, penalty: Array) -> _Curvature:
        """Curvature at the last ``value``, without what couples one parameter to another."""
        spread = self._weighted * (1.0 - self._weighted / self.share[:, None])
        squares = self.x**2
        if len(self.shape) == 2:
            slopes = (spread.T @ squares).ravel()
        else:
            slopes = np.einsum("ij,ij->j", spread, squares)
        common = np.diag(penalty[:2])
        common_curvature(self._weighted, self.share, self.logits, self.x, common)
        rest = np.concatenate([slopes, spread.sum(axis=0)]) + penalty[2:]
        return _Curvature(common, rest)


def solve_structured(
    batch: SimplexBatch,
    zero_logit: float,
    *,
    full: bool,
    strength: float | None = None,
    bound: float = 0.02,
    tol: float = 1e-6,
    max_rounds: int = 100,
) -> tuple[StructuredMap, SolverReport]:
    """Affine map of bounded log-probabilities of least penalised NLL, by Newton's method.

    Without ``strength`` the penalties are adapted to the evidence. The violation is the largest
    gradient, each in units of the square root of its curvature.
    """
    started = perf_counter()
    batch = batch.in_canonical_order()
    batch = batch.take(batch.weight >= SMALLEST_SHARE * batch.weight.max())
    logits = to_logits(batch.scores, batch.kind, zero_logit)
    logits -= logits.max(axis=1, keepdims=True)
    relative = batch.weight / batch.weight.max()
    n_rows = find_repeats(logits, batch.class_index, relative).n_rows
    beta, _ = minimise_temperature(logits, batch.class_index, relative, tol=1e-8)
    share = relative / relative.sum()
    scale = feature_scale(logits, share, beta)
    x = _features(logits, scale, bound)
    logits *= beta
    likelihood = _Likelihood(logits, x, batch.class_index, share, full=full)
    theta, report = _fit(likelihood, n_rows, strength, tol, max_rounds)
    if theta[0] < 0.0:  # by convexity the best of alpha >= 0 is at 0
        likelihood.drop_logits()
        theta, report = _fit(likelihood, n_rows, strength, tol, max_rounds)
        theta[0] = 0.0
    k = batch.n_classes
    slope = theta[2:-k].reshape(likelihood.shape) + theta[1] * (np.eye(k) if full else 1.0)
    found = StructuredMap(float(theta[0] * beta), scale, bound, slope, theta[-k:].copy())
    return found, replace(report, seconds=perf_counter() - started)


def _fit(
    likelihood: _Likelihood, n_rows: float, strength: float | None, tol: float, max_rounds: int
) -> tuple[Array, SolverReport]:
    kinds = likelihood.kinds()
    theta = np.zeros(len(kinds))
    theta[0] = 1.0
    penalties = PENALTIES * (1.0 if strength is None else strength)
    for _ in range(0 if strength is not None else 2):
        penalty = penalties[kinds] / n_rows
        theta, _ = _minimise(likelihood, penalty, theta, max(tol, 1e-3), max_rounds)
        penalties = _evidence(likelihood, kinds, theta, penalties, n_rows)
    theta, report = _minimise(likelihood, penalties[kinds] / n_rows, theta, tol, max_rounds)
    names = zip(("diagonal", "off-diagonal", "intercept"), penalties[DIAGONAL:], strict=True)
    notes = ", ".join(f"{name} {value:.3g}" for name, value in names)
    return theta, replace(report, notes=(f"penalties in rows: {notes}",))


def _evidence(
    likelihood: _Likelihood,
    kinds: NDArray[np.int64],
    theta: Array,
    penalties: Array,
    n_rows: float,
) -> Array:
    """One step of MacKay's fixed point: number of well-determined parameters / their squares.

    It finds the penalty of most evidence, in which single parameters are taken as independent.
    """
    likelihood.value(theta)
    data = n_rows * likelihood.curvature(np.zeros_like(theta)).diagonal
    known = np.bincount(kinds, data / (data + penalties[kinds]), minlength=len(PENALTIES))
    squares = np.bincount(kinds, theta**2, minlength=len(PENALTIES))
    found = np.clip(known / np.maximum(squares, 1e-300), WEAKEST * PENALTIES, STRONGEST * PENALTIES)
    found[:DIAGONAL] = PENALTIES[:DIAGONAL]
    return np.asarray(found)


def _minimise(
    likelihood: _Likelihood, penalty: Array, theta: Array, tol: float, max_rounds: int
) -> tuple[Array, SolverReport]:
    """Newton's method with steps by conjugate gradients."""
    centre = np.zeros_like(penalty)
    centre[0] = 1.0

    def evaluate(theta: Array) -> tuple[float, Array]:
        loss, gradient = likelihood.value(theta)
        gap = theta - centre
        return loss + 0.5 * float(gap @ (penalty * gap)), gradient + penalty * gap

    value, gradient = evaluate(theta)
    curvature = likelihood.curvature(penalty)
    rounds = 0
    while np.max(np.abs(gradient) * curvature.unit) > tol and rounds < max_rounds:
        rounds += 1
        step = _newton_step(likelihood, penalty, curvature, gradient, tol)
        decrease = 1e-4 * float(gradient @ step)
        size = 1.0
        while True:
            other = theta - size * step
            new_value, new_gradient = evaluate(other)
            if new_value <= value - size * decrease or size < 1e-6:
                break
            size *= 0.5
        if new_value > value:  # rounding: nothing is left to gain
            break
        theta, value, gradient = other, new_value, new_gradient
    violation = float(np.max(np.abs(gradient) * curvature.unit))
    return theta, SolverReport("newton-cg", value, violation, tol, rounds, 0.0)


def _newton_step(
    likelihood: _Likelihood, penalty: Array, curvature: _Curvature, gradient: Array, tol: float
) -> Array:
    """Solve Hessian * step = gradient, the more exactly the smaller the gradient is.

    Conjugate gradients, preconditioned by the curvature of the single parameters.
    """
    step = np.zeros_like(gradient)
    rest = gradient.copy()
    direction = curvature.solve(rest)
    size = first = float(rest @ direction)
    goal = max(first * min(0.01, first), 0.1 * tol**2)
    for _ in range(200):
        bent = likelihood.product(direction) + penalty * direction
        length = size / float(direction @ bent)
        step += length * direction
        rest -= length * bent
        scaled = curvature.solve(rest)
        size, before = float(rest @ scaled), size
        if size <= goal:
            break
        direction = scaled + size / before * direction
    return step
