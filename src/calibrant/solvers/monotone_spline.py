"""Monotone spline: a piecewise linear, increasing function of log p, shrunk to a straight line.

The smooth sibling of NA-FIR. The mean NLL of softmax(theta(log p)) is convex in the slopes of
theta; a straight line is temperature scaling.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels.monotone_spline import (
    add_information,
    find_segments,
    spline_likelihood,
    spline_losses,
)
from calibrant.kernels.rows import symmetric_hashes
from calibrant.simplex import to_logits
from calibrant.solvers.report import SolverReport
from calibrant.solvers.temperature import minimise_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

FLATTEST, STEEPEST = 1e-3, 1e3
"""Bounds on the slopes, relative to temperature scaling's."""

STRENGTHS = tuple(8.0**e for e in range(7, -2, -1))
"""What cross-validation chooses from, in rows; the first is a straight line to a few digits."""

N_FOLDS = 5
SMALLEST_SHARE = 1e-30
"""A row of less than this share of the largest weight changes no digit of any sum."""

DEEPEST, BIN = -60.0, 0.01
"""Bins of the temperature-scaled log-probabilities, in which knots are placed."""


@dataclass(frozen=True, slots=True, eq=False)
class MonotoneLine:
    """theta(log p): ``slopes[0]`` below the first knot, ``slopes[-1]`` above the last."""

    knots: Array
    slopes: Array


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """Rows of equal content, and how many observations each group of them stands for.

    Only ratios of weights matter, and weight 2 is the row twice: so the unit in which rows are
    counted is the largest weight of which all groups are whole multiples. Weights without one are
    counted by their effective number (Kish), and equal rows stay together.
    """

    group: NDArray[np.int64]
    counts: Array
    whole: bool

    @property
    def n_rows(self) -> float:
        """Number of observations."""
        return float(self.counts.sum())

    def folds(self, n_folds: int) -> Array:
        """Share of each row in each fold: copies are dealt to the folds in turn."""
        place = np.arange(n_folds)
        if not self.whole:
            index = np.arange(len(self.counts)) % n_folds
            return np.asarray(index[:, None] == place, dtype=np.float64)[self.group]
        end = np.cumsum(self.counts)
        start = end - self.counts
        dealt = (end[:, None] - 1 - place) // n_folds - (start[:, None] - 1 - place) // n_folds
        return np.asarray(dealt / self.counts[:, None])[self.group]


def find_repeats(logits: Array, class_index: NDArray[np.int64], weight: Array) -> Repeats:
    """Group rows by a hash of their rounded logits: no order of rows or columns matters."""
    gaps = logits - logits.max(axis=1, keepdims=True)
    rounded = np.rint(gaps * 2.0**16).astype(np.int64)
    hashes = symmetric_hashes(rounded, class_index)
    group = np.unique(hashes, return_inverse=True)[1].astype(np.int64)
    multiples = weight / weight.min()
    for parts in range(1, 17):
        whole = np.rint(parts * multiples)
        if whole.sum() < 2.0**53 and np.all(np.abs(whole - parts * multiples) < 1e-9 * whole):
            counts = np.bincount(group, whole)
            return Repeats(group, counts / np.gcd.reduce(counts.astype(np.int64)), whole=True)
    totals = np.bincount(group, weight)
    return Repeats(group, totals * totals.sum() / np.sum(totals**2), whole=False)


def log_probabilities(scores: Array, kind: str, zero_logit: float) -> Array:
    """Finite logarithms of rows on the simplex."""
    logits = to_logits(scores, kind, zero_logit)
    if kind == "logits":
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits


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
    cumulative = np.cumsum(mass)
    if not cumulative[-1] > 0.0:
        return np.array([-1.0])
    goals = np.arange(1, n_knots + 1) / (n_knots + 1) * cumulative[-1]
    return low + BIN * (1 + np.unique(np.searchsorted(cumulative, goals * (1.0 - 1e-9))))


class _Problem:
    """Mean NLL of some rows in the slopes, plus strength / 2 * squared differences of them."""

    def __init__(
        self,
        values: Array,
        segments: NDArray[np.uint8],
        class_index: NDArray[np.int64],
        share: Array,
        knots: Array,
    ) -> None:
        self.cells = values, segments, class_index
        self.share, self.knots = share, knots
        own = values[np.arange(len(values)), class_index]
        lengths = np.append(np.diff(knots), np.inf)
        above = np.clip(own[:, None] - knots, 0.0, lengths)
        self._label = share @ np.column_stack([np.minimum(own - knots[0], 0.0), above])
        differences = np.diff(np.eye(len(knots) + 1), axis=0)
        self._penalty = differences.T @ differences

    def part(self, fold_share: Array) -> _Problem:
        """Return the same problem with each row's share times ``fold_share``."""
        share = self.share * fold_share
        rows = share > 0.0
        cells = (array[rows] for array in self.cells)
        return _Problem(*cells, share[rows] / share.sum(), self.knots)

    def losses(self, slopes: Array) -> float:
        """Mean NLL alone."""
        out = np.empty(len(self.share))
        spline_losses(*self.cells, self.knots, slopes, out)
        return float(out @ self.share)

    def value(self, slopes: Array, strength: float) -> tuple[float, Array, Array]:
        """Value, gradient and Hessian."""
        n = len(slopes)
        gradient, hessian = np.empty(n), np.empty((n, n))
        loss = spline_likelihood(*self.cells, self.share, self.knots, slopes, gradient, hessian)
        bend = strength * self._penalty @ slopes
        value = float(loss) + 0.5 * float(slopes @ bend)
        return value, gradient - self._label + bend, hessian + strength * self._penalty


def solve_monotone_spline(
    batch: SimplexBatch,
    zero_logit: float,
    *,
    n_knots: int = 12,
    strength: float | None = None,
    tol: float = 1e-8,
    max_rounds: int = 100,
) -> tuple[MonotoneLine, SolverReport]:
    """Slopes of least penalised NLL; without ``strength``, that of the least NLL in other folds.

    The violation is the largest projected gradient, each in units of the square root of its
    curvature.
    """
    started = perf_counter()
    batch = batch.in_canonical_order()
    batch = batch.take(batch.weight >= SMALLEST_SHARE * batch.weight.max())
    logs = log_probabilities(batch.scores, batch.kind, zero_logit)
    relative = batch.weight / batch.weight.max()
    repeats = find_repeats(logs, batch.class_index, relative)
    beta, _ = minimise_temperature(logs, batch.class_index, relative, tol=1e-10)
    scale = max(beta, 0.5 / max(float(logs.std()), 1e-300))
    logs *= scale
    share = relative / relative.sum()
    knots = place_knots(logs, share, n_knots)
    segments = np.empty(logs.shape, dtype=np.uint8)
    find_segments(logs, knots, segments)
    problem = _Problem(logs, segments, batch.class_index, share, knots)
    notes: tuple[str, ...] = ()
    if strength is None:
        strength = choose_strength(problem, repeats)
        notes = (f"strength {strength:g} by cross-validation",)
    start = np.ones(len(knots) + 1)
    slopes, value, violation, rounds = _minimise(
        problem, strength / repeats.n_rows, start, tol, max_rounds
    )
    report = SolverReport(
        "projected-newton", value, violation, tol, rounds, perf_counter() - started, notes=notes
    )
    return MonotoneLine(knots / scale, slopes * scale), report


def choose_strength(problem: _Problem, repeats: Repeats) -> float:
    """Strength of the least NLL in held-out folds, from the strongest until it does not pay."""
    shares = repeats.folds(N_FOLDS)
    mass = problem.share @ shares
    folds = [f for f in range(N_FOLDS) if 0.0 < mass[f] < 1.0 - 1e-12]
    train = [problem.part(1.0 - shares[:, f]) for f in folds]
    held = [problem.part(shares[:, f]) for f in folds]
    slopes = [np.ones(len(problem.knots) + 1) for _ in folds]
    best, chosen, risen = np.inf, STRENGTHS[0], 0
    for strength in STRENGTHS if folds else ():
        loss = 0.0
        for place, f in enumerate(folds):
            rate = strength / (repeats.n_rows * (1.0 - mass[f]))
            slopes[place] = _minimise(train[place], rate, slopes[place], 1e-4, 30)[0]
            loss += mass[f] * held[place].losses(slopes[place])
        if loss < best * (1.0 - 1e-6):
            best, chosen, risen = loss, strength, 0
        else:
            risen += 1
        if risen == 2:
            break
    return chosen


def _minimise(
    problem: _Problem, strength: float, start: Array, tol: float, max_rounds: int
) -> tuple[Array, float, float, int]:
    """Projected Newton method (Bertsekas 1982) on the slopes between their bounds."""
    slopes = start
    value, gradient, hessian = problem.value(slopes, strength)
    rounds = 1
    while True:
        curvature = np.diag(hessian)
        unit = np.sqrt(np.maximum(curvature, 1e-12 * curvature.max() + 1e-300))
        held = ((slopes <= FLATTEST) & (gradient > 0)) | ((slopes >= STEEPEST) & (gradient < 0))
        violation = float(np.max(np.where(held, 0.0, np.abs(gradient) / unit)))
        if violation <= tol or rounds >= max_rounds:
            break
        free = ~held
        step = np.zeros_like(slopes)
        part = hessian[np.ix_(free, free)] + 1e-12 * np.diag(unit[free] ** 2)
        step[free] = np.linalg.solve(part, gradient[free])
        size = 1.0
        while True:
            other = np.clip(slopes - size * step, FLATTEST, STEEPEST)
            new = problem.value(other, strength)
            rounds += 1
            if new[0] <= value - 1e-4 * float(gradient @ (slopes - other)) or size < 1e-6:
                break
            size *= 0.5
        if new[0] > value:  # rounding: nothing is left to gain
            break
        slopes, (value, gradient, hessian) = other, new
    return slopes, value, violation, rounds
