"""Curves of classes as formulas: all classes at once, of two families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant import errors
from calibrant.maps.base import Floats, Wholes
from calibrant.maps.blocks import find_blocks, lowered
from calibrant.maps.curves import AveragedHistogram, BetaMap, Curve, PiecewiseLinear, Sigmoid
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
    is_pieces = np.array([isinstance(one, Pieces) for one in found])
    out: Value = None
    if is_pieces.any():
        pieces = [one if isinstance(one, Pieces) else NO_PIECES for one in found]
        out = _write_pieces(ops, x, pieces, curve_of, computed=computed)
    if not is_pieces.all():
        terms = [one if isinstance(one, Terms) else NO_TERMS for one in found]
        smooth = _write_terms(ops, x, terms, curve_of)
        if out is None:
            return smooth
        chosen = is_pieces if curve_of is None else is_pieces[curve_of]
        out = ops.where(ops.fitted("is_step", chosen), out, smooth)
    return out


def _write_pieces(
    ops: Operations,
    x: Value,
    pieces: list[Pieces],
    curve_of: Wholes | None,
    *,
    computed: bool,
) -> Value:
    thresholds = [one.thresholds for one in pieces]
    starts = np.concatenate(thresholds)
    if computed:
        thresholds = [lowered(t) for t in thresholds]
    block = find_blocks(ops, x, thresholds, curve_of)
    values, slopes = (np.concatenate(parts) for parts in list(zip(*pieces, strict=True))[1:])
    out = ops.take(ops.fitted("values", values), block)
    if slopes.any():
        slope = ops.take(ops.fitted("slopes", slopes), block)
        out = out + slope * (x - ops.take(ops.fitted("thresholds", starts), block))
    return out


def _write_terms(ops: Operations, x: Value, terms: list[Terms], curve_of: Wholes | None) -> Value:
    def of_curve(name: str) -> Value:
        """Give a coefficient of each column."""
        numbers = np.array([getattr(one, name) for one in terms])
        return ops.fitted(name, numbers[0] if curve_of is None else numbers[curve_of])

    log_x = ops.log(ops.maximum(x, of_curve("low")))
    log_rest = ops.log(ops.maximum(1.0 - x, of_curve("rest")))
    return ops.sigmoid(of_curve("a") * log_x - of_curve("b") * log_rest + of_curve("c"))


def write_division(ops: Operations, mapped: Value, rows: Value, lowest: float) -> Value:
    """Write down ``divide_by_sums``, of values that are at least ``lowest``."""
    total = ops.row_sum(mapped)
    if lowest > 0:
        return mapped / total
    some = total > 0.0
    return ops.where(some, mapped / ops.where(some, total, 1.0), rows)


def lowest_of(curves: Sequence[Curve]) -> float:
    """Give a number that no value of the curves is below; 0 if they may vanish."""
    found = [_describe(curve) for curve in curves]
    return min(float(one.values.min()) if isinstance(one, Pieces) else 0.0 for one in found)
