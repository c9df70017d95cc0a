"""What each kind of map does, as a formula: one function for each type, found by the type."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import errors
from calibrant._kernels.tables import TIED
from calibrant._maps.cells import ClasswiseCurves, RankedSteps, SharedSteps, TopLabelMap
from calibrant._maps.compositions import ChainMap, GroupedMap, MixtureMap, Stage
from calibrant._maps.logits import (
    AffineMap,
    DirichletMap,
    LogitMap,
    SplineMap,
    StructuredMap,
    TemperatureMap,
)
from calibrant._maps.priors import PriorMap
from calibrant.export._block_search import find_blocks, lowered
from calibrant.export._formula_parts import (
    write_curves,
    write_division,
    write_log_softmax,
    write_scaled_softmax,
    write_softmax,
)
from calibrant.export._operations import Operations, Value

if TYPE_CHECKING:
    from calibrant._maps.base import CalibrationMap, Floats


class Context(NamedTuple):
    """Where in a graph a map stands."""

    computed: bool = False  # whether its rows are computed, and so subject to rounding
    inner: bool = False  # whether another map follows, for which the last bits count


@singledispatch
def write_map(found: CalibrationMap, ops: Operations, rows: Value, at: Context) -> Value:  # noqa: ARG001
    """Write the formula of a map, for a graph in another runtime.

    Register a function for a type of map to have it exported: ``@write_map.register``.

    Parameters
    ----------
    found : CalibrationMap
        Map; its type selects the formula.
    ops : Operations
        Operations of the graph.
    rows : Value
        Checked rows, of the kind that the map takes.
    at : Context
        Context of the map in the graph.

    Returns
    -------
    rows : Value
        Probabilities, before any floor.

    Examples
    --------
    >>> from calibrant.export import write_map
    >>> from calibrant._maps import TemperatureMap
    >>> class Halved(TemperatureMap):
    ...     pass
    >>> @write_map.register
    ... def write_halved(found: Halved, ops, rows, at):
    ...     return write_map.dispatch(TemperatureMap)(found, ops, rows, at)
    >>> write_map.dispatch(Halved) is write_halved
    True
    """
    raise errors.ExportError(
        f"{type(found).__name__} cannot be exported: it has no formula; export a calibrator of "
        "this package, or register a function for the type of the map with "
        "calibrant.export.write_map"
    )


@write_map.register
def _(found: GroupedMap, ops: Operations, rows: Value, at: Context) -> Value:  # noqa: ARG001
    raise errors.ExportError(
        f"a graph cannot choose one of {len(found.stages) - 1} maps by the group of a row; export "
        "the calibrator of each group, for_group(name), and for_group(None) for all other rows"
    )


def write_lift(
    ops: Operations, rows: Value, floor: float, nan_mask: Value = None, *, sums_to_one: bool
) -> Value:
    """Write down ``lift``, and add ``nan_mask``: 0, or NaN for rows that mean nothing."""
    if sums_to_one and floor > 0:
        low = ops.row_min(rows) < floor
        base = ops.where(low, floor, 0.0)
        rows = rows * ops.where(low, 1.0 - ops.n_classes * floor, 1.0)
        return rows + (base if nan_mask is None else base + nan_mask)
    if floor > 0:
        rows = ops.maximum(rows, floor)
    return rows if nan_mask is None else rows + nan_mask


def _probabilities(
    found: CalibrationMap, ops: Operations, rows: Value, at: Context
) -> tuple[Value, bool]:
    """Write down the rows on the simplex; also say whether they are subject to rounding."""
    if found.kind == "probabilities":
        return rows, at.computed
    return write_softmax(ops, rows), True


def _logits(found: LogitMap, ops: Operations, rows: Value) -> Value:
    if found.kind == "probabilities":
        return _logs(ops, rows, found.zero_logit)
    return ops.maximum(rows, ops.row_max(rows) + found.zero_logit)


def _logs(ops: Operations, rows: Value, zero_logit: float) -> Value:
    """Write down the logarithms of probabilities, that of zero bounded."""
    smallest = math.exp(zero_logit)
    if smallest >= np.finfo(np.float32 if ops.pairs else np.float64).tiny:
        return ops.log(ops.maximum(rows, smallest))
    # Its logarithm is no longer zero_logit. No infinity in between: derivatives stay numbers.
    positive = rows > smallest
    return ops.where(positive, ops.log(ops.where(positive, rows, 1.0)), zero_logit)


def _product(ops: Operations, x: Value, coef: Floats) -> Value:
    """Write down the product with a diagonal (1-D) or a full (2-D) matrix."""
    if coef.ndim == 1:
        return x * ops.fitted("coef", coef)
    return ops.matmul(x, ops.fitted("coef", np.ascontiguousarray(coef.T)))


@write_map.register
def _(found: TemperatureMap, ops: Operations, rows: Value, at: Context) -> Value:
    factor = ops.fitted("inverse_temperature", found.inverse_temperature)
    return write_scaled_softmax(ops, _logits(found, ops, rows), factor, inner=at.inner)


@write_map.register
def _(found: AffineMap, ops: Operations, rows: Value, at: Context) -> Value:
    if isinstance(found, DirichletMap) and found.kind == "logits":
        rows = write_log_softmax(ops, rows)
    mapped = _product(ops, _logits(found, ops, rows), found.coef)
    mapped = mapped + ops.fitted("intercept", found.intercept)
    return write_scaled_softmax(ops, mapped, 1.0, inner=at.inner)


@write_map.register
def _(found: StructuredMap, ops: Operations, rows: Value, at: Context) -> Value:
    logits = _logits(found, ops, rows)
    logits = logits - ops.row_max(logits)
    x = logits * ops.fitted("scale", found.scale)
    if found.bound > 0:
        scaled = write_softmax(ops, x) if at.inner and ops.pairs else ops.softmax(x)
        x = ops.log(scaled + ops.fitted("bound", found.bound))
    elif found.origin is not None:
        x = write_log_softmax(ops, x)
    centre = found.origin
    x = x - (ops.row_sum(x) / float(ops.n_classes) if centre is None else centre)
    factor = ops.fitted("inverse_temperature", found.inverse_temperature)
    mapped = logits * factor + _product(ops, x, found.coef)
    mapped = mapped + ops.fitted("intercept", found.intercept)
    return write_scaled_softmax(ops, mapped, 1.0, inner=at.inner)


@write_map.register
def _(found: SplineMap, ops: Operations, rows: Value, at: Context) -> Value:
    logs = _logits(found, ops, rows)
    if found.kind == "logits":
        logs = write_log_softmax(ops, logs)
    knots, slopes = found.knots, found.slopes
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
    return write_softmax(ops, mapped) if at.inner else ops.softmax(mapped)


@write_map.register
def _(found: PriorMap, ops: Operations, rows: Value, at: Context) -> Value:
    rows, _ = _probabilities(found, ops, rows, at)
    ratio = ops.fitted("ratio", found.ratio)
    mapped = rows * ratio
    # A row that only has classes of ratio 0 becomes the ratios.
    mapped = ops.where(ops.row_sum(mapped) > 0.0, mapped, ratio)
    return mapped / ops.row_sum(mapped)


@write_map.register
def _(found: SharedSteps, ops: Operations, rows: Value, at: Context) -> Value:
    rows, computed = _probabilities(found, ops, rows, at)
    curves = (found.step_function,)
    mapped = write_curves(ops, rows, curves, computed=computed)
    return write_division(ops, mapped, rows, curves)


@write_map.register
def _(found: RankedSteps, ops: Operations, rows: Value, at: Context) -> Value:
    rows, computed = _probabilities(found, ops, rows, at)
    rows, columns = ops.sort(rows)
    values = _ranked_values(found, ops, ops.cumulative(rows), computed=computed)
    out = (values - ops.shift(values)) * ops.fitted("step_share", 1.0 - found.prior_share)
    if found.prior_share > 0:
        factor = ops.fitted("inverse_temperature", found.inverse_temperature)
        prior = write_scaled_softmax(ops, _logs(ops, rows, found.zero_logit), factor)
        out = out + prior * ops.fitted("prior_share", found.prior_share)
    # Ties share what they get together.
    groups = ops.cumulative(ops.whole(rows < ops.shift(rows) * TIED))
    sizes = ops.group_sums(ops.real(rows >= 0.0), groups)
    return ops.spread(ops.group_sums(out, groups) / sizes, columns)


def _ranked_values(found: RankedSteps, ops: Operations, q: Value, *, computed: bool) -> Value:
    """Write down the value at each (q, rank): 1 at the last rank."""
    step = found.step_function
    thresholds = [
        lowered(t, ops.rounding, of_sums=r > 0) if computed else t
        for r, (t, _) in enumerate(step.curve(r + 1) for r in range(step.n_ranks))
    ]
    curve_of = np.minimum(np.arange(ops.n_classes), step.n_ranks - 1)
    curve_of[-1] = step.n_ranks
    block, _ = find_blocks(ops, q, [*thresholds, np.zeros(1)], curve_of)
    return ops.take(ops.fitted("values", np.r_[0.0, step.values, 1.0]), block)


@write_map.register
def _(found: ClasswiseCurves, ops: Operations, rows: Value, at: Context) -> Value:
    rows, computed = _probabilities(found, ops, rows, at)
    curve_of = found.curve_of if len(found.curves) > 1 else None
    out = write_curves(ops, rows, found.curves, curve_of, computed=computed)
    return write_division(ops, out, rows, found.curves) if found.normalize_output else out


@write_map.register
def _(found: TopLabelMap, ops: Operations, rows: Value, at: Context) -> Value:
    rows, computed = _probabilities(found, ops, rows, at)
    top = ops.row_max(rows)
    tied = rows >= top * TIED
    n_tied = ops.row_sum(ops.real(tied))
    curve_of = np.arange(len(found.curves)) if found.per_class else None
    value = write_curves(ops, top, found.curves, curve_of, computed=computed)
    value = ops.where(tied, value, 0.0)
    if not found.normalize_output:
        return ops.where(tied, (value + (n_tied - 1.0) * top) / n_tied, rows)
    others = ops.row_sum(ops.where(tied, 0.0, rows)) + (n_tied - 1.0) * top
    left = ops.where(tied, 1.0 - value, 0.0)
    left = (ops.row_sum(left) - left) / n_tied
    some = others > 0.0
    part = ops.minimum(ops.where(tied, top, rows), others) / ops.where(some, others, 1.0)
    share = ops.where(some, part, 1.0 / (ops.n_classes - 1))
    return value / n_tied + left * share


@write_map.register
def _(found: Stage, ops: Operations, rows: Value, at: Context) -> Value:
    out = write_map(found.map, ops, rows, at)
    return write_lift(ops, out, found.floor, sums_to_one=found.sums_to_one)


@write_map.register
def _(found: ChainMap, ops: Operations, rows: Value, at: Context) -> Value:
    for i, stage in enumerate(found.stages):
        with ops.inside(f"stage_{i}"):
            last = i == len(found.stages) - 1
            here = Context(at.computed or i > 0, at.inner or not last)
            rows = write_map(stage, ops, rows, here)
    return rows


@write_map.register
def _(found: MixtureMap, ops: Operations, rows: Value, at: Context) -> Value:
    out: Value = None
    done: dict[int, Value] = {}
    followed = {id(first) for _, first, later in found.paths if later}
    for i, (weight, first, later) in enumerate(found.paths):
        if weight == 0:
            continue
        with ops.inside(f"map_{i}"):
            if id(first) not in done:
                here = at._replace(inner=at.inner or id(first) in followed)
                done[id(first)] = write_map(first, ops, rows, here)
            part = done[id(first)]
            if later:
                with ops.inside("later"):
                    part = write_map(ChainMap(later), ops, part, at._replace(computed=True))
            part = part * ops.fitted("weight", weight)
        out = part if out is None else out + part
    return out
