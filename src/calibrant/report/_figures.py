"""The pictures of the page: the numbers of ``calibrant.plots``, as inline SVG.

Colours are those of the style sheet. Nothing but numbers and escaped text goes into a picture.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._pages.shell import Markup, escape
from calibrant.plots._reliability import UNINFORMATIVE
from calibrant.plots._style import p_words, percent, shorten
from calibrant.report._tables import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from calibrant.metrics._reliability import ReliabilityCurve
    from calibrant.plots._confidence import Effect, TopRCurve
    from calibrant.plots._maps import MapPicture
    from calibrant.report._results import Comparison, Difference

LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 40
"""Margins, in units of the view box, which are pixels at full size; long numbers widen them."""

DIGIT = 6.4
"""Width of a digit of the numbers along an axis."""

WIDTH, HEIGHT, BELOW = 330, 396, 112
"""Size of a reliability diagram, and its part under the axes."""

STRIP, ROW = 44, 24
"""Height of the bin sizes, and of a row of the comparison with temperature scaling."""


class Axis(NamedTuple):
    """One axis: its ends, its name and the numbers printed along it."""

    low: float
    high: float
    label: str
    ticks: Sequence[float]
    is_log: bool = False

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


def count_axis(most: int, label: str) -> Axis:
    """Return an axis of the whole numbers from 1, of which a few are printed."""
    most = max(most, 1)
    return Axis(0.7, most + 0.3, label, range(1, most + 1, max(1, -(-most // 8))))


def log_axis(low: float, high: float, label: str) -> Axis:
    """Return a logarithmic axis with powers of ten, or of two if it is short."""
    base = 10 if high / low > 50 else 2
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    every = max(1, (last - first + 5) // 6)
    ticks = [float(base) ** i for i in range(last, first - 1, -every)][::-1]
    return Axis(low, high, label, ticks, is_log=True)


RARE = 0.1
"""Share of the positive class below which its diagrams have logarithmic axes."""

SMALLEST = 1e-5
"""Lower end of a logarithmic axis at least."""


def probability_axis(label: str, low: float = 0.0) -> Axis:
    """Return an axis of probabilities: logarithmic from ``low`` on if that is above zero."""
    if low == 0.0:
        return unit_axis(label)
    decades = range(round(math.log10(low)), 1)
    return Axis(low, 1.0, label, [10.0**power for power in decades], is_log=True)


def lower_end(comparison: Comparison) -> float:
    """Return the lower end of logarithmic axes where the positive class is rare, else 0.

    On linear axes all points of a rare class lie in one corner.
    """
    if comparison.n_classes != 2 or comparison.results[0].shares.observed[1] >= RARE:
        return 0.0
    seen = [own.curve.mean_probability[own.curve.weight > 0] for own in comparison.results]
    # The median over methods: one that gives almost nothing to some rows would squeeze the others.
    smallest = float(np.median([x[x > 0].min(initial=1.0) for x in seen]))
    return float(10.0 ** math.floor(math.log10(min(max(smallest, SMALLEST), 0.1))))


class Chart:
    """Marks on two axes, in a view box, with room for numbers and names beside and under them."""

    def __init__(
        self, x: Axis, y: Axis, width: float = WIDTH, height: float = 310, left: float = LEFT
    ) -> None:
        self.x, self.y = x, y
        self.width, self.height = width, height
        # The last number along x is centred at the right end; those along y end beside the name.
        half = DIGIT * len(_tick(x.ticks[-1])) / 2 if x.ticks else 0.0
        longest = max((len(_tick(tick)) for tick in y.ticks), default=0)
        self.left, self.right = max(left, 24 + DIGIT * longest), width - max(RIGHT, half + 1)
        self.foot = height - (BELOW if height == HEIGHT else BOTTOM)
        self._parts: list[str] = []

    def xs(self, values: ArrayLike) -> NDArray[np.float64]:
        """Horizontal positions in the view box."""
        return self.left + (self.right - self.left) * self.x.place(values)

    def ys(self, values: ArrayLike) -> NDArray[np.float64]:
        """Vertical positions in the view box."""
        return TOP + (self.foot - TOP) * (1.0 - self.y.place(values))

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
        for a, b, r in np.broadcast(self.xs(x), self.ys(y), radii):
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
        x0, x1, y0, y1 = self.left, self.right, TOP, self.foot
        columns, rows = self.xs(self.x.ticks), self.ys(self.y.ticks)
        grid = "".join(f"M{_n(p)} {_n(y0)}V{_n(y1)}" for p in columns)
        self.path(grid + "".join(f"M{_n(x0)} {_n(p)}H{_n(x1)}" for p in rows), "grid")
        self.path(f"M{_n(x0)} {_n(y0)}V{_n(y1)}H{_n(x1)}", "axis")
        for tick, place in zip(self.x.ticks, columns, strict=True):
            self.text(place, y1 + 14, _tick(tick), "tick")
        for tick, place in zip(self.y.ticks, rows, strict=True):
            self.text(x0 - 5, place + 3.5, _tick(tick), "tick", "end")
        self.text((x0 + x1) / 2, y1 + 31, self.x.label)
        self._parts.append(
            f'<text class="up" transform="translate(11 {_n((y0 + y1) / 2)}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y.label)}</text>'
        )

    def inner(self) -> Markup:
        """Everything that was drawn."""
        return Markup("".join(self._parts))

    def picture(self, label: str) -> Markup:
        """Make a picture of it, with a description for those who cannot see it."""
        return wrap(self.inner(), self.width, self.height, label)


def wrap(inner: Markup, width: float, height: float, label: str) -> Markup:
    """Make a picture of marks."""
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


def reliability_frames(low: float = 0.0) -> Markup:
    """Frames that all reliability diagrams share, to be put on the page once.

    Those of a class are logarithmic from ``low`` on, unless that is 0.
    """
    names = {
        "frame-confidence": ("confidence", "accuracy"),
        "frame-class": ("probability of the class", "observed frequency"),
    }
    frames = Markup()
    for name, (x, y) in names.items():
        end = low if name == "frame-class" else 0.0
        chart = Chart(probability_axis(x, end), probability_axis(y, end), height=HEIGHT)
        chart.frame()
        chart.line([end, 1], [end, 1], "diagonal")
        base = HEIGHT - 12
        chart.path(f"M{_n(chart.left)} {base}H{_n(chart.right)}", "axis")
        chart.text(chart.left - 5, base - 3, "rows", "tick", "end")
        frames += Markup('<g id="{}">{}</g>').format(name, chart.inner())
    return frames


def reliability(curve: ReliabilityCurve, *, is_class: bool, low: float = 0.0) -> Markup:
    """Return the marks of a reliability diagram, without the picture around them."""
    axis = probability_axis("", low)
    chart = Chart(axis, axis, height=HEIGHT)
    seen = curve.weight > 0
    x, y, weight = (v[seen] for v in (curve.mean_probability, curve.frequency, curve.weight))
    bottom, top = curve.consistency_low[seen], curve.consistency_high[seen]
    known, informative = np.isfinite(bottom), ~(top - bottom >= UNINFORMATIVE)
    for own, name in ((known & informative, "bar"), (known & ~informative, "bar thin")):
        chart.bars(x[own], bottom[own], top[own], name)
    drawn = informative & (y > 0.0) if low else informative  # zero is at no place of a log axis
    chart.line(x[drawn], y[drawn], "curve")
    radii = 2.5 + 3.5 * np.sqrt(weight / weight.max())
    inside = (y >= bottom) & (y <= top)
    for own, name in ((~inside, "point"), (inside, "point hollow")):
        chart.points(x[own], y[own], radii[own], name)
    _strip(chart, curve)
    frame = "frame-class" if is_class else "frame-confidence"
    return Markup('<use href="#{}"/>{}').format(frame, chart.inner())


def _strip(chart: Chart, curve: ReliabilityCurve) -> None:
    """Draw where the rows are under the diagram: bars whose areas are the shares of the bins."""
    share = curve.weight / curve.weight.sum()
    edges = chart.xs(curve.edges)
    base = HEIGHT - 12
    density = share / np.maximum(np.diff(edges), 1.0)
    tops = base - STRIP * density / density.max()
    data = "".join(
        f"M{a:.1f} {base}V{top:.1f}H{b:.1f}V{base}z"
        for a, b, top, s in zip(edges, edges[1:], tops, share, strict=False)
        if s > 0
    )
    chart.path(data, "size")
    most = int(np.argmax(density))
    middle = float((edges[most] + edges[most + 1]) / 2)
    anchor = "end" if middle > WIDTH * 0.7 else "start" if middle < WIDTH * 0.3 else "middle"
    edge = {"end": edges[most + 1], "start": edges[most], "middle": middle}[anchor]
    chart.text(float(edge), base - STRIP - 3, percent(float(share[most]), 0), "tick", anchor)


def describe_curve(curve: ReliabilityCurve, who: str) -> str:
    """Say what a reliability diagram shows, bin by bin, for those who cannot see it."""
    chance = p_words(curve.p_value)
    error = f"ECE {percent(curve.ece)}, {chance}." if chance else f"ECE {percent(curve.ece)}."
    bins = [
        f"{percent(x, 0)} predicted, {percent(y, 0)} observed"
        for x, y, weight in zip(curve.mean_probability, curve.frequency, curve.weight, strict=True)
        if weight > 0
    ]
    return f"Reliability diagram of {who}: {error} {'; '.join(bins)}."


def effect_figure(effect: Effect, who: str) -> Markup:
    """Draw what became of the confidences."""
    chart = Chart(unit_axis("confidence before"), unit_axis("probability of the same class after"))
    chart.frame()
    chart.line([0, 1], [0, 1], "diagonal")
    chart.band(effect.before, effect.low, effect.high, "band")
    chart.line(effect.before, effect.median, "curve")
    chart.points(effect.before, effect.median, 2.5, "point")
    changes = zip(effect.before[::4], effect.median[::4], strict=True)
    words = "; ".join(f"{percent(a, 0)} becomes {percent(b, 0)}" for a, b in changes)
    return chart.picture(f"What {who} does to the confidence: {words}")


def map_figure(found: MapPicture, who: str, low: float = 0.0) -> Markup:
    """Draw the fitted map; that of two classes has the axes of their reliability diagrams."""
    x, y = unit_axis(found.x_label), unit_axis(found.y_label)
    if found.kind == "affine":
        (curve,) = found.curves
        x, y = nice_axis(curve.x, x.label), nice_axis(curve.y, y.label, include=1.0)
    elif found.kind == "two classes":
        x, y = (probability_axis(axis.label, low) for axis in (x, y))
    elif found.is_log:
        low = min(float(min(curve.x.min(), curve.y.min())) for curve in found.curves)
        high = max(1.0, *(float(curve.y.max()) for curve in found.curves))
        x, y = log_axis(low, 1.0, x.label), log_axis(low, high, y.label)
    chart = Chart(x, y)
    chart.frame()
    if found.has_identity:
        low = max(x.low, y.low)
        chart.line([low, 1.0], [low, 1.0], "diagonal")
    for place, curve in enumerate(found.curves):
        if curve.is_line:
            chart.line(curve.x, curve.y, f"line line-{place % 6}")
        else:
            chart.points(curve.x, curve.y, 3.0, "point hollow")
    return chart.picture(f"Calibration map of {who}. {found.note}")


def top_r_figure(before: TopRCurve, after: TopRCurve, who: str) -> Markup:
    """Draw claim minus observation against the rank, before and after."""
    gaps = [100 * (curve.claimed - curve.share) for curve in (before, after)]
    half, most = 196 * after.spread, int(after.ranks[-1])
    x = log_axis(1.0, most, "r")
    if most <= 30:
        x = count_axis(most, "r")
    y = nice_axis([*gaps[0], *gaps[1], *half, *-half], "claimed minus observed, points", include=0)
    chart = Chart(x, y)
    chart.frame()
    chart.band(after.ranks, -half, half, "band")
    chart.line([x.low, x.high], [0, 0], "diagonal")
    chart.line(before.ranks, gaps[0], "line line-1")
    chart.line(after.ranks, gaps[1], "curve")
    return chart.picture(
        f"Claimed minus observed share of labels among the top r, for {who}: "
        f"{gaps[1][0]:.1f} points at r = 1, {gaps[0][0]:.1f} before calibration"
    )


def forest_figure(comparison: Comparison, chosen: str) -> Markup:
    """Draw the NLL of each method minus that of the baseline, with intervals."""
    judged = distinct_rows(comparison.results)
    rows = [(label, r.difference) for label, r in judged.items() if r.difference is not None]
    rows.sort(key=lambda row: row[1].value)
    if not rows:
        return Markup()
    name = f"NLL minus that of {comparison.baseline}"
    ends = np.array([(gap.low, gap.value, gap.high) for _, gap in rows])
    # A hopeless method would squeeze all others: it runs out of the picture.
    limit = 4 * float(np.nanmedian(np.abs(ends))) + 1e-9
    x = nice_axis(np.clip(ends, -limit, limit).ravel(), name, include=0)
    foot = TOP + ROW * len(rows)
    chart = Chart(x, Axis(0, 1, "", ()), width=400, height=foot + BOTTOM, left=104)
    chart.path("".join(f"M{place:.1f} {TOP}V{foot}" for place in chart.xs(x.ticks)), "grid")
    chart.path(f"M{float(chart.xs(0)):.1f} {TOP}V{foot}", "axis")
    for tick, place in zip(x.ticks, chart.xs(x.ticks), strict=True):
        chart.text(place, foot + 14, _tick(tick), "tick")
    chart.text(float(chart.xs((x.low + x.high) / 2)), foot + 32, x.label)
    for place, (method, gap) in enumerate(rows):
        mark = "▸ " if judged[method].method == chosen else ""
        y = TOP + ROW * (place + 0.5)
        chart.text(chart.left - 8, y + 4, mark + shorten(method, 15), "", "end")
        _forest_row(chart, gap, y)
    words = "; ".join(f"{method} {gap.value:+.4f}" for method, gap in rows)
    level = 100 * comparison.settings["confidence_level"]
    return chart.picture(f"{name}, with {level:g} % intervals: {words}")


def _forest_row(chart: Chart, gap: Difference, y: float) -> None:
    """Draw an interval and its middle, or a number where that is out of the picture."""
    low, value, high = (float(v) for v in chart.xs([gap.low, gap.value, gap.high]))
    is_out = gap.value > chart.x.high
    if np.isfinite(low):
        stop = min(high, chart.right - 50) if is_out else high
        if stop > low:
            chart.path(f"M{low:.1f} {y}H{stop:.1f}", "interval")
    if is_out:
        chart.text(chart.right, y + 4, f"{gap.value:+.2f} →", "", "end")
    else:
        hollow = " hollow" if gap.low <= 0 <= gap.high else ""
        chart.path(f"M{value - 5:.1f} {y}l5 -5l5 5l-5 5z", f"point{hollow}")
