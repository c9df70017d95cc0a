"""Platt scaling: logistic regression on the log-odds, exactly, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from calibrant.maps.curves import BoundedLogs, Sigmoid
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.one_vs_rest import BinaryProblem

    Array = NDArray[np.float64]

ZERO = 1e-12
"""An exact 0 (or 1) is read as this far from it, or as the nearest other value if that is less."""

RIDGE = 1e-10
"""Pull towards the identity, which decides where the labels do not: labels that the score
separates would send the slope to infinity, and equal scores leave it open."""

SEPARABLE = f"the score separates the labels: the slope is held by a ridge of {RIDGE:g}"


def bounds_of_logs(values: Array, zero: float = ZERO) -> BoundedLogs:
    """Bounds that no value strictly between 0 and 1 reaches; ``zero`` where that leaves it open."""
    zero = max(zero, float(np.finfo(float).tiny))  # logits may lie deeper than any float's log
    positive = values[values > 0]
    rest = 1.0 - values[values < 1]
    return BoundedLogs(float(positive.min(initial=zero)), float(rest.min(initial=zero)))


@dataclass(frozen=True, slots=True)
class Logistic:
    """Mean NLL of sigmoid(theta @ features), with a ridge towards ``origin``, the identity.

    Weights of labels 1 and 0 are kept apart, so that sums do not cancel.
    """

    features: Array  # a row each, of mean 0, but for the last, which is 1
    positives: Array
    negatives: Array
    origin: Array
    units: Array  # root mean square of each feature, at least 1e-8

    def likelihood(self, theta: Array) -> float:
        """Mean NLL."""
        z = self._scores(theta)
        least = np.log1p(np.exp(-np.abs(z)))  # log(1 + exp(z)) = max(z, 0) + least
        wrong = self.positives * (np.maximum(-z, 0.0) + least)
        wrong += self.negatives * (np.maximum(z, 0.0) + least)
        return float(np.sum(wrong))

    def loss(self, theta: Array) -> float:
        """Mean NLL with the ridge."""
        ridge = 0.5 * np.sum(self._ridge() * (theta - self.origin) ** 2)
        return self.likelihood(theta) + float(ridge)

    def derivatives(self, theta: Array) -> tuple[Array, Array]:
        """Gradient and Hessian of the loss."""
        z = self._scores(theta)
        p, rest = expit(z), expit(-z)
        gradient = np.sum(self.features * (self.negatives * p - self.positives * rest), axis=1)
        spread = self.features * ((self.positives + self.negatives) * p * rest)
        hessian = np.array([[np.sum(f * s) for s in spread] for f in self.features])
        ridge = self._ridge()
        return gradient + ridge * (theta - self.origin), hessian + np.diag(ridge)

    def _scores(self, theta: Array) -> Array:
        total: Array = theta[0] * self.features[0]
        for weight, feature in zip(theta[1:], self.features[1:], strict=True):
            total += weight * feature
        return total

    def _ridge(self) -> Array:
        ridge: Array = RIDGE * np.maximum(self.units, 1.0) ** 2
        return ridge


def minimise_logistic(
    features: list[Array],
    positives: Array,
    negatives: Array,
    lower: Array,
    *,
    tol: float = 1e-10,
    max_rounds: int = 200,
) -> tuple[Array, SolverReport]:
    """Logistic regression on a few features, with lower bounds on their parameters.

    Returns these parameters and then the intercept, which has no bound. Each round solves the
    quadratic model within the bounds exactly and searches along the way to its solution. The
    violation is the largest gradient of the mean NLL that the bounds do not forbid to follow, in
    units of the spread of its feature.
    """
    started = perf_counter()
    weight = positives + negatives
    total, share = weight.sum(), weight / weight.sum()
    means = np.array([np.sum(share * feature) for feature in features])
    # Centred: scores that are nearly equal would be nearly collinear with the intercept.
    centred = [feature - mean for feature, mean in zip(features, means, strict=True)]
    matrix = np.stack([*centred, np.ones_like(share)])
    units = np.maximum(np.sqrt(np.sum(share * matrix**2, axis=1)), 1e-8)
    origin = np.append(np.ones_like(means), means.sum())  # the identity
    problem = Logistic(matrix, positives / total, negatives / total, origin, units)
    lower = np.append(lower, -np.inf)
    theta, loss = origin.copy(), problem.loss(origin)
    null = np.zeros_like(origin)  # where every feature has curvature; the identity may have none
    null[-1] = logit(np.clip(problem.positives.sum(), 1e-9, 1.0 - 1e-9))
    if (of_null := problem.loss(null)) < loss:
        theta, loss = null, of_null
    rounds, certified = 0, False
    while True:
        gradient, hessian = problem.derivatives(theta)
        free = (theta > lower) | (gradient < 0)
        violation = float(np.max(np.where(free, np.abs(gradient), 0.0) / units))
        if (violation <= tol and certified) or rounds == max_rounds:
            break
        certified = violation <= tol  # one more round is cheap and squares what is left
        step = _model_step(gradient, hessian, lower - theta)
        better = _search(problem, theta, step, loss, float(gradient @ step))
        if better is None:
            break
        rounds += 1
        theta, loss = np.maximum(better[0], lower), better[1]
    objective = problem.likelihood(theta)
    report = SolverReport("newton", objective, violation, tol, rounds, perf_counter() - started)
    return np.append(theta[:-1], theta[-1] - np.sum(theta[:-1] * means)), report


def _model_step(gradient: Array, hessian: Array, room: Array) -> Array:
    """Minimiser of the quadratic model over steps >= room, by trying each set of active bounds."""
    scale = 1.0 / np.sqrt(np.diag(hessian))
    g, h, low = gradient * scale, hessian * np.outer(scale, scale), room / scale
    bounded = np.isfinite(low)
    best, lowest = np.zeros_like(g), 0.0
    for active in product(*([False, True] if b else [False] for b in bounded)):
        held = np.array(active)
        step = np.where(held, low, 0.0)
        step[~held] = np.linalg.solve(
            h[np.ix_(~held, ~held)], -g[~held] - h[np.ix_(~held, held)] @ step[held]
        )
        value = float(g @ step + 0.5 * step @ h @ step)
        if np.all(step >= low) and value < lowest:
            best, lowest = step, value
            if not held.any():
                break  # the model is strictly convex: its minimiser is feasible
    return best * scale


def _search(
    problem: Logistic, theta: Array, step: Array, loss: float, slope: float
) -> tuple[Array, float] | None:
    """First point of theta + step, theta + step / 2, ... that lowers the loss enough."""
    rounding = 4 * np.finfo(float).eps * abs(loss)
    length = 1.0
    while length > 1e-20 and slope < 0:
        point = theta + length * step
        reached = problem.loss(point)
        if reached <= loss + 1e-4 * length * slope + rounding:
            return point, reached
        length *= 0.5
    return None


def solve_platt(
    problem: BinaryProblem, *, zero: float = ZERO, smooth_labels: bool = True, tol: float = 1e-10
) -> tuple[Sigmoid, SolverReport]:
    """Logistic regression of the label on the log-odds of a cell.

    With ``smooth_labels`` the labels are Platt's targets: (n + 1) / (n + 2) for n labels 1, and
    1 / (n + 2) for n labels 0.
    """
    logs = bounds_of_logs(problem.values, zero)
    log_x, log_rest = logs(problem.values)
    positives, negatives = problem.positives, problem.negatives
    if smooth_labels:
        of_one = 1 / (positives.sum() + 2)  # what a label 1 gives to label 0
        of_zero = 1 / (negatives.sum() + 2)
        positives, negatives = (
            positives * (1 - of_one) + negatives * of_zero,
            negatives * (1 - of_zero) + positives * of_one,
        )
    theta, report = minimise_logistic(
        [log_x - log_rest], positives, negatives, np.array([-np.inf]), tol=tol
    )
    if problem.separates and not smooth_labels:
        report = replace(report, notes=(SEPARABLE,))
    return Sigmoid(float(theta[0]), float(theta[1]), logs), report
