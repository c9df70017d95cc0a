"""A few marks on two axes, as inline SVG that takes its colours from the style sheet of the page.

Nothing but numbers and escaped text goes into it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._pages.shell import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 40
"""Margins, in units of the view box, which are pixels at full size."""


class Axis(NamedTuple):
    """One axis: its ends, its name and the numbers printed along it."""

    low: float
    high: float
    label: str
    ticks: Sequence[float]
    is_log: bool = False
    suffix: str = ""

    def place(self, values: ArrayLike) -> NDArray[np.float64]:
        """Position of each value, from 0 at the low end to 1 at the high end; clipped."""
        x = np.asarray(values, dtype=np.float64)
        low, high = self.low, self.high
        if self.is_log:
            x = np.log(np.maximum(x, low))
            low, high = math.log(low), math.log(high)
        placed: NDArray[np.float64] = np.clip((x - low) / (high - low), 0.0, 1.0)
        return placed


def unit_axis(label: str) -> Axis:
    """Return an axis of probabilities."""
    return Axis(0.0, 1.0, label, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


def nice_axis(values: Iterable[float], label: str, *, include: float | None = None) -> Axis:
    """Return an axis with round numbers that holds all values."""
    seen = [v for v in values if math.isfinite(v)] + ([] if include is None else [include])
    low, high = min(seen, default=0.0), max(seen, default=1.0)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(i * step, 12) for i in range(first, last + 1)]
    return Axis(ticks[0], ticks[-1], label, ticks)


def log_axis(low: float, high: float, label: str) -> Axis:
    """Return a logarithmic axis with powers of ten, or of two if it is short."""
    base = 10 if high / low > 50 else 2
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    every = max(1, (last - first + 5) // 6)
    ticks = [float(base) ** i for i in range(last, first - 1, -every)][::-1]
    return Axis(low, high, label, ticks, is_log=True)


class Chart:
    """Marks on two axes, in a view box, with room for numbers and names beside and under them."""

    def __init__(
        self,
        x: Axis,
        y: Axis,
        *,
        width: float = 330,
        height: float = 310,
        left: float = LEFT,
        bottom: float = BOTTOM,
    ) -> None:
        self.x, self.y = x, y
        self.width, self.height, self.left = width, height, left
        self.inner_width = width - left - RIGHT
        self.inner_height = height - TOP - bottom
        self._parts: list[str] = []

    def xs(self, values: ArrayLike) -> NDArray[np.float64]:
        """Horizontal positions in the view box."""
        return self.left + self.inner_width * self.x.place(values)

    def ys(self, values: ArrayLike) -> NDArray[np.float64]:
        """Vertical positions in the view box."""
        return TOP + self.inner_height * (1.0 - self.y.place(values))

    def path(self, data: str, name: str) -> None:
        """Add a path with a class of the style sheet, unless there is nothing to draw."""
        if data:
            self._parts.append(f'<path class="{name}" d="{data}"/>')

    def line(self, x: ArrayLike, y: ArrayLike, name: str) -> None:
        """Connect points."""
        data = "L".join(_pairs(self.xs(x), self.ys(y)))
        self.path(data and f"M{data}", name)

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, name: str) -> None:
        """Fill between two lines."""
        there, back = (_pairs(self.xs(x), self.ys(ends)) for ends in (high, low))
        data = "L".join([*there, *reversed(back)])
        self.path(data and f"M{data}Z", name)

    def bars(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, name: str) -> None:
        """Draw upright strokes."""
        marks = zip(self.xs(x), self.ys(low), self.ys(high), strict=True)
        self.path("".join(f"M{_n(a)} {_n(b)}V{_n(c)}" for a, b, c in marks), name)

    def points(self, x: ArrayLike, y: ArrayLike, radii: ArrayLike, name: str) -> None:
        """Draw discs, as one path of arcs."""
        data = ""
        for a, b, r in zip(self.xs(x), self.ys(y), np.atleast_1d(radii), strict=True):
            data += f"M{_n(a - r)} {_n(b)}a{_n(r)} {_n(r)} 0 1 0 {_n(2 * r)} 0"
            data += f"a{_n(r)} {_n(r)} 0 1 0 {_n(-2 * r)} 0z"
        self.path(data, name)

    def text(self, x: float, y: float, words: str, name: str = "", anchor: str = "middle") -> None:
        """Print words at a place of the view box."""
        mark = f' class="{name}"' if name else ""
        self._parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{mark}>{escape(words)}</text>'
        )

    def frame(self) -> None:
        """Draw grid, axes, numbers and names."""
        x0, x1 = self.left, self.left + self.inner_width
        y0, y1 = TOP, TOP + self.inner_height
        grid = "".join(f"M{_n(p)} {_n(y0)}V{_n(y1)}" for p in self.xs(self.x.ticks))
        grid += "".join(f"M{_n(x0)} {_n(p)}H{_n(x1)}" for p in self.ys(self.y.ticks))
        self.path(grid, "grid")
        self.path(f"M{_n(x0)} {_n(y0)}V{_n(y1)}H{_n(x1)}", "axis")
        for tick, place in zip(self.x.ticks, self.xs(self.x.ticks), strict=True):
            self.text(place, y1 + 14, _tick(tick) + self.x.suffix, "tick")
        for tick, place in zip(self.y.ticks, self.ys(self.y.ticks), strict=True):
            self.text(x0 - 5, place + 3.5, _tick(tick) + self.y.suffix, "tick", "end")
        self.text((x0 + x1) / 2, y1 + 31, self.x.label)
        middle = (y0 + y1) / 2
        self._parts.append(
            f'<text class="up" transform="translate(11 {_n(middle)}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y.label)}</text>'
        )

    def inner(self) -> Markup:
        """Everything that was drawn."""
        return Markup("".join(self._parts))


def wrap(inner: Markup, width: float, height: float, label: str) -> Markup:
    """Make a picture of marks, with a description for those who cannot see it."""
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _n(width), _n(height), label, inner
    )


def _pairs(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[str]:
    return [f"{_n(a)} {_n(b)}" for a, b in zip(x, y, strict=True)]


def _n(value: float) -> str:
    """Return a coordinate, to a tenth of a pixel."""
    return f"{value + 0.0:.1f}".removesuffix(".0")


def _tick(value: float) -> str:
    if value == 0 or 1e-2 <= abs(value) < 1e5:
        return f"{value:.6g}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
