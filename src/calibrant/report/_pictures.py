"""The pictures of the page: those of ``calibrant.plots``, with words for who cannot see them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _drawing as style
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._pages.shell import Markup
from calibrant._text import clean, p_words, percent
from calibrant.plots import compute_map, draw_map, draw_reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.metrics import ReliabilityCurve
    from calibrant.report._results import Comparison, MethodResult

DIAGRAM, MAP = (3.7, 4.3), (3.7, 3.6)
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
    if isinstance(calibrator, FeatureCalibrator):
        calibrator = calibrator.calibrator_
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
