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
from calibrant.solvers.temperature_rows import Whole, reach_of, unit_of
from calibrant.solvers.temperature_steps import Moments, Step, WholeProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

N_TERMS = 12
OWN, ZERO_LABEL, ZERO_BASE, SPREAD = 6, 7, 8, 9
"""Places of terms; the first six are ``Moments``, the last three a polynomial."""

LARGEST_RATIO = 4.0
"""How far all rows may differ from those that were kept; more would be an accident."""

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
        self._sums = WideSums((N_TERMS,))
        self._by_zeros = WideSums((n_classes + 1, 3))
        self._deepest = 0.0

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        names = ("n_classes", "kind", "zero_probability", "inverse_temperature", "zero_logit")
        return {name: getattr(self, name) for name in (*names, "strength")}

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        is_logit, beta = self.kind == "logits", self.inverse_temperature
        lowest = -math.inf if self.zero_probability is None else math.log(self.zero_probability)
        mapped = -math.inf if self.zero_logit is None else beta * self.zero_logit
        for own in chunks(batch.n_rows, max(batch.n_classes, N_TERMS)):
            scores, weight = batch.scores[own], batch.weight[own]
            logits = to_logits(scores, self.kind, lowest)
            deepest = deepest_logit(logits) if is_logit else math.log(smallest_positive(scores))
            self._deepest = min(self._deepest, deepest)
            terms = np.empty((len(scores), N_TERMS))
            n_zeros = np.empty(len(scores), dtype=np.int64)
            temperature_terms(
                logits, batch.class_index[own], is_logit, beta, mapped, terms, n_zeros
            )
            self._sums.add_rows(terms, weight)
            if self.zero_probability is None:
                base = np.zeros(len(scores)) if is_logit else -logits.max(axis=1)
                kinds = np.column_stack([np.ones(len(scores)), terms[:, 1], base])
                self._by_zeros.add_at(n_zeros, kinds, weight)

    def merge(self, other: TemperatureSums) -> None:
        """Add what another one has counted."""
        self._sums.merge(other._sums)
        self._by_zeros.merge(other._by_zeros)
        self._deepest = min(self._deepest, other._deepest)

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        self._sums.scale(factor)
        self._by_zeros.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        parts = {"sums": self._sums.parts(), "by_zeros": self._by_zeros.parts()}
        return {**parts, "deepest": np.array([self._deepest])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        self._sums.restore(arrays["sums"])
        self._by_zeros.restore(arrays["by_zeros"])
        (deepest,) = arrays["deepest"].tolist()
        self._deepest = float(deepest)
        if not -math.inf < self._deepest <= 0.0:
            raise ValueError(f"a deepest logit of {self._deepest}")

    def of(self, batch: SimplexBatch) -> TemperatureSums:
        """Count the same of another batch alone."""
        found = self.empty()
        found.add(batch)
        return found

    def moments(self, weight: float) -> Moments:
        """Means over rows of this weight."""
        return Moments(*(self._sums.values()[: len(Moments._fields)] / weight).tolist())

    @property
    def has_zeros(self) -> bool:
        """Whether there are exact zeros to be read."""
        return bool(np.any(self._by_zeros.values()[1:, 0] > 0.0))

    @property
    def zero_start(self) -> float:
        """Reading of a zero at delta = 0."""
        if self.zero_probability is not None:
            return math.log(self.zero_probability)
        return self._deepest if self.has_zeros else min(LOG_OF_ZERO, self._deepest)

    def whole(self, weight: float) -> Whole:
        """Return what is known of all rows, after a pass at T = 1."""
        zero, sums = self.zero_start, self._sums.values()
        own = sums[OWN] + sums[ZERO_BASE] + zero * sums[ZERO_LABEL]
        spread = np.polynomial.polynomial.polyval(zero, sums[SPREAD:]) / weight
        mean = float(sums[Moments._fields.index("mean")] / weight)
        labels = float(sums[ZERO_LABEL])
        return Whole(float(own / weight), mean, labels, zero, unit_of(float(spread)))

    def zeros_at_scores(self, whole: Whole) -> float:
        """Best mapped logit of a zero at T = 1, by all rows."""
        if self.kind == "logits" or not self.has_zeros:
            return -math.inf
        goal = whole.zero_labels + ZERO_LABELS
        high, low = whole.zero_logit, whole.zero_logit - reach_of(whole.zero_logit, 1.0, self.kind)
        for _ in range(60):  # of a bisection
            middle = 0.5 * (low + high)
            if self.means_at_scores(middle, 0.0)[1] > goal:
                high = middle
            else:
                low = middle
        return high

    def means_at_scores(self, zero: float, zero_logit: float) -> tuple[float, float]:
        """Return sums of gaps and of zeros' probabilities at T = 1, zeros mapped to ``zero``."""
        weight, gap, base = self._by_zeros.values().T
        mass = np.arange(self.n_classes + 1) * math.exp(zero)
        share = mass / (1.0 + mass)
        mean = (1.0 - share) * gap + share * (base + zero_logit * weight)
        return float(mean.sum()), float(np.sum(share * weight))


def fit_sample(statistics: Statistics, **options: Any) -> TemperatureFit:
    """Fit to the rows that were kept in a pass at T = 1, corrected by its sums over all rows."""
    batch = statistics.kept_batch()
    if statistics.kept.is_complete:
        return fit_temperature(batch, **options)
    sums: Any = statistics.parts["temperature"]
    of_kept, kept_weight = sums.of(batch), float(np.sum(batch.weight))
    factor = statistics.weight / kept_weight
    whole = sums.whole(statistics.weight)
    zero = sums.zeros_at_scores(whole)
    if sums.zero_probability is None:
        ratios = [
            _ratio(one, factor * other)
            for one, other in zip(
                sums.means_at_scores(zero, whole.zero_logit),
                of_kept.means_at_scores(zero, whole.zero_logit),
                strict=True,
            )
        ]
    else:
        kept_whole = of_kept.whole(kept_weight)
        ratios = [_ratio(whole.expected, kept_whole.expected), 1.0]
    whole = replace(whole, gap_ratio=ratios[0], zero_ratio=ratios[1])
    scaled = replace(batch, weight=batch.weight * factor)
    found = fit_temperature(scaled, whole=whole, **options)
    if zero > -math.inf and not of_kept.has_zeros and found.map.inverse_temperature > 0.0:
        # None was kept, so nobody has read them yet.
        problem = WholeProblem(whole, statistics.weight, found.strength, sums.kind)
        beta = found.map.inverse_temperature * whole.unit
        delta = found.map.inverse_temperature * whole.zero_logit - zero
        found = found._replace(map=problem.temperature(beta, delta))
    return found


def _ratio(of_all: float, of_kept: float) -> float:
    ratio = of_all / of_kept if of_kept else 1.0
    return min(max(ratio, 1.0 / LARGEST_RATIO), LARGEST_RATIO)


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
        return Solution(fitted, self._again(fit.map, fit.strength))

    def _again(self, found: TemperatureMap, strength: float) -> TemperatureStatistics:
        part = TemperatureSums(
            self.n_classes,
            self.scores,
            self.options.get("zero_probability"),
            found.inverse_temperature,
            found.zero_logit,
            strength,
        )
        return self.next_pass(part)

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
            again = self._again(problem.temperature(*step.next(steps[:-1])), strength)
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
