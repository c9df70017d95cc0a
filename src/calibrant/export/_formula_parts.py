"""Parts of formulas: softmax with the sums of the kernels, and curves of all classes at once.

A probability near 1 is 1 / (1 + s): with the same sum it has the same bits, whatever computes the
exponentials, since an error of theirs is one of s alone.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._maps.curves import FARTHEST_LOG_ODDS, BoundedLogs, Curve, LogOddsCurve, Terms
from calibrant._maps.steps import Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._types import Floats, Wholes


Value = Any
"""A matrix of rows, a column of one number a row, or a constant: what operations take and return.

Values have the operators ``+ - * /`` and ``> >= < <= == & |``, with each other and with numbers,
which broadcast as numpy's do. Real values have 64 bits, unless the graph ``is_single``.
"""


class Operations:
    """Operations on values besides their operators.

    numpy, an ONNX graph and a graph of PyTorch have these in common. A formula is made of them
    alone, once, for rows that are not known yet: nothing in it may depend on what is in a row.

    n_classes               number of classes
    is_single               whether real values have 32 bits, which are too few for steps
    smallest                smallest positive number that counts as one
    fitted(name, value)     a number or an array of the fit, which has a name there
    inside(name)            puts a name before those of all that is fitted, in a ``with`` statement
    exp(x), log(x), sigmoid(x), floor(x)
                            of each cell; what is rounded down stays a real number
    whole(x), real(x)       rounded towards zero to whole numbers, conditions are 1 and 0; and back
    softmax(x)              of each row; a cell of minus infinity becomes 0
    maximum(a, b), minimum(a, b), where(condition, a, b)
                            of two cells
    row_sum(x), row_max(x), row_min(x)
                            of each row, as a column
    cumulative(x)           sums of each row from the left, one cell after the other
    matmul(x, matrix)       rows times a matrix
    sort(x)                 each row, the largest first and ties by column; also the columns
    spread(x, columns)      undoes a sort: puts cells into the columns that they came from
    group_sums(x, groups)   for each cell the sum over its group: cells with the same number
    shift(x)                each row moved to the right by a cell; the first becomes 0
    take(table, index)      entries of a table, a constant of one dimension, by whole numbers
    """

    is_single = False
    smallest = 2.0**-1022

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.prefix: tuple[str, ...] = ()

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        before = self.prefix
        self.prefix = (*before, name)
        yield
        self.prefix = before

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


HALF = 2.0**30
"""Cells are split at this fraction of 1: sums of either part are free of rounding."""

FLAT_PIECES = Pieces(np.zeros(1), np.zeros(1), np.zeros(1))
FLAT_TERMS = Terms(0.0, 0.0, 0.0, BoundedLogs(1.0, 1.0))
FLAT_LINES = LogOddsCurve(FARTHEST_LOG_ODDS * np.array([-1.0, 1.0]), np.zeros(2), FLAT_TERMS.logs)
"""Curves of classes that have one of another kind, whose values are not used."""


def _describe(curve: Curve) -> Pieces | Terms | LogOddsCurve:
    if isinstance(curve, LogOddsCurve):
        return curve
    parts: Pieces | Terms | None = getattr(curve, "pieces", getattr(curve, "terms", None))
    if parts is None:
        raise errors.ExportError(
            f"a curve of {type(curve).__name__} cannot be exported: it has no formula"
        )
    if isinstance(parts, Pieces) and parts.slopes[0]:  # searches do not know where the first starts
        starts, values, slopes = parts
        parts = Pieces(np.r_[0.0, starts], np.r_[values[0], values], np.r_[0.0, slopes])
    return parts


def refuse_single(ops: Operations, what: str) -> None:
    """Refuse a graph in float32, in which scores near a threshold or near 1 are other scores."""
    if ops.is_single:
        raise errors.ExportError(
            f"precision='float32' is too coarse for {what}: export with precision='float64', for a "
            "runtime that has it, such as ONNX Runtime; or fit a method without steps, such as "
            "'ts', 'structured' or 'spline'"
        )


def find_blocks(
    ops: Operations,
    x: Value,
    thresholds: Sequence[Floats],
    curve_of: Wholes | None = None,
    *,
    above: float = math.inf,
) -> tuple[Value, Value]:
    """Find the block of each cell, the last whose threshold is not above it, and where blocks end.

    It is a bisection of fixed length: formulas have no binary search.

    Blocks are counted over all curves, from 1 on: block b lies between entries b - 1 and b of the
    second value, except for the first and the last of a curve, which end at ``above``, a number
    that no score reaches. ``thresholds`` are where the blocks of each curve start; what lies below
    the second is in the first, and NaN in some block. All columns have the only curve without
    ``curve_of``.
    """
    sizes = np.array([len(curve) for curve in thresholds])
    last = np.cumsum(sizes)
    first = last - sizes + 1
    ends = np.concatenate([[above], *([*curve[1:], above] for curve in thresholds)])
    edges = ops.fitted("edges", ends)

    def of_column(name: str, values: NDArray[np.generic]) -> Value:
        """Give what belongs to the curve of a column."""
        return values[0].item() if curve_of is None else ops.fitted(name, values[curve_of])

    # The first step asks about one edge of each curve, which needs no table.
    step = 1 << max(0, int(sizes.max() - 1).bit_length() - 1)
    middle = of_column("middle", ends[np.minimum(first + step - 1, last)])
    block = ops.whole(x >= middle) * step + of_column("first_block", first)
    end = of_column("last_block", last)
    while step > 1:
        step //= 2
        probe = ops.minimum(block + (step - 1), end)
        block = block + ops.whole(x >= ops.take(edges, probe)) * step
    return block, edges


def write_curves(
    ops: Operations, x: Value, curves: Sequence[Curve], curve_of: Wholes | None = None
) -> Value:
    """Write down the value of the curve of each column, or of the only one without ``curve_of``.

    Most methods have curves of one kind; but classes without a label keep their probabilities,
    which is a line, whatever the curves of others are.
    """
    parts: list[object] = [_describe(curve) for curve in curves]
    result: Value = None
    for name, (flat, write) in _WRITERS.items():
        is_own = np.array([isinstance(part, type(flat)) for part in parts])
        if is_own.all():
            return write(ops, x, parts, curve_of)
        if not is_own.any():
            continue
        own = [part if is_one else flat for part, is_one in zip(parts, is_own, strict=True)]
        with ops.inside(name):
            values = write(ops, x, own, curve_of)
        chosen = is_own if curve_of is None else is_own[curve_of]
        is_chosen = ops.fitted(f"has_{name}", chosen)
        result = values if result is None else ops.where(is_chosen, values, result)
    return result


def _write_pieces(
    ops: Operations, x: Value, pieces: list[Pieces], curve_of: Wholes | None
) -> Value:
    refuse_single(ops, "steps")
    block, edges = find_blocks(ops, x, [one.starts for one in pieces], curve_of, above=2.0)
    values, slopes = (  # blocks count from 1
        np.concatenate([[0.0], *parts]) for parts in list(zip(*pieces, strict=True))[1:]
    )
    result = ops.take(ops.fitted("values", values), block)
    if slopes.any():
        slope = ops.take(ops.fitted("slopes", slopes), block)
        result = result + slope * (x - ops.take(edges, block - 1))
    return result


def _write_terms(ops: Operations, x: Value, terms: list[Terms], curve_of: Wholes | None) -> Value:
    a, b, c = (
        _of_curve(ops, name, numbers, curve_of)
        for name, numbers in zip("abc", np.array([one[:3] for one in terms]).T, strict=True)
    )
    log_x, log_rest = _write_logs(ops, x, _rest(ops, x), [one.logs for one in terms], curve_of)
    return ops.sigmoid(log_x * a - log_rest * b + c)


def _write_log_odds_lines(
    ops: Operations, x: Value, curves: list[LogOddsCurve], curve_of: Wholes | None
) -> Value:
    if curve_of is not None and len(curve_of) == 2:
        # What is left to one of two classes is the other's score, to the last digit.
        rest = ops.matmul(x, ops.fitted("swap", np.array([[0.0, 1.0], [1.0, 0.0]])))
    else:
        rest = _rest(ops, x)
    log_x, log_rest = _write_logs(ops, x, rest, [curve.logs for curve in curves], curve_of)
    z = log_x - log_rest
    # The first and the last line start at their inner ends: their outer ends are far away.
    origin = [np.append(curve.x[1], curve.x[1:-1]) for curve in curves]
    height = [np.append(curve.y[1], curve.y[1:-1]) for curve in curves]
    slope = [np.diff(curve.y) / np.diff(curve.x) for curve in curves]
    block, _ = find_blocks(ops, z, origin, curve_of)
    slopes, starts, heights = (
        ops.take(ops.fitted(name, np.concatenate([[0.0], *parts])), block)  # blocks count from 1
        for name, parts in (("slopes", slope), ("origins", origin), ("heights", height))
    )
    return ops.sigmoid(heights + slopes * (z - starts))


_WRITERS: dict[str, tuple[Any, Callable[..., Value]]] = {
    "pieces": (FLAT_PIECES, _write_pieces),
    "terms": (FLAT_TERMS, _write_terms),
    "lines": (FLAT_LINES, _write_log_odds_lines),
}
"""Kinds of curves, each with a flat one for classes of another kind, and its formula."""


def _of_curve(ops: Operations, name: str, numbers: Floats, curve_of: Wholes | None) -> Value:
    """Give a coefficient of each column, or of all."""
    shared = curve_of is None or (numbers == numbers[0]).all()
    return ops.fitted(name, numbers[0] if shared else numbers[curve_of])


def _rest(ops: Operations, x: Value) -> Value:
    """Write down what is left of 1."""
    refuse_single(ops, "curves of probabilities near 1")
    return 1.0 - x


def _write_logs(
    ops: Operations, x: Value, rest: Value, logs: list[BoundedLogs], curve_of: Wholes | None
) -> tuple[Value, Value]:
    """Write down log x and log(1 - x), bounded for each curve."""
    bounds = np.maximum([(one.low, one.rest) for one in logs], ops.smallest)
    least_x, least_rest = bounds.T
    log_x = ops.log(ops.maximum(x, _of_curve(ops, "low", least_x, curve_of)))
    return log_x, ops.log(ops.maximum(rest, _of_curve(ops, "rest", least_rest, curve_of)))


def write_division(ops: Operations, mapped: Value, rows: Value) -> Value:
    """Write down ``divide_by_sums`` of the values of curves."""
    total = ops.row_sum(mapped)
    empty = ops.where(total > 0.0, 0.0, 1.0)
    return (mapped + rows * empty) / (total + empty)


def write_fixed_sum(ops: Operations, x: Value, scale: Value) -> Value:
    """Write down ``invariant_sum``, to the bit: whole numbers, cells times ``scale`` rounded down.

    Their leading and their last 30 bits are added up apart, so that sums of doubles are exact in
    any order. ONNX Runtime adds up whole numbers of 64 bits as doubles, too.
    """
    scaled = x * (scale / HALF)
    high = ops.floor(scaled)
    low = ops.floor((scaled - high) * HALF)
    return (ops.row_sum(high) * HALF + ops.row_sum(low)) / scale


def write_softmax(ops: Operations, logits: Value) -> Value:
    """Write down the softmax with the sum of ``softmax_rows``."""
    powers = ops.exp(logits - ops.row_max(logits))
    total = ops.row_sum(powers)
    # The exponent of 3/4 of the sum, which is at least 1, as ``invariant_sum`` scales by it.
    bounds = 2.0 ** np.arange(math.ceil(math.log2(ops.n_classes)) + 1)
    exponent = ops.row_sum(ops.whole(0.75 * total >= ops.fitted("powers_of_two", bounds)))
    scales = ops.fitted("scales", 2.0 ** (60 - np.arange(len(bounds) + 1)))
    return powers / write_fixed_sum(ops, powers, ops.take(scales, exponent))


def write_scaled_softmax(ops: Operations, logits: Value, factor: Value) -> Value:
    """Write down softmax(factor z), as ``scaled_softmax``, of distances to the largest logit."""
    powers = ops.exp((logits - ops.row_max(logits)) * factor)
    scaled = powers * HALF
    high = ops.floor(scaled)
    # The sum of the rest is small, and so is its rounding.
    return powers / ((ops.row_sum(high) + ops.row_sum(scaled - high)) / HALF)


def write_log_softmax(ops: Operations, logits: Value) -> Value:
    """Write down the logarithm of the softmax."""
    distances = logits - ops.row_max(logits)
    return distances - ops.log(ops.row_sum(ops.exp(distances)))
