"""Formulas of maps: one function for each type of map."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from calibrant import errors
from calibrant._kernels.tables import TIED
from calibrant._maps.base import ChainMap, GroupedMap, MixtureMap, Stage
from calibrant._maps.curves import ClasswiseCurves
from calibrant._maps.features import FeatureMap
from calibrant._maps.logits import (
    AffineMap,
    DirichletMap,
    LogitMap,
    PriorMap,
    SplineMap,
    StructuredMap,
    TemperatureMap,
)
from calibrant._maps.steps import RankedSteps, SharedSteps
from calibrant.export._formula_parts import (
    Operations,
    Value,
    find_blocks,
    refuse_single,
    write_curves,
    write_division,
    write_log_softmax,
    write_scaled_softmax,
    write_softmax,
)

if TYPE_CHECKING:
    from calibrant._maps.base import CalibrationMap
    from calibrant._types import Floats


@singledispatch
def write_map(map_: CalibrationMap, ops: Operations, rows: Value) -> Value:  # noqa: ARG001
    """Write down the probabilities that a map makes of checked rows, before any floor."""
    raise errors.ExportError(
        f"{type(map_).__name__} cannot be exported: it has no formula; export a calibrator of "
        "this package"
    )


@write_map.register
def _(map_: GroupedMap, ops: Operations, rows: Value) -> Value:  # noqa: ARG001
    raise errors.ExportError(
        f"a graph cannot choose one of {len(map_.stages) - 1} maps by the group of a row; export "
        "the calibrator of each group, for_group(name), and for_group(None) for all other rows"
    )


@write_map.register
def _(map_: FeatureMap, ops: Operations, rows: Value) -> Value:  # noqa: ARG001
    raise errors.ExportError(
        "FeatureCalibrator reads features, which a graph of scores does not have; export "
        "calibrator_, the calibrator of the scores alone, or predict with the model file"
    )


def write_lift(ops: Operations, rows: Value, floor: float, *, sums_to_one: bool) -> Value:
    """Write down ``lift``."""
    if floor > 0 and not sums_to_one:
        return ops.maximum(rows, floor)
    if floor > 0:
        low = ops.row_min(rows) < floor
        rows = rows * ops.where(low, 1.0 - ops.n_classes * floor, 1.0)
        return rows + ops.where(low, floor, 0.0)
    return rows


def _probabilities(map_: CalibrationMap, ops: Operations, rows: Value) -> Value:
    """Write down the rows on the simplex."""
    return rows if map_.kind == "probabilities" else write_softmax(ops, rows)


def _logits(map_: LogitMap, ops: Operations, rows: Value) -> Value:
    if map_.kind == "probabilities":
        return _logs(ops, rows, map_.zero_logit)
    return ops.maximum(rows, ops.row_max(rows) + map_.zero_logit)


def _logs(ops: Operations, rows: Value, zero_logit: float) -> Value:
    """Write down the logarithms of probabilities, that of zero bounded."""
    smallest = math.exp(zero_logit)
    if smallest >= ops.smallest:
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
def _(map_: TemperatureMap, ops: Operations, rows: Value) -> Value:
    factor = ops.fitted("inverse_temperature", map_.inverse_temperature)
    return write_scaled_softmax(ops, _logits(map_, ops, rows), factor)


@write_map.register
def _(map_: AffineMap, ops: Operations, rows: Value) -> Value:
    if isinstance(map_, DirichletMap) and map_.kind == "logits":
        rows = write_log_softmax(ops, rows)
    mapped = _product(ops, _logits(map_, ops, rows), map_.coef)
    mapped = mapped + ops.fitted("intercept", map_.intercept)
    return write_scaled_softmax(ops, mapped, 1.0)


@write_map.register
def _(map_: StructuredMap, ops: Operations, rows: Value) -> Value:
    logits = _logits(map_, ops, rows)
    logits = logits - ops.row_max(logits)
    x = logits * ops.fitted("scale", map_.scale)
    if map_.bound > 0:
        x = ops.log(ops.softmax(x) + ops.fitted("bound", max(map_.bound, ops.smallest)))
    elif map_.origin is not None:
        x = write_log_softmax(ops, x)
    centre = map_.origin
    x = x - (ops.row_sum(x) / float(ops.n_classes) if centre is None else centre)
    factor = ops.fitted("inverse_temperature", map_.inverse_temperature)
    mapped = logits * factor + _product(ops, x, map_.coef)
    mapped = mapped + ops.fitted("intercept", map_.intercept)
    return write_scaled_softmax(ops, mapped, 1.0)


@write_map.register
def _(map_: SplineMap, ops: Operations, rows: Value) -> Value:
    logs = _logits(map_, ops, rows)
    if map_.kind == "logits":
        logs = write_log_softmax(ops, logs)
    knots, slopes = map_.knots, map_.slopes
    # The first segment of all lies below the first knot.
    origins = np.r_[knots[0], knots]
    segment, _ = find_blocks(ops, logs, [origins])
    heights = np.r_[0.0, 0.0, np.cumsum(slopes[1:-1] * np.diff(knots))]
    slope, start, height = (
        ops.take(ops.fitted(name, np.r_[0.0, table]), segment)  # segments count from 1
        for name, table in (("slopes", slopes), ("origins", origins), ("heights", heights))
    )
    mapped = height + slope * (logs - start)
    return write_softmax(ops, mapped)


@write_map.register
def _(map_: PriorMap, ops: Operations, rows: Value) -> Value:
    rows = _probabilities(map_, ops, rows)
    ratio = ops.fitted("ratio", map_.ratio)
    mapped = rows * ratio
    # A row that only has classes of ratio 0 becomes the ratios.
    mapped = ops.where(ops.row_sum(mapped) > 0.0, mapped, ratio)
    return mapped / ops.row_sum(mapped)


@write_map.register
def _(map_: SharedSteps, ops: Operations, rows: Value) -> Value:
    rows = _probabilities(map_, ops, rows)
    mapped = write_curves(ops, rows, (map_.step_function,))
    return write_division(ops, mapped, rows)


@write_map.register
def _(map_: RankedSteps, ops: Operations, rows: Value) -> Value:
    refuse_single(ops, "steps")
    rows, columns = ops.sort(_probabilities(map_, ops, rows))
    # The curve of a column is that of its rank; at the last rank, the sum of all is 1.
    step = map_.step_function
    curve_of = np.minimum(np.arange(ops.n_classes), step.n_ranks - 1)
    curve_of[-1] = step.n_ranks
    thresholds = [*(step.curve(r + 1)[0] for r in range(step.n_ranks)), np.zeros(1)]
    block, _ = find_blocks(ops, ops.cumulative(rows), thresholds, curve_of)
    values = ops.take(ops.fitted("values", np.r_[0.0, step.values, 1.0]), block)
    out = (values - ops.shift(values)) * ops.fitted("step_share", 1.0 - map_.prior_share)
    if map_.prior_share > 0:
        factor = ops.fitted("inverse_temperature", map_.inverse_temperature)
        prior = write_scaled_softmax(ops, _logs(ops, rows, map_.zero_logit), factor)
        out = out + prior * ops.fitted("prior_share", map_.prior_share)
    # Ties share what they get together.
    groups = ops.cumulative(ops.whole(rows < ops.shift(rows) * TIED))
    sizes = ops.group_sums(ops.real(rows >= 0.0), groups)
    return ops.spread(ops.group_sums(out, groups) / sizes, columns)


@write_map.register
def _(map_: ClasswiseCurves, ops: Operations, rows: Value) -> Value:
    rows = _probabilities(map_, ops, rows)
    curve_of = map_.curve_of if len(map_.curves) > 1 else None
    out = write_curves(ops, rows, map_.curves, curve_of)
    return write_division(ops, out, rows) if map_.normalize_output else out


@write_map.register
def _(map_: Stage, ops: Operations, rows: Value) -> Value:
    out = write_map(map_.map, ops, rows)
    return write_lift(ops, out, map_.floor, sums_to_one=map_.sums_to_one)


@write_map.register
def _(map_: ChainMap, ops: Operations, rows: Value) -> Value:
    for i, stage in enumerate(map_.stages):
        with ops.inside(f"stage_{i}"):
            rows = write_map(stage, ops, rows)
    return rows


@write_map.register
def _(map_: MixtureMap, ops: Operations, rows: Value) -> Value:
    total: Value = None
    done: dict[int, Value] = {}
    for i, (weight, first, later) in enumerate(map_.paths):
        if weight == 0:
            continue
        with ops.inside(f"map_{i}"):
            if id(first) not in done:
                done[id(first)] = write_map(first, ops, rows)
            part = done[id(first)]
            if later:
                with ops.inside("later"):
                    part = write_map(ChainMap(later), ops, part)
            part = part * ops.fitted("weight", weight)
        total = part if total is None else total + part
    return total
