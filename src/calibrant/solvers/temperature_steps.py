"""Temperature scaling from means over all rows, one point a pass: a step of Newton's method each.

The objective is that of ``temperature``, in the units of the input. The means come from wherever
the rows are; what a zero is mapped to, -gamma = beta log p_min - delta, is held while they are
taken, since p_min is not known before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from calibrant.maps.logits import TemperatureMap
from calibrant.solvers.pseudo_rows import share
from calibrant.solvers.temperature_rows import reach_of
from calibrant.solvers.temperature_whole import LARGEST, next_beta, rate_of_zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.solvers.temperature_rows import Whole


class Moments(NamedTuple):
    """Means over all rows at some beta and gamma of terms of ``kernels.exact_sums``."""

    loss: float
    mean: float
    spread: float
    zero: float
    bend: float
    cross: float


@dataclass(frozen=True, slots=True)
class Step:
    """A point in units of the logits' spread, what all rows say of it, and what they ask for."""

    beta: float
    delta: float
    loss: float
    slope: float  # at the best delta, as far as that is known here
    curvature: float
    violation: float
    by_delta: float = 0.0  # what is left to do in delta, ...
    follow: float = 0.0  # ... and how delta follows beta

    def next(self, earlier: Sequence[Step]) -> tuple[float, float]:
        """Return beta and delta of Newton's step, inside the bracket of all points so far."""
        steps = [*earlier, self]
        low = max((step.beta for step in steps if step.slope < 0.0), default=0.0)
        high = min((step.beta for step in steps if step.slope >= 0.0), default=math.inf)
        if 0.0 < low < high or self.beta == high > low:
            beta = next_beta(self.beta, self.slope, self.curvature, low, high)
        else:  # from a flat start; or zeros have moved since, and with them the bracket
            step = self.slope / self.curvature if self.curvature > 0.0 else 0.0
            beta = max(self.beta - step, 0.25 * self.beta)
        beta = min(beta, LARGEST)
        return beta, self.delta + self.by_delta + self.follow * (beta - self.beta)


class WholeProblem:
    """Temperature scaling of all rows, of which ``whole`` and means at some points are known."""

    def __init__(self, whole: Whole, weight: float, strength: float, kind: str) -> None:
        self.whole, self.kind = whole, kind
        prior = share(strength, weight)
        target = (1.0 - prior) * whole.own + prior * whole.expected
        self._target = target / whole.gap_ratio
        rate = rate_of_zeros(whole.zero_labels, strength, weight)
        self._zero_rate = rate / whole.zero_ratio
        self._reach = reach_of(whole.zero_logit, whole.unit, kind)

    def point(self, found: TemperatureMap) -> tuple[float, float]:
        """Return beta and delta of a map."""
        beta = found.inverse_temperature
        return beta * self.whole.unit, beta * (self.whole.zero_logit - found.zero_logit)

    def temperature(self, beta: float, delta: float) -> TemperatureMap:
        """Return the map of a point, within its bounds."""
        inverse = beta / self.whole.unit
        depth = min(max(delta / inverse, 0.0), self._reach) if inverse > 0.0 else 0.0
        return TemperatureMap(inverse, self.whole.zero_logit - depth, self.kind)

    def step(self, found: TemperatureMap, means: Moments) -> Step:
        """Judge a map by means over all rows."""
        low, rate, unit = self.whole.zero_logit, self._zero_rate, self.whole.unit
        inverse, depth = found.inverse_temperature, low - found.zero_logit
        beta, delta = self.point(found)
        slope = means.mean + low * means.zero - self._target
        curvature = max(means.spread - 2.0 * low * means.cross + low * low * means.bend, 0.0)
        loss = means.loss - inverse * self._target
        step = follow = rest = 0.0
        if means.zero > 0.0:
            cross, by_delta = means.cross - low * means.bend, rate - means.zero
            loss += delta * rate
            if depth >= self._reach and by_delta < 0.0:  # moves along its bound
                slope += self._reach * by_delta
                curvature += self._reach * (2.0 * cross + self._reach * means.bend)
                follow = self._reach
            elif means.bend > 0.0 and (delta > 0.0 or by_delta < 0.0):
                # To where the logarithm of the zeros' probability is that of their rate.
                step = means.zero * (math.log(means.zero) - math.log(rate)) / means.bend
                follow, rest = -cross / means.bend, abs(by_delta)
                slope += cross * step
                curvature = max(curvature - cross * cross / means.bend, 0.0)
        slope, curvature = slope / unit, curvature / unit**2
        is_bound = (beta == 0.0 and slope >= 0.0) or (beta >= LARGEST and slope <= 0.0)
        violation = 0.0 if is_bound else max(abs(slope), rest)
        return Step(beta, delta, loss, slope, curvature, violation, step, follow / unit)
