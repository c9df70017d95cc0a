"""The pictures of the page: those of ``calibrant.plots``, with words for who cannot see them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _drawing as style
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._pages.shell import Markup
from calibrant._text import clean, p_words, percent, shorten
from calibrant.plots import compute_map, draw_map, draw_reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.metrics import ReliabilityCurve
    from calibrant.report._results import Comparison, Difference, MethodResult

DIAGRAM, MAP, FOREST_WIDTH = (3.7, 4.3), (3.7, 3.6), 5.6
"""Sizes, in inches; the style sheet scales them."""

RARE = 0.1
"""Share of the positive class below which its diagrams have logarithmic axes."""

SMALLEST = 1e-5
"""Lower end of a logarithmic axis at least."""


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


def reliability_picture(
    curve: ReliabilityCurve,
    place: str,
    method: str,
    class_name: str | None,
    smallest: float = 0.0,
) -> dict[str, Any]:
    """Return a reliability diagram of a method, of the confidence or of a class, and its caption.

    ``place`` is its name in the page.
    """
    head = "before calibration" if method == "uncalibrated" else f"after {clean(method)}"
    who = head if class_name is None else f"class {class_name}, {head}"
    chance = p_words(curve.p_value)
    error = f"conf-ECE {percent(curve.ece, 2)}"
    if class_name is not None:
        error = f"ECE {percent(curve.ece, 2)} in {curve.n_bins} bins"
        curve = replace(curve, kind="the class")  # whose name is in the caption
    bins = [
        f"{percent(x, 0)} predicted, {percent(y, 0)} observed"
        for x, y, weight in zip(curve.mean_probability, curve.frequency, curve.weight, strict=True)
        if weight > 0
    ]
    words = f"{error}, {chance}" if chance else error

    def draw(ax: Axes) -> None:
        draw_reliability(curve, ax, notes=None, smallest=smallest)

    label = f"Reliability diagram of {who}: {words}. {'; '.join(bins)}."
    return {
        "svg": Markup(style.to_svg(draw, DIAGRAM, name=place, label=label)),
        "head": head[0].upper() + head[1:],
        "class_name": class_name,
        "words": words,
    }


def map_picture(result: MethodResult, place: str, smallest: float) -> dict[str, Any]:
    """Return the calibration map of a method; that of two classes has the axes of its diagrams."""
    calibrator: Any = result.calibrator
    if isinstance(calibrator, GroupedCalibrator):
        calibrator = calibrator.for_group(None)
    picture = compute_map(calibrator)
    curves = tuple(own._replace(name=clean(own.name)) for own in picture.curves)
    picture = replace(picture, curves=curves)
    if picture.kind == "two classes":  # the class is named in the caption
        picture = replace(picture, x_label="probability before", y_label="probability after")
        picture = replace(picture, curves=(curves[0]._replace(name="map"),))

    def draw(ax: Axes) -> None:
        draw_map(picture, ax, show_note=False, smallest=smallest)

    label = f"Calibration map of {clean(result.method)}. {picture.note}"
    svg = Markup(style.to_svg(draw, MAP, name=place, label=label))
    return {"svg": svg, "method": result.method, "words": picture.note}


def forest_picture(comparison: Comparison) -> Markup:
    """Draw the NLL of each method minus that of the baseline, with intervals."""
    judged = comparison.distinct_rows()
    rows = [(label, r.difference) for label, r in judged.items() if r.difference is not None]
    rows.sort(key=lambda row: row[1].value)
    if not rows:
        return Markup()
    name = f"NLL minus that of {comparison.baseline}"
    chosen = comparison.verdict.chosen
    labels = [
        ("▸ " if judged[own].method == chosen else "") + shorten(clean(own), 17) for own, _ in rows
    ]

    def draw(ax: Axes) -> None:
        _draw_forest(ax, [gap for _, gap in rows])
        ax.set_yticks(range(len(rows)), [style.literal(own) for own in labels])
        ax.set_xlabel(name)

    words = "; ".join(f"{method} {gap.value:+.4f}" for method, gap in rows)
    level = 100 * comparison.settings["confidence_level"]
    label = f"{name}, with {level:g} % intervals: {words}"
    size = FOREST_WIDTH, 0.6 + 0.3 * len(rows)
    return Markup(style.to_svg(draw, size, name="forest", label=label))


def _draw_forest(ax: Axes, gaps: list[Difference]) -> None:
    """Draw intervals from the top down, and a number where one is out of the picture."""
    ends = np.array([(gap.low, gap.value, gap.high) for gap in gaps])
    low, value, high = np.where(np.isnan(ends), ends[:, 1:2], ends).T
    # A hopeless method would squeeze all others: it runs out of the picture.
    limit = 4 * float(np.nanmedian(np.abs(ends))) + 1e-9
    left, right = min(0.0, max(low.min(), -limit)), max(1e-9, min(high.max(), limit))
    margin = 0.04 * (right - left)
    places, is_out = np.arange(len(gaps)), value > right
    ax.axvline(0.0, color=style.GREY, linewidth=1.2)
    stop = np.where(is_out, 0.8 * right, high)
    ax.hlines(places, np.minimum(low, stop), stop, color=style.BLACK, linewidth=1.6)
    holds_zero = (low <= 0) & (high >= 0)
    for own, face in ((~is_out & holds_zero, "white"), (~is_out & ~holds_zero, style.BLUE)):
        points = ax.scatter(np.maximum(value[own], left), places[own], 30, marker="D", zorder=3)
        points.set(facecolors=face, edgecolors=style.BLUE)
    for place in places[is_out]:
        ax.text(right, place, f"{value[place]:+.2f} →", ha="right", va="center")
    ax.set(xlim=(left - margin, right + margin), ylim=(len(gaps) - 0.4, -0.6))
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)
