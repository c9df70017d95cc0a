"""Formulas of maps, which numpy, an ONNX graph and a graph of PyTorch carry out: one for each type.

A probability near 1 is 1 / (1 + s): with the same sum it has the same bits, whatever computes the
exponentials, since an error of theirs is one of s alone.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import singledispatch
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from calibrant import errors
from calibrant._kernels.tables import TIED
from calibrant._maps.base import ChainMap, GroupedMap, MixtureMap, Stage
from calibrant._maps.curves import (
    FARTHEST_LOG_ODDS,
    BoundedLogs,
    ClasswiseCurves,
    Curve,
    LogOddsCurve,
    Terms,
)
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
from calibrant._maps.steps import Pieces, RankedSteps, SharedSteps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from numpy.typing import ArrayLike

    from calibrant._maps.base import CalibrationMap
    from calibrant._types import Floats, Wholes


class Value(Protocol):
    """A matrix of rows, a column of one number a row, or a constant: what operations return.

    Operators broadcast as numpy's do. Real values have 64 bits, unless the graph ``is_single``.
    """

    def __add__(self, other: Self | float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __rsub__(self, other: float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __rmul__(self, other: float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __lt__(self, other: Self | float, /) -> Self: ...
    def __le__(self, other: Self | float, /) -> Self: ...
    def __gt__(self, other: Self | float, /) -> Self: ...
    def __ge__(self, other: Self | float, /) -> Self: ...
    def __and__(self, other: Self, /) -> Self: ...


V = TypeVar("V", bound=Value)


class Operations(Protocol[V]):
    """Operations on values besides their operators: what runtimes have in common.

    A formula is made of them alone, once, for rows that are not known yet: nothing in it may depend
    on what is in a row.
    """

    n_classes: int
    prefix: tuple[str, ...] = ()

    is_single: bool = False
    """Whether real values have 32 bits, which are too few for steps."""

    smallest: float = 2.0**-1022
    """The smallest positive number that counts as one."""

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Put a name before those of all that is fitted."""
        before = self.prefix
        self.prefix = (*before, name)
        yield
        self.prefix = before

    # A number or an array of the fit, which has a name there.
    def fitted(self, name: str, value: ArrayLike, /) -> V: ...

    # Of each cell; what is rounded down stays a real number.
    def exp(self, x: V, /) -> V: ...
    def log(self, x: V, /) -> V: ...
    def sigmoid(self, x: V, /) -> V: ...
    def floor(self, x: V, /) -> V: ...

    # Rounded towards zero to whole numbers, conditions to 1 and 0; and back.
    def whole(self, x: V, /) -> V: ...
    def real(self, x: V, /) -> V: ...

    # Of two cells.
    def maximum(self, a: V, b: V | float, /) -> V: ...
    def minimum(self, a: V, b: V | float, /) -> V: ...
    def where(self, condition: V, a: V | float, b: V | float, /) -> V: ...

    # Of each row, as a column.
    def row_sum(self, x: V, /) -> V: ...
    def row_max(self, x: V, /) -> V: ...
    def row_min(self, x: V, /) -> V: ...

    # Of each row: a cell of minus infinity becomes 0; sums from the left, one cell after the other.
    def softmax(self, x: V, /) -> V: ...
    def cumulative(self, x: V, /) -> V: ...
    def matmul(self, x: V, matrix: V, /) -> V: ...

    # Each row sorted, the largest cell first and ties by column, and the columns; and the inverse.
    def sort(self, x: V, /) -> tuple[V, V]: ...
    def spread(self, x: V, columns: V, /) -> V: ...

    # For each cell the sum over its group, the cells with the same number.
    def group_sums(self, x: V, groups: V, /) -> V: ...

    # Each row moved to the right by a cell; the first becomes 0.
    def shift(self, x: V, /) -> V: ...

    # Entries of a table, a constant of one dimension, by whole numbers.
    def take(self, table: V, index: V, /) -> V: ...


HALF = 2.0**30
"""Cells are split at this fraction of 1: sums of either part are free of rounding."""

FLAT_PIECES = Pieces(np.zeros(1), np.zeros(1), np.zeros(1))
FLAT_TERMS = Terms(0.0, 0.0, 0.0, BoundedLogs(1.0, 1.0))
FLAT_LINES = LogOddsCurve(FARTHEST_LOG_ODDS * np.array([-1.0, 1.0]), np.zeros(2), FLAT_TERMS.logs)
"""Curves of classes that have one of another kind, whose values are not used."""


def refuse_single(ops: Operations[V], what: str) -> None:
    """Refuse a graph in float32, in which scores near a threshold or near 1 are other scores."""
    if ops.is_single:
        raise errors.ExportError(
            f"precision='float32' is too coarse for {what}: export with precision='float64', for a "
            "runtime that has it, such as ONNX Runtime; or fit a method without steps, such as "
            "'ts', 'structured' or 'spline'"
        )


# Curves


def find_blocks(
    ops: Operations[V],
    x: V,
    thresholds: Sequence[Floats],
    curve_of: Wholes | None = None,
    *,
    above: float = math.inf,
) -> V:
    """Find the block of each cell, the last whose threshold is not above it.

    It is a bisection of fixed length: formulas have no binary search. ``thresholds`` are where the
    blocks of each curve start, which are counted over all curves, from 1 on; what lies below the
    second is in the first, and NaN in some block. ``above`` is a number that no score reaches. All
    columns have the only curve without ``curve_of``.
    """
    sizes = np.array([len(curve) for curve in thresholds])
    last = np.cumsum(sizes)
    first = last - sizes + 1
    # Block b lies between entries b - 1 and b, except for the first and the last of a curve.
    ends = np.concatenate([[above], *([*curve[1:], above] for curve in thresholds)])
    edges = ops.fitted("edges", ends)

    def of_column(name: str, values: Floats | Wholes) -> V | float:
        """Give what belongs to the curve of a column."""
        number: float = values[0].item()
        return number if curve_of is None else ops.fitted(name, values[curve_of])

    # The first step asks about one edge of each curve, which needs no table.
    step = 1 << max(0, int(sizes.max() - 1).bit_length() - 1)
    middle = of_column("middle", ends[np.minimum(first + step - 1, last)])
    block = ops.whole(x >= middle) * step + of_column("first_block", first)
    end = of_column("last_block", last)
    while step > 1:
        step //= 2
        probe = ops.minimum(block + (step - 1), end)
        block = block + ops.whole(x >= ops.take(edges, probe)) * step
    return block


def write_lines(
    ops: Operations[V],
    x: V,
    starts: Sequence[Floats],
    values: Sequence[Floats],
    slopes: Sequence[Floats],
    curve_of: Wholes | None = None,
    *,
    above: float = math.inf,
) -> V:
    """Write down curves in lines, each from its start on; blocks are those of ``find_blocks``."""
    block = find_blocks(ops, x, starts, curve_of, above=above)

    def of_block(name: str, parts: Sequence[Floats]) -> V:
        table = np.concatenate([[0.0], *parts])  # blocks count from 1
        return ops.take(ops.fitted(name, table), block)

    result = of_block("values", values)
    if any(part.any() for part in slopes):
        result = result + of_block("slopes", slopes) * (x - of_block("starts", starts))
    return result


def write_curves(
    ops: Operations[V], x: V, curves: Sequence[Curve], curve_of: Wholes | None = None
) -> V:
    """Write down the value of the curve of each column, or of the only one without ``curve_of``.

    Most methods have curves of one kind; but classes without a label keep their probabilities,
    which is a line, whatever the curves of others are.
    """
    parts: list[object] = []
    for curve in curves:
        part = getattr(curve, "pieces", getattr(curve, "terms", curve))
        if not isinstance(part, (Pieces, Terms, LogOddsCurve)):
            kind = type(curve).__name__
            raise errors.ExportError(f"a curve of {kind} cannot be exported: it has no formula")
        parts.append(part)
    writers: list[tuple[str, object, Callable[..., V]]] = [
        ("pieces", FLAT_PIECES, _write_pieces),
        ("terms", FLAT_TERMS, _write_terms),
        ("lines", FLAT_LINES, _write_log_odds_lines),
    ]
    kinds = [one for one in writers if any(isinstance(part, type(one[1])) for part in parts)]
    results = []
    for name, flat, write in kinds:
        if len(kinds) == 1:
            return write(ops, x, parts, curve_of)
        is_own = np.array([isinstance(part, type(flat)) for part in parts])
        own = [part if is_one else flat for part, is_one in zip(parts, is_own, strict=True)]
        with ops.inside(name):
            mapped = write(ops, x, own, curve_of)
        is_chosen = ops.fitted(f"has_{name}", is_own if curve_of is None else is_own[curve_of])
        results.append((is_chosen, mapped))
    result = results[0][1]
    for is_chosen, mapped in results[1:]:
        result = ops.where(is_chosen, mapped, result)
    return result


def _write_pieces(ops: Operations[V], x: V, pieces: list[Pieces], curve_of: Wholes | None) -> V:
    refuse_single(ops, "steps")
    starts, values, slopes = map(list, zip(*pieces, strict=True))
    return write_lines(ops, x, starts, values, slopes, curve_of, above=2.0)


def _write_terms(ops: Operations[V], x: V, terms: list[Terms], curve_of: Wholes | None) -> V:
    a, b, c = (
        _of_curve(ops, name, numbers, curve_of)
        for name, numbers in zip("abc", np.array([one[:3] for one in terms]).T, strict=True)
    )
    log_x, log_rest = _write_logs(ops, x, _rest(ops, x), [one.logs for one in terms], curve_of)
    return ops.sigmoid(log_x * a - log_rest * b + c)


def _write_log_odds_lines(
    ops: Operations[V], x: V, curves: list[LogOddsCurve], curve_of: Wholes | None
) -> V:
    if curve_of is not None and len(curve_of) == 2:
        # What is left to one of two classes is the other's score, to the last digit.
        rest = ops.matmul(x, ops.fitted("swap", np.array([[0.0, 1.0], [1.0, 0.0]])))
    else:
        rest = _rest(ops, x)
    log_x, log_rest = _write_logs(ops, x, rest, [curve.logs for curve in curves], curve_of)
    # The first and the last line start at their inner ends: their outer ends are far away.
    starts = [np.append(curve.x[1], curve.x[1:-1]) for curve in curves]
    values = [np.append(curve.y[1], curve.y[1:-1]) for curve in curves]
    slopes = [np.diff(curve.y) / np.diff(curve.x) for curve in curves]
    return ops.sigmoid(write_lines(ops, log_x - log_rest, starts, values, slopes, curve_of))


def _of_curve(ops: Operations[V], name: str, numbers: Floats, curve_of: Wholes | None) -> V:
    """Give a coefficient of each column, or of all."""
    shared = curve_of is None or (numbers == numbers[0]).all()
    return ops.fitted(name, numbers[0] if shared else numbers[curve_of])


def _rest(ops: Operations[V], x: V) -> V:
    """Write down what is left of 1."""
    refuse_single(ops, "curves of probabilities near 1")
    return 1.0 - x


def _write_logs(
    ops: Operations[V], x: V, rest: V, logs: list[BoundedLogs], curve_of: Wholes | None
) -> tuple[V, V]:
    """Write down log x and log(1 - x), bounded for each curve."""
    bounds = np.maximum([(one.low, one.rest) for one in logs], ops.smallest)
    least_x, least_rest = bounds.T
    log_x = ops.log(ops.maximum(x, _of_curve(ops, "low", least_x, curve_of)))
    return log_x, ops.log(ops.maximum(rest, _of_curve(ops, "rest", least_rest, curve_of)))


# Sums and softmax


def write_fixed_sum(ops: Operations[V], x: V, scale: V | float) -> V:
    """Write down ``invariant_sum``, to the bit: whole numbers, cells times ``scale`` rounded down.

    Their leading and their last 30 bits are added up apart, so that sums of doubles are exact in
    any order. ONNX Runtime adds up whole numbers of 64 bits as doubles, too.
    """
    scaled = x * (scale / HALF)
    high = ops.floor(scaled)
    low = ops.floor((scaled - high) * HALF)
    return (ops.row_sum(high) * HALF + ops.row_sum(low)) / scale


def write_softmax(ops: Operations[V], logits: V) -> V:
    """Write down the softmax with the sum of ``softmax_rows``."""
    powers = ops.exp(logits - ops.row_max(logits))
    total = ops.row_sum(powers)
    # The exponent of 3/4 of the sum, which is at least 1, as ``invariant_sum`` scales by it.
    bounds = 2.0 ** np.arange(math.ceil(math.log2(ops.n_classes)) + 1)
    exponent = ops.row_sum(ops.whole(0.75 * total >= ops.fitted("powers_of_two", bounds)))
    scales = ops.fitted("scales", 2.0 ** (60 - np.arange(len(bounds) + 1)))
    return powers / write_fixed_sum(ops, powers, ops.take(scales, exponent))


def write_scaled_softmax(ops: Operations[V], logits: V, factor: V | float) -> V:
    """Write down softmax(factor z), as ``scaled_softmax``, of distances to the largest logit."""
    powers = ops.exp((logits - ops.row_max(logits)) * factor)
    scaled = powers * HALF
    high = ops.floor(scaled)
    # The sum of the rest is small, and so is its rounding.
    return powers / ((ops.row_sum(high) + ops.row_sum(scaled - high)) / HALF)


def write_log_softmax(ops: Operations[V], logits: V) -> V:
    """Write down the logarithm of the softmax."""
    distances = logits - ops.row_max(logits)
    return distances - ops.log(ops.row_sum(ops.exp(distances)))


# Maps


NO_FORMULA: dict[type[CalibrationMap], str] = {
    GroupedMap: "a graph cannot choose a map by the group of a row; export the calibrator of each "
    "group, for_group(name), and for_group(None) for all other rows",
    FeatureMap: "FeatureCalibrator reads features, which a graph of scores does not have; export "
    "calibrator_, the calibrator of the scores alone, or predict with the model file",
}
"""Why a map cannot be exported, and what to do instead."""


@singledispatch
def write_map(map_: CalibrationMap, ops: Operations[V], rows: V) -> V:  # noqa: ARG001
    """Write down the probabilities that a map makes of checked rows, before any floor."""
    message = (
        f"{type(map_).__name__} cannot be exported: it has no formula; export a calibrator of "
    )
    raise errors.ExportError(NO_FORMULA.get(type(map_), f"{message}this package"))


def write_lift(ops: Operations[V], rows: V, floor: float, *, sums_to_one: bool) -> V:
    """Write down ``lift``."""
    if floor > 0 and not sums_to_one:
        return ops.maximum(rows, floor)
    if floor > 0:
        low = ops.row_min(rows) < floor
        rows = rows * ops.where(low, 1.0 - ops.n_classes * floor, 1.0)
        return rows + ops.where(low, floor, 0.0)
    return rows


def _probabilities(map_: CalibrationMap, ops: Operations[V], rows: V) -> V:
    """Write down the rows on the simplex."""
    return rows if map_.kind == "probabilities" else write_softmax(ops, rows)


def _logits(map_: LogitMap, ops: Operations[V], rows: V) -> V:
    if map_.kind == "probabilities":
        return _logs(ops, rows, map_.zero_logit)
    return ops.maximum(rows, ops.row_max(rows) + map_.zero_logit)


def _logs(ops: Operations[V], rows: V, zero_logit: float) -> V:
    """Write down the logarithms of probabilities, that of zero bounded."""
    smallest = math.exp(zero_logit)
    if smallest >= ops.smallest:
        return ops.log(ops.maximum(rows, smallest))
    # Its logarithm is no longer zero_logit. No infinity in between: derivatives stay numbers.
    positive = rows > smallest
    return ops.where(positive, ops.log(ops.where(positive, rows, 1.0)), zero_logit)


def _product(ops: Operations[V], x: V, coef: Floats) -> V:
    """Write down the product with a diagonal (1-D) or a full (2-D) matrix."""
    if coef.ndim == 1:
        return x * ops.fitted("coef", coef)
    return ops.matmul(x, ops.fitted("coef", np.ascontiguousarray(coef.T)))


@write_map.register
def _(map_: TemperatureMap, ops: Operations[V], rows: V) -> V:
    factor = ops.fitted("inverse_temperature", map_.inverse_temperature)
    return write_scaled_softmax(ops, _logits(map_, ops, rows), factor)


@write_map.register
def _(map_: AffineMap, ops: Operations[V], rows: V) -> V:
    if isinstance(map_, DirichletMap) and map_.kind == "logits":
        rows = write_log_softmax(ops, rows)
    mapped = _product(ops, _logits(map_, ops, rows), map_.coef)
    mapped = mapped + ops.fitted("intercept", map_.intercept)
    return write_scaled_softmax(ops, mapped, 1.0)


@write_map.register
def _(map_: StructuredMap, ops: Operations[V], rows: V) -> V:
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
def _(map_: SplineMap, ops: Operations[V], rows: V) -> V:
    logs = _logits(map_, ops, rows)
    if map_.kind == "logits":
        logs = write_log_softmax(ops, logs)
    knots, slopes = map_.knots, map_.slopes
    # The first line of all lies below the first knot.
    starts = np.r_[knots[0], knots]
    values = np.r_[0.0, 0.0, np.cumsum(slopes[1:-1] * np.diff(knots))]
    return write_softmax(ops, write_lines(ops, logs, [starts], [values], [slopes]))


@write_map.register
def _(map_: PriorMap, ops: Operations[V], rows: V) -> V:
    rows = _probabilities(map_, ops, rows)
    ratio = ops.fitted("ratio", map_.ratio)
    mapped = rows * ratio
    # A row that only has classes of ratio 0 becomes the ratios.
    mapped = ops.where(ops.row_sum(mapped) > 0.0, mapped, ratio)
    return mapped / ops.row_sum(mapped)


def _divide(ops: Operations[V], mapped: V, rows: V) -> V:
    """Write down ``divide_by_sums`` of the values of curves."""
    total = ops.row_sum(mapped)
    empty = ops.where(total > 0.0, 0.0, 1.0)
    return (mapped + rows * empty) / (total + empty)


@write_map.register
def _(map_: SharedSteps, ops: Operations[V], rows: V) -> V:
    rows = _probabilities(map_, ops, rows)
    return _divide(ops, write_curves(ops, rows, (map_.step_function,)), rows)


@write_map.register
def _(map_: RankedSteps, ops: Operations[V], rows: V) -> V:
    refuse_single(ops, "steps")
    rows, columns = ops.sort(_probabilities(map_, ops, rows))
    # The curve of a column is that of its rank; at the last rank, the sum of all is 1.
    step = map_.step_function
    curve_of = np.minimum(np.arange(ops.n_classes), step.n_ranks - 1)
    curve_of[-1] = step.n_ranks
    thresholds = [*(step.curve(r + 1)[0] for r in range(step.n_ranks)), np.zeros(1)]
    heights, none = [step.values, np.ones(1)], [np.zeros(1)]
    values = write_lines(ops, ops.cumulative(rows), thresholds, heights, none, curve_of)
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
def _(map_: ClasswiseCurves, ops: Operations[V], rows: V) -> V:
    rows = _probabilities(map_, ops, rows)
    curve_of = map_.curve_of if len(map_.curves) > 1 else None
    out = write_curves(ops, rows, map_.curves, curve_of)
    return _divide(ops, out, rows) if map_.normalize_output else out


@write_map.register
def _(map_: Stage, ops: Operations[V], rows: V) -> V:
    out = write_map(map_.map, ops, rows)
    return write_lift(ops, out, map_.floor, sums_to_one=map_.sums_to_one)


@write_map.register
def _(map_: ChainMap, ops: Operations[V], rows: V) -> V:
    for i, stage in enumerate(map_.stages):
        with ops.inside(f"stage_{i}"):
            rows = write_map(stage, ops, rows)
    return rows


@write_map.register
def _(map_: MixtureMap, ops: Operations[V], rows: V) -> V:
    parts: list[V] = []
    done: dict[int, V] = {}
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
        parts.append(part)
    return sum(parts[1:], parts[0])
