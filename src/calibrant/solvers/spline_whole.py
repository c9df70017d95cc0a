"""Monotone spline: a piecewise linear, increasing function of log p, shrunk to a straight line.

The smooth sibling of NA-FIR. The mean NLL of softmax(theta(log p)) is convex in the slopes of
theta; a straight line is temperature scaling.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import threads
from calibrant.kernels.monotone_spline import (
    add_information,
    find_bounds,
    spline_likelihood,
    spline_losses,
)
from calibrant.maps.logits import SplineMap, log_probabilities
from calibrant.simplex import to_logits
from calibrant.solvers.choice_rows import choice_rows
from calibrant.solvers.logit_unit import divide_by_unit
from calibrant.solvers.pseudo_rows import AT_TEMPERATURE, REWEIGHTINGS, remaining
from calibrant.solvers.pseudo_rows import share as share_of
from calibrant.solvers.report import SolverReport
from calibrant.solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant.maps.logits import TemperatureMap
    from calibrant.row_order import Dealt
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

FLATTEST, STEEPEST = 1e-3, 1e3
"""Bounds on the slopes, relative to temperature scaling's."""

STRENGTH = 8.0
"""Strength that is good on most real classifiers, in rows; between 1 and 16 it hardly matters."""

STRENGTHS = (8.0**8, 512.0, 64.0, STRENGTH, 1.0, 0.125)
"""What cross-validation chooses from; the first is a straight line to a few digits."""

LARGEST_STRENGTH = 1e9
"""A larger one would leave no digits for the likelihood."""

ROUGH = 1e-4
"""Violation at which the number of pseudo-observations is adapted, and that of the folds."""

LEAST_DAMPING, MOST_DAMPING = 1e-12, 1e6
"""Part of the curvature that is added to it; more of it where steps fail."""

ROUNDING = 1e-10  # what is left to gain where nothing is seen of it
UNSEEN = 1e-12
"""Gain that the rounding of a mean over many rows may hide; the gradient, whose own rounding is as
small, still tells which of two points is better."""

N_FOLDS = 5
SMALLEST_SHARE = 1e-30
"""A row of less than this share of the largest weight changes no digit of any sum."""

DEEPEST, BIN = -60.0, 0.01
"""Bins of the temperature-scaled log-probabilities, in which knots are placed."""


def drop_light_rows(batch: SimplexBatch) -> SimplexBatch:
    """Return the batch without rows that weigh nothing beside the heaviest."""
    heavy = batch.weight >= SMALLEST_SHARE * batch.weight.max()
    return batch if heavy.all() else batch.take(heavy)


def sort_cells(batch: SimplexBatch) -> SimplexBatch:
    """Sort the scores of each row: no order of columns is left.

    A map that is shared by all classes needs no more than the scores and that of the label.
    """
    own = np.take_along_axis(batch.scores, batch.class_index[:, None], axis=1)
    place = np.count_nonzero(batch.scores < own, axis=1)
    return replace(batch, scores=np.sort(batch.scores, axis=1), class_index=place)


def place_knots(values: Array, share: Array, n_knots: int) -> Array:
    """Quantiles of the scaled log-probabilities of all cells, weighted by their information.

    A cell of probability q tells about theta in proportion to q (1 - q). In cross-validation on
    real classifiers this was better than quantiles of the labels' log-probabilities, most of
    which lie where every prediction is right.
    """
    low = max(float(values.min()), DEEPEST)
    n_bins = max(1, int(np.ceil(-low / BIN)))
    mass = np.zeros(n_bins)
    add_information(values, share, low, BIN, mass)
    return knots_of(mass, low, n_knots)


def knots_of(mass: Array, low: float, n_knots: int) -> Array:
    """Quantiles of information in bins that start at ``low``."""
    cumulative = np.cumsum(mass)
    if not cumulative[-1] > 0.0:
        return np.array([-1.0])
    goals = np.arange(1, n_knots + 1) / (n_knots + 1) * cumulative[-1]
    return low + BIN * (1 + np.unique(np.searchsorted(cumulative, goals * (1.0 - 1e-9))))


class Problem:
    """Mean NLL of sorted rows in the slopes, plus strength / 2 * squared differences of them."""

    def __init__(self, values: Array, place: NDArray[np.int64], share: Array, knots: Array) -> None:
        self.share, self.knots = share, knots
        bounds = np.empty((len(values), len(knots) + 2), dtype=np.int32)
        find_bounds(values, knots, bounds)
        self._cells = values, bounds, place
        own = values[np.arange(len(values)), place]
        above = np.clip(own[:, None] - knots, 0.0, np.append(np.diff(knots), np.inf))
        self._label = share @ np.column_stack([np.minimum(own - knots[0], 0.0), above])
        self._differences = np.diff(np.eye(len(knots) + 1), axis=0)
        self._start = self._pull = np.zeros(len(knots) + 1)
        self._near: Array | None = None

    def hold_to(self, start: Array, pull: Array) -> None:
        """Draw to ``start`` by pseudo-observations labelled as likely as it says.

        They draw the mean features of the labels to those expected at ``start``, which differ from
        them by the gradient there: a term that is linear in the slopes, their share times that.
        """
        self._start, self._pull = start, pull

    def match(self, slopes: Array, gradient: Array, hessian: Array | None) -> None:
        """Give the likelihood the gradient, and the Hessian, that all rows have at some slopes."""
        self._near = None
        _, own, bent = self.value(slopes, 0.0)
        self._near, self._tilt = slopes, gradient - own - self._pull
        self._bend = np.zeros_like(bent) if hessian is None else hessian - bent

    def most_to_gain(self, slopes: Array, value: float) -> float:
        """Bound how far the value is above the minimum: NLL and penalty are not negative there."""
        farthest = np.maximum(slopes - FLATTEST, STEEPEST - slopes)
        linear = self._pull @ (slopes - self._start) + np.abs(self._pull) @ farthest
        return value + float(linear) if self._near is None else np.inf

    def part(self, rows: NDArray[Any], weight: Array | None = None) -> Problem:
        """Return the problem of some of the rows, with their weights or others."""
        values, _, place = self._cells
        weight = self.share[rows] if weight is None else weight
        return Problem(values[rows], place[rows], weight / weight.sum(), self.knots)

    def losses(self, slopes: Array) -> Array:
        """NLL of each row."""
        out = np.empty(len(self.share))
        spline_losses(*self._cells, self.knots, slopes, out)
        return out

    def value(self, slopes: Array, strength: float) -> tuple[float, Array, Array]:
        """Value, gradient and Hessian."""
        n = len(slopes)
        gradient, hessian = np.empty(n), np.empty((n, n))
        loss = spline_likelihood(*self._cells, self.share, self.knots, slopes, gradient, hessian)
        bends = np.diff(slopes)  # before they are scaled: exact where they are small
        value = float(loss) + 0.5 * strength * float(bends @ bends)
        value -= float(self._pull @ (slopes - self._start))
        gradient += strength * self._differences.T @ bends - self._label - self._pull
        if self._near is not None:
            gap = slopes - self._near
            bent = self._bend @ gap
            value += float(self._tilt @ gap) + 0.5 * float(gap @ bent)
            gradient += self._tilt + bent
            hessian += self._bend
        return value, gradient, hessian + strength * self._differences.T @ self._differences


def solve_monotone_spline(
    batch: SimplexBatch,
    *,
    n_knots: int = 12,
    strength: float | None = None,
    prior_strength: float = AT_TEMPERATURE,
    tol: float = 1e-8,
    max_rounds: int = 100,
    zero_probability: float | None = None,
) -> tuple[SplineMap, SolverReport]:
    """Slopes of least penalised NLL; without ``strength``, cross-validation chooses it.

    The violation is the largest projected gradient, each in units of the square root of its
    curvature.
    """
    batch = drop_light_rows(batch).merged()  # so that a weight of 2 is two rows to the bit
    temperature, _ = solve_temperature(batch, zero_probability=zero_probability)
    fit = fit_spline(
        batch,
        temperature,
        n_knots=n_knots,
        strength=strength,
        prior_strength=prior_strength,
        tol=tol,
        max_rounds=max_rounds,
    )
    return fit.map, fit.report


class Frame(NamedTuple):
    """What is fixed before slopes are fitted: where they are measured, and what draws them where.

    The features are those of ``scale`` times the log-probabilities; ``rate`` is the strength of
    the penalty, by the weight of all rows.
    """

    scale: float
    knots: Array
    start: Array
    pull: Array
    rate: float


class SplineFit(NamedTuple):
    """A map, the proof of it, what was fixed before, and its slopes there."""

    map: SplineMap
    report: SolverReport
    frame: Frame
    slopes: Array


def fit_spline(
    batch: SimplexBatch,
    temperature: TemperatureMap,
    *,
    n_knots: int,
    strength: float | None,
    prior_strength: float,
    tol: float,
    max_rounds: int,
    weight: float | None = None,
    gradient_of_all: Callable[[Frame, Array], Array] | None = None,
    scale: float | None = None,
    knots: Array | None = None,
) -> SplineFit:
    """Do as ``solve_monotone_spline`` does, from a temperature.

    Where the batch is a sample of rows of a total ``weight``, a linear term gives its likelihood
    the gradient of all rows at the start; ``scale`` and ``knots`` of a frame may be theirs, too.
    """
    started = perf_counter()
    batch = sort_cells(drop_light_rows(batch)).merged()
    n_rows = float(batch.weight.sum())
    logits = to_logits(batch.scores, batch.kind, temperature.zero_logit)
    logs = log_probabilities(logits, batch.kind)
    unit = divide_by_unit(logs, batch.weight)
    beta = unit * temperature.inverse_temperature
    share = batch.weight / batch.weight.sum()
    scale = feature_scale(logs, share, beta) if scale is None else unit * scale
    logs *= scale
    knots = place_knots(logs, share, n_knots) if knots is None else knots
    problem = Problem(logs, batch.class_index, share, knots)
    notes: tuple[str, ...] = ()
    if strength is None:
        chosen = choice_rows(batch)
        if chosen is None:
            strength = choose_strength(problem, batch.deal(N_FOLDS))
        else:
            some = batch.take(chosen)
            strength = choose_strength(problem.part(chosen), some.deal(N_FOLDS))
        notes = (f"strength {strength:g} by cross-validation",)
    n_rows = n_rows if weight is None else weight
    rate = min(strength, LARGEST_STRENGTH) / n_rows
    start = np.full(len(problem.knots) + 1, np.clip(beta / scale, FLATTEST, STEEPEST))
    frame = Frame(scale / unit, problem.knots, start, np.zeros_like(start), rate)
    if gradient_of_all is not None:
        problem.match(start, gradient_of_all(frame, start), None)
    slopes, pull = hold(problem, start, rate, prior_strength, n_rows)
    slopes, value, violation, rounds, left = minimise(problem, rate, slopes, tol, max_rounds)
    left = min(left, problem.most_to_gain(slopes, value))
    if violation > tol and left <= ROUNDING:
        notes += (f"at the limit of rounding: {left:.0e} of the objective is left to gain",)
    report = SolverReport(
        "projected-newton", value, violation, tol, rounds, perf_counter() - started, notes=notes
    )
    frame = frame._replace(pull=pull)
    found = map_of(frame, slopes, temperature.zero_logit, batch.kind)
    return SplineFit(found, report, frame, slopes)


def map_of(frame: Frame, slopes: Array, zero_logit: float, kind: str) -> SplineMap:
    """Return the map of some slopes."""
    return SplineMap(frame.knots / frame.scale, slopes * frame.scale, zero_logit, kind)


def hold(
    problem: Problem, start: Array, rate: float, prior_strength: float, n_rows: float
) -> tuple[Array, Array]:
    """Hold the problem to its start; returns slopes close to the best, and the pull."""
    loss, gradient, _ = problem.value(start, 0.0)
    slopes, left = start, prior_strength
    for _ in range(REWEIGHTINGS if prior_strength > 0.0 else 0):
        problem.hold_to(start, share_of(left, n_rows) * gradient)
        slopes = minimise(problem, rate, slopes, ROUGH, 30)[0]
        problem.hold_to(start, gradient)  # the expected loss of the start's own labels
        left = remaining(prior_strength, problem.value(slopes, 0.0)[0] - loss)
    pull = share_of(left, n_rows) * gradient
    problem.hold_to(start, pull)
    return slopes, pull


def feature_scale(logits: Array, share: Array, beta: float) -> float:
    """Inverse temperature to measure logits by: the best, unless that leaves nothing of them.

    The logits are in their unit, so their spread is about one.
    """
    spread = float(np.sqrt(share @ logits.var(axis=1)))
    return max(beta, 0.5 / max(spread, 0.1))


def choose_strength(problem: Problem, dealt: Dealt) -> float:
    """Strength of the least NLL in held-out folds, if it beats the usual one by two errors.

    The least NLL alone is a noisy choice: in cross-validation within the validation parts of real
    classifiers it was worse than one strength for all.
    """
    row, folds, weight = dealt
    losses = np.zeros((len(STRENGTHS), len(row)))

    def judge(fold: int) -> None:
        held = folds == fold
        if not held.any() or held.all():
            return
        train = problem.part(row[~held], weight[~held])
        rest = problem.part(row[held], weight[held])
        slopes = np.ones(len(problem.knots) + 1)
        for i, strength in enumerate(STRENGTHS):
            slopes = minimise(train, strength / weight[~held].sum(), slopes, ROUGH, 30)[0]
            losses[i, held] = rest.losses(slopes)

    for _ in threads.each(judge, range(N_FOLDS)):
        pass
    gain = losses[STRENGTHS.index(STRENGTH)] - losses
    n_rows = weight.sum()
    mean = gain @ weight / n_rows
    error = np.sqrt((gain - mean[:, None]) ** 2 @ weight) / n_rows
    sure = mean > 2.0 * error + 1e-9
    return STRENGTHS[int(np.argmax(np.where(sure, mean, 0.0)))] if sure.any() else STRENGTH


def violation_of(slopes: Array, gradient: Array, hessian: Array) -> tuple[float, Array]:
    """Largest projected gradient, each in units of the root of its curvature; and these."""
    curvature = np.diag(hessian)
    unit = np.sqrt(np.maximum(curvature, 1e-12 * curvature.max() + 1e-300))
    held = ((slopes <= FLATTEST) & (gradient > 0)) | ((slopes >= STEEPEST) & (gradient < 0))
    return float(np.max(np.where(held, 0.0, np.abs(gradient) / unit))), unit


def minimise(
    problem: Problem, strength: float, start: Array, tol: float, max_rounds: int
) -> tuple[Array, float, float, int, float]:
    """Projected Newton method (Bertsekas 1982) on the slopes between their bounds.

    Returns them with the value, the violation, the rounds, and what the last undamped step, which
    may have failed, was to gain.
    """
    slopes = start
    value, gradient, hessian = problem.value(slopes, strength)
    rounds, damping, left = 1, LEAST_DAMPING, np.inf
    while True:
        violation, unit = violation_of(slopes, gradient, hessian)
        if violation <= tol or rounds >= max_rounds:
            break
        # Those next to a bound that they are drawn to go there, and not along with the others.
        nearest = np.where(gradient > 0, FLATTEST, STEEPEST)
        free = np.abs(slopes - nearest) > 0.01 * nearest
        step = np.where(free, 0.0, slopes - nearest)
        part = hessian[np.ix_(free, free)] + damping * np.diag(unit[free] ** 2)
        step[free] = np.linalg.solve(part, gradient[free])
        if damping == LEAST_DAMPING:
            left = 0.5 * float(gradient @ step)
        size = 1.0
        while True:
            other = np.clip(slopes - size * step, FLATTEST, STEEPEST)
            new = problem.value(other, strength)
            rounds += 1
            gain = 1e-4 * float(gradient @ (slopes - other)) - 1e-15 * abs(value)
            is_better = new[0] <= value - gain
            if not is_better and gain < UNSEEN * abs(value) and abs(new[0] - value) <= UNSEEN:
                is_better = 2.0 * violation_of(other, *new[1:])[0] < violation
            if is_better or size < 1e-6:
                break
            size *= 0.5
        if not is_better:  # too far, or nothing is left to gain
            damping = max(10.0 * damping, 1e-6)
            if damping > MOST_DAMPING:
                break
            continue
        slopes, (value, gradient, hessian) = other, new
        damping = max(0.1 * damping, LEAST_DAMPING)
    return slopes, value, violation, rounds, left
