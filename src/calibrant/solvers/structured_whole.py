"""Structured scaling: an affine map of the logits, shrunk to temperature scaling.

After Berta et al., "Structured matrix scaling for multi-class calibration" (2025), with three
departures. Probabilities are bounded from below before their logarithms enter the matrix, so that
a class at 1e-45 weighs no more than one at 1e-3. The bounded logarithms have a common slope of
their own, besides the temperature. The penalties are numbers of rows, adapted to the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant.kernels.rows import bounded_logs
from calibrant.maps.logits import StructuredMap, TemperatureMap
from calibrant.simplex import to_logits
from calibrant.solvers.logit_unit import divide_by_unit
from calibrant.solvers.newton_steps import conjugate_gradients
from calibrant.solvers.pseudo_rows import AT_TEMPERATURE, REWEIGHTINGS, remaining
from calibrant.solvers.pseudo_rows import share as share_of
from calibrant.solvers.report import SolverReport
from calibrant.solvers.spline_whole import drop_light_rows, feature_scale
from calibrant.solvers.structured_likelihood import (
    DIAGONAL,
    Likelihood,
    Point,
    Preconditioner,
)
from calibrant.solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

PENALTIES = np.array([1.0, 1.0, 32.0, 16.0, 4.0])
"""Strength of the penalty on each kind of parameter, times half its square, in rows.

Chosen by cross-validation within the validation parts of real classifiers, where halving or
doubling any of them changes the NLL by less than half a percent on average.
"""

WEAKEST, STRONGEST = 0.25, 64.0
"""How far the evidence may move a penalty, as a factor."""

ROUGH_TOLERANCE = 1e-2
"""Violation at which the evidence is looked at."""

MOST_DAMPING = 1e6
"""Part of the curvature that is added to it where steps fail."""

MOST_PRODUCTS = 200
"""Limit of conjugate gradients in one step."""

MOST_WORK, FEWEST_PRODUCTS = 1e9, 2000
"""Multiplications in all of them, after which a fit ends where it is, unless they were few
products; usual are less than a hundred. Labels in no order, whose weights differ by twenty powers
of ten, have their optimum so far out that hundreds of steps do not reach it."""


def solve_structured(
    batch: SimplexBatch,
    *,
    full: bool,
    strength: float | None = None,
    prior_strength: float = AT_TEMPERATURE,
    bound: float = 0.02,
    tol: float = 1e-6,
    max_rounds: int = 100,
    zero_probability: float | None = None,
) -> tuple[StructuredMap, SolverReport]:
    """Affine map of bounded log-probabilities of least penalised NLL, by Newton's method.

    Without ``strength`` the penalties are adapted to the evidence. The violation is the largest
    gradient, each in units of the square root of its curvature.
    """
    # Merged before the temperature is fitted, too: where the likelihood is flat, its last bits
    # would tell a weight of 2 from two rows.
    batch = drop_light_rows(batch).merged()
    temperature, _ = solve_temperature(batch, zero_probability=zero_probability)
    fit = fit_structured(
        batch,
        temperature,
        full=full,
        strength=strength,
        prior_strength=prior_strength,
        bound=bound,
        tol=tol,
        max_rounds=max_rounds,
    )
    return fit.map, fit.report


class Frame(NamedTuple):
    """What is fixed before the parameters are fitted.

    Logits of a row less the largest are taken times ``inverse_temperature``, and features at
    ``scale`` times them. ``penalties`` are those of each kind, and ``pull`` draws alpha and gamma
    to the start; ``is_flat`` if alpha is 0.
    """

    inverse_temperature: float
    zero_logit: float
    scale: float
    bound: float
    penalties: Array
    pull: Array
    is_flat: bool

    def temperature(self, kind: str) -> TemperatureMap:
        """Return temperature scaling, which this starts from."""
        return TemperatureMap(self.inverse_temperature, self.zero_logit, kind)

    def map(self, theta: Array, n_classes: int, kind: str) -> StructuredMap:
        """Return the map of some parameters."""
        k = n_classes
        slope: Array = theta[2:-k]
        slope = slope + theta[1] if len(slope) == k else slope.reshape(k, k) + theta[1] * np.eye(k)
        inverse = float(theta[0]) * self.inverse_temperature
        intercept = theta[-k:].copy()
        features = self.scale, self.bound, self.zero_logit
        return StructuredMap(inverse, slope, intercept, *features, kind)


class StructuredFit(NamedTuple):
    """A map, the proof of it, its parameters and what was fixed before."""

    map: StructuredMap
    report: SolverReport
    theta: Array
    frame: Frame


def prepare(
    batch: SimplexBatch,
    temperature: TemperatureMap,
    bound: float,
    scale: float | None,
    *,
    full: bool,
) -> tuple[Likelihood, float, float]:
    """Return the likelihood of a batch, the unit of its logits and the scale of its features."""
    logits = to_logits(batch.scores, batch.kind, temperature.zero_logit)
    logits -= logits.max(axis=1, keepdims=True)
    unit = divide_by_unit(logits, batch.weight)
    beta = unit * temperature.inverse_temperature
    share = batch.weight / batch.weight.sum()
    scale = feature_scale(logits, share, beta) if scale is None else unit * scale
    x = np.empty_like(logits)
    bounded_logs(scale * logits, bound, x)
    logits *= beta
    return Likelihood(logits, x, batch.class_index, share, full=full), unit, scale


Matching = Callable[["SimplexBatch", Likelihood], tuple["Array", "Array", "Array"]]
"""From a sample and its likelihood to what all rows say of a point: parameters, gradient, and
curvature of all parameters but the first two."""


def fit_structured(
    batch: SimplexBatch,
    temperature: TemperatureMap,
    *,
    full: bool,
    strength: float | None,
    prior_strength: float,
    bound: float,
    tol: float,
    max_rounds: int,
    scale: float | None = None,
    weight: float | None = None,
    penalties: Array | None = None,
    matching: Matching | None = None,
) -> StructuredFit:
    """Do as ``solve_structured`` does, from a temperature.

    Where the batch is a sample of rows of a total ``weight``, ``matching`` tells what all of them
    say of a point; the ``scale`` of features and the ``penalties`` may be known, too.
    """
    started = perf_counter()
    batch = drop_light_rows(batch).merged()
    n_rows = float(batch.weight.sum()) if weight is None else weight
    likelihood, unit, scale = prepare(batch, temperature, bound, scale, full=full)
    if matching is not None:
        likelihood.match(*matching(batch, likelihood))
    options = n_rows, strength, prior_strength, tol, max_rounds, penalties
    theta, report, penalties, pull = _fit(likelihood, *options)
    is_flat = bool(theta[0] < 0.0)
    if is_flat:  # by convexity the best of alpha >= 0 is at 0
        likelihood.drop_logits()
        theta, report, penalties, pull = _fit(likelihood, *options)
        theta[0] = 0.0
    beta = unit * temperature.inverse_temperature
    features = scale / unit, bound
    frame = Frame(
        beta / unit, temperature.zero_logit, *features, penalties, pull[:DIAGONAL], is_flat
    )
    found = frame.map(theta, batch.n_classes, batch.kind)
    return StructuredFit(found, replace(report, seconds=perf_counter() - started), theta, frame)


def _fit(
    likelihood: Likelihood,
    n_rows: float,
    strength: float | None,
    prior_strength: float,
    tol: float,
    max_rounds: int,
    known: Array | None,
) -> tuple[Array, SolverReport, Array, Array]:
    """Fit roughly, adapt penalties to the evidence and pseudo-observations to it; then exactly."""
    kinds = likelihood.kinds()
    start = np.zeros(len(kinds))
    start[0] = 1.0
    point = first = likelihood.value(start)
    penalties = PENALTIES * (1.0 if strength is None else strength) if known is None else known
    by_evidence = strength is None and known is None
    # Only the common terms are held: those of classes have penalties of their own.
    common = np.where(kinds < DIAGONAL, first.gradient, 0.0)
    pull = share_of(prior_strength, n_rows) * common
    likelihood.rough = True
    for _ in range(REWEIGHTINGS if by_evidence or prior_strength > 0.0 else 0):
        rough = max(tol, ROUGH_TOLERANCE)
        point, _ = _minimise(likelihood, penalties[kinds] / n_rows, pull, point, rough, max_rounds)
        left = remaining(prior_strength, point.divergence(first))
        pull = share_of(left, n_rows) * common
        if by_evidence:
            data = n_rows * likelihood.curvature()[1]
            penalties = _evidence(data, kinds, point.theta, penalties)
    likelihood.rough = False
    point, report = _minimise(likelihood, penalties[kinds] / n_rows, pull, point, tol, max_rounds)
    names = zip(("diagonal", "off-diagonal", "intercept"), penalties[DIAGONAL:], strict=True)
    notes = ", ".join(f"{name} {value:.3g}" for name, value in names)
    report = replace(report, notes=(f"penalties in rows: {notes}", *report.notes))
    return point.theta, report, penalties, pull


def _evidence(data: Array, kinds: NDArray[np.int64], theta: Array, penalties: Array) -> Array:
    """One step of MacKay's fixed point: number of well-determined parameters / their squares.

    It finds the penalties of most evidence, in which single parameters are taken as independent;
    ``data`` is the curvature of all but the first two. To three digits: a rough fit has no more.
    """
    kinds, theta = kinds[DIAGONAL:], theta[DIAGONAL:]
    known = np.bincount(kinds, data / (data + penalties[kinds]), minlength=len(PENALTIES))
    squares = np.bincount(kinds, theta**2, minlength=len(PENALTIES))
    found = np.clip(known / np.maximum(squares, 1e-300), WEAKEST * PENALTIES, STRONGEST * PENALTIES)
    found[:DIAGONAL] = PENALTIES[:DIAGONAL]
    return np.array([float(f"{value:.3g}") for value in found])


def _most_products(likelihood: Likelihood) -> int:
    """Return how many products with the Hessian a fit may take; a rough one a quarter of them."""
    size = likelihood.x.size * (likelihood.shape[0] if len(likelihood.shape) == 2 else 1)
    most = max(int(MOST_WORK / size), FEWEST_PRODUCTS)
    return most // 4 if likelihood.rough else most


def _minimise(
    likelihood: Likelihood,
    penalty: Array,
    pull: Array,
    point: Point,
    tol: float,
    max_rounds: int,
) -> tuple[Point, SolverReport]:
    """Newton's method with steps by conjugate gradients, from the last value of the likelihood."""

    def goal(first: float) -> float:
        """Return where a step is exact enough: the more so the smaller the gradient is."""
        return max(first * max(min(0.01, first), 1e-10), 0.1 * tol**2)

    common, rest = likelihood.curvature()
    preconditioner = Preconditioner(common + np.diag(penalty[:2]), rest + penalty[2:])
    value, gradient = point.penalised(penalty, pull)
    rounds, damping = 0, 0.0
    notes: tuple[str, ...] = ()
    left = most = _most_products(likelihood)
    while np.max(np.abs(gradient) * preconditioner.unit) > tol and rounds < max_rounds:
        if left == 0:
            notes = (f"stopped at its limit of {most} products with the Hessian",)
            break
        rounds += 1
        bends = penalty + damping / preconditioner.unit**2
        step, products = conjugate_gradients(
            likelihood, bends, preconditioner.solve, gradient, goal, min(MOST_PRODUCTS, left)
        )
        left -= products
        decrease = 1e-4 * float(gradient @ step)
        size = 1.0
        while True:
            other = likelihood.value(point.theta - size * step)
            new_value, new_gradient = other.penalised(penalty, pull)
            enough = new_value <= value - size * decrease + 1e-15 * abs(value)
            if enough or size < 1e-6:
                break
            size *= 0.5
        if not enough:  # too far, where the curvature is that of a few rows; or nothing to gain
            likelihood.value(point.theta)
            damping = max(10.0 * damping, 1e-6)
            if damping > MOST_DAMPING:
                break
            continue
        point, value, gradient, damping = other, new_value, new_gradient, 0.1 * damping
    violation = float(np.max(np.abs(gradient) * preconditioner.unit))
    return point, SolverReport("newton-cg", value, violation, tol, rounds, 0.0, notes=notes)
