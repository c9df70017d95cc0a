"""Two-class scaling: small logistic maps of the log-odds, averaged by their evidence.

No single one is best: on most classifiers all sensible maps of 100 rows are level, and the average
has less variance than any. Each member starts from one of three lines, the scores, temperature
scaling and a slope about the log-odds of the labels' share, and has ridge penalties, in rows;
pseudo-observations hold it to that line, fewer the farther it proves to be away (``rows``).
Its weight is its marginal likelihood, by Laplace's approximation. Temperature scaling has a part
where errors are few, and the average is weighed against the scores themselves by the likelihoods of
both.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit, logsumexp

from calibrant._gate import to_logits
from calibrant._maps.curves import FARTHEST_LOG_ODDS, BoundedLogs, ClasswiseCurves, LogOddsCurve
from calibrant._objectives.two_class import (
    Base,
    Expansion,
    Sums,
    TwoClassRows,
    sigmoid_and_softplus,
)
from calibrant._solvers.one_vs_rest import bounds_of_logs, solve_one_vs_rest
from calibrant._solvers.report import SolverReport
from calibrant._solvers.rows import (
    AT_SCORES,
    REWEIGHTINGS,
    merge_rows,
    remaining,
    share_of_few_errors,
)
from calibrant._solvers.temperature import read_zero

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._solvers.one_vs_rest import BinaryProblem
    from calibrant._types import Floats

SLOPE, INTERCEPT, BEND, OUT = 1e-3, 0.1, 1.0, math.inf
"""Penalties in rows: a slope and an intercept are nearly free, both bends less. Chosen within
the validation parts of real classifiers by ``tools/measure_auto.py``."""

MEMBERS = np.array(
    [
        (SLOPE if line else OUT, intercept, BEND, BEND)
        for line in range(3)
        for intercept in (OUT, INTERCEPT)
    ]
)
"""Penalties of the members on each feature; one without a slope keeps that of its line."""

LINE_OF = np.repeat(np.arange(3), 2)
N_MEMBERS = np.bincount(LINE_OF).tolist()

FLATTEST = 1e-3
"""Least slope of a line, and least that the evidence reads a member's slope as, times 20."""

CERTAIN_ROWS = 1e-9
"""Ridge of a slope by itself, as a part of its squares: rows that are certain have no curvature."""

LARGEST_LOG_ODDS = 700.0
LONGEST_STEP = 50.0
"""Most that one step of Newton's method may change any of the log-odds by."""

MAX_ROUNDS, MAX_HALVINGS = 100, 40
ROUGH_TOLERANCE = 1e-3
"""Violation at which the number of pseudo-observations is adapted."""

GRID = np.sinh(np.linspace(-7.3, 7.3, 147))
"""Values of the lines at which the average is taken: close together where it bends."""


class Fits(NamedTuple):
    """Members at their optimum."""

    points: Floats
    at: Expansion
    violation: float
    rounds: int


def solve_two_class(
    batch: SimplexBatch, *, zero_probability: float | None = None, tol: float = 1e-8
) -> tuple[ClasswiseCurves, SolverReport]:
    """Find the curve of the log-odds of two classes, or of each class against all others.

    The violation is the largest gradient of the mean loss of any member, in units of the square
    root of its curvature.
    """
    batch = merge_rows(batch)
    zero_logit = read_zero(batch, zero_probability)
    smallest = max(math.exp(zero_logit), float(np.finfo(float).tiny))
    if batch.n_classes != 2:

        def solve(problem: BinaryProblem) -> tuple[LogOddsCurve, SolverReport]:
            logs = bounds_of_logs(problem.values, smallest)
            log_x, log_rest = logs(problem.values)
            return fit_log_odds(log_x - log_rest, problem.positives, problem.cells, logs, tol)

        return solve_one_vs_rest(batch, solve)
    logits = to_logits(batch.scores, batch.kind, zero_logit)
    z = np.clip(logits[:, 1] - logits[:, 0], -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    positives = np.where(batch.class_index == 1, batch.weight, 0.0)
    logs = BoundedLogs(smallest, smallest)
    curve, report = fit_log_odds(z, positives, batch.weight, logs, tol)
    return ClasswiseCurves(None, (curve.mirrored, curve), kind=batch.kind), report


def fit_log_odds(
    z: Floats, positives: Floats, cells: Floats, logs: BoundedLogs, tol: float
) -> tuple[LogOddsCurve, SolverReport]:
    """Fit all members to log-odds ``z`` that hold the label with weight ``positives`` of ``cells``.

    Returns their average as one curve.
    """
    started = perf_counter()
    total, labels = float(cells.sum()), float(positives.sum())
    share = math.log((labels + 0.5) / (total - labels + 0.5))
    pivots = np.array([0.0, share])
    squares = np.array([cells @ (z - pivot) ** 2 for pivot in pivots])
    scores = [Base(0.0, 1.0), Base(share, 1.0)]
    rows = TwoClassRows(scores, [1, 1], z, positives, cells, slopes_only=True)
    ridge = CERTAIN_ROWS * np.maximum(squares, 1e-300)[:, None]
    slopes = _fit_held(rows, ridge, AT_SCORES, REWEIGHTINGS, tol)
    steep = np.maximum(1.0 + slopes.points[:, 0], FLATTEST)
    lines = [Base(0.0, 1.0), *(Base(*pair) for pair in zip(pivots, steep.tolist(), strict=True))]
    rows = TwoClassRows(lines, N_MEMBERS, z, positives, cells)
    fits = _fit_held(rows, MEMBERS, AT_SCORES, 2, tol)
    evidence = _evidence(rows, fits, MEMBERS, np.append(1.0, steep)[LINE_OF])
    average = _Average(lines, fits.points, z, cells)
    shares = np.exp(evidence - evidence.max())
    few = share_of_few_errors(max(float(rows.base_losses[1]), 0.0), total)
    shares = np.append(shares / shares.sum() * (1.0 - few), [few, 0.0])

    def loss_of(curve: LogOddsCurve) -> float:
        eta = np.interp(z, curve.x, curve.y)
        return float(cells @ sigmoid_and_softplus(eta)[1] - positives @ eta)

    # As likely as the average, the scores would have half of the result.
    gain = float(rows.base_losses[0]) - loss_of(average.curve(shares, logs))
    kept = float(expit(-gain))
    shares = np.append(shares[:-1] * (1.0 - kept), kept)
    curve = average.curve(shares, logs)
    rounds, violation = slopes.rounds + fits.rounds, max(slopes.violation, fits.violation)
    numbers = loss_of(curve) / total, violation, tol, rounds, perf_counter() - started
    parts = zip(("scores", "ts", "labels"), np.bincount(LINE_OF, shares[:-2]).tolist(), strict=True)
    named = dict(parts) | {"ts itself": shares[-2], "scores themselves": shares[-1]}
    note = "maps of " + ", ".join(f"{name} {own:.0%}" for name, own in named.items())
    return curve, SolverReport("newton", *numbers, notes=(note,))


def _fit_held(rows: TwoClassRows, ridges: Floats, strength: float, times: int, tol: float) -> Fits:
    """Minimise ``times``, each but the first with as many pseudo-observations as are left."""
    points, sums = np.zeros_like(ridges), None
    left, rounds = np.full(len(ridges), strength), 0
    for enough in (*(max(tol, ROUGH_TOLERANCE),) * (times - 1), tol):
        found = minimise_together(rows, points, ridges, left / rows.total, enough, sums)
        points, sums = found.points, found.at.sums
        _, divergences = rows.losses(points, sums)
        left = np.array([remaining(strength, divergence) for divergence in divergences])
        rounds += found.rounds
    return found._replace(rounds=rounds)


def minimise_together(
    rows: TwoClassRows,
    points: Floats,
    ridges: Floats,
    ratio: Floats,
    tol: float,
    sums: Sums | None = None,
) -> Fits:
    """Newton's method for all members at once, each with a step length of its own."""
    at, diagonal = rows.expand(points, ridges, ratio, sums), np.arange(points.shape[1])
    unit_matrix = np.eye(len(diagonal))
    # Rounding of a sum: where all rows are certain, no gradient is smaller.
    rounding = 1e-12 / max(tol, 1e-12) * rows.total * rows.largest
    for rounds in range(MAX_ROUNDS + 1):
        curvature = np.maximum(at.hessian[:, diagonal, diagonal], 1e-300)
        unit = np.maximum(np.sqrt(np.maximum(curvature * rows.total, 1e-300)), rounding)
        violation = np.max(np.abs(at.gradient) / unit, axis=1)
        moving = violation > tol
        if not moving.any() or rounds == MAX_ROUNDS:
            break
        damped = at.hessian + 1e-12 * curvature[:, None] * unit_matrix
        step = np.linalg.solve(damped, at.gradient[..., None])[..., 0]
        step = np.where(moving[:, None], step, 0.0)
        predicted = np.sum(at.gradient * step, axis=1)
        # Rows that are certain have no curvature: a step must not lead far beyond them.
        reach = np.sum(np.abs(step) * rows.largest, axis=1)
        size = np.minimum(1.0, LONGEST_STEP / np.maximum(reach, 1e-300))
        unseen = 1e-14 * (np.abs(at.value) + rows.total)
        for _ in range(MAX_HALVINGS):
            trial = points - size[:, None] * step
            there = rows.expand(trial, ridges, ratio)
            worse = moving & ~(there.value <= at.value - 1e-4 * size * predicted + unseen)
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        if np.array_equal(trial, points):
            break
        points, at = trial, there
    return Fits(points, at, float(violation.max()), rounds)


def _evidence(rows: TwoClassRows, found: Fits, ridges: Floats, slope: Floats) -> Floats:
    """Log marginal likelihood by Laplace's approximation, less what all members have alike.

    The prior of the whole slope is log-normal about 1, that of the others is their ridge.
    """
    free = np.isfinite(ridges[:, 0])
    factor = np.where(free, np.maximum(1.0 + found.points[:, 0], 20.0 * FLATTEST), 1.0)
    hessian = found.at.hessian.copy()
    hessian[:, 0] *= factor[:, None]
    hessian[:, :, 0] *= factor[:, None]
    hessian[:, 0, 0] += free
    diagonal = np.arange(hessian.shape[1])
    hessian[:, diagonal, diagonal] *= 1.0 + 1e-12  # beside huge weights the ridge is lost
    rest = np.where(np.isfinite(ridges[:, 1:]), ridges[:, 1:], 1.0)  # left out: log 1, and t = 0
    losses, divergences = rows.losses(found.points, found.at.sums)
    found_evidence: Floats = (
        -losses
        - np.log1p(AT_SCORES * divergences)
        - 0.5 * np.where(free, np.log(factor * slope) ** 2, 0.0)
        - 0.5 * np.sum(rest * found.points[:, 1:] ** 2 - np.log(rest), axis=1)
        - 0.5 * np.linalg.slogdet(hessian)[1]
    )
    return found_evidence


class _Average:
    """Averages of members, of temperature scaling and of the scores.

    They are lines between values at ``x``, and go on straight beyond the rows' log-odds.
    """

    def __init__(self, lines: list[Base], points: Floats, z: Floats, cells: Floats) -> None:
        low, high = float(z.min()), float(z.max())
        x = np.concatenate([line.pivot + (GRID - line.pivot) / line.slope for line in lines])
        x = np.unique(np.append(x[(low < x) & (x < high)], [low, max(high, low + 1.0)]))
        # Slopes are differences: what is hardly apart would be noise.
        self.x = x[np.append(True, np.diff(x) > 1e-6 * (1.0 + np.abs(x[1:])))]
        nearest = np.searchsorted(0.5 * (self.x[1:] + self.x[:-1]), z)
        self._near = 1e-6 + np.bincount(nearest, cells, minlength=len(self.x)) / cells.sum()
        eta = np.empty((len(points) + 2, len(self.x)))
        for place, line in enumerate(lines):
            u, features = line.features(self.x)
            eta[:-2][place == LINE_OF] = u + points[place == LINE_OF] @ features
            if place < 2:
                eta[-1 - place] = u
        log_rest = -sigmoid_and_softplus(eta)[1]
        self._logs = log_rest + eta, log_rest  # of the probabilities of the two classes

    def curve(self, shares: Floats, logs: BoundedLogs) -> LogOddsCurve:
        """Return the average with these shares, in the order of the class's first line."""
        used = shares > 0.0  # beside what has no share the others may be too small to be seen
        one, rest = (logsumexp(logs[used], axis=0, b=shares[used, None]) for logs in self._logs)
        y = one - rest
        if np.any(np.diff(y) < 0.0):
            y = self._pool(y)
        x, ends = self.x, np.array([-FARTHEST_LOG_ODDS, FARTHEST_LOG_ODDS])
        beyond = y[[0, -1]] + (ends - x[[0, -1]]) * (np.diff(y) / np.diff(x))[[0, -1]]
        x, y = (np.concatenate([end[:1], own, end[1:]]) for own, end in ((x, ends), (y, beyond)))
        return LogOddsCurve(x, y, logs)

    def _pool(self, y: Floats) -> Floats:
        """Average probabilities where they fall, by the rows that are near: a flat part of it."""
        pooled = isotonic_regression(expit(y), weights=self._near)
        for start, end in zip(pooled.blocks, pooled.blocks[1:], strict=False):
            if end - start > 1:
                y[start:end] = logit(np.clip(pooled.x[start], 1e-300, 1.0 - 1e-16))
        return np.maximum.accumulate(y)  # but for rounding, it rises
