"""Temperature scaling from statistics: rows that are kept, and sums over all at one temperature."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.exact_sums import temperature_terms
from calibrant.kernels.rows import deepest_logit, smallest_positive
from calibrant.maps.logits import TemperatureMap
from calibrant.scale.parts import Part
from calibrant.scale.statistics import Solution, Statistics
from calibrant.scale.wide_sums import WideSums
from calibrant.simplex import KINDS, LOG_OF_ZERO, check_number, check_option, chunks, to_logits
from calibrant.solvers.pseudo_rows import AT_SCORES, remaining
from calibrant.solvers.report import SolverReport
from calibrant.solvers.temperature import (
    ZERO_LABELS,
    TemperatureFit,
    fit_temperature,
)
from calibrant.solvers.temperature_rows import Whole, unit_of
from calibrant.solvers.temperature_steps import Moments, Step, WholeProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

N_TERMS = 17
MEAN, ZERO = 1, 3
OWN, ZERO_LABEL, ZERO_BASE, SPREAD, N_ZEROS = 6, 7, 8, slice(9, 12), 13
"""Places of terms; the first six are ``Moments``."""

KNOWN = [0, 1, 2, *range(9, N_TERMS)]
"""Terms that tell, at T = 1, how rows that were kept differ from all."""

LARGEST_RATIO = 4.0
"""How far all rows may differ from those that were kept; more would be an accident."""

FARTHEST = 6.0
"""Standard errors that a mean over all rows may be from that of a sample."""

EXACT = 1e-13
CORRECTIONS, RIDGE = 2, 0.01
MOST_CLASSES = 1 << 20
MOST_PASSES = 8
ROUNDING = 1e-7
"""Violation that may be that of rounding, if another pass does not better it."""


def check_settings(n_classes: Any, kind: Any, *numbers: Any) -> None:
    """Refuse what no part was ever made of; settings may come from a stranger's file."""
    check_number("n_classes", n_classes, low=2, high=MOST_CLASSES, whole=True)
    check_option("kind", kind, KINDS)
    for number in numbers:
        if number is not None:
            check_number("a number of a point of reference", number)


class TemperatureSums(Part):
    """Exact sums of the loss of temperature scaling and its derivatives, at one temperature.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    zero_probability : float, optional
        What a smaller score is read as; without it exact zeros are counted by themselves.
    inverse_temperature : float, default=1
        Where the sums are taken.
    zero_logit : float, optional
        What exact zeros are read as there; without it they have no probability.
    strength : float, optional
        Pseudo-observations, for who asked for these sums.
    """

    name = "temperature"

    def __init__(
        self,
        n_classes: int,
        kind: str,
        zero_probability: float | None = None,
        inverse_temperature: float = 1.0,
        zero_logit: float | None = None,
        strength: float | None = None,
    ) -> None:
        check_settings(n_classes, kind, inverse_temperature, zero_probability, zero_logit, strength)
        self.n_classes, self.kind = n_classes, kind
        self.zero_probability, self.inverse_temperature = zero_probability, inverse_temperature
        self.zero_logit, self.strength = zero_logit, strength
        self._sums = WideSums(N_TERMS)
        self._deepest = 0.0

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        names = ("n_classes", "kind", "zero_probability", "inverse_temperature", "zero_logit")
        return {name: getattr(self, name) for name in (*names, "strength")}

    def terms(self, batch: SimplexBatch, own: slice) -> tuple[Array, float]:
        """Return what some of the rows add to each sum, and the deepest of their logits."""
        is_logit, beta = self.kind == "logits", self.inverse_temperature
        lowest = -math.inf if self.zero_probability is None else math.log(self.zero_probability)
        mapped = -math.inf if self.zero_logit is None else beta * self.zero_logit
        scores = batch.scores[own]
        logits = to_logits(scores, self.kind, lowest)
        deepest = deepest_logit(logits) if is_logit else math.log(smallest_positive(scores))
        terms = np.empty((len(scores), N_TERMS))
        temperature_terms(logits, batch.class_index[own], is_logit, beta, mapped, terms)
        return terms, deepest

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for own in chunks(batch.n_rows, max(batch.n_classes, N_TERMS)):
            terms, deepest = self.terms(batch, own)
            self._sums.add_rows(terms, batch.weight[own])
            self._deepest = min(self._deepest, deepest)

    def merge(self, other: TemperatureSums) -> None:
        """Add what another one has counted."""
        self._sums.merge(other._sums)
        self._deepest = min(self._deepest, other._deepest)

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        self._sums.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        return {"sums": self._sums.parts(), "deepest": np.array([self._deepest])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        self._sums.restore(arrays["sums"])
        (deepest,) = arrays["deepest"].tolist()
        self._deepest = float(deepest)
        if not -math.inf < self._deepest <= 0.0:
            raise ValueError(f"a deepest logit of {self._deepest}")

    def values(self) -> Array:
        """Return the sums."""
        return self._sums.values()

    def moments(self, weight: float) -> Moments:
        """Means over rows of this weight."""
        return Moments(*(self.values()[: len(Moments._fields)] / weight).tolist())

    @property
    def has_zeros(self) -> bool:
        """Whether there are exact zeros to be read."""
        return bool(self.values()[N_ZEROS] > 0.0)

    @property
    def zero_start(self) -> float:
        """Reading of a zero at delta = 0."""
        if self.zero_probability is not None:
            return math.log(self.zero_probability)
        return self._deepest if self.has_zeros else min(LOG_OF_ZERO, self._deepest)

    def whole(self, weight: float) -> Whole:
        """Return what is known of all rows, after a pass at T = 1."""
        zero, sums = self.zero_start, self.values()
        own = sums[OWN] + sums[ZERO_BASE] + zero * sums[ZERO_LABEL]
        spread = np.polynomial.polynomial.polyval(zero, sums[SPREAD]) / weight
        mean = self.moments(weight).mean
        labels = float(sums[ZERO_LABEL])
        return Whole(float(own / weight), mean, labels, zero, unit_of(float(spread)))


def at(found: TemperatureMap, first: TemperatureSums, strength: float | None) -> TemperatureSums:
    """Return empty sums at another temperature."""
    return TemperatureSums(
        first.n_classes,
        first.kind,
        first.zero_probability,
        found.inverse_temperature,
        found.zero_logit,
        strength,
    )


def fit_sample(statistics: Statistics, **options: Any) -> TemperatureFit:
    """Fit to the rows that were kept in a pass at T = 1, corrected by its sums over all rows."""
    batch = statistics.kept_batch()
    if statistics.kept.is_complete:
        return fit_temperature(batch, **options)
    sums: Any = statistics.parts["temperature"]
    weight = statistics.weight
    whole = sums.whole(weight)
    scaled = replace(batch, weight=batch.weight * (weight / float(np.sum(batch.weight))))
    found = fit_temperature(scaled, whole=whole, **options)
    for _ in range(CORRECTIONS):
        ratios = _ratios(sums, scaled, found.map, whole.zero_logit, weight)
        whole = replace(whole, gap_ratio=ratios[0], zero_ratio=ratios[1])
        found = fit_temperature(scaled, whole=whole, **options)
    is_new = sums.has_zeros and not np.any(
        scaled.scores == (-np.inf if sums.kind == "logits" else 0.0)
    )
    if is_new and found.map.inverse_temperature > 0.0:  # none was kept, so nobody has read them
        problem = WholeProblem(whole, weight, found.strength, sums.kind)
        zero = math.log((whole.zero_labels + ZERO_LABELS) / sums.values()[N_ZEROS])
        beta = found.map.inverse_temperature
        found = found._replace(
            map=problem.temperature(beta * whole.unit, beta * whole.zero_logit - zero)
        )
    return found


def _ratios(
    sums: TemperatureSums,
    batch: SimplexBatch,
    found: TemperatureMap,
    zero_logit: float,
    weight: float,
) -> list[float]:
    """Means of gaps and of zeros' probabilities over all rows, by those over a batch of them."""
    everything = slice(None)
    here = at(found, sums, None).terms(batch, everything)[0]
    zero = here[:, ZERO]
    wanted = np.column_stack([here[:, MEAN] + zero_logit * zero, zero])
    known = sums.terms(batch, everything)[0][:, KNOWN]
    return mean_ratios(known, wanted, batch.weight, sums.values()[KNOWN] / weight)


def _ratio(of_all: float, of_sample: float) -> float:
    ratio = of_all / of_sample if of_sample else 1.0
    return min(max(ratio, 1.0 / LARGEST_RATIO), LARGEST_RATIO)


def mean_ratios(known: Array, wanted: Array, weight: Array, means: Array) -> list[float]:
    """Means of what is ``wanted`` over all rows, by those over a sample.

    By a regression on what is ``known`` of each row of the sample and in the ``means`` over all.
    """
    share = weight / weight.sum()
    n_rows = 1.0 / float(share @ share)
    size = np.maximum(np.abs(known).max(axis=0), 1e-300)
    centre = share @ (known / size)
    known = known / size - centre
    spread = np.sqrt(share @ known**2)
    used = spread > ROUNDING
    known, spread = known[:, used] / spread[used], spread[used]
    gap = (means / size - centre)[used] / spread
    far = FARTHEST / math.sqrt(n_rows)  # rows of another scale may be missing in the sample
    gap = np.clip(gap, -far, far)
    of_sample = share @ wanted
    gram = known.T @ (share[:, None] * known) + RIDGE * len(gap) / n_rows * np.eye(len(gap))
    slopes = np.linalg.solve(gram, known.T @ (share[:, None] * (wanted - of_sample)))
    of_all = of_sample + gap @ slopes
    return [_ratio(one, other) for one, other in zip(of_all, of_sample, strict=True)]


def temperature_of(statistics: Statistics, **options: Any) -> TemperatureMap:
    """Return the best temperature that a pass over the data tells.

    The statistics have rows that were kept and ``TemperatureSums`` at T = 1, as the first pass of
    every method that starts from temperature scaling has. ``options`` are those of
    ``solve_temperature``.
    """
    return fit_sample(statistics, **options).map


def standing_for(statistics: Statistics) -> str:
    """Note of how many rows stand for all."""
    return f"{statistics.kept.n_rows} rows stand for {statistics.n_rows}"


class TemperatureStatistics(Statistics):
    """Statistics of temperature scaling."""

    method = "ts"

    def _start(self) -> list[Part]:
        sums = TemperatureSums(
            self.n_classes, self.scores, zero_probability=self.options.get("zero_probability")
        )
        return [self._keep(), sums]

    @property
    def _tol(self) -> float:
        return float(self.options.get("tol", 1e-10))

    @property
    def _prior_strength(self) -> float:
        return float(self.options.get("prior_strength", AT_SCORES))

    def solution(self) -> Solution:
        """Fit to all rows counted so far."""
        return self._first_solution() if self.before is None else self._next_solution()

    def _first_solution(self) -> Solution:
        fit = fit_sample(
            self,
            prior_strength=self._prior_strength,
            zero_probability=self.options.get("zero_probability"),
            tol=self._tol,
        )
        if self.kept.is_complete:
            return Solution({"map_": fit.map, "solver_report_": fit.report})
        report = replace(fit.report, notes=(*fit.report.notes, standing_for(self)))
        fitted = {"map_": fit.map, "solver_report_": report}
        sums: Any = self.parts["temperature"]
        return Solution(fitted, self.next_pass(at(fit.map, sums, fit.strength)))

    def _next_solution(self) -> Solution:
        """Newton's step from sums over all rows, unless they prove that none is needed."""
        started = perf_counter()
        passes: list[TemperatureStatistics] = [self]
        while passes[0].before is not None:
            before: Any = passes[0].before
            passes.insert(0, before)
        first: Any = passes[0].parts["temperature"]
        sums: Any = self.parts["temperature"]
        whole, strength = first.whole(self.weight), sums.strength
        if len(passes) == 2 and strength > 0.0:
            strength = remaining(self._prior_strength, self._divergence(first))
        problem = WholeProblem(whole, self.weight, strength, self.scores)
        steps = [one.step(problem) for one in passes[1:]]
        step = steps[-1]
        violation, tol = step.violation, self._tol
        no_better = len(steps) > 1 and steps[-2].violation <= violation <= ROUNDING
        found = problem.temperature(step.beta, step.delta)
        again = None
        if violation > tol and not no_better and len(passes) < MOST_PASSES:
            beta, delta = step.next(steps[:-1])
            more = passes[0].beyond_newton(problem, found, sums.moments(self.weight), strength)
            if abs(more[0]) <= 0.5 * abs(beta - step.beta):
                beta, delta = beta + more[0], delta + more[1]
            again = self.next_pass(at(problem.temperature(beta, delta), first, strength))
        notes: tuple[str, ...] = (f"all {self.n_rows} rows were read {len(passes)} times",)
        if strength > 0.0:
            notes = (*notes, f"drawn to T = 1 by {strength:.3g} pseudo-observations")
        if first.has_zeros:
            notes = (
                *notes,
                f"an exact zero is read as {math.exp(found.zero_logit):.3g}",
            )
        seconds = perf_counter() - started
        report = SolverReport(
            "newton", step.loss, violation, tol, len(passes), seconds, notes=notes
        )
        return Solution({"map_": found, "solver_report_": report}, again)

    def beyond_newton(
        self, problem: WholeProblem, found: TemperatureMap, means: Moments, strength: float
    ) -> tuple[float, float]:
        """Return how far the minimum is from Newton's step, in a problem of the rows kept.

        It has the slope of all rows at the point ``found``; the bend of the slope, which Newton's
        method does not know, is nearly theirs.
        """
        first: Any = self.parts["temperature"]
        batch, low = self.kept_batch(), problem.whole.zero_logit
        batch = replace(batch, weight=batch.weight * (self.weight / float(np.sum(batch.weight))))
        here = at(found, first, strength)
        here.add(batch)
        kept = here.moments(self.weight)
        whole = replace(
            problem.whole,
            gap_ratio=_ratio(means.mean + low * means.zero, kept.mean + low * kept.zero),
            zero_ratio=_ratio(means.zero, kept.zero),
        )
        near = WholeProblem(whole, self.weight, strength, self.scores)
        newton = near.step(found, kept).next(())
        best = fit_temperature(
            batch,
            prior_strength=strength,
            zero_probability=first.zero_probability,
            tol=EXACT,
            reweightings=0,
            whole=whole,
        )
        beta, delta = near.point(best.map)
        return beta - newton[0], delta - newton[1]

    def _divergence(self, first: TemperatureSums) -> float:
        """Mean divergence of the scores from the rows at the point of reference."""
        sums: Any = self.parts["temperature"]
        start, here = first.moments(self.weight), sums.moments(self.weight)
        gain = here.loss - start.loss
        return float(gain - (sums.inverse_temperature - 1.0) * start.mean)

    def step(self, problem: WholeProblem) -> Step:
        """Judge the point of reference of this pass."""
        sums: Any = self.parts["temperature"]
        found = TemperatureMap(sums.inverse_temperature, sums.zero_logit, self.scores)
        return problem.step(found, sums.moments(self.weight))
