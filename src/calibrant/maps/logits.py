"""Softmax of a function of the logits: temperature, affine, structured, spline."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_softmax

from calibrant.kernels.monotone_spline import log_softmax_rows, spline_softmax
from calibrant.kernels.rows import bounded_logs
from calibrant.kernels.softmax import affine_rows, map_logits, scaled_softmax, vector_softmax
from calibrant.maps.base import (
    DEEPEST_LOGIT,
    LARGEST_PRODUCT,
    CalibrationMap,
    Floats,
    check_array,
    check_number,
    frozen,
    hold,
    require,
)
from calibrant.maps.blocks import find_blocks
from calibrant.maps.operations import Operations, Value
from calibrant.maps.softmax_formulas import write_log_softmax, write_scaled_softmax, write_softmax

MAX_KNOTS = 1000
"""Knots of a spline, as its parameter ``n_knots`` has it."""


class LogitMap(CalibrationMap):
    """A map that reads an exact zero, which has no logarithm, as exp(zero_logit)."""

    __slots__ = ()

    zero_logit: float

    def _check_zero(self) -> None:
        self._check_kind()
        check_number(self, "zero_logit", low=DEEPEST_LOGIT, high=0.0)

    def _write_logits(self, ops: Operations, rows: Value) -> Value:
        """Write down ``_logits``."""
        if self.kind == "probabilities":
            return write_logs(ops, rows, self.zero_logit)
        return ops.maximum(rows, ops.row_max(rows) + self.zero_logit)


def write_logs(ops: Operations, rows: Value, zero_logit: float) -> Value:
    """Write down the logarithms of probabilities, that of zero bounded."""
    smallest = math.exp(zero_logit)
    if smallest >= np.finfo(np.float32 if ops.pairs else np.float64).tiny:
        return ops.log(ops.maximum(rows, smallest))
    # Its logarithm is no longer zero_logit. No infinity in between: derivatives stay numbers.
    positive = rows > smallest
    return ops.where(positive, ops.log(ops.where(positive, rows, 1.0)), zero_logit)


@frozen
class TemperatureMap(LogitMap):
    """softmax(inverse_temperature z)."""

    inverse_temperature: float
    zero_logit: float
    kind: str = "probabilities"

    keeps_order = same_for_all_classes = True

    def __post_init__(self) -> None:
        self._check_zero()
        check_number(self, "inverse_temperature", low=0.0)

    def __call__(self, rows: Floats) -> Floats:
        """Scale the rows."""
        logits = self._logits(rows, self.zero_logit)
        scaled_softmax(logits, self.inverse_temperature, logits)
        return logits

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        factor = ops.fitted("inverse_temperature", self.inverse_temperature)
        return write_scaled_softmax(ops, self._write_logits(ops, rows), factor, inner=inner)


@frozen
class AffineMap(LogitMap):
    """softmax(coef z + intercept), with a diagonal (1-D) or a full (2-D) ``coef``."""

    coef: Floats
    intercept: Floats
    zero_logit: float
    kind: str = "probabilities"

    work = 3

    def __post_init__(self) -> None:
        self._check_zero()
        hold(self, "coef", "intercept", copy=False)
        k = len(self.intercept)
        check_array(self, "coef", [(k,), (k, k)])
        check_array(self, "intercept", [(k,)])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.intercept)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        logits = self._logits(rows, self.zero_logit)
        if self.coef.ndim == 1:
            vector_softmax(logits, self.coef, self.intercept, logits)
            return logits
        mapped = np.empty_like(logits)
        affine_rows(logits, np.ascontiguousarray(self.coef.T), self.intercept, mapped)
        scaled_softmax(mapped, 1.0, mapped)
        return mapped

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        logits = self._write_logits(ops, rows)
        mapped = write_product(ops, logits, self.coef) + ops.fitted("intercept", self.intercept)
        return write_scaled_softmax(ops, mapped, 1.0, inner=inner)


@frozen
class DirichletMap(AffineMap):
    """An affine map of log-probabilities: logits are shifted until their softmax needs no sum."""

    def _logits(self, rows: Floats, zero_logit: float) -> Floats:
        shifted = log_softmax(rows, axis=1) if self.kind == "logits" else rows
        return AffineMap._logits(self, shifted, zero_logit)  # noqa: SLF001  (slots: no super())

    def _write_logits(self, ops: Operations, rows: Value) -> Value:
        shifted = write_log_softmax(ops, rows) if self.kind == "logits" else rows
        return AffineMap._write_logits(self, ops, shifted)  # noqa: SLF001


@frozen
class StructuredMap(LogitMap):
    """softmax(inverse_temperature z + coef x + intercept).

    x = log(softmax(scale z) + bound), less its mean over the row; ``coef`` is a vector, one for
    each class, or a matrix.
    """

    inverse_temperature: float
    coef: Floats
    intercept: Floats
    scale: float
    bound: float
    zero_logit: float
    kind: str = "probabilities"

    work = 4

    def __post_init__(self) -> None:
        self._check_zero()
        check_number(self, "inverse_temperature", low=0.0)
        check_number(self, "scale", low=0.0, high=1e300)
        check_number(self, "bound", low=0.0, high=1.0)
        hold(self, "coef", "intercept", copy=False)
        k = len(self.intercept)
        check_array(self, "coef", [(k,), (k, k)])
        check_array(self, "intercept", [(k,)])
        reach = -self.scale * self.zero_logit
        require(reach <= LARGEST_PRODUCT, "scale times zero_logit overflows")
        if self.bound == 0:  # else the logarithms are bounded, whatever the scale is
            largest = max(1.0, float(np.abs(self.coef).max())) * k
            require(largest * reach <= LARGEST_PRODUCT, "coef times scale overflows")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.intercept)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        logits = self._logits(rows, self.zero_logit)
        if self.kind == "logits":  # as at fit: the scale times a large logit would overflow
            logits -= logits.max(axis=1, keepdims=True)
        x, own = np.empty_like(logits), self.coef
        bounded_logs(self.scale * logits, self.bound, x)
        mapped = np.zeros_like(x)
        if own.ndim == 2:
            nothing = np.zeros_like(self.intercept)
            affine_rows(x, np.ascontiguousarray(own.T), nothing, mapped)
            own = nothing
        map_logits(logits, x, self.inverse_temperature, own, self.intercept, mapped)
        scaled_softmax(mapped, 1.0, mapped)
        return mapped

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        logits = self._write_logits(ops, rows)
        logits = logits - ops.row_max(logits)
        x = logits * ops.fitted("scale", self.scale)
        if self.bound > 0:
            shares = write_softmax(ops, x) if inner and ops.pairs else ops.softmax(x)
            x = ops.log(shares + ops.fitted("bound", self.bound))
        x = x - ops.row_sum(x) / float(ops.n_classes)
        factor = ops.fitted("inverse_temperature", self.inverse_temperature)
        mapped = logits * factor + write_product(ops, x, self.coef)
        mapped = mapped + ops.fitted("intercept", self.intercept)
        return write_scaled_softmax(ops, mapped, 1.0, inner=inner)


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
    work = 5  # with a thousand knots

    def __post_init__(self) -> None:
        self._check_zero()
        hold(self, "knots", "slopes")
        knots, slopes = self.knots, self.slopes
        n_knots = len(knots) if knots.ndim == 1 else 0
        require(1 <= n_knots <= MAX_KNOTS, f"knots of shape {knots.shape}, {MAX_KNOTS} at most")
        one_more = slopes.shape == (n_knots + 1,)
        require(one_more, f"slopes of shape {slopes.shape} are not one more than {n_knots} knots")
        check_array(self, "knots", [knots.shape])
        require(np.all(np.diff(knots) > 0), "knots do not increase")
        inside = slopes.min() >= 0 and slopes.max() <= 1e303
        require(inside, f"slopes are in [{slopes.min()}, {slopes.max()}], outside [0, 1e303]")
        # Predictions that do not differ give slopes up to 1e303, so the product counts.
        reach = float(np.abs(knots).max()) - self.zero_logit
        require(float(slopes.max()) * reach <= LARGEST_PRODUCT, "slopes times knots overflow")

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        logs = log_probabilities(self._logits(rows, self.zero_logit), self.kind)
        spline_softmax(logs, self.knots, self.slopes, logs)
        return logs

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        logs = self._write_logits(ops, rows)
        if self.kind == "logits":
            logs = write_log_softmax(ops, logs)
        knots, slopes = self.knots, self.slopes
        low, width = float(knots[0]), float(knots[-1] - knots[0])
        # The first segment of all lies below the first knot.
        origins = np.r_[knots[0], knots]
        segment, _ = find_blocks(ops, logs, [origins], low=low, width=width or 1.0)
        heights = np.r_[0.0, 0.0, np.cumsum(slopes[1:-1] * np.diff(knots))]
        slope, start, height = (
            ops.take(ops.fitted(name, np.r_[0.0, table]), segment)  # segments count from 1
            for name, table in (("slopes", slopes), ("origins", origins), ("heights", heights))
        )
        mapped = height + slope * (logs - start)
        return write_softmax(ops, mapped) if inner else ops.softmax(mapped)


def write_product(ops: Operations, x: Value, coef: Floats) -> Value:
    """Write down the product with a diagonal (1-D) or a full (2-D) matrix."""
    if coef.ndim == 1:
        return x * ops.fitted("coef", coef)
    return ops.matmul(x, ops.fitted("coef", np.ascontiguousarray(coef.T)))


def log_probabilities(logits: Floats, kind: str) -> Floats:
    """Turn finite logits of scores of some kind into log-probabilities, in place."""
    if kind == "logits":
        log_softmax_rows(logits, logits)
    return logits
