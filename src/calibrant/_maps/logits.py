"""Softmax of a function of the logits: temperature, affine, structured, spline; class priors."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.special import log_softmax

from calibrant._gate import softmax
from calibrant._kernels.monotone_spline import spline_softmax
from calibrant._kernels.rows import bounded_logs, divide_by_sums
from calibrant._kernels.softmax import affine_rows, map_logits, scaled_softmax
from calibrant._maps.base import (
    DEEPEST_LOGIT,
    LARGEST,
    LARGEST_PRODUCT,
    CalibrationMap,
    check_array,
    check_field,
    ensure,
    freeze,
    frozen,
)
from calibrant._types import Floats

MAX_KNOTS = 1000
"""Knots of a spline, as its parameter ``n_knots`` has it."""


class LogitMap(CalibrationMap):
    """A map that reads an exact zero, which has no logarithm, as exp(zero_logit)."""

    zero_logit: float

    def _check_zero(self) -> None:
        self._check_kind()
        check_field(self, "zero_logit", low=DEEPEST_LOGIT, high=0.0)


@frozen
class TemperatureMap(LogitMap):
    """softmax(inverse_temperature z)."""

    inverse_temperature: float
    zero_logit: float
    kind: str = "probabilities"

    keeps_order = same_for_all_classes = True

    def __post_init__(self) -> None:
        self._check_zero()
        check_field(self, "inverse_temperature", low=0.0)

    def __call__(self, rows: Floats) -> Floats:
        """Scale the rows."""
        logits = self._logits(rows, self.zero_logit)
        scaled_softmax(logits, self.inverse_temperature, logits)
        return logits


class LinearMap(LogitMap):
    """A map with a vector or a matrix ``coef`` and an ``intercept`` for each class."""

    coef: Floats
    intercept: Floats

    def _check_coef(self) -> None:
        freeze(self, "coef", "intercept", copy=False)
        k = len(self.intercept)
        check_array(self, "coef", [(k,), (k, k)])
        check_array(self, "intercept", [(k,)])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.intercept)

    @cached_property
    def _transposed(self) -> Floats:
        return np.ascontiguousarray(self.coef.T)


@frozen
class AffineMap(LinearMap):
    """softmax(coef z + intercept), with a diagonal (1-D) or a full (2-D) ``coef``."""

    coef: Floats
    intercept: Floats
    zero_logit: float
    kind: str = "probabilities"

    depends_on_shift = True

    def __post_init__(self) -> None:
        self._check_zero()
        self._check_coef()

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        logits = self._logits(rows, self.zero_logit)
        mapped = np.zeros(logits.shape)
        if self.coef.ndim == 1:
            map_logits(logits, logits, 0.0, self.coef, self.intercept, mapped)
        else:
            affine_rows(logits, self._transposed, self.intercept, mapped)
        scaled_softmax(mapped, 1.0, mapped)
        return mapped


@frozen
class DirichletMap(AffineMap):
    """An affine map of log-probabilities: logits are shifted until their softmax needs no sum."""

    depends_on_shift = False

    def _logits(self, rows: Floats, zero_logit: float) -> Floats:
        shifted = log_softmax(rows, axis=1) if self.kind == "logits" else rows
        return super()._logits(shifted, zero_logit)


@frozen
class StructuredMap(LinearMap):
    """softmax(inverse_temperature z + coef x + intercept).

    x = log(softmax(scale z) + bound), less its mean over the row, or less ``origin``, if there is
    one; ``coef`` is a vector, one for each class, or a matrix.
    """

    inverse_temperature: float
    coef: Floats
    intercept: Floats
    scale: float
    bound: float
    zero_logit: float
    kind: str = "probabilities"
    origin: float | None = None

    def __post_init__(self) -> None:
        self._check_zero()
        if self.origin is not None:
            check_field(self, "origin")
        check_field(self, "inverse_temperature", low=0.0)
        check_field(self, "scale", low=0.0, high=1e300)
        check_field(self, "bound", low=0.0, high=1.0)
        self._check_coef()
        reach = -self.scale * self.zero_logit
        ensure(reach <= LARGEST_PRODUCT, "scale times zero_logit overflows")
        if self.bound == 0:  # else the logarithms are bounded, whatever the scale is
            largest = max(1.0, float(np.abs(self.coef).max())) * len(self.intercept)
            ensure(largest * reach <= LARGEST_PRODUCT, "coef times scale overflows")

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        logits = self._logits(rows, self.zero_logit)
        if self.kind == "logits":  # as at fit: the scale times a large logit would overflow
            logits -= logits.max(axis=1, keepdims=True)
        x, own = bounded_features(self.scale * logits, self.bound, self.origin), self.coef
        mapped = np.zeros(x.shape)
        if own.ndim == 2:
            nothing = np.zeros(self.intercept.shape)
            affine_rows(x, self._transposed, nothing, mapped)
            own = nothing
        map_logits(logits, x, self.inverse_temperature, own, self.intercept, mapped)
        scaled_softmax(mapped, 1.0, mapped)
        return mapped


def bounded_features(logits: Floats, bound: float, origin: float | None) -> Floats:
    """Return log(softmax + bound) of each row, less its mean, or less ``origin``."""
    if origin is None:
        out = np.empty(logits.shape)
        bounded_logs(logits, bound, out)
        return out
    out = log_probabilities(logits.copy(), "logits")
    return (np.log(np.exp(out) + bound) if bound > 0.0 else out) - origin


@frozen
class SplineMap(LogitMap):
    """softmax(theta(log p)) with an increasing, piecewise linear theta.

    Its slope is ``slopes[0]`` below the first of the ``knots`` and ``slopes[-1]`` above the last.
    """

    knots: Floats
    slopes: Floats
    zero_logit: float
    kind: str = "probabilities"

    keeps_order = same_for_all_classes = True

    def __post_init__(self) -> None:
        self._check_zero()
        freeze(self, "knots", "slopes")
        knots, slopes = self.knots, self.slopes
        n_knots = len(knots) if knots.ndim == 1 else 0
        ensure(1 <= n_knots <= MAX_KNOTS, f"knots has shape {knots.shape}; at most {MAX_KNOTS}")
        one_more = slopes.shape == (n_knots + 1,)
        ensure(one_more, f"slopes has shape {slopes.shape}, not one more than {n_knots} knots")
        check_array(self, "knots", [knots.shape])
        ensure(np.all(np.diff(knots) > 0), "knots must increase")
        inside = slopes.min() >= 0 and slopes.max() <= 1e303
        ensure(inside, f"slopes are in [{slopes.min()}, {slopes.max()}], outside [0, 1e303]")
        # Predictions that do not differ give slopes up to 1e303, so the product counts.
        reach = float(np.abs(knots).max()) - self.zero_logit
        ensure(float(slopes.max()) * reach <= LARGEST_PRODUCT, "slopes times knots overflow")

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        logs = log_probabilities(self._logits(rows, self.zero_logit), self.kind)
        spline_softmax(logs, self.knots, self.slopes, logs)
        return logs


def log_probabilities(logits: Floats, kind: str) -> Floats:
    """Turn finite logits of scores of some kind into log-probabilities, in place."""
    if kind == "logits":
        logits -= logits.max(axis=1, keepdims=True)
        logits += np.log(softmax(logits).max(axis=1, keepdims=True))  # of 1 over the sum
    return logits


@frozen
class PriorMap(CalibrationMap):
    """p_c ratio_c, divided by the sum of the row: exact zeros stay.

    A row that only has classes of ratio 0 becomes the ratios, divided by their sum: the limit of
    rows with equal small probabilities of the other classes.
    """

    ratio: Floats
    kind: str = "probabilities"

    changes_shares = True

    def __post_init__(self) -> None:
        self._check_kind()
        freeze(self, "ratio")
        check_array(self, "ratio", [(self.ratio.size,)], low=0.0)
        positive = self.ratio[self.ratio > 0.0]
        ensure(positive.size, "ratio is 0 for every class")
        smallest = float(positive.min())
        ensure(smallest >= 1.0 / LARGEST, f"ratio has the entry {smallest}, below {1.0 / LARGEST}")

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        """Whether nothing is shifted."""
        return bool(np.ptp(self.ratio) == 0.0)

    same_for_all_classes = keeps_order

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.ratio)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        if self.keeps_order:  # no bit changes
            return rows
        out = rows * self.ratio
        # Classes that never come keep no probability, also where a row has no other class.
        out[~out.any(axis=1)] = self.ratio
        divide_by_sums(out, rows)
        return out
