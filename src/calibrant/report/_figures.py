"""The pictures of the page: the numbers of ``calibrant.plots``, as inline SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant._pages.shell import Markup
from calibrant.plots._reliability import UNINFORMATIVE
from calibrant.plots._style import p_words, percent, shorten
from calibrant.report._svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Axis,
    Chart,
    log_axis,
    nice_axis,
    unit_axis,
    wrap,
)

if TYPE_CHECKING:
    from calibrant.metrics._reliability import ReliabilityCurve
    from calibrant.plots._confidence import Effect
    from calibrant.plots._maps import MapPicture
    from calibrant.plots._top_r import TopRCurve
    from calibrant.report._paired import Difference
    from calibrant.report._results import Comparison

WIDTH, HEIGHT, BELOW = 330, 396, 112
"""Size of a reliability diagram, and its part under the axes."""

STRIP, ROW = 44, 24
"""Height of the bin sizes, and of a row of the comparison with temperature scaling."""


def _reliability_chart(x: str, y: str) -> Chart:
    return Chart(unit_axis(x), unit_axis(y), width=WIDTH, height=HEIGHT, bottom=BELOW)


def reliability_frames() -> Markup:
    """Frames that all reliability diagrams share, to be put on the page once."""
    names = {
        "frame-confidence": ("confidence", "accuracy"),
        "frame-class": ("probability of the class", "observed frequency"),
    }
    frames = Markup()
    for name, (x, y) in names.items():
        chart = _reliability_chart(x, y)
        chart.frame()
        chart.line([0, 1], [0, 1], "diagonal")
        base = HEIGHT - 12
        chart.path(f"M{LEFT} {base}H{WIDTH - RIGHT}", "axis")
        chart.text(LEFT - 5, base - 14, "share", "tick", "end")
        chart.text(LEFT - 5, base - 3, "of rows", "tick", "end")
        frames += Markup('<g id="{}">{}</g>').format(name, chart.inner())
    return frames


def reliability(curve: ReliabilityCurve, *, is_class: bool) -> Markup:
    """Return the marks of a reliability diagram, without the picture around them."""
    chart = _reliability_chart("", "")
    seen = curve.weight > 0
    x, y, weight = (v[seen] for v in (curve.mean_probability, curve.frequency, curve.weight))
    low, high = curve.consistency_low[seen], curve.consistency_high[seen]
    known = np.isfinite(low)
    informative = ~(high - low >= UNINFORMATIVE)
    chart.bars(x[known & informative], low[known & informative], high[known & informative], "bar")
    chart.bars(
        x[known & ~informative], low[known & ~informative], high[known & ~informative], "bar thin"
    )
    chart.line(x[informative], y[informative], "curve")
    radii = 2.5 + 3.5 * np.sqrt(weight / weight.max())
    inside = (y >= low) & (y <= high)
    chart.points(x[~inside], y[~inside], radii[~inside], "point")
    chart.points(x[inside], y[inside], radii[inside], "point hollow")
    _strip(chart, curve)
    frame = "frame-class" if is_class else "frame-confidence"
    return Markup('<use href="#{}"/>{}').format(frame, chart.inner())


def _strip(chart: Chart, curve: ReliabilityCurve) -> None:
    """Draw bin sizes under the diagram."""
    share = curve.weight / curve.weight.sum()
    edges = chart.xs(curve.edges)
    base = HEIGHT - 12
    tops = base - STRIP * share / share.max()
    data = "".join(
        f"M{a:.1f} {base}V{top:.1f}H{b:.1f}V{base}z"
        for a, b, top, s in zip(edges, edges[1:], tops, share, strict=False)
        if s > 0
    )
    chart.path(data, "size")
    most = int(np.argmax(share))
    middle = float((edges[most] + edges[most + 1]) / 2)
    anchor = "end" if middle > WIDTH * 0.7 else "start" if middle < WIDTH * 0.3 else "middle"
    edge = {"end": edges[most + 1], "start": edges[most], "middle": middle}[anchor]
    chart.text(float(edge), base - STRIP - 3, percent(float(share[most]), 0), "tick", anchor)


def describe_curve(curve: ReliabilityCurve, who: str) -> str:
    """Say what a reliability diagram shows, bin by bin, for those who cannot see it."""
    words = [f"Reliability diagram of {who}: ECE {percent(curve.ece)}"]
    chance = p_words(curve.p_value)
    words[0] += f", {chance}." if chance else "."
    bins = [
        f"{percent(x, 0)} predicted, {percent(y, 0)} observed"
        for x, y, weight in zip(curve.mean_probability, curve.frequency, curve.weight, strict=True)
        if weight > 0
    ]
    return " ".join([*words, "; ".join(bins) + "."])


def effect_figure(effect: Effect, who: str) -> Markup:
    """Draw what became of the confidences."""
    chart = Chart(unit_axis("confidence before"), unit_axis("probability of the same class after"))
    chart.frame()
    chart.line([0, 1], [0, 1], "diagonal")
    chart.band(effect.before, effect.low, effect.high, "band")
    chart.line(effect.before, effect.median, "curve")
    chart.points(effect.before, effect.median, np.full(len(effect.before), 2.5), "point")
    label = f"What {who} does to the confidence: " + "; ".join(
        f"{percent(a, 0)} becomes {percent(b, 0)}"
        for a, b in zip(effect.before[::4], effect.median[::4], strict=True)
    )
    return wrap(chart.inner(), chart.width, chart.height, label)


def map_figure(found: MapPicture, who: str) -> Markup:
    """Draw the fitted map."""
    x, y = _map_axes(found)
    chart = Chart(x, y)
    chart.frame()
    if found.has_identity:
        low = max(x.low, y.low)
        chart.line([low, 1.0], [low, 1.0], "diagonal")
    for place, curve in enumerate(found.curves):
        if curve.is_line:
            chart.line(curve.x, curve.y, f"line line-{place % 6}")
        else:
            chart.points(curve.x, curve.y, np.full(len(curve.x), 3.0), "point hollow")
    label = f"Calibration map of {who}. {found.note}"
    return wrap(chart.inner(), chart.width, chart.height, label)


def _map_axes(found: MapPicture) -> tuple[Axis, Axis]:
    if found.kind == "affine":
        (curve,) = found.curves
        return nice_axis(curve.x, found.x_label), nice_axis(curve.y, found.y_label, include=1.0)
    if not found.is_log:
        return unit_axis(found.x_label), unit_axis(found.y_label)
    low_x = min(float(curve.x.min()) for curve in found.curves)
    low_y = min(float(curve.y.min()) for curve in found.curves)
    high_y = max(1.0, *(float(curve.y.max()) for curve in found.curves))
    low = min(low_x, low_y)
    return log_axis(low, 1.0, found.x_label), log_axis(low, high_y, found.y_label)


def top_r_figure(before: TopRCurve, after: TopRCurve, who: str) -> Markup:
    """Draw claim minus observation against the rank, before and after."""
    gaps = [100 * (curve.claimed - curve.share) for curve in (before, after)]
    half = 196 * after.spread
    most = float(after.ranks[-1])
    x = log_axis(1.0, most, "r") if most > 30 else _rank_axis(int(most))
    y = nice_axis([*gaps[0], *gaps[1], *half, *-half], "claimed minus observed, points", include=0)
    chart = Chart(x, y)
    chart.frame()
    chart.band(after.ranks, -half, half, "band")
    chart.line([x.low, x.high], [0, 0], "diagonal")
    chart.line(before.ranks, gaps[0], "line line-1")
    chart.line(after.ranks, gaps[1], "curve")
    label = (
        f"Claimed minus observed share of labels among the top r, for {who}: "
        f"{gaps[1][0]:.1f} points at r = 1, {gaps[0][0]:.1f} before calibration"
    )
    return wrap(chart.inner(), chart.width, chart.height, label)


def _rank_axis(most: int) -> Axis:
    step = max(1, -(-most // 8))
    return Axis(1.0 - 0.3, most + 0.3, "r", list(range(1, most + 1, step)))


def forest_figure(comparison: Comparison, chosen: str) -> Markup:
    """Draw the NLL of each method minus that of the baseline, with intervals."""
    rows = [(r.method, r.difference) for r in comparison.results if r.difference is not None]
    rows.sort(key=lambda row: row[1].value)
    if not rows:
        return Markup()
    name = f"NLL minus that of {comparison.baseline}"
    ends = np.array([(gap.low, gap.value, gap.high) for _, gap in rows])
    # A hopeless method would squeeze all others: it runs out of the picture.
    limit = 4 * float(np.nanmedian(np.abs(ends))) + 1e-9
    x = nice_axis(np.clip(ends, -limit, limit).ravel(), name, include=0)
    chart = Chart(x, Axis(0, 1, "", ()), width=400, height=TOP + ROW * len(rows) + BOTTOM, left=104)
    foot = TOP + ROW * len(rows)
    chart.path("".join(f"M{place:.1f} {TOP}V{foot}" for place in chart.xs(x.ticks)), "grid")
    chart.path(f"M{float(chart.xs(0)):.1f} {TOP}V{foot}", "axis")
    for tick, place in zip(x.ticks, chart.xs(x.ticks), strict=True):
        chart.text(place, foot + 14, f"{tick:.6g}", "tick")
    chart.text(float(chart.xs((x.low + x.high) / 2)), foot + 32, x.label)
    for place, (method, gap) in enumerate(rows):
        mark = "▸ " if method == chosen else ""
        y = TOP + ROW * (place + 0.5)
        chart.text(chart.left - 8, y + 4, mark + shorten(method, 15), "", "end")
        _forest_row(chart, gap, y)
    level = comparison.settings["confidence_level"]
    label = f"{name}, with {100 * level:g} % intervals: "
    label += "; ".join(f"{method} {gap.value:+.4f}" for method, gap in rows)
    return wrap(chart.inner(), chart.width, chart.height, label)


def _forest_row(chart: Chart, gap: Difference, y: float) -> None:
    """Draw an interval and its middle, or a number where that is out of the picture."""
    low, value, high = (float(v) for v in chart.xs([gap.low, gap.value, gap.high]))
    is_out = gap.value > chart.x.high
    if np.isfinite(low):
        stop = min(high, chart.width - RIGHT - 50) if is_out else high
        if stop > low:
            chart.path(f"M{low:.1f} {y}H{stop:.1f}", "interval")
    if is_out:
        chart.text(chart.width - RIGHT, y + 4, f"{gap.value:+.2f} →", "", "end")
    else:
        hollow = " hollow" if gap.low <= 0 <= gap.high else ""
        chart.path(f"M{value - 5:.1f} {y}l5 -5l5 5l-5 5z", f"point{hollow}")
