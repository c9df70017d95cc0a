"""Vector and matrix scaling: multinomial logistic regression on the logits, by L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.optimize import minimize

from calibrant.errors import ParameterError
from calibrant.kernels.affine import affine_rows, residuals, vector_likelihood
from calibrant.kernels.temperature import scaled_softmax
from calibrant.simplex import to_logits
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.temperature import Temperature

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AffineMap:
    """logits -> slope z + intercept, with a diagonal (1-D) or a full (2-D) slope."""

    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def __call__(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mapped logits."""
        check_coefficients(self.slope, self.intercept, logits.shape[1])
        if self.slope.ndim == 1:
            return logits * self.slope + self.intercept
        out = np.empty_like(logits)
        affine_rows(logits, np.ascontiguousarray(self.slope.T), self.intercept, out)
        return out


def check_coefficients(slope: Array, intercept: Array, n_classes: int) -> None:
    """Refuse what was tampered with: a kernel would read beyond the end of it."""
    k = n_classes
    if intercept.shape != (k,) or slope.shape not in ((k,), (k, k)):
        raise ParameterError(
            f"the slope has shape {slope.shape} and the intercept {intercept.shape}, which does "
            f"not fit {k} classes; fit again"
        )


@dataclass(frozen=True, slots=True)
class Penalty:
    """Penalties on the slope matrix W and the intercept b, as Kull et al. (2019) scale them.

    ``ridge`` is multiplied by (sum W^2 + sum b^2) / (k (k + 1)), ``odir`` by the sum of squares off
    the diagonal of W / (k (k - 1)) plus the sum of squares of b / k.
    """

    ridge: float = 0.0
    odir: float = 0.0

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
        return slope_rate, per_cell + self.odir / k


class _Likelihood(Protocol):
    """Mean NLL of an affine map, with its gradients; and the curvatures that scale them."""

    def __call__(self, slope: Array, intercept: Array) -> tuple[float, Array, Array]: ...

    def curvatures(self, beta: float) -> tuple[Array, Array]: ...


@dataclass(frozen=True, slots=True)
class _VectorLikelihood:
    logits: Array
    class_index: NDArray[np.int64]
    share: Array

    def __call__(self, slope: Array, intercept: Array) -> tuple[float, Array, Array]:
        slope_grad, intercept_grad = np.empty_like(slope), np.empty_like(intercept)
        loss = vector_likelihood(
            self.logits, self.class_index, self.share, slope, intercept, slope_grad, intercept_grad
        )
        return float(loss), slope_grad, intercept_grad

    def curvatures(self, beta: float) -> tuple[Array, Array]:
        spread = _spread(self.logits, self.share, beta)
        return np.einsum("ij,ij,ij->j", spread, self.logits, self.logits), spread.sum(axis=0)


@dataclass(frozen=True, slots=True)
class _MatrixLikelihood:
    logits: Array
    class_index: NDArray[np.int64]
    share: Array

    def __call__(self, slope: Array, intercept: Array) -> tuple[float, Array, Array]:
        mapped = self.logits @ slope.T
        mapped += intercept
        loss = np.empty(len(mapped))
        residuals(mapped, self.class_index, self.share, loss)
        return float(loss @ self.share), mapped.T @ self.logits, mapped.sum(axis=0)

    def curvatures(self, beta: float) -> tuple[Array, Array]:
        spread = _spread(self.logits, self.share, beta)
        return spread.T @ (self.logits**2), spread.sum(axis=0)


def _spread(logits: Array, share: Array, beta: float) -> Array:
    """Variance p (1 - p) of each cell's label under temperature scaling, weighted."""
    p = np.empty_like(logits)
    scaled_softmax(logits, beta, p)
    return share[:, None] * p * (1.0 - p)


def solve_affine(
    batch: SimplexBatch,
    temperature: Temperature,
    *,
    full: bool,
    penalty: Penalty | None = None,
    tol: float = 1e-6,
    max_rounds: int = 500,
) -> tuple[AffineMap, SolverReport]:
    """Affine map of the logits of least penalised NLL.

    Starts at temperature scaling and is scaled by the curvature there, since logits of different
    classes differ in size by orders of magnitude. The violation is the largest gradient in these
    units. Classes without a label keep temperature scaling's parameters: the likelihood would
    send their intercepts to minus infinity.
    """
    started = perf_counter()
    batch = batch.merged()
    logits = to_logits(batch.scores, batch.kind, temperature.zero_logit)
    share = batch.weight / batch.weight.sum()
    beta = temperature.inverse
    k = batch.n_classes
    likelihood: _Likelihood = (
        _MatrixLikelihood(logits, batch.class_index, share)
        if full
        else _VectorLikelihood(logits, batch.class_index, share)
    )
    start = AffineMap(beta * (np.eye(k) if full else np.ones(k)), np.zeros(k))
    present = np.isin(np.arange(k), batch.class_index)
    found, report = _minimise(
        likelihood, penalty or Penalty(), start, present, beta, tol, max_rounds
    )
    return found, replace(report, seconds=perf_counter() - started)


def _minimise(
    likelihood: _Likelihood,
    penalty: Penalty,
    start: AffineMap,
    present: NDArray[np.bool_],
    beta: float,
    tol: float,
    max_rounds: int,
) -> tuple[AffineMap, SolverReport]:
    n_slopes = start.slope.size
    free = np.concatenate(
        [
            np.broadcast_to(present[:, None], (len(present), n_slopes // len(present))).ravel(),
            present,
        ]
    )
    origin = np.concatenate([start.slope.ravel(), start.intercept])
    slope_curvature, intercept_curvature = likelihood.curvatures(beta)
    slope_rate, intercept_rate = penalty.rates(start.slope)
    curvature = np.concatenate(
        [
            (slope_curvature + 2.0 * slope_rate).ravel(),
            intercept_curvature + 2.0 * intercept_rate,
        ]
    )
    # A direction without curvature would get an endless step: give it the scale of the others.
    unit = 1.0 / np.sqrt(np.maximum(curvature, 1e-6 * curvature.max() + 1e-300))

    def unpack(x: Array) -> AffineMap:
        natural = origin + unit * x
        return AffineMap(natural[:n_slopes].reshape(start.slope.shape), natural[n_slopes:])

    def evaluate(x: Array) -> tuple[float, Array]:
        point = unpack(x)
        loss, slope_grad, intercept_grad = likelihood(point.slope, point.intercept)
        extra, slope_extra, intercept_extra = penalty(point.slope, point.intercept)
        gradient = np.concatenate(
            [(slope_grad + slope_extra).ravel(), intercept_grad + intercept_extra]
        )
        return loss + extra, np.where(free, gradient * unit, 0.0)

    result = minimize(
        evaluate,
        np.zeros_like(origin),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_rounds, "maxfun": 2 * max_rounds, "gtol": tol, "ftol": 0.0},
    )
    violation = float(np.max(np.abs(evaluate(result.x)[1])))
    report = SolverReport("l-bfgs", float(result.fun), violation, tol, int(result.nit), 0.0)
    return unpack(result.x), report
