"""Sums over all rows of the loss of structured scaling, of its gradient and its curvature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.kernels.exact_sums import structured_terms
from calibrant.kernels.rows import bounded_logs
from calibrant.kernels.softmax import affine_rows, map_logits
from calibrant.scale.outer_sums import OuterSums
from calibrant.scale.parts import SummedPart
from calibrant.scale.temperature_sums import check_settings
from calibrant.scale.wide_sums import WideSums
from calibrant.simplex import small_chunks, to_logits
from calibrant.solvers.structured_steps import Reference
from calibrant.solvers.structured_whole import PENALTIES, Frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

N_COMMON = 5


class Terms(NamedTuple):
    """What rows add to the sums: of common parameters, residuals q - y, q (1 - q) and features."""

    common: Array
    residual: Array
    spread: Array
    features: Array


class StructuredSums(SummedPart):
    """Exact sums of the loss, the gradient and the curvature at some parameters.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    is_full : bool
        Whether there is a matrix of slopes.
    theta : array-like
        Where the sums are taken: alpha, gamma, slopes and intercepts.
    inverse_temperature, zero_logit, scale, bound, penalties, pull, is_flat
        The ``Frame`` of the fit.
    """

    name = "structured"

    def __init__(
        self,
        n_classes: int,
        kind: str,
        is_full: bool,
        theta: Any,
        inverse_temperature: float,
        zero_logit: float,
        scale: float,
        bound: float,
        penalties: Any,
        pull: Any,
        is_flat: bool,
    ) -> None:
        check_settings(n_classes, kind, inverse_temperature, zero_logit, scale, bound)
        theta, penalties, pull = (np.asarray(one, np.float64) for one in (theta, penalties, pull))
        n_slopes = n_classes * (n_classes if is_full else 1)
        if theta.shape != (2 + n_slopes + n_classes,):
            raise ValueError(f"{theta.shape} parameters for {n_classes} classes")
        if penalties.shape != PENALTIES.shape or pull.shape != (2,):
            raise ValueError(f"{penalties.shape} penalties and a pull of {pull.shape}")
        self.n_classes, self.kind, self.is_full, self.theta = n_classes, kind, is_full, theta
        features = inverse_temperature, zero_logit, scale, bound
        self.frame = Frame(*features, penalties, pull, bool(is_flat))
        self.map = self.frame.map(theta, n_classes, kind)
        self._sums = WideSums(N_COMMON + (2 if is_full else 4) * n_classes)
        size = n_classes if is_full else 0
        self._gradient = OuterSums(size, size)
        self._curvature = OuterSums(size, size, is_fine=False)
        outer = {"gradient_": self._gradient, "curvature_": self._curvature}
        super().__init__({"sums": self._sums}, outer)

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        own = {"n_classes": self.n_classes, "kind": self.kind, "is_full": self.is_full}
        return {**own, "theta": self.theta, **self.frame._asdict()}

    def terms(self, batch: SimplexBatch, own: slice) -> Terms:
        """Return what some of the rows add."""
        found = self.map
        logits = to_logits(batch.scores[own], self.kind, found.zero_logit)
        logits -= logits.max(axis=1, keepdims=True)
        x, mapped, slope = np.empty_like(logits), np.zeros_like(logits), found.coef
        bounded_logs(found.scale * logits, found.bound, x)
        if slope.ndim == 2:  # each sum in the order of the classes, whatever the chunk
            nothing = np.zeros(self.n_classes)
            affine_rows(x, np.ascontiguousarray(slope.T), nothing, mapped)
            slope = nothing
        map_logits(logits, x, found.inverse_temperature, slope, found.intercept, mapped)
        common, q = np.empty((len(x), N_COMMON)), np.empty_like(x)
        index = batch.class_index[own]
        structured_terms(mapped, logits, x, index, common, q)
        spread = q * (1.0 - q)
        q[np.arange(len(q)), index] -= 1.0
        return Terms(common, q, spread, x)

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for own in small_chunks(batch.n_rows, 8 * batch.n_classes):
            weight = batch.weight[own]
            common, residual, spread, x = self.terms(batch, own)
            columns = [common, residual, spread]
            if self.is_full:
                self._gradient.add(residual, x, weight)
                self._curvature.add(spread, x**2, weight)
            else:
                columns += [residual * x, spread * x**2]
            self._sums.add_rows(np.hstack(columns), weight)

    def reference(self, weight: float) -> Reference:
        """Return the parameters with what all rows say of them."""
        means, k, beta = (
            self._sums.values() / weight,
            self.n_classes,
            self.frame.inverse_temperature,
        )
        (loss, by_alpha, zz, zx, xx), by_class = means[:N_COMMON], means[N_COMMON:].reshape(-1, k)
        intercepts, spread = by_class[:2]
        if self.is_full:
            slopes, bent = (one.values() / weight for one in (self._gradient, self._curvature))
            by_gamma = np.trace(slopes)
        else:
            slopes, bent = by_class[2:]
            by_gamma = slopes.sum()
        gradient = np.concatenate([[beta * by_alpha, by_gamma], slopes.ravel(), intercepts])
        common = np.array([[beta * beta * zz, beta * zx], [beta * zx, xx]])
        rest = np.concatenate([bent.ravel(), spread])
        return Reference(self.theta, float(loss), gradient, common, rest)
