"""Structured scaling: an affine map of the logits, shrunk to temperature scaling.

After Berta et al., "Structured matrix scaling for multi-class calibration" (2025), with three
departures. Probabilities are bounded from below before their logarithms enter the matrix, so that
a class at 1e-45 weighs no more than one at 1e-3. The bounded logarithms have a common slope of
their own, besides the temperature. The penalties are numbers of rows, adapted to the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.rows import bounded_logs
from calibrant.kernels.softmax import (
    add_class_sums,
    common_curvature,
    curve_rows,
    map_logits,
    spread_rows,
    weighted_softmax,
)
from calibrant.maps.logits import StructuredMap
from calibrant.simplex import to_logits
from calibrant.solvers.logit_unit import divide_by_unit
from calibrant.solvers.monotone_spline import drop_light_rows, feature_scale
from calibrant.solvers.newton_steps import conjugate_gradients
from calibrant.solvers.pseudo_rows import AT_TEMPERATURE, REWEIGHTINGS, remaining
from calibrant.solvers.pseudo_rows import share as share_of
from calibrant.solvers.report import SolverReport
from calibrant.solvers.temperature import solve_temperature

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

ROUGH_TOLERANCE = 1e-2
"""Violation at which the evidence is looked at."""

MOST_DAMPING = 1e6
"""Part of the curvature that is added to it where steps fail."""

MOST_PRODUCTS = 200
"""Limit of conjugate gradients in one step."""


def _features(logits: Array, scale: float, bound: float) -> Array:
    out = np.empty_like(logits)
    bounded_logs(scale * logits, bound, out)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
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

    def divergence(self, start: _Point) -> float:
        """Mean divergence of the rows from those of ``start``."""
        return self.loss - start.loss - float(start.gradient @ self.gap())


class _Preconditioner:
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


class _Likelihood:
    """Mean NLL of softmax(alpha u + (gamma + W) x + c) in (alpha, gamma, W, c).

    W is a vector (a diagonal matrix) or a matrix. ``value`` remembers the probabilities, which
    ``product``, the Hessian times a vector, takes. ``rough`` products are in single precision,
    twice as fast.
    """

    def __init__(
        self, logits: Array, x: Array, class_index: NDArray[np.int64], share: Array, *, full: bool
    ) -> None:
        self._logits, self._x, self._class_index, self._share = logits, x, class_index, share
        k = x.shape[1]
        self.shape = (k, k) if full else (k,)
        self._weighted = np.zeros_like(x)
        self._weighted[np.arange(len(x)), class_index] = share
        self._label_sums = self._sums(self._weighted, x)
        self._single = x.astype(np.float32)
        self._scratch: NDArray[Any] = np.empty_like(self._single)
        self.rough = True

    def kinds(self) -> NDArray[np.int64]:
        """Kind of each parameter, as an index of ``PENALTIES``."""
        k = self.shape[0]
        slopes = np.full(self.shape, DIAGONAL)
        if slopes.ndim == 2:
            slopes[~np.eye(k, dtype=bool)] = OFF_DIAGONAL
        return np.concatenate([[TEMPERATURE, COMMON], slopes.ravel(), np.full(k, INTERCEPT)])

    def drop_logits(self) -> None:
        """Make alpha do nothing."""
        self._logits = np.zeros_like(self._logits)
        self._label_sums[0] = 0.0

    def _apply(self, theta: Array, x: NDArray[Any], out: NDArray[Any]) -> None:
        k = self.shape[0]
        slope = theta[2:-k].reshape(self.shape)
        own = np.full(k, theta[1])
        if slope.ndim == 2:
            np.matmul(x, slope.T.astype(x.dtype), out=out)
        else:
            out.fill(0.0)
            own += slope
        map_logits(self._logits, self._x, theta[0], own, theta[-k:], out)

    def _sums(self, rows: NDArray[Any], x: NDArray[Any]) -> Array:
        """Transpose of ``_apply``."""
        k = self.shape[0]
        by_slope, by_intercept = np.zeros(k), np.zeros(k)
        by_alpha = add_class_sums(rows, self._logits, self._x, by_slope, by_intercept)
        slopes = by_slope if len(self.shape) == 1 else (rows.T @ x).ravel()
        return np.concatenate([[by_alpha, by_slope.sum()], slopes, by_intercept])

    def value(self, theta: Array) -> _Point:
        """Mean NLL and its gradient."""
        self._apply(theta, self._x, self._weighted)
        loss = weighted_softmax(self._weighted, self._class_index, self._share)
        return _Point(theta, float(loss), self._sums(self._weighted, self._x) - self._label_sums)

    def product(self, direction: Array) -> Array:
        """Hessian at the last ``value`` times ``direction``."""
        x = self._single if self.rough else self._x
        if self._scratch.dtype != x.dtype:
            self._scratch = np.empty_like(x)
        self._apply(direction, x, self._scratch)
        curve_rows(self._weighted, self._share, self._scratch)
        return self._sums(self._scratch, x)

    def curvature(self) -> tuple[Array, Array]:
        """Curvature at the last ``value``, without what couples one parameter to another."""
        spread, squares = np.empty_like(self._single), self._single**2
        spread_rows(self._weighted, self._share, spread)
        if len(self.shape) == 2:
            slopes = (spread.T @ squares).ravel()
        else:
            slopes = np.einsum("ij,ij->j", spread, squares, dtype=np.float64)
        common = np.zeros((2, 2))
        common_curvature(self._weighted, self._share, self._logits, self._x, common)
        return common, np.concatenate([slopes, spread.sum(axis=0)]).astype(np.float64)


def solve_structured(
    batch: SimplexBatch,
    *,
    full: bool,
    strength: float | None = None,
    prior_strength: float = AT_TEMPERATURE,
    bound: float = 0.02,
    tol: float = 1e-6,
    max_rounds: int = 100,
    zero_probability: float | None = None,
) -> tuple[StructuredMap, SolverReport]:
    """Affine map of bounded log-probabilities of least penalised NLL, by Newton's method.

    Without ``strength`` the penalties are adapted to the evidence. The violation is the largest
    gradient, each in units of the square root of its curvature.
    """
    started = perf_counter()
    temperature, _ = solve_temperature(batch, zero_probability=zero_probability)
    batch = drop_light_rows(batch).merged()
    n_rows = float(batch.weight.sum())
    logits = to_logits(batch.scores, batch.kind, temperature.zero_logit)
    logits -= logits.max(axis=1, keepdims=True)
    unit = divide_by_unit(logits, batch.weight)
    beta = unit * temperature.inverse_temperature
    share = batch.weight / batch.weight.sum()
    scale = feature_scale(logits, share, beta)
    x = _features(logits, scale, bound)
    logits *= beta
    likelihood = _Likelihood(logits, x, batch.class_index, share, full=full)
    options = n_rows, strength, prior_strength, tol, max_rounds
    theta, report = _fit(likelihood, *options)
    if theta[0] < 0.0:  # by convexity the best of alpha >= 0 is at 0
        likelihood.drop_logits()
        theta, report = _fit(likelihood, *options)
        theta[0] = 0.0
    k = batch.n_classes
    slope = theta[2:-k].reshape(likelihood.shape) + theta[1] * (np.eye(k) if full else 1.0)
    inverse = float(theta[0] * beta) / unit
    zero_logit = temperature.zero_logit
    found = StructuredMap(
        inverse, slope, theta[-k:].copy(), scale / unit, bound, zero_logit, batch.kind
    )
    return found, replace(report, seconds=perf_counter() - started)


def _fit(
    likelihood: _Likelihood,
    n_rows: float,
    strength: float | None,
    prior_strength: float,
    tol: float,
    max_rounds: int,
) -> tuple[Array, SolverReport]:
    """Fit roughly, adapt penalties to the evidence and pseudo-observations to it; then exactly."""
    kinds = likelihood.kinds()
    start = np.zeros(len(kinds))
    start[0] = 1.0
    point = first = likelihood.value(start)
    penalties = PENALTIES * (1.0 if strength is None else strength)
    # Only the common terms are held: those of classes have penalties of their own.
    common = np.where(kinds < DIAGONAL, first.gradient, 0.0)
    pull = share_of(prior_strength, n_rows) * common
    likelihood.rough = True
    for _ in range(REWEIGHTINGS if strength is None or prior_strength > 0.0 else 0):
        rough = max(tol, ROUGH_TOLERANCE)
        point, _ = _minimise(likelihood, penalties[kinds] / n_rows, pull, point, rough, max_rounds)
        left = remaining(prior_strength, point.divergence(first))
        pull = share_of(left, n_rows) * common
        if strength is None:
            data = n_rows * likelihood.curvature()[1]
            penalties = _evidence(data, kinds, point.theta, penalties)
    likelihood.rough = False
    point, report = _minimise(likelihood, penalties[kinds] / n_rows, pull, point, tol, max_rounds)
    names = zip(("diagonal", "off-diagonal", "intercept"), penalties[DIAGONAL:], strict=True)
    notes = ", ".join(f"{name} {value:.3g}" for name, value in names)
    return point.theta, replace(report, notes=(f"penalties in rows: {notes}",))


def _evidence(data: Array, kinds: NDArray[np.int64], theta: Array, penalties: Array) -> Array:
    """One step of MacKay's fixed point: number of well-determined parameters / their squares.

    It finds the penalties of most evidence, in which single parameters are taken as independent;
    ``data`` is the curvature of all but the first two. To three digits: a rough fit has no more.
    """
    kinds, theta = kinds[DIAGONAL:], theta[DIAGONAL:]
    known = np.bincount(kinds, data / (data + penalties[kinds]), minlength=len(PENALTIES))
    squares = np.bincount(kinds, theta**2, minlength=len(PENALTIES))
    found = np.clip(known / np.maximum(squares, 1e-300), WEAKEST * PENALTIES, STRONGEST * PENALTIES)
    found[:DIAGONAL] = PENALTIES[:DIAGONAL]
    return np.array([float(f"{value:.3g}") for value in found])


def _minimise(
    likelihood: _Likelihood,
    penalty: Array,
    pull: Array,
    point: _Point,
    tol: float,
    max_rounds: int,
) -> tuple[_Point, SolverReport]:
    """Newton's method with steps by conjugate gradients, from the last value of the likelihood."""

    def goal(first: float) -> float:
        """Return where a step is exact enough: the more so the smaller the gradient is."""
        return max(first * max(min(0.01, first), 1e-10), 0.1 * tol**2)

    common, rest = likelihood.curvature()
    preconditioner = _Preconditioner(common + np.diag(penalty[:2]), rest + penalty[2:])
    value, gradient = point.penalised(penalty, pull)
    rounds, damping = 0, 0.0
    while np.max(np.abs(gradient) * preconditioner.unit) > tol and rounds < max_rounds:
        rounds += 1
        bends = penalty + damping / preconditioner.unit**2
        step, _ = conjugate_gradients(
            likelihood, bends, preconditioner.solve, gradient, goal, MOST_PRODUCTS
        )
        decrease = 1e-4 * float(gradient @ step)
        size = 1.0
        while True:
            other = likelihood.value(point.theta - size * step)
            new_value, new_gradient = other.penalised(penalty, pull)
            enough = new_value <= value - size * decrease + 1e-15 * abs(value)
            if enough or size < 1e-6:
                break
            size *= 0.5
        if not enough:  # too far, where the curvature is that of a few rows; or nothing to gain
            likelihood.value(point.theta)
            damping = max(10.0 * damping, 1e-6)
            if damping > MOST_DAMPING:
                break
            continue
        point, value, gradient, damping = other, new_value, new_gradient, 0.1 * damping
    violation = float(np.max(np.abs(gradient) * preconditioner.unit))
    return point, SolverReport("newton-cg", value, violation, tol, rounds, 0.0)
