"""Slope and intercept of logit(q) = a + b x, Cox's recalibration of log-odds x.

With l the log-likelihood of the labels, the deviance of a slope b is that of the best intercept,

    D(b) = 2 (max_{a, b'} l(a + b' x) - max_a l(a + b x)),

and likewise for an intercept. The interval of a slope holds those with D(b) <= t^2, where t is
Student's quantile.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, stdtr, stdtrit

from calibrant._predictions import log_odds
from calibrant._result import Estimate
from calibrant._solvers.one_vs_rest import FREE, minimise_logistic

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._predictions import EventCells
    from calibrant._types import Floats

MOST_CELLS_PROFILED = 1 << 12
"""Number of distinct predictions above which neighbours are merged for the deviances."""

WIDTH = 0.01  # distance of log-odds within which predictions are merged then
FEWEST_DEGREES = 4.0  # least degrees of freedom of Student's quantile
FARTHEST = 1e4  # slope or intercept beyond which the end of an interval is infinite
LONGEST_STEP = 10.0  # longest step of Newton's method for the best intercept or slope


class FittedRecalibration(NamedTuple):
    """Slope and intercept, and the p-value of a slope of 1."""

    slope: Estimate
    intercept: Estimate
    p_value: float


def fit_recalibration(cells: EventCells, level: float) -> FittedRecalibration:
    """Fit slope and intercept, with intervals unless the level is NaN."""
    nothing = Estimate(math.nan)
    x = log_odds(cells.values)
    if x[0] == x[-1] or not 0.0 < cells.hits.sum() < cells.weight.sum():
        return FittedRecalibration(nothing, nothing, math.nan)
    model = RecalibrationLikelihood(x, cells.weight, cells.hits)
    side = find_separation(cells)
    if side:
        slope, best = Estimate(side * math.inf), model.supremum()
        reach = float(stdtrit(FEWEST_DEGREES, (1.0 + level) / 2.0))
        if math.isfinite(reach):
            end = _find_end(model.slope_deviance(best), 0.0, -side, 1.0, reach)
            slope = Estimate(slope.value, *sorted((end, slope.value)))
        return FittedRecalibration(slope, nothing, model.p_value(best, FEWEST_DEGREES))
    negative = np.maximum(cells.weight - cells.hits, 0.0)
    theta, _ = minimise_logistic(x[None], cells.hits, negative, FREE)
    b, a = map(float, theta)
    slope, intercept = Estimate(b), Estimate(a)
    best, n_free = model.log_likelihood(a + b * model.x), model.degrees(a, b)
    reach = float(stdtrit(n_free, (1.0 + level) / 2.0))
    if math.isfinite(reach):  # not NaN for no level, nor infinite for a level of 1
        steps = model.standard_errors(a, b)
        of_slope, of_intercept = model.slope_deviance(best), model.intercept_deviance(best, b)
        slope = Estimate(b, *(_find_end(of_slope, b, s, steps[0], reach) for s in (-1, 1)))
        ends = (_find_end(of_intercept, a, s, steps[1], reach) for s in (-1, 1))
        intercept = Estimate(a, *ends)
    return FittedRecalibration(slope, intercept, model.p_value(best, n_free))


def find_separation(cells: EventCells) -> int:
    """Return 1 if no negative row is above a positive one, -1 if none is below, else 0."""
    x = log_odds(cells.values)
    positive, negative = x[cells.hits > 0.0], x[cells.hits < cells.weight]
    if negative[-1] <= positive[0]:
        return 1
    return -1 if positive[-1] <= negative[0] else 0


def _find_end(
    deviance: Callable[[float], float], start: float, side: int, step: float, reach: float
) -> float:
    """Return where a convex deviance reaches ``reach`` squared, from ``start`` on one side."""
    if reach == 0.0:
        return start

    def excess(value: float) -> float:
        return deviance(value) - reach**2

    inner, outer = start, start + side * reach * step
    if excess(start) > 0.0:  # the optimum is at infinity on the other side
        side, inner, outer = -side, start, start - side * reach * step
    is_inside = excess(start) <= 0.0
    while (excess(outer) <= 0.0) == is_inside:
        inner, outer = outer, start + 2.0 * (outer - start)
        if abs(outer) > FARTHEST:
            return side * math.inf
    # Weights over many orders leave so few digits of a deviance that its sign may change.
    if (excess(inner) > 0.0) == (excess(outer) > 0.0):
        return inner
    return float(brentq(excess, inner, outer, xtol=1e-10, rtol=1e-10))


class RecalibrationLikelihood:
    """The log-likelihood of labels in the model, and the deviances of its parameters."""

    def __init__(self, x: Floats, weight: Floats, hits: Floats) -> None:
        if len(x) > MOST_CELLS_PROFILED:
            # So close, the likelihood only differs in the last digits.
            key = np.floor(x / WIDTH)
            first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
            weight, mass, hits = (np.add.reduceat(v, first) for v in (weight, weight * x, hits))
            x = mass / weight
        self.x, self.weight, self.hits = x, weight, hits
        self._middle = float(weight @ x) / float(weight.sum())

    def log_likelihood(self, log_odds: Floats) -> float:
        """Return the log-likelihood of some log-odds q."""
        return float(self.hits @ log_odds - self.weight @ np.logaddexp(0.0, log_odds))

    def supremum(self) -> float:
        """Return the least upper bound of the likelihood where the classes are separated.

        Only predictions that have both labels cost anything, and they are all equal.
        """
        both = (self.hits > 0.0) & (self.hits < self.weight)
        parts = [float(self.hits[both].sum()), float((self.weight - self.hits)[both].sum())]
        return sum(part * math.log(part / sum(parts)) for part in parts if part > 0.0)

    def standard_errors(self, a: float, b: float) -> tuple[float, float]:
        """Return those of slope and intercept, from the curvature."""
        q = expit(a + b * self.x)
        curvature = self.weight * q * (1.0 - q)
        total = float(curvature.sum())
        middle = float(curvature @ self.x) / total
        of_slope = 1.0 / float(curvature @ (self.x - middle) ** 2)
        return math.sqrt(of_slope), math.sqrt(1.0 / total + middle**2 * of_slope)

    def slope_deviance(self, best: float) -> Callable[[float], float]:
        """Return the deviance as a function of the slope, minimised over the intercept."""
        x, one = self.x - self._middle, np.ones_like(self.x)
        odds = logit(float(self.hits.sum()) / float(self.weight.sum()))
        return self._profile(best, lambda b: b * x, one, float(odds))

    def intercept_deviance(self, best: float, slope: float) -> Callable[[float], float]:
        """Return the deviance as a function of the intercept, minimised over the slope."""
        return self._profile(best, lambda a: np.full_like(self.x, a), self.x, slope)

    def degrees(self, a: float, b: float) -> float:
        """Return the degrees of freedom of the root of a deviance, in Student's distribution.

        Rows whose label is nearly certain say little of a slope: they count as fewer rows.
        """
        q = expit(a + b * self.x)
        return max(4.0 * float(self.weight @ (q * (1.0 - q))), FEWEST_DEGREES)

    def p_value(self, best: float, n_free: float) -> float:
        """Return the p-value of a slope of 1, by the likelihood ratio."""
        root = math.sqrt(max(self.slope_deviance(best)(1.0), 0.0))
        return float(2.0 * stdtr(n_free, -root))

    def _profile(
        self, best: float, offset: Callable[[float], Floats], feature: Floats, start: float
    ) -> Callable[[float], float]:
        last = start

        def deviance(value: float) -> float:
            nonlocal last  # the optimum moves little from one value to the next
            base = offset(value)
            last = self._maximise(base, feature, last)
            return 2.0 * (best - self.log_likelihood(base + last * feature))

        return deviance

    def _maximise(self, offset: Floats, feature: Floats, start: float) -> float:
        """Return the factor of a feature with the highest likelihood: Newton within a bracket."""
        low, high, t = -math.inf, math.inf, start
        for _ in range(100):
            q = expit(offset + t * feature)
            gradient = float((self.hits - self.weight * q) @ feature)
            curvature = float((self.weight * q * (1.0 - q)) @ feature**2)
            low, high = (t, high) if gradient > 0.0 else (low, t)
            # Where probabilities are all near 0 or 1 there is no curvature: then a unit at a time.
            step = gradient / curvature if curvature > 0.0 else math.copysign(1.0, gradient)
            new = t + min(max(step, -LONGEST_STEP), LONGEST_STEP)
            if not low < new < high:
                new = 0.5 * (low + high) if math.isfinite(low + high) else new
            if abs(new - t) <= 1e-9 * (1.0 + abs(t)) or abs(new) > FARTHEST:
                return new
            t = new
        return t
