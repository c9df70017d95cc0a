"""Real numbers as sums of two in float32, for runtimes that compute in nothing longer.

A pair has 44 bits or more that count, of the 53 of float64. Its low part is below half a unit in the
last place of its high part. What is done with pairs is free of rounding in each step but for the
low parts (Dekker, 1971; Rump, Ogita and Oishi, 2008), and no step depends on whether a runtime
fuses multiplications and additions, since the products that count are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.export.onnx_graph import (
    CONDITION,
    SINGLE,
    WHOLE,
    OnnxOperations,
    Tensor,
    TensorProto,
    numpy_helper,
)
from calibrant.maps.operations import Rounding

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

LARGEST = 1e30
"""Numbers beyond are as this one, and minus infinity is as twice its negative: products stay
finite."""

TINY = 2.0**-126
"""What is nearer to zero is zero."""

SPLIT = 4097.0
"""A number times 2 ** 12 + 1 tells its leading 12 bits."""

ROUNDING = Rounding(2.0**-32, of_numbers=2.0**-44)
"""How far scores in pairs may be off, with room to spare."""

STEPS = 64
"""Powers of two are taken from a table of so many between 1 and 2."""

UNIT = math.log(2.0) / STEPS
UNIT_PARTS = tuple(
    math.floor(UNIT * 2.0**bits) % 2**11 / 2.0**bits
    for bits in (17, 28, 39)  # the first has 11, too
)
"""The leading bits of ``UNIT``, few at a time: products with whole numbers up to 8192 are exact."""

LOWEST_EXPONENT = -126

MATRIX_BITS = 42
"""Bits of products with a matrix."""


@dataclass(frozen=True, eq=False)
class Pair:  # noqa: PLW1641  (what an equality returns is a tensor)
    """A real value in a graph: ``high + low``, or ``high`` alone."""

    ops: PairOperations
    high: Tensor
    low: Tensor | None = None

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.high.width

    def parts(self) -> list[Tensor]:
        """List both parts, or the only one."""
        return [self.high] if self.low is None else [self.high, self.low]

    def each(self, change: Callable[[Tensor], Tensor]) -> Pair:
        """Do to both parts what keeps them parts of a number."""
        return Pair(self.ops, *map(change, self.parts()))

    def __neg__(self) -> Pair:
        return self.each(lambda part: 0.0 - part)

    def __add__(self, other: Any) -> Pair:
        return self.ops.add(self, self.ops.pair(other))

    def __sub__(self, other: Any) -> Pair:
        return self + -self.ops.pair(other)

    def __mul__(self, other: Any) -> Pair:
        return self.ops.multiply(self, self.ops.pair(other))

    def __truediv__(self, other: Any) -> Pair:
        return self.ops.divide(self, self.ops.pair(other))

    def __radd__(self, other: Any) -> Pair:
        return self + other

    def __rsub__(self, other: Any) -> Pair:
        return self.ops.pair(other) - self

    def __rmul__(self, other: Any) -> Pair:
        return self * other

    def __gt__(self, other: Any) -> Tensor:
        return self.ops.compare("Greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return self.ops.compare("GreaterOrEqual", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return self.ops.compare("Less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return self.ops.compare("LessOrEqual", self, other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return self.ops.compare("Equal", self, other)


class PairOperations(OnnxOperations):
    """Nodes of a graph that has no numbers longer than float32."""

    pairs = True

    def __init__(self, n_classes: int, opset: int) -> None:
        super().__init__(n_classes, opset)
        self.rounding = ROUNDING

    # Pairs of numbers and of tensors

    def pair(self, value: Any) -> Pair:
        """Give a pair of a value, or of a number that is no part of the fit."""
        if isinstance(value, Pair):
            return value
        if isinstance(value, Tensor):
            return Pair(self, value)
        names = (self.number(part, np.float32) for part in _split(np.asarray(value, np.float64)))
        return Pair(self, *(Tensor(self, name, SINGLE, 1) for name in names))

    def fitted(self, name: str, value: ArrayLike) -> Any:
        """Give a number or an array of the fit; real ones of 64 bits in two parts."""
        array = np.asarray(value)
        if array.dtype != np.float64:
            return super().fitted(name, array)
        ends = ("", "_low")
        found = (
            super(PairOperations, self).fitted(name + end, part)
            for end, part in zip(ends, _split(array), strict=False)
        )
        return Pair(self, *found)

    def _sum(self, a: Tensor, b: Tensor) -> Pair:
        """Add two numbers without rounding."""
        total = a + b
        b_part = total - a
        return Pair(self, total, (a - (total - b_part)) + (b - b_part))

    def _ordered_sum(self, a: Tensor, b: Tensor) -> Pair:
        """Add two numbers, the first the larger, without rounding."""
        total = a + b
        return Pair(self, total, b - (total - a))

    def _halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scaled = x * SPLIT
        leading = scaled - (scaled - x)
        return leading, x - leading

    def _product(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply two numbers without rounding."""
        (a1, a2), (b1, b2) = self._halves(a), self._halves(b)
        product = a * b
        return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2

    def add(self, a: Pair, b: Pair) -> Pair:
        """Add two pairs."""
        total = self._sum(a.high, b.high)
        rest = total.parts()[1]
        for part in (*a.parts()[1:], *b.parts()[1:]):
            rest = rest + part
        return self._ordered_sum(total.high, rest)

    def multiply(self, a: Pair, b: Pair) -> Pair:
        """Multiply two pairs."""
        product, rest = self._product(a.high, b.high)
        if a.low is not None:
            rest = rest + a.low * b.high
        if b.low is not None:
            rest = rest + a.high * b.low
        return self._ordered_sum(product, rest)

    def divide(self, a: Pair, b: Pair) -> Pair:
        """Divide two pairs."""
        quotient = a.high / b.high
        product, rest = self._product(quotient, b.high)
        left = (a.high - product) - rest
        if a.low is not None:
            left = left + a.low
        if b.low is not None:
            left = left - quotient * b.low
        return self._ordered_sum(quotient, left / b.high)

    def compare(self, kind: str, a: Pair, other: Any) -> Tensor:
        """Compare two pairs: near each other, the difference of high parts is free of rounding."""
        b = self.pair(other)
        if a.low is None and b.low is None:
            return self.binary(kind, a.high, b.high, CONDITION)
        gap = a.high - b.high
        if a.low is not None and b.low is not None:
            gap = gap + (a.low - b.low)
        else:
            gap = gap + a.low if b.low is None else gap - b.low
        return self.binary(kind, gap, 0.0, CONDITION)

    # Operations of formulas

    def single(self, x: Any) -> Tensor:
        """Take the high part."""
        found: Tensor = self.pair(x).high
        return found

    def real(self, x: Any) -> Any:
        """Turn numbers of 32 bits, whole ones or conditions into pairs."""
        if isinstance(x, Pair):
            return x
        if x.type == SINGLE:  # some runtimes have no numbers nearer to zero, but for some steps
            x = self._where(self.node("Abs", [x], SINGLE) < TINY, 0.0, x)
            return Pair(self, self._where(x < -LARGEST, -2 * LARGEST, x))
        return Pair(self, self.node("Cast", [x], SINGLE, to=SINGLE))

    def where(self, condition: Tensor, a: Any, b: Any) -> Any:
        """Take a cell of one or the other."""
        values = (a, b)
        if not any(isinstance(one, Pair) for one in values) and any(
            isinstance(one, Tensor) for one in values
        ):
            return self._where(condition, a, b)
        a, b = self.pair(a), self.pair(b)
        lows = [0.0 if one.low is None else one.low for one in (a, b)]
        both = [(a.high, b.high)] + ([] if a.low is None and b.low is None else [tuple(lows)])
        return Pair(self, *(self._where(condition, *one) for one in both))

    def _where(self, condition: Tensor, a: Any, b: Any) -> Tensor:
        values = self._aligned(condition, a, b, type=SINGLE)
        return self.node("Where", values, values[1].type)

    def maximum(self, a: Any, b: Any) -> Any:
        """Take the larger of two cells."""
        return self._extreme("Max", a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        """Take the smaller of two cells."""
        return self._extreme("Min", a, b)

    def _extreme(self, kind: str, a: Any, b: Any) -> Any:
        if not isinstance(a, Pair) and not isinstance(b, Pair):
            return self.binary(kind, a, b)
        a, b = self.pair(a), self.pair(b)
        return self.where(a >= b if kind == "Max" else a <= b, a, b)

    def _reduce(self, kind: str, x: Any) -> Any:
        if isinstance(x, Tensor):
            return super()._reduce(kind, x)
        if kind == "ReduceSum":
            return self._by_parts(x, lambda part: OnnxOperations._reduce(self, kind, part))  # noqa: SLF001
        high = super()._reduce(kind, x.high)
        if x.low is None:
            return Pair(self, high)
        beyond = LARGEST if kind == "ReduceMin" else -LARGEST
        low = self._where(x.high == high, x.low, beyond)
        return Pair(self, high, super()._reduce(kind, low))

    def _by_parts(self, x: Pair, add_up: Callable[[Tensor], Tensor]) -> Pair:
        """Add up cells of rows without rounding but for what is far below their size.

        To add and subtract a large number leaves a multiple of its last place, of which so many
        can be added up; the rest is small, and the rest of that is smaller.
        """
        size = self._size(x.high)
        room = 2.0 ** math.ceil(math.log2(self.n_classes) + 1)
        sums = []
        rest = x.high
        for bound in (size * room, size * (room * room * 2.0**-22)):
            grid = (rest + bound) - bound
            sums.append(add_up(grid))
            rest = rest - grid
            if len(sums) == 1 and x.low is not None:
                rest = rest + x.low
        found = self._sum(*sums)
        return self.add(found, Pair(self, add_up(rest)))

    def _size(self, x: Tensor) -> Tensor:
        """Largest magnitude of each row."""
        return super()._reduce("ReduceMax", self.node("Abs", [x], SINGLE))

    def cumulative(self, x: Any) -> Any:
        """Add up each row from the left."""
        plain = super().cumulative
        return plain(x) if isinstance(x, Tensor) else self._by_parts(x, plain)

    def group_sums(self, x: Any, groups: Tensor) -> Any:
        """Give each cell the sum over its group."""
        plain = super().group_sums
        return self._by_parts(x, lambda part: plain(part, groups))

    def shift(self, x: Any) -> Any:
        """Move each row to the right by a cell."""
        return super().shift(x) if isinstance(x, Tensor) else x.each(super().shift)

    def spread(self, x: Any, columns: Tensor) -> Any:
        """Undo a sort."""
        return x.each(lambda part: OnnxOperations.spread(self, part, columns))

    def sort(self, x: Any) -> tuple[Any, Tensor]:
        """Sort each row by high parts, and before that by low ones, which ties of those keep."""
        if x.low is None:
            high, columns = self._top(x.high)
            return Pair(self, high), columns
        low, first = self._top(x.low)
        high, then = self._top(self._along(x.high, first))
        return Pair(self, high, self._along(low, then)), self._along(first, then)

    def _top(self, x: Tensor) -> tuple[Tensor, Tensor]:
        all_of_them = self.number([self.n_classes], np.int64)
        found = self._add("TopK", [x, all_of_them], [SINGLE, TensorProto.INT64], None, axis=1)
        return found[0], found[1]

    def _along(self, x: Tensor, columns: Tensor) -> Tensor:
        return self.node("GatherElements", [x, columns], x.type, axis=1)

    def take(self, table: Any, index: Tensor) -> Any:
        """Take entries of a table; Gather is slow in ONNX Runtime, and known to all others."""

        def gather(part: Tensor) -> Tensor:
            width = 1 if index.is_column else index.width
            return self.node("Gather", [part, index], part.type, width, axis=0)

        return gather(table) if isinstance(table, Tensor) else table.each(gather)

    def matmul(self, x: Any, matrix: Any) -> Any:
        """Multiply rows by a matrix, in parts of so few bits that sums of products are exact.

        They are at most 8, which even bfloat16 has, as some runtimes multiply matrices in it.
        """
        n_bits = min(7, (19 - math.ceil(math.log2(self.n_classes))) // 2)
        n_parts = math.ceil(MATRIX_BITS / n_bits)
        factors = self._matrix_parts(matrix, n_bits, n_parts)
        size, rest, rows = self._size(x.high), x.high, []
        for i in range(n_parts):
            bound = size * 2.0 ** (24 - n_bits * (i + 1))
            rows.append((rest + bound) - bound)
            rest = rest - rows[-1]
            if x.low is not None and i == n_parts // 2:  # now the rest is not much larger
                rest = rest + x.low
        found: Pair | None = None
        for level in range(n_parts):  # products of one size
            products = [
                self.node("MatMul", [rows[i], factors[level - i]], SINGLE, matrix.width)
                for i in range(level + 1)
            ]
            part = Pair(self, sum(products[1:], products[0]))
            found = part if found is None else found + part
        return found

    def _matrix_parts(self, matrix: Pair, n_bits: int, n_parts: int) -> list[str]:
        """Split a fitted matrix into parts that take its place; return their names."""
        name = matrix.high.name
        rest = sum(
            numpy_helper.to_array(self.constants.pop(part.name)).astype(np.float64)
            for part in matrix.parts()
        )
        size = np.exp2(np.ceil(np.log2(np.maximum(np.abs(rest).max(axis=0), 1e-30))))
        names = []
        for i in range(n_parts):
            unit = size * 2.0 ** -(n_bits * (i + 1))
            part = np.round(rest / unit) * unit
            rest = rest - part
            names.append(f"{name}_{i}")
            self.constants[names[-1]] = numpy_helper.from_array(
                part.astype(np.float32), names[-1]
            )
        return names

    # Functions

    def exp(self, x: Any) -> Any:
        """Take e to the power of each cell, of a table and a few terms of its series."""
        lowest, highest = LOWEST_EXPONENT * math.log(2.0) + 0.1, 80.0
        inside = self.binary("Max", self.binary("Min", x.high, highest), lowest)
        steps = self.node("Floor", [inside * (1.0 / UNIT) + 0.5], SINGLE)
        # What is left, within half a step: the first product is near what it is taken from.
        left = Pair(self, inside - steps * UNIT_PARTS[0])
        for part in UNIT_PARTS[1:]:
            left = left + Pair(self, steps * -part)
        left = left + Pair(self, steps * (math.fsum(UNIT_PARTS) - UNIT))
        if x.low is not None:
            left = left + Pair(self, x.low)
        third = left.high * left.high * left.high * (left.high * (1 / 24) + 1 / 6)
        series = left * left
        series = series.each(lambda part: part * 0.5) + left + Pair(self, third)
        whole = self.node("Floor", [steps * (1.0 / STEPS)], SINGLE)
        power = self._entry(2.0 ** (np.arange(STEPS) / STEPS), steps - whole * float(STEPS))
        scale = self._entry(
            2.0 ** np.arange(LOWEST_EXPONENT, 128.0), whole - float(LOWEST_EXPONENT)
        )
        found = (power * series + power).each(lambda part: part * scale.high)
        return self.where(x.high < lowest, 0.0, found)

    def _entry(self, values: Any, index: Tensor) -> Pair:
        """Take entries of a table of numbers; what is no number takes some entry."""
        names = (self.number(part, np.float32) for part in _split(values))
        table = Pair(self, *(Tensor(self, one, SINGLE, len(values)) for one in names))
        whole = self.binary("Max", self.whole(index), 0)
        found: Pair = self.take(table, self.binary("Min", whole, len(values) - 1))
        return found

    def log(self, x: Any) -> Any:
        """Take the logarithm of each cell, and once more of what it is off by."""
        about = self.node("Log", [x.high], SINGLE)
        about = self._where(x.high > 0.0, about, -2 * LARGEST)
        one = x * self.exp(Pair(self, self.binary("Min", 0.0 - about, 56.0)))
        off = (one - 1.0).high
        off = self._where(x.high > 2.0**-80, off - off * off * 0.5, 0.0)
        return self._ordered_sum(about, off)

    def sigmoid(self, x: Any) -> Any:
        """Take 1 / (1 + exp(-x)) of each cell."""
        return self.pair(1.0) / (self.exp(-x) + 1.0)

    def softmax(self, x: Any) -> Any:
        """Take the softmax of each row."""
        powers = self.exp(x - self.row_max(x))
        return powers / self.row_sum(powers)


def _split(value: Any) -> list[Any]:
    """Split numbers into high and low parts; the low ones are left out if there are none."""
    value = np.asarray(value, np.float64)
    finite = np.isfinite(value)
    value = np.where(finite, np.clip(value, -LARGEST, LARGEST), value)
    high = value.astype(np.float32)
    low = np.subtract(value, high, out=np.zeros_like(value), where=finite).astype(np.float32)
    return [high, low] if low.any() else [high]
