"""Temperature scaling: convex in 1/T and in the logit of an exact zero; safeguarded Newton method.

The paper's TS has one number, the temperature, and no word on probabilities of exactly zero, which
have no logarithm and are common in forests, nearest neighbours and lists of the k best. With

    z = beta log p  where p > 0,    z = beta log p_min - delta  where p = 0,    delta >= 0,

the NLL is convex in (beta, delta), and the order of the classes is kept. For a given beta the best
delta costs a pass over sums of rows alone, and what is left is convex in beta.

Two weak pulls keep the optimum finite. Pseudo-observations labelled by the scores themselves (see
``pseudo_rows``) draw T to 1, which it would leave without bound on a set without errors: they are
linear in beta, so the problem stays convex. And zeros are held to have had half a label more than
they had.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from calibrant.kernels.softmax import row_sums
from calibrant.solvers.pseudo_rows import AT_SCORES, REWEIGHTINGS, remaining, share
from calibrant.solvers.report import SolverReport
from calibrant.solvers.temperature_rows import (
    Rows,
    Whole,
    find_zeros,
    read_rows,
    sum_in_any_order,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.logits import TemperatureMap
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

ROUGH = 1e-4
"""Slope at which the number of pseudo-observations is adapted."""

HELD = 1e12
"""Pseudo-observations, the most there may be, that leave T at 1: to the last bit, as solvers and
programs that export writes may not tell a factor from 1 that differs in its last digits."""

ZERO_LABELS = 0.5
"""What is added to the number of labels whose score was an exact zero."""

LARGEST = 1e6
"""Bound on the inverse temperature in units of the logits' spread, for sets without an error."""

_known: WeakKeyDictionary[
    SimplexBatch, dict[tuple[Any, ...], tuple[TemperatureMap, SolverReport]]
] = WeakKeyDictionary()


def solve_temperature(
    batch: SimplexBatch,
    *,
    prior_strength: float = AT_SCORES,
    zero_probability: float | None = None,
    tol: float = 1e-10,
    max_rounds: int = 200,
    start: float = 1.0,
) -> tuple[TemperatureMap, SolverReport]:
    """Inverse temperature, and reading of exact zeros, of least NLL.

    ``zero_probability`` sets the reading by hand; scores below it are read as it, too. The
    violation is the slope in beta, in units of the spread of the logits, or that in delta. What was
    found for a batch is kept as long as the batch: most other methods begin with it. ``start`` is
    an inverse temperature to begin with.
    """
    known = _known.setdefault(batch, {})
    options = prior_strength, zero_probability, tol, max_rounds, start
    if options not in known:
        found, report, _ = fit_temperature(
            batch,
            prior_strength=prior_strength,
            zero_probability=zero_probability,
            tol=tol,
            max_rounds=max_rounds,
            start=start,
        )
        known[options] = found, report
    return known[options]


class TemperatureFit(NamedTuple):
    """A map, the proof of it, and the pseudo-observations that it was drawn to T = 1 by."""

    map: TemperatureMap
    report: SolverReport
    strength: float


def fit_temperature(
    batch: SimplexBatch,
    *,
    prior_strength: float = AT_SCORES,
    zero_probability: float | None = None,
    tol: float = 1e-10,
    max_rounds: int = 200,
    start: float = 1.0,
    reweightings: int = REWEIGHTINGS,
    whole: Whole | None = None,
) -> TemperatureFit:
    """Do as ``solve_temperature`` does; the batch may be a sample of a ``whole``.

    The linear terms of the objective are those of all rows then, divided by what the other terms
    of all rows exceed those of the sample by: at the point of reference the slope is exact.
    """
    started = perf_counter()
    rows = read_rows(batch, zero_probability, whole)
    likelihood = _Likelihood(rows, batch.weight, whole)
    point, rounds, notes, strength = _minimise(
        likelihood, prior_strength, start, reweightings, tol, max_rounds
    )
    found = rows.temperature(point.beta, point.delta, batch.kind)
    if prior_strength >= HELD:
        found = replace(found, inverse_temperature=1.0)
    if rows.has_zeros:
        notes = (*notes, f"an exact zero is read as {math.exp(found.zero_logit):.3g}")
    violation = 0.0 if point.beta == 0.0 or point.beta >= LARGEST else point.violation
    report = SolverReport(
        "newton", point.loss, violation, tol, rounds, perf_counter() - started, notes=notes
    )
    return TemperatureFit(found, report, strength)


def rate_of_zeros(labels: float, prior_strength: float, total: float) -> float:
    """Labels on exact zeros among all rows, pseudo-observations included, which have none.

    Never 0: beside pseudo-observations the rows may weigh less than floats tell from nothing.
    """
    return (labels + ZERO_LABELS) / (prior_strength + total)


def read_zero(batch: SimplexBatch, zero_probability: float | None) -> float:
    """Log-probability that an exact zero is read as: that of the fit, if there is one to fit."""
    n_zeros, zero_logit = find_zeros(batch, zero_probability)
    return solve_temperature(batch)[0].zero_logit if n_zeros.any() else zero_logit


@dataclass(frozen=True, slots=True)
class _Point:
    """Mean NLL at the best delta of a beta, with its derivatives in beta."""

    beta: float
    delta: float
    loss: float
    slope: float
    curvature: float
    rest: float = 0.0

    @property
    def violation(self) -> float:
        """Of the optimality conditions in beta and in delta."""
        return max(abs(self.slope), self.rest)


class _Scores(NamedTuple):
    """The scores as they are, T = 1: what pseudo-observations are labelled by."""

    expected: Array  # mean gap of each row
    mean_expected: float
    entropy: float


class _Likelihood:
    """Mean NLL with pseudo-observations, as a function of beta; the best delta is found."""

    def __init__(self, rows: Rows, weight: Array, whole: Whole | None) -> None:
        self.rows, self.weight, self._whole = rows, weight, whole
        self._total = sum_in_any_order(weight)
        self._sums = np.empty_like(rows.flat)
        self._beta = 0.0  # where these sums were taken, if it is positive
        self._zeros = np.flatnonzero(rows.n_zeros)
        own = sum_in_any_order(weight[rows.zero_label]) if whole is None else whole.zero_labels
        self._zero_labels = own
        self._tilt = 0.0  # of the mean target of a sample over what it should be

    def _sums_at(self, beta: float) -> Array:
        """Return the sums of each row: a pass over the matrix, unless it was done last."""
        if beta == 0.0:
            return self.rows.flat
        if beta != self._beta:
            row_sums(self.rows.gaps, self.rows.n_zeros, beta, *self._sums)
            self._beta = beta
        return self._sums

    @cached_property
    def _scores(self) -> _Scores:
        s0, s1, _ = self._sums_at(self.rows.unit)
        expected = s1 / s0
        mean_expected = self._mean(expected)
        entropy = self._mean(np.log(s0)) - self.rows.unit * mean_expected
        return _Scores(expected, mean_expected, entropy)

    def weigh(self, prior_strength: float) -> None:
        """Set the number of pseudo-observations."""
        prior = share(prior_strength, self._total)
        self._target = self.rows.own
        if prior > 0.0:
            self._target = (1.0 - prior) * self._target + prior * self._scores.expected
        self._mean_target = self._mean(self._target)
        self._zero_rate = rate_of_zeros(self._zero_labels, prior_strength, self._total)
        if self._whole is not None:
            whole, of_sample = self._whole, self._mean_target
            gap = (1.0 - prior) * whole.own + prior * whole.expected
            self._mean_target = gap / (self.rows.unit * whole.gap_ratio)
            self._tilt = of_sample - self._mean_target
            self._zero_rate /= whole.zero_ratio

    def divergence(self, point: _Point) -> float:
        """D: mean of sum_j p_j log(p_j / q_j) for the scores p and the scaled rows q."""
        log_total = point.loss + point.beta * self._mean_target - point.delta * self._zero_rate
        scores = self._scores
        return max(log_total - point.beta * scores.mean_expected - scores.entropy, 0.0)

    def _mean(self, values: Array) -> float:
        return sum_in_any_order(values * self.weight) / self._total

    def __call__(self, beta: float) -> _Point:
        """Value, slope and curvature."""
        s0, s1, s2 = sums = self._sums_at(beta)
        if len(self._zeros):
            return self._with_zeros(beta, sums)
        mean = s1 / s0
        return _Point(
            beta,
            0.0,
            self._mean(np.log(s0) - beta * self._target) + beta * self._tilt,
            self._mean(mean - self._target) + self._tilt,
            self._mean(np.maximum(s2 / s0 - mean * mean, 0.0)),
        )

    def slope_at_zero(self) -> float:
        """Slope where all classes are alike."""
        if len(self._zeros):
            return self(0.0).slope
        s0, s1, _ = self.rows.flat
        return self._mean(s1 / s0 - self._target) + self._tilt

    def _with_zeros(self, beta: float, sums: Array) -> _Point:
        s0, s1, s2 = sums
        gap = self.rows.gaps[:, 0]
        mass = np.where(self.rows.n_zeros > 0, self.rows.n_zeros * np.exp(beta * gap), 0.0)
        reach = self.rows.reach
        delta = self._best_delta(s0, mass, beta * reach)
        mass *= math.exp(-delta)
        total = s0 + mass
        zero = mass / total
        mean = (s1 + mass * gap) / total
        square = (s2 + mass * gap * gap) / total
        slope = self._mean(mean - self._target) + self._tilt
        curvature = self._mean(np.maximum(square - mean * mean, 0.0))
        by_delta = self._zero_rate - self._mean(zero)
        bend = self._mean(zero * (1.0 - zero))
        cross = self._mean(zero * (mean - gap))
        rest = 0.0
        if delta >= beta * reach and by_delta < 0.0:  # moves with beta along its bound
            slope += reach * by_delta
            curvature += reach * (2.0 * cross + reach * bend)
        elif delta > 0.0:
            rest = abs(by_delta)
            curvature = max(curvature - cross * cross / bend, 0.0) if bend > 0.0 else curvature
        loss = self._mean(np.log(total) - beta * self._target) + delta * self._zero_rate
        loss += beta * self._tilt
        return _Point(beta, delta, loss, slope, curvature, rest)

    def _best_delta(self, s0: Array, mass: Array, high: float) -> float:
        """Where zeros get as much probability as they had labels: Newton's method on its log."""
        s0, mass, weight = s0[self._zeros], mass[self._zeros], self.weight[self._zeros]
        total, rate = self._total, self._zero_rate

        def excess(delta: float) -> tuple[float, float]:
            part = mass * math.exp(-delta)
            zero = part / (s0 + part)
            mean = max(sum_in_any_order(weight * zero) / total, 1e-300)
            slope = -sum_in_any_order(weight * zero * (1.0 - zero)) / total
            return math.log(mean) - math.log(rate), slope / mean

        low = 0.0
        if high <= 0.0 or excess(0.0)[0] <= 0.0:
            return 0.0
        # From here on no row gives its zeros more than their rate. Further on they may underflow.
        high = min(high, math.log(float(mass.max())) - math.log(rate))
        if excess(high)[0] >= 0.0:
            return high
        delta, (value, slope) = 0.0, excess(0.0)
        for _ in range(100):
            delta -= value / slope
            if not low < delta < high:
                delta = 0.5 * (low + high)
            value, slope = excess(delta)
            low, high = (delta, high) if value > 0.0 else (low, delta)
            if abs(value) <= 1e-13 or not low < 0.5 * (low + high) < high:
                break
        return delta


def _minimise(
    likelihood: _Likelihood,
    prior_strength: float,
    start: float,
    reweightings: int,
    tol: float,
    max_rounds: int,
) -> tuple[_Point, int, tuple[str, ...], float]:
    """Minimise with as many pseudo-observations as the distance from the scores leaves."""
    strength, rounds = prior_strength, 0
    for _ in range(reweightings if prior_strength > 0.0 else 0):
        likelihood.weigh(strength)
        point, n, _ = _descend(likelihood, start, max(tol, ROUGH), max_rounds)
        strength = remaining(prior_strength, likelihood.divergence(point))
        start, rounds = point.beta or 1.0, rounds + n
    likelihood.weigh(strength)
    point, n, notes = _descend(likelihood, start, tol, max_rounds)
    if strength > 0.0:
        notes = (*notes, f"drawn to T = 1 by {strength:.3g} pseudo-observations")
    return point, rounds + n, notes, strength


def _descend(
    likelihood: _Likelihood, start: float, tol: float, max_rounds: int
) -> tuple[_Point, int, tuple[str, ...]]:
    """Newton's method in a bracket."""
    if likelihood.slope_at_zero() >= 0.0:
        return likelihood(0.0), 1, ("the scores carry no information: inverse temperature 0",)
    point = likelihood(start)
    rounds = 2
    low, high = 0.0, math.inf
    while abs(point.slope) > tol and rounds < max_rounds:
        if point.slope < 0.0:
            low = point.beta
        else:
            high = point.beta
        if low >= LARGEST:
            note = f"no row tells where it ends: inverse temperature at its bound {LARGEST:g}"
            return point, rounds, (note,)
        beta = next_beta(point.beta, point.slope, point.curvature, low, high)
        if beta in (low, high):  # two neighbouring floats: nothing is left to gain
            break
        point = likelihood(beta)
        rounds += 1
    return point, rounds, ()


def next_beta(beta: float, slope: float, curvature: float, low: float, high: float) -> float:
    """Newton's step where it stays inside the bracket, else its middle (or its double)."""
    beta = beta - slope / curvature if curvature > 0.0 else math.inf
    if high == math.inf:
        return min(beta if low < beta <= 4.0 * low else 4.0 * low, LARGEST)
    if low < beta < high:
        return beta
    return 0.5 * (low + high)
