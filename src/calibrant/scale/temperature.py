"""Temperature scaling from statistics: rows that are kept, and sums over all at one temperature."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.scale.regression import means_of_all
from calibrant.scale.statistics import Statistics  # noqa: TC001
from calibrant.scale.temperature_sums import KNOWN, MEAN, N_ZEROS, ZERO, TemperatureSums, at
from calibrant.solvers.pseudo_rows import remaining
from calibrant.solvers.temperature_steps import Step, WholeProblem
from calibrant.solvers.temperature_whole import ZERO_LABELS, TemperatureFit, fit_temperature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.maps.logits import TemperatureMap
    from calibrant.scale.parts import Part
    from calibrant.simplex import SimplexBatch

LARGEST_RATIO = 4.0
"""How far all rows may differ from those that were kept; more would be an accident."""

MOST_PASSES = 8
ROUNDING = 1e-7
"""Violation that may be that of rounding, if another pass does not better it."""

EXACT = 1e-13
CORRECTIONS, RIDGE = 2, 0.01


def as_sample(statistics: Statistics) -> SimplexBatch:
    """Return the rows that were kept, with the weight of all."""
    batch = statistics.kept_batch()
    return replace(batch, weight=batch.weight * (statistics.weight / float(np.sum(batch.weight))))


def fit_sample(statistics: Statistics, **options: Any) -> TemperatureFit:
    """Fit to the rows that were kept in a pass at T = 1, corrected by its sums over all rows."""
    if statistics.kept.is_complete:
        return fit_temperature(statistics.kept_batch(), **options)
    sums: Any = statistics.parts["temperature"]
    weight = statistics.weight
    whole = sums.whole(weight)
    scaled = as_sample(statistics)
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
    means = sums.values()[KNOWN] / weight
    of_all = means_of_all(known, wanted, batch.weight, means, RIDGE).tolist()
    of_batch = (batch.weight @ wanted / weight).tolist()
    return [_ratio(one, other) for one, other in zip(of_all, of_batch, strict=True)]


def _ratio(of_all: float, of_sample: float) -> float:
    ratio = of_all / of_sample if of_sample else 1.0
    return min(max(ratio, 1.0 / LARGEST_RATIO), LARGEST_RATIO)


def temperature_of(statistics: Statistics, **options: Any) -> TemperatureMap:
    """Return the best temperature that a pass over the data tells.

    The statistics have rows that were kept and ``TemperatureSums`` at T = 1, as the first pass of
    every method that starts from temperature scaling has. ``options`` are those of
    ``solve_temperature``.
    """
    return fit_sample(statistics, **options).map


def counting_zeros(statistics: Statistics, fit: TemperatureFit) -> list[Part]:
    """Return sums at a fit, if there are zeros: what these are read as is a part of the map."""
    sums: Any = statistics.parts["temperature"]
    return [at(fit.map, sums, fit.strength)] if sums.has_zeros else []


def standing_for(statistics: Statistics) -> str:
    """Note of how many rows stand for all."""
    return f"{statistics.kept.n_rows} rows stand for {statistics.n_rows}"


class Judged(NamedTuple):
    """A temperature, what all rows say of it, and a better one."""

    map: TemperatureMap
    steps: list[Step]
    better: TemperatureMap
    strength: float


def judge(first: Statistics, passes: Sequence[TemperatureSums], prior_strength: float) -> Judged:
    """Judge the temperature of the last of some passes, and find a better one.

    The second pass, the first of them, tells how many pseudo-observations are left; they are in
    the settings of those that follow.
    """
    start: Any = first.parts["temperature"]
    weight, sums = first.weight, passes[-1]
    strength = sums.strength or 0.0
    if len(passes) == 1 and strength > 0.0:
        gain = sums.moments(weight).loss - start.moments(weight).loss
        gain -= (sums.inverse_temperature - 1.0) * start.moments(weight).mean
        strength = remaining(prior_strength, gain)
    problem = WholeProblem(start.whole(weight), weight, strength, start.kind)
    steps = [problem.step(one.map, one.moments(weight)) for one in passes]
    beta, delta = steps[-1].next(steps[:-1])
    more = _beyond_newton(first, problem, sums, strength)
    if abs(more[0]) <= 0.5 * abs(beta - steps[-1].beta):
        beta, delta = beta + more[0], delta + more[1]
    return Judged(sums.map, steps, problem.temperature(beta, delta), strength)


def _beyond_newton(
    first: Statistics, problem: WholeProblem, sums: TemperatureSums, strength: float
) -> tuple[float, float]:
    """Return how far the minimum is from Newton's step, in a problem of the rows kept.

    It has the slope of all rows at the point of the sums; the bend of the slope, which Newton's
    method does not know, is nearly theirs.
    """
    weight, batch, low = first.weight, as_sample(first), problem.whole.zero_logit
    here = sums.empty()
    here.add(batch)
    means, kept = sums.moments(weight), here.moments(weight)
    whole = replace(
        problem.whole,
        gap_ratio=_ratio(means.mean + low * means.zero, kept.mean + low * kept.zero),
        zero_ratio=_ratio(means.zero, kept.zero),
    )
    near = WholeProblem(whole, weight, strength, sums.kind)
    newton = near.step(sums.map, kept).next(())
    best = fit_temperature(
        batch,
        prior_strength=strength,
        zero_probability=sums.zero_probability,
        tol=EXACT,
        reweightings=0,
        whole=whole,
    )
    beta, delta = near.point(best.map)
    return beta - newton[0], delta - newton[1]
