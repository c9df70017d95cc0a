"""Real numbers as sums of two in float32, for runtimes that compute in nothing longer.

A pair has 44 bits or more that count, of the 53 of float64. Its low part is below half a unit in
the last place of its high part. What is done with pairs is free of rounding in each step but for
those of low parts (Dekker, 1971; Rump, Ogita and Oishi, 2008). Whether a runtime fuses
multiplications and additions does not matter: the products that count are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import numpy_helper

from calibrant.export._onnx_graph import CONDITIONS, SINGLE, GraphValue, OnnxOperations, Tensor
from calibrant.export._operations import Rounding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

LARGEST = 1e30
"""Numbers beyond are as this one, and minus infinity is as twice its negative: products stay
finite."""

SMALLEST_NORMAL = 2.0**-126
"""What is nearer to zero is zero."""

SPLIT = 4097.0
"""A number times 2 ** 12 + 1 tells its leading 12 bits."""

ROUNDING = Rounding(2.0**-37, of_numbers=2.0**-44)
"""How far scores in pairs may be off, with room to spare."""

EXP_STEPS = 64
"""Powers of two are taken from a table of so many between 1 and 2."""

EXP_UNIT = math.log(2.0) / EXP_STEPS
EXP_UNIT_PARTS = tuple(
    math.floor(EXP_UNIT * 2.0**bits) % 2**11 / 2.0**bits
    for bits in (17, 28, 39)  # the first has 11, too
)
"""The leading bits of ``EXP_UNIT``, few at a time: products with numbers up to 8192 are exact."""

LOWEST_EXPONENT = -126

MATRIX_BITS = 42
"""Bits of products with a matrix."""


def split(value: Any) -> list[Any]:
    """Split numbers into high and low parts; the low ones are left out if there are none."""
    value = np.asarray(value, np.float64)
    finite = np.isfinite(value)
    value = np.where(finite, np.clip(value, -LARGEST, LARGEST), value)
    high = value.astype(np.float32)
    low = np.subtract(value, high, out=np.zeros_like(value), where=finite).astype(np.float32)
    return [high, low] if low.any() else [high]


@dataclass(frozen=True, eq=False)
class Pair(GraphValue):
    """A real value in a graph: ``high + low``, or ``high`` alone."""

    ops: PairOperations
    high: Tensor
    low: Tensor | None = None

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.high.width

    @property
    def parts(self) -> list[Tensor]:
        """Both parts, or the only one."""
        return [self.high] if self.low is None else [self.high, self.low]

    def each(self, change: Callable[[Tensor], Tensor]) -> Pair:
        """Do to both parts what keeps them parts of a number."""
        return Pair(self.ops, *map(change, self.parts))

    def __neg__(self) -> Pair:
        return self.each(lambda part: 0.0 - part)


class PairOperations(OnnxOperations):
    """Nodes of a graph that has no numbers longer than float32, as formulas ask for them."""

    pairs = True
    type = SINGLE

    def __init__(self, n_classes: int, opset: int) -> None:
        super().__init__(n_classes, opset)
        self.rounding = ROUNDING
        self._done: dict[tuple[Any, ...], list[Tensor]] = {}

    def add(
        self, kind: str, inputs: Sequence[Tensor | str], *others: Any, **attributes: Any
    ) -> list[Tensor]:
        """Add a node, unless the same is there: pairs ask for the same many times."""
        names = tuple(one if isinstance(one, str) else one.name for one in inputs)
        key = (kind, names, others, *sorted(attributes.items()))
        if key not in self._done:
            self._done[key] = super().add(kind, inputs, *others, **attributes)
        return self._done[key]

    # Pairs of numbers and of tensors

    def value(self, value: Any, type: int) -> Tensor:  # noqa: A002  (what ONNX calls it)
        if type == SINGLE and not isinstance(value, Tensor):
            value = split(value)[0]
        return super().value(value, type)

    def pair(self, value: Any) -> Pair:
        """Give a pair of a value, or of a number that is no part of the fit."""
        if isinstance(value, Pair):
            return value
        return Pair(self, value) if isinstance(value, Tensor) else self._table(value, 1)

    def _table(self, values: Any, width: int) -> Pair:
        """Give a constant, or a table of them."""
        names = (self.number(part, np.float32) for part in split(values))
        return Pair(self, *(Tensor(self, name, SINGLE, width) for name in names))

    def fitted(self, name: str, value: ArrayLike) -> Any:
        """Give a number or an array of the fit; real ones of 64 bits in two parts."""
        array, fitted = np.asarray(value), super().fitted
        if array.dtype != np.float64:
            return fitted(name, array)
        both = zip(("", "_low"), split(array), strict=False)
        return Pair(self, *(fitted(name + end, part) for end, part in both))

    def single(self, x: Any) -> Tensor:
        return self.pair(x).high

    def real(self, x: Any) -> Any:
        """Turn numbers of 32 bits, whole ones or conditions into pairs."""
        if isinstance(x, Pair):
            return x
        if x.type == SINGLE:  # some runtimes have no numbers nearer to zero, but for some steps
            x = self._choose(self.unary("Abs", x) < SMALLEST_NORMAL, 0.0, x)
            return Pair(self, self._choose(x < -LARGEST, -2 * LARGEST, x))
        return Pair(self, self.unary("Cast", x, to=SINGLE))

    # Arithmetic

    def _sum(self, a: Tensor, b: Tensor) -> Pair:
        """Add two numbers without rounding."""
        total = a + b
        b_part = total - a
        return Pair(self, total, (a - (total - b_part)) + (b - b_part))

    def _ordered_sum(self, a: Tensor, b: Tensor) -> Pair:
        """Add two numbers, the first the larger, without rounding."""
        total = a + b
        return Pair(self, total, b - (total - a))

    def _product(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply two numbers without rounding."""

        def halves(x: Tensor) -> tuple[Tensor, Tensor]:
            scaled = x * SPLIT
            leading = scaled - (scaled - x)
            return leading, x - leading

        (a1, a2), (b1, b2) = halves(a), halves(b)
        product = a * b
        return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2

    def binary(self, kind: str, a: Any, b: Any) -> Any:
        """Add what computes with two values, of which one may be a number."""
        if not (isinstance(a, Pair) or isinstance(b, Pair)):
            return super().binary(kind, a, b)
        a, b = self.pair(a), self.pair(b)
        if kind in ("Max", "Min"):
            return self.where(a >= b if kind == "Max" else a <= b, a, b)
        if kind in CONDITIONS:
            return super().binary(kind, *self._compared(a, b))
        if kind in ("Add", "Sub"):
            return self._add_pairs(a, b if kind == "Add" else -b)
        return self._multiply(a, b) if kind == "Mul" else self._divide(a, b)

    def _add_pairs(self, a: Pair, b: Pair) -> Pair:
        total = self._sum(a.high, b.high)
        rest = sum((*a.parts[1:], *b.parts[1:]), total.parts[1])
        return self._ordered_sum(total.high, rest)

    def _multiply(self, a: Pair, b: Pair) -> Pair:
        product, rest = self._product(a.high, b.high)
        if a.low is not None:
            rest = rest + a.low * b.high
        if b.low is not None:
            rest = rest + a.high * b.low
        return self._ordered_sum(product, rest)

    def _divide(self, a: Pair, b: Pair) -> Pair:
        quotient = a.high / b.high
        product, rest = self._product(quotient, b.high)
        left = (a.high - product) - rest
        if a.low is not None:
            left = left + a.low
        if b.low is not None:
            left = left - quotient * b.low
        return self._ordered_sum(quotient, left / b.high)

    def _compared(self, a: Pair, b: Pair) -> tuple[Any, Any]:
        """Give what tells two pairs apart: near each other, high parts differ without rounding."""
        if a.low is None and b.low is None:
            return a.high, b.high
        gap = a.high - b.high
        if a.low is not None and b.low is not None:
            return gap + (a.low - b.low), 0.0
        return gap + a.low if b.low is None else gap - b.low, 0.0

    def where(self, condition: Tensor, a: Any, b: Any) -> Any:
        given = [one for one in (a, b) if isinstance(one, Pair | Tensor)]
        if given and not any(isinstance(one, Pair) for one in given):
            return super().where(condition, a, b)
        a, b = self.pair(a), self.pair(b)
        both: list[tuple[Any, ...]] = [(a.high, b.high)]
        if not (a.low is None and b.low is None):
            both.append(tuple(0.0 if one.low is None else one.low for one in (a, b)))
        return Pair(self, *(self._choose(condition, *one) for one in both))

    def _choose(self, condition: Tensor, a: Any, b: Any) -> Tensor:
        """Take a cell of one or the other, of tensors or numbers."""
        found: Tensor = super().where(condition, a, b)
        return found

    # Rows

    def reduce(self, kind: str, x: Any) -> Any:
        plain = partial(super().reduce, kind)
        if isinstance(x, Tensor):
            return plain(x)
        if kind == "ReduceSum":
            return self._by_parts(x, plain)
        high = plain(x.high)
        if x.low is None:
            return Pair(self, high)
        beyond = LARGEST if kind == "ReduceMin" else -LARGEST
        return Pair(self, high, plain(self._choose(x.high == high, x.low, beyond)))

    def _by_parts(self, x: Pair, add_up: Callable[[Tensor], Tensor]) -> Any:
        """Add up cells of rows without rounding but for what is far below their size.

        To add and subtract a large number leaves a multiple of its last place, of which so many
        can be added up; the rest is small, and the rest of that is smaller.
        """
        size = self._size(x.high)
        room = 2.0 ** math.ceil(math.log2(self.n_classes) + 1)
        first, rest = self._cut(x.high, size * room)
        unit = size * (room * room * 2.0**-22)
        second, rest = self._cut(rest, unit)
        if x.low is not None:
            part, low = self._cut(x.low, unit)
            second, rest = second + part, rest + low
        return self._sum(add_up(first), add_up(second)) + Pair(self, add_up(rest))

    @staticmethod
    def _cut(x: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
        """Split numbers into multiples of the last place of a larger one, and the rest."""
        multiple = (x + bound) - bound
        return multiple, x - multiple

    def _size(self, x: Tensor) -> Tensor:
        """Largest magnitude of each row."""
        found: Tensor = super().reduce("ReduceMax", self.unary("Abs", x))
        return found

    def cumulative(self, x: Any) -> Any:
        plain = super().cumulative
        return plain(x) if isinstance(x, Tensor) else self._by_parts(x, plain)

    def group_sums(self, x: Any, groups: Tensor) -> Any:
        plain = super().group_sums
        return self._by_parts(x, lambda part: plain(part, groups))

    def shift(self, x: Any) -> Any:
        return super().shift(x) if isinstance(x, Tensor) else x.each(super().shift)

    def spread(self, x: Any, columns: Tensor) -> Any:
        plain = super().spread
        return x.each(lambda part: plain(part, columns))

    def sort(self, x: Any) -> tuple[Any, Tensor]:
        """Sort each row by high parts, and before that by low ones, which ties of those keep."""
        if x.low is None:
            high, columns = super().sort(x.high)
            return Pair(self, high), columns

        def along(x: Tensor, columns: Tensor) -> Tensor:
            return self.node("GatherElements", [x, columns], x.type, axis=1)

        low, first = super().sort(x.low)
        high, then = super().sort(along(x.high, first))
        return Pair(self, high, along(low, then)), along(first, then)

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
            part, rest = self._cut(rest, size * 2.0 ** (24 - n_bits * (i + 1)))
            rows.append(part)
            if x.low is not None and i == n_parts // 2:  # now the rest is not much larger
                rest = rest + x.low
        levels = []
        for level in range(n_parts):  # products of one size
            products = [
                self.node("MatMul", [rows[i], factors[level - i]], SINGLE, matrix.width)
                for i in range(level + 1)
            ]
            levels.append(Pair(self, sum(products[1:], products[0])))
        return sum(levels[1:], levels[0])

    def _matrix_parts(self, matrix: Pair, n_bits: int, n_parts: int) -> list[str]:
        """Split a fitted matrix into parts that take its place; return their names."""
        name = matrix.high.name
        rest = sum(
            numpy_helper.to_array(self.constants.pop(part.name)).astype(np.float64)
            for part in matrix.parts
        )
        size = np.exp2(np.ceil(np.log2(np.maximum(np.abs(rest).max(axis=0), 1e-30))))
        names = [f"{name}_{i}" for i in range(n_parts)]
        for i, own in enumerate(names, 1):
            unit = size * 2.0 ** -(n_bits * i)
            part = np.round(rest / unit) * unit
            rest = rest - part
            self.constants[own] = numpy_helper.from_array(part.astype(np.float32), own)
        return names

    # Functions

    def exp(self, x: Any) -> Any:
        """Take e to the power of each cell, of a table and a few terms of its series."""
        lowest, highest = LOWEST_EXPONENT * math.log(2.0) + 0.1, 80.0
        inside = self.maximum(self.minimum(x.high, highest), lowest)
        steps = self.floor(inside * (1.0 / EXP_UNIT) + 0.5)
        # What is left, within half a step: the first product is near what it is taken from.
        left = Pair(self, inside - steps * EXP_UNIT_PARTS[0])
        for part in EXP_UNIT_PARTS[1:]:
            left = left + Pair(self, steps * -part)
        left = left + Pair(self, steps * (math.fsum(EXP_UNIT_PARTS) - EXP_UNIT))
        if x.low is not None:
            left = left + Pair(self, x.low)
        third = left.high * left.high * left.high * (left.high * (1 / 24) + 1 / 6)
        series = (left * left).each(lambda part: part * 0.5) + left + Pair(self, third)
        whole = self.floor(steps * (1.0 / EXP_STEPS))
        powers = 2.0 ** (np.arange(EXP_STEPS) / EXP_STEPS)
        power = self._entry(powers, steps - whole * float(EXP_STEPS))
        scales = 2.0 ** np.arange(LOWEST_EXPONENT, 128.0)
        scale = self._entry(scales, whole - float(LOWEST_EXPONENT))
        found = (power * series + power).each(lambda part: part * scale.high)
        return self.where(x.high < lowest, 0.0, found)

    def _entry(self, values: Any, index: Tensor) -> Any:
        """Take entries of a table of numbers; what is no number takes some entry."""
        whole = self.minimum(self.maximum(self.whole(index), 0), len(values) - 1)
        return self.take(self._table(values, len(values)), whole)

    def log(self, x: Any) -> Any:
        """Take the logarithm of each cell, and once more of what it is off by."""
        about = self._choose(x.high > 0.0, self.unary("Log", x.high), -2 * LARGEST)
        one = x * self.exp(Pair(self, self.minimum(0.0 - about, 56.0)))
        off = (one - 1.0).high
        off = self._choose(x.high > 2.0**-80, off - off * off * 0.5, 0.0)
        return self._ordered_sum(about, off)

    def sigmoid(self, x: Any) -> Any:
        return self.pair(1.0) / (self.exp(-x) + 1.0)

    def softmax(self, x: Any) -> Any:
        """Take the softmax of each row; nothing else is computed of it, and 32 bits are enough."""
        return Pair(self, super().softmax(x.high))
