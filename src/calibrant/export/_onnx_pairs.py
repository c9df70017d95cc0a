"""Real numbers as sums of two in float32, for runtimes that compute in nothing longer.

A pair has 44 bits or more that count, of the 53 of float64. Its low part is below half a unit in
the last place of its high part. What is done with pairs is free of rounding in each step but for
those of low parts (Dekker, 1971; Rump, Ogita and Oishi, 2008). Whether a runtime fuses
multiplications and additions does not matter: the products that count are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.export._onnx_graph import CONDITIONS, SINGLE, GraphValue, OnnxOperations, Tensor
from calibrant.export._operations import Rounding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

LARGEST = 1e30
"""Numbers beyond are as this one, and minus infinity is as twice its negative: products stay
finite."""

SPLIT = 4097.0
"""A number times 2 ** 12 + 1 tells its leading 12 bits."""

ROUNDING = Rounding(2.0**-37, of_numbers=2.0**-44)
"""How far scores in pairs may be off, with room to spare."""


@dataclass(frozen=True, eq=False)
class Pair(GraphValue):
    """A real value in a graph: ``high + low``, or ``high`` alone."""

    ops: PairArithmetic
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


class PairArithmetic(OnnxOperations):
    """Nodes of a graph that has no numbers longer than float32."""

    pairs = True
    type = SINGLE

    def __init__(self, n_classes: int, opset: int) -> None:
        super().__init__(n_classes, opset)
        self.rounding = ROUNDING
        self._done: dict[tuple[Any, ...], list[Tensor]] = {}

    def _add(
        self,
        kind: str,
        inputs: Sequence[Tensor | str],
        types: list[int],
        width: int | None,
        **attributes: Any,
    ) -> list[Tensor]:
        """Add a node, unless the same is there: pairs ask for the same many times."""
        names = tuple(one if isinstance(one, str) else one.name for one in inputs)
        key = (kind, names, width, *sorted(attributes.items()))
        if key not in self._done:
            self._done[key] = super()._add(kind, inputs, types, width, **attributes)
        return self._done[key]

    # Pairs of numbers and of tensors

    def _value(self, value: Any, type: int) -> Tensor:  # noqa: A002
        if type == SINGLE and not isinstance(value, Tensor):
            value = split(value)[0]
        return super()._value(value, type)

    def pair(self, value: Any) -> Pair:
        """Give a pair of a value, or of a number that is no part of the fit."""
        if isinstance(value, Pair):
            return value
        if isinstance(value, Tensor):
            return Pair(self, value)
        names = (self.number(part, np.float32) for part in split(np.asarray(value, np.float64)))
        return Pair(self, *(Tensor(self, name, SINGLE, 1) for name in names))

    def fitted(self, name: str, value: ArrayLike) -> Any:
        """Give a number or an array of the fit; real ones of 64 bits in two parts."""
        array = np.asarray(value)
        if array.dtype != np.float64:
            return super().fitted(name, array)
        ends = ("", "_low")
        found = (
            super(PairArithmetic, self).fitted(name + end, part)
            for end, part in zip(ends, split(array), strict=False)
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

    def binary(self, kind: str, a: Any, b: Any) -> Any:
        """Add what computes with two values, of which one may be a number."""
        if not (isinstance(a, Pair) or isinstance(b, Pair)):
            return super().binary(kind, a, b)
        a, b = self.pair(a), self.pair(b)
        if kind in ("Max", "Min"):
            return self.where(a >= b if kind == "Max" else a <= b, a, b)
        if kind in CONDITIONS:
            return self._compare(kind, a, b)
        if kind in ("Add", "Sub"):
            return self._add_pairs(a, b if kind == "Add" else -b)
        return self._multiply(a, b) if kind == "Mul" else self._divide(a, b)

    def _add_pairs(self, a: Pair, b: Pair) -> Pair:
        total = self._sum(a.high, b.high)
        rest = total.parts()[1]
        for part in (*a.parts()[1:], *b.parts()[1:]):
            rest = rest + part
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

    def _compare(self, kind: str, a: Pair, b: Pair) -> Any:
        """Compare two pairs: near each other, the difference of high parts is free of rounding."""
        if a.low is None and b.low is None:
            return super().binary(kind, a.high, b.high)
        gap = a.high - b.high
        if a.low is not None and b.low is not None:
            gap = gap + (a.low - b.low)
        else:
            gap = gap + a.low if b.low is None else gap - b.low
        return super().binary(kind, gap, 0.0)


def split(value: Any) -> list[Any]:
    """Split numbers into high and low parts; the low ones are left out if there are none."""
    value = np.asarray(value, np.float64)
    finite = np.isfinite(value)
    value = np.where(finite, np.clip(value, -LARGEST, LARGEST), value)
    high = value.astype(np.float32)
    low = np.subtract(value, high, out=np.zeros_like(value), where=finite).astype(np.float32)
    return [high, low] if low.any() else [high]
