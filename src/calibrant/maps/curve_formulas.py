"""Curves of classes as formulas: all classes at once, of two families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant import errors
from calibrant.maps.base import Floats, Wholes
from calibrant.maps.blocks import find_blocks, lowered
from calibrant.maps.curves import (
    IDENTITY,
    AveragedHistogram,
    BetaMap,
    Curve,
    PiecewiseLinear,
    Sigmoid,
)
from calibrant.maps.operations import Operations, Value
from calibrant.maps.steps import Histogram


class Pieces(NamedTuple):
    """``values + slopes * (x - starts)`` in the block of each threshold."""

    thresholds: Floats
    values: Floats
    slopes: Floats


class Terms(NamedTuple):
    """``sigmoid(a log max(x, low) - b log max(1 - x, rest) + c)``."""

    a: float
    b: float
    c: float
    low: float
    rest: float


NO_PIECES = Pieces(np.zeros(1), np.zeros(1), np.zeros(1))
NO_TERMS = Terms(0.0, 0.0, 0.0, 1.0, 1.0)
LEAST_TOP = 1.0 - 1e-9
"""The largest of k probabilities is at least this part of 1/k."""


def _describe(curve: Curve) -> Pieces | Terms:
    if isinstance(curve, AveragedHistogram):
        curve = curve.histogram
    if isinstance(curve, Histogram):
        return Pieces(curve.thresholds, curve.values, np.zeros_like(curve.values))
    if isinstance(curve, PiecewiseLinear):  # constant below the first x and above the last
        inner = np.diff(curve.y) / np.diff(curve.x)
        return Pieces(np.r_[0.0, curve.x], np.r_[curve.y[0], curve.y], np.r_[0.0, inner, 0.0])
    if isinstance(curve, Sigmoid):
        slope = curve.slope
        return Terms(slope, slope, curve.intercept, curve.logs.low, curve.logs.rest)
    if isinstance(curve, BetaMap):
        return Terms(curve.a, curve.b, curve.c, curve.logs.low, curve.logs.rest)
    raise errors.ExportError(
        f"a curve of {type(curve).__name__} cannot be exported: it has no formula"
    )


def write_curves(
    ops: Operations,
    x: Value,
    curves: Sequence[Curve],
    curve_of: Wholes | None = None,
    *,
    computed: bool = False,
) -> Value:
    """Write down the value of the curve of each column; all have the only one without ``curve_of``.

    ``computed`` scores are subject to rounding, and so lie on a threshold a little below it.
    """
    found = [_describe(curve) for curve in curves]
    is_smooth = np.array([isinstance(one, Terms) for one in found])
    pieces = [one if isinstance(one, Pieces) else NO_PIECES for one in found]
    if not is_smooth.any():
        return _write_pieces(ops, x, pieces, curve_of, computed=computed)
    terms = [one if isinstance(one, Terms) else NO_TERMS for one in found]
    out = _write_terms(ops, x, terms, curve_of)
    if is_smooth.all():
        return out
    # Classes that nothing is known of stay as they are, among others.
    rest = [curve for curve in curves if not isinstance(curve, Sigmoid | BetaMap)]
    others = x
    if any(curve is not IDENTITY for curve in rest):
        others = _write_pieces(ops, x, pieces, curve_of, computed=computed)
    chosen = is_smooth if curve_of is None else is_smooth[curve_of]
    return ops.where(ops.fitted("is_smooth", chosen), out, others)


def _write_pieces(
    ops: Operations,
    x: Value,
    pieces: list[Pieces],
    curve_of: Wholes | None,
    *,
    computed: bool,
) -> Value:
    thresholds = [  # where there are no jumps, rounding changes nothing
        lowered(one.thresholds, ops.rounding)
        if computed and not one.slopes.any()
        else one.thresholds
        for one in pieces
    ]
    block, edges = find_blocks(ops, x, thresholds, curve_of)
    values, slopes = (  # blocks count from 1
        np.concatenate([[0.0], *parts]) for parts in list(zip(*pieces, strict=True))[1:]
    )
    out = ops.take(ops.fitted("values", values), block)
    if slopes.any():
        slope = ops.take(ops.fitted("slopes", slopes), block)
        out = out + slope * (x - ops.take(edges, block - 1))
    return out


def _write_terms(ops: Operations, x: Value, terms: list[Terms], curve_of: Wholes | None) -> Value:
    smallest = np.finfo(np.float32).tiny if ops.pairs else 0.0  # that has a logarithm

    def of_curve(name: str) -> Value:
        """Give a coefficient of each column, or of all."""
        numbers = np.array([getattr(one, name) for one in terms])
        if name in ("low", "rest"):
            numbers = np.maximum(numbers, smallest)
        shared = curve_of is None or (numbers == numbers[0]).all()
        return ops.fitted(name, numbers[0] if shared else numbers[curve_of])

    log_x = ops.log(ops.maximum(x, of_curve("low")))
    log_rest = ops.log(ops.maximum(1.0 - x, of_curve("rest")))
    if all(one.a == one.b for one in terms):
        return ops.sigmoid((log_x - log_rest) * of_curve("a") + of_curve("c"))
    return ops.sigmoid(log_x * of_curve("a") - log_rest * of_curve("b") + of_curve("c"))


def write_division(ops: Operations, mapped: Value, rows: Value, curves: Sequence[Curve]) -> Value:
    """Write down ``divide_by_sums`` of the values of curves."""
    total = ops.row_sum(mapped)
    top = np.full(1, LEAST_TOP / ops.n_classes)
    if all(_least(curve, top) > 0 for curve in curves):  # whichever class has the largest score
        return mapped / total
    empty = ops.where(total > 0.0, 0.0, 1.0)
    return (mapped + rows * empty) / (total + empty)


def _least(curve: Curve, top: Floats) -> float:
    """Give a bound of the values of a curve at some score and above."""
    found = _describe(curve)
    if isinstance(found, Terms):
        return 0.0
    inside = np.searchsorted(found.thresholds, top[0], side="right") - 1
    return float(found.values[max(int(inside), 0) :].min())
