"""Vector and matrix scaling: multinomial logistic regression on the logits, by L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from calibrant.kernels.softmax import (
    curve_rows,
    spread_rows,
    vector_likelihood,
    weighted_softmax,
)
from calibrant.maps.logits import AffineMap
from calibrant.simplex import to_logits
from calibrant.solvers.logit_unit import divide_by_unit
from calibrant.solvers.newton_steps import newton_steps
from calibrant.solvers.report import SolverReport
from calibrant.solvers.spline_whole import ROUNDING, drop_light_rows
from calibrant.solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.logits import TemperatureMap
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]


CHEAP = 1e9
"""Multiplications that Newton's steps may take in any case: about a second."""

STEEPEST_START = 64.0
"""Inverse temperature to start from at most, in units of the logits' range: beyond it every row is
certain, and nothing can be learnt from there."""


@dataclass(frozen=True, slots=True)
class RidgePenalty:
    """Penalties on the slope matrix W and the intercept b, as Kull et al. (2019) scale them.

    ``ridge`` is multiplied by (sum W^2 + sum b^2) / (k (k + 1)), ``odir`` by the sum of squares off
    the diagonal of W / (k (k - 1)) plus the sum of squares of b / k. Slopes are given for logits
    that were divided by ``unit``.
    """

    ridge: float = 0.0
    odir: float = 0.0
    unit: float = 1.0

    def __call__(self, slope: Array, intercept: Array) -> tuple[float, Array, Array]:
        """Value and gradients."""
        slope_rate, intercept_rate = self.rates(slope)
        value = float(np.sum(slope_rate * slope**2) + intercept_rate * np.sum(intercept**2))
        return value, 2.0 * slope_rate * slope, 2.0 * intercept_rate * intercept

    def rates(self, slope: Array) -> tuple[Array, float]:
        """Return the factors of the squares of slopes and of intercepts."""
        k = len(slope)
        per_cell = self.ridge / (k * (k + 1))
        slope_rate = np.full(slope.shape, per_cell)
        if slope.ndim == 2:
            slope_rate += self.odir / (k * (k - 1)) * (1.0 - np.eye(k))
        return slope_rate / self.unit**2, per_cell + self.odir / k


class _Coefficients(NamedTuple):
    """A diagonal (1-D) or full (2-D) slope of the logits, and an intercept."""

    slope: Array
    intercept: Array


class _Likelihood:
    """Mean NLL of an affine map of logits, with its derivatives in slopes and intercepts.

    ``weighted`` are the probabilities where it was last bent, times the rows' shares.
    """

    def __init__(self, logits: Array, class_index: NDArray[np.int64], share: Array) -> None:
        self.logits, self.class_index, self.share = logits, class_index, share
        self.weighted = np.empty_like(logits)

    def __call__(self, slope: Array, intercept: Array) -> tuple[float, Array, Array]:
        """Value, and gradients in slope and intercept."""
        if slope.ndim == 1:
            slope_grad, intercept_grad = np.empty_like(slope), np.empty_like(intercept)
            loss = vector_likelihood(
                self.logits,
                self.class_index,
                self.share,
                slope,
                intercept,
                slope_grad,
                intercept_grad,
            )
            return float(loss), slope_grad, intercept_grad
        mapped = self._map(slope, intercept)
        loss = weighted_softmax(mapped, self.class_index, self.share)
        mapped[np.arange(len(mapped)), self.class_index] -= self.share
        return float(loss), mapped.T @ self.logits, mapped.sum(axis=0)

    def bend(self, slope: Array, intercept: Array) -> None:
        """Take the Hessian at a point from now on."""
        self.weighted = self._map(slope, intercept)
        weighted_softmax(self.weighted, self.class_index, self.share)

    def noise(self) -> tuple[Array, Array]:
        """Relative error of the diagonal of the Hessian, where rows are a sample of others."""
        spread = np.empty_like(self.logits)
        spread_rows(self.weighted, self.share, spread)
        found = []
        for terms in (spread * self.logits**2, spread):
            total = np.maximum(terms.sum(axis=0), 1e-300)
            found.append(np.sqrt(np.sum((terms / total) ** 2, axis=0)))
        return found[0], found[1]

    def curvatures(self, *, full: bool) -> tuple[Array, Array]:
        """Diagonal of the Hessian."""
        spread = np.empty_like(self.logits)
        spread_rows(self.weighted, self.share, spread)
        if full:
            return spread.T @ (self.logits**2), spread.sum(axis=0)
        return np.einsum("ij,ij,ij->j", spread, self.logits, self.logits), spread.sum(axis=0)

    def product(self, slope: Array, intercept: Array) -> tuple[Array, Array]:
        """Hessian times a direction."""
        change = self._map(slope, intercept)
        curve_rows(self.weighted, self.share, change)
        if slope.ndim == 1:
            return np.einsum("ij,ij->j", change, self.logits), change.sum(axis=0)
        return change.T @ self.logits, change.sum(axis=0)

    def _map(self, slope: Array, intercept: Array) -> Array:
        mapped = self.logits * slope if slope.ndim == 1 else self.logits @ slope.T
        mapped += intercept
        return mapped


def solve_affine(
    batch: SimplexBatch,
    *,
    full: bool,
    penalty: RidgePenalty | None = None,
    zero_probability: float | None = None,
    tol: float = 1e-6,
    max_rounds: int = 500,
) -> tuple[AffineMap, SolverReport]:
    """Affine map of the logits of least penalised NLL.

    Starts at temperature scaling and is scaled by the curvature there, since logits of different
    classes differ in size by orders of magnitude. The violation is the largest gradient in these
    units. Classes without a label keep temperature scaling's parameters: the likelihood would
    send their intercepts to minus infinity.
    """
    # Merged before the temperature is fitted, too: where the likelihood is flat, its last bits
    # would tell a weight of 2 from two rows.
    batch = drop_light_rows(batch).merged()
    temperature, _ = solve_temperature(batch, zero_probability=zero_probability)
    present = np.isin(np.arange(batch.n_classes), drop_light_rows(batch).class_index)
    options: Any = {"full": full, "penalty": penalty, "tol": tol, "max_rounds": max_rounds}
    return fit_affine(batch, temperature, present, **options)


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A map with the mean NLL of all rows and its gradient in slopes and intercepts.

    Its Hessian, if that is known, is one for logits that were divided by ``unit``.
    """

    map: AffineMap
    loss: float
    slope_gradient: Array
    intercept_gradient: Array
    hessian: Array | None = None
    unit: float = 1.0
    curvature: Array | None = None  # estimates of the diagonal, for slopes and for intercepts


def prepare(
    batch: SimplexBatch,
    temperature: TemperatureMap,
    present: NDArray[np.bool_],
    penalty: RidgePenalty | None,
    *,
    full: bool,
) -> tuple[Problem, float]:
    """Return the problem of a batch, and the unit of its logits."""
    batch = drop_light_rows(batch).merged()
    logits = to_logits(batch.scores, batch.kind, temperature.zero_logit)
    unit = divide_by_unit(logits, batch.weight)
    share = batch.weight / batch.weight.sum()
    beta = unit * temperature.inverse_temperature
    likelihood = _Likelihood(logits, batch.class_index, share)
    slopes = np.where(present, min(beta, STEEPEST_START), beta)
    start = _Coefficients(np.diag(slopes) if full else slopes, np.zeros(batch.n_classes))
    return Problem(likelihood, replace(penalty or RidgePenalty(), unit=unit), start, present), unit


def fit_affine(
    batch: SimplexBatch,
    temperature: TemperatureMap,
    present: NDArray[np.bool_],
    *,
    full: bool,
    penalty: RidgePenalty | None = None,
    tol: float = 1e-6,
    max_rounds: int = 500,
    reference: Reference | None = None,
    proximal: float = 0.0,
) -> tuple[AffineMap, SolverReport]:
    """Do as ``solve_affine`` does, from a temperature and the classes that have labels.

    Where the batch is a sample, a linear term gives its likelihood the gradient of all rows at a
    point of ``reference``, and ``proximal`` times the error of its curvature draws to that.
    """
    started = perf_counter()
    problem, unit = prepare(batch, temperature, present, penalty, full=full)
    first = np.zeros_like(problem.unit)
    if reference is not None:
        first = problem.match(reference, unit, proximal)
    best, report = _minimise(problem, first, tol, max_rounds)
    zero_logit = temperature.zero_logit
    found = AffineMap(best.slope / unit, best.intercept, zero_logit, batch.kind)
    return found, replace(report, seconds=perf_counter() - started)


class Problem:
    """Penalised likelihood of the parameters in one vector: steps from ``start``, slopes first.

    A ``unit`` of a parameter changes the gradient by about one.
    """

    def __init__(
        self,
        likelihood: _Likelihood,
        penalty: RidgePenalty,
        start: _Coefficients,
        present: NDArray[np.bool_],
    ) -> None:
        self._likelihood, self._penalty, self._shape = likelihood, penalty, start.slope.shape
        self._origin = np.concatenate([start.slope.ravel(), start.intercept])
        rows = np.broadcast_to(present[:, None], (len(present), start.slope.size // len(present)))
        self.free = np.concatenate([rows.ravel(), present])
        slope_rate, intercept_rate = penalty.rates(start.slope)
        rates = [slope_rate.ravel(), np.full_like(start.intercept, intercept_rate)]
        self.bends = 2.0 * np.concatenate(rates)
        self._near = self._pull = np.zeros_like(self._origin)
        self._tilt: Array | None = None
        self.bend(np.zeros_like(self._origin))
        curvature = self.diagonal()
        # A direction without curvature would get an endless step: give it the scale of the others.
        self.unit = 1.0 / np.sqrt(np.maximum(curvature, 1e-6 * curvature.max() + 1e-300))

    def match(self, reference: Reference, unit: float, proximal: float = 0.0) -> Array:
        """Give the likelihood the gradient of a point of reference, which is returned."""
        point = np.concatenate([(reference.map.coef * unit).ravel(), reference.map.intercept])
        x: Array = point - self._origin
        own = self._likelihood(*self.map(x))
        tilt = reference.intercept_gradient - own[2]
        tilt -= tilt.mean()  # one number more in all intercepts changes nothing
        self._tilt = np.append(reference.slope_gradient / unit - own[1], tilt)
        self._near = x
        if proximal > 0.0:
            self.bend(x)
            noise = np.concatenate(self._likelihood.noise())
            self._pull = proximal * noise / self.unit**2
            if reference.curvature is not None:
                of_rows = np.concatenate(self._likelihood.curvatures(full=False))
                wanted = np.append(reference.curvature[0] / unit**2, reference.curvature[1])
                self._pull = self._pull + np.maximum(wanted - of_rows, 0.0)
        return x

    def violation(self, x: Array) -> float:
        """Return the largest gradient, each times its unit."""
        return float(np.max(np.abs(self.value(x)[1] * self.unit)))

    def penalty(self, x: Array) -> float:
        """Value of the penalty."""
        return self._penalty(*self.map(x))[0]

    @property
    def cost(self) -> int:
        """Multiplications for a product with the Hessian, but for a small factor."""
        return self._likelihood.logits.size * (self._shape[-1] if len(self._shape) == 2 else 1)

    def split(self, x: Array) -> _Coefficients:
        """Slope and intercept of a vector."""
        k = self._shape[0]
        return _Coefficients(x[:-k].reshape(self._shape), x[-k:])

    def map(self, x: Array) -> _Coefficients:
        """Return slope and intercept at ``x``."""
        return self.split(self._origin + x)

    def value(self, x: Array) -> tuple[float, Array]:
        """Value and gradient."""
        point = self.map(x)
        loss, slope_grad, intercept_grad = self._likelihood(point.slope, point.intercept)
        extra, slope_extra, intercept_extra = self._penalty(point.slope, point.intercept)
        parts = [(slope_grad + slope_extra).ravel(), intercept_grad + intercept_extra]
        value, gradient = loss + extra, np.concatenate(parts)
        if self._tilt is not None:
            gap = x - self._near
            value += float(self._tilt @ gap) + 0.5 * float(gap @ (self._pull * gap))
            gradient += self._tilt + self._pull * gap
        return value, np.where(self.free, gradient, 0.0)

    def bend(self, x: Array) -> None:
        """Take the Hessian at ``x`` from now on."""
        point = self.map(x)
        self._likelihood.bend(point.slope, point.intercept)

    def diagonal(self) -> Array:
        """Diagonal of the Hessian."""
        slopes, intercepts = self._likelihood.curvatures(full=len(self._shape) == 2)
        found: Array = np.concatenate([slopes.ravel(), intercepts]) + self.bends + self._pull
        return found

    def product(self, direction: Array) -> Array:
        """Hessian times ``direction``."""
        part = self.split(direction)
        slopes, intercepts = self._likelihood.product(part.slope, part.intercept)
        bent = np.concatenate([slopes.ravel(), intercepts])
        bent += (self.bends + self._pull) * direction
        return np.where(self.free, bent, 0.0)


def _minimise(
    problem: Problem, first: Array, tol: float, max_rounds: int
) -> tuple[_Coefficients, SolverReport]:
    """L-BFGS; the last tenth of the rounds are Newton's, for what it leaves."""
    unit, n_last = problem.unit, max_rounds // 10

    def scaled(x: Array) -> tuple[float, Array]:
        value, gradient = problem.value(unit * x)
        return value, gradient * unit

    n_first = max_rounds - n_last
    result = minimize(
        scaled,
        first / unit,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": n_first, "maxfun": 2 * n_first, "gtol": tol, "ftol": 0.0},
    )
    max_products = max(max_rounds, int(CHEAP / problem.cost))  # no longer than what came before
    x, rounds, left = newton_steps(problem, unit * result.x, unit, tol, n_last, max_products)
    value, gradient = problem.value(x)
    violation = float(np.max(np.abs(gradient * unit)))
    notes: tuple[str, ...] = ()
    if violation > tol and left <= ROUNDING:
        notes = (f"at the limit of rounding: {left:.0e} of the objective is left to gain",)
    rounds += int(result.nit)
    return problem.map(x), SolverReport("l-bfgs", value, violation, tol, rounds, 0.0, notes=notes)
