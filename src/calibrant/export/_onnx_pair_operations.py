"""The operations of formulas on pairs of float32, as nodes of an ONNX graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import numpy_helper

from calibrant.export._onnx_graph import SINGLE, OnnxOperations, Tensor
from calibrant.export._onnx_pairs import LARGEST, Pair, PairArithmetic, split

if TYPE_CHECKING:
    from collections.abc import Callable

SMALLEST_NORMAL = 2.0**-126
"""What is nearer to zero is zero."""

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


class PairOperations(PairArithmetic):
    """Nodes of a graph that has no numbers longer than float32, as formulas ask for them."""

    def single(self, x: Any) -> Tensor:
        """Take the high part."""
        found: Tensor = self.pair(x).high
        return found

    def real(self, x: Any) -> Any:
        """Turn numbers of 32 bits, whole ones or conditions into pairs."""
        if isinstance(x, Pair):
            return x
        if x.type == SINGLE:  # some runtimes have no numbers nearer to zero, but for some steps
            x = self._choose(self.node("Abs", [x], SINGLE) < SMALLEST_NORMAL, 0.0, x)
            return Pair(self, self._choose(x < -LARGEST, -2 * LARGEST, x))
        return Pair(self, self.node("Cast", [x], SINGLE, to=SINGLE))

    def where(self, condition: Tensor, a: Any, b: Any) -> Any:
        """Take a cell of one or the other."""
        given = [one for one in (a, b) if isinstance(one, Pair | Tensor)]
        if given and not any(isinstance(one, Pair) for one in given):
            return super().where(condition, a, b)
        a, b = self.pair(a), self.pair(b)
        both: list[tuple[Any, ...]] = [(a.high, b.high)]
        if not (a.low is None and b.low is None):
            both.append(tuple(0.0 if one.low is None else one.low for one in (a, b)))
        plain = super().where
        return Pair(self, *(plain(condition, *one) for one in both))

    def _choose(self, condition: Tensor, a: Any, b: Any) -> Tensor:
        """Take a cell of one or the other, of tensors or numbers."""
        found: Tensor = super().where(condition, a, b)
        return found

    def _reduce(self, kind: str, x: Any) -> Any:
        if isinstance(x, Tensor):
            return super()._reduce(kind, x)
        if kind == "ReduceSum":
            return self._by_parts(x, lambda part: OnnxOperations._reduce(self, kind, part))  # noqa: SLF001
        high = super()._reduce(kind, x.high)
        if x.low is None:
            return Pair(self, high)
        beyond = LARGEST if kind == "ReduceMin" else -LARGEST
        low = self._choose(x.high == high, x.low, beyond)
        return Pair(self, high, super()._reduce(kind, low))

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
            high, columns = super().sort(x.high)
            return Pair(self, high), columns
        low, first = super().sort(x.low)
        high, then = super().sort(self._along(x.high, first))
        return Pair(self, high, self._along(low, then)), self._along(first, then)

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
            part, rest = self._cut(rest, size * 2.0 ** (24 - n_bits * (i + 1)))
            rows.append(part)
            if x.low is not None and i == n_parts // 2:  # now the rest is not much larger
                rest = rest + x.low
        found: Pair | None = None
        for level in range(n_parts):  # products of one size
            products = [
                self.node("MatMul", [rows[i], factors[level - i]], SINGLE, matrix.width)
                for i in range(level + 1)
            ]
            total = Pair(self, sum(products[1:], products[0]))
            found = total if found is None else found + total
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
            self.constants[names[-1]] = numpy_helper.from_array(part.astype(np.float32), names[-1])
        return names

    def exp(self, x: Any) -> Any:
        """Take e to the power of each cell, of a table and a few terms of its series."""
        lowest, highest = LOWEST_EXPONENT * math.log(2.0) + 0.1, 80.0
        inside = self.binary("Max", self.binary("Min", x.high, highest), lowest)
        steps = self.node("Floor", [inside * (1.0 / EXP_UNIT) + 0.5], SINGLE)
        # What is left, within half a step: the first product is near what it is taken from.
        left = Pair(self, inside - steps * EXP_UNIT_PARTS[0])
        for part in EXP_UNIT_PARTS[1:]:
            left = left + Pair(self, steps * -part)
        left = left + Pair(self, steps * (math.fsum(EXP_UNIT_PARTS) - EXP_UNIT))
        if x.low is not None:
            left = left + Pair(self, x.low)
        third = left.high * left.high * left.high * (left.high * (1 / 24) + 1 / 6)
        series = left * left
        series = series.each(lambda part: part * 0.5) + left + Pair(self, third)
        whole = self.node("Floor", [steps * (1.0 / EXP_STEPS)], SINGLE)
        power = self._entry(
            2.0 ** (np.arange(EXP_STEPS) / EXP_STEPS), steps - whole * float(EXP_STEPS)
        )
        scale = self._entry(
            2.0 ** np.arange(LOWEST_EXPONENT, 128.0), whole - float(LOWEST_EXPONENT)
        )
        found = (power * series + power).each(lambda part: part * scale.high)
        return self.where(x.high < lowest, 0.0, found)

    def _entry(self, values: Any, index: Tensor) -> Pair:
        """Take entries of a table of numbers; what is no number takes some entry."""
        names = (self.number(part, np.float32) for part in split(values))
        table = Pair(self, *(Tensor(self, one, SINGLE, len(values)) for one in names))
        whole = self.binary("Max", self.whole(index), 0)
        found: Pair = self.take(table, self.binary("Min", whole, len(values) - 1))
        return found

    def log(self, x: Any) -> Any:
        """Take the logarithm of each cell, and once more of what it is off by."""
        about = self.node("Log", [x.high], SINGLE)
        about = self._choose(x.high > 0.0, about, -2 * LARGEST)
        one = x * self.exp(Pair(self, self.binary("Min", 0.0 - about, 56.0)))
        off = (one - 1.0).high
        off = self._choose(x.high > 2.0**-80, off - off * off * 0.5, 0.0)
        return self._ordered_sum(about, off)

    def sigmoid(self, x: Any) -> Any:
        """Take 1 / (1 + exp(-x)) of each cell."""
        return self.pair(1.0) / (self.exp(-x) + 1.0)

    def softmax(self, x: Any) -> Any:
        """Take the softmax of each row; nothing else is computed of it, and 32 bits are enough."""
        return Pair(self, self.node("Softmax", [x.high], SINGLE, axis=1))
