"""The tabs of the page: for each method its diagrams and its map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.metrics.chunk import usual_column
from calibrant.pages.shell import Markup
from calibrant.pages.text import clean
from calibrant.plots.style import p_words, percent
from calibrant.report import figures
from calibrant.report.shares import said_and_seen
from calibrant.report.svg import wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.metrics import ReliabilityCurve
    from calibrant.report.results import Comparison, MethodResult
    from calibrant.report.verdict import Verdict

Picture = dict[str, Any]


def build_panels(comparison: Comparison, verdict: Verdict) -> list[dict[str, Any]]:
    """Return what each tab holds, in the order of the methods."""
    first = comparison.results[0]
    opened = verdict.chosen
    if opened == first.method and len(comparison.results) > 1:
        opened = comparison.results[1].method
    return [
        {
            "method": result.method,
            "title": result.title,
            "is_open": result.method == opened,
            "summary": _summary(result),
            "pairs": _pairs(comparison, place),
            "extras": [] if place == 0 else _extras(first, result),
            "notes": _notes(result),
        }
        for place, result in enumerate(comparison.results)
    ]


def _summary(result: MethodResult) -> str:
    words = f"{said_and_seen(result)}; NLL {result.evaluation.negative_log_likelihood.value:.4f}."
    if result.effect is not None:
        words += (
            f" The most probable class changes in {percent(result.effect.changed)} of the rows."
        )
    return words


def _pairs(comparison: Comparison, place: int) -> list[dict[str, Any]]:
    """Diagrams before and after: of the confidence or the positive class, and of those shown."""
    first, result = comparison.results[0], comparison.results[place]
    usual = usual_column(comparison.n_classes)
    name = None if usual is None else clean(comparison.classes[usual])
    pairs = [{"id": "all", "pictures": _two(first.curve, result.curve, place, "all", result, name)}]
    for j in comparison.shown:
        curves = first.classwise.curves[j], result.classwise.curves[j]
        name = clean(comparison.classes[j])
        pairs.append({"id": f"c{j}", "pictures": _two(*curves, place, f"c{j}", result, name)})
    return pairs


def _two(
    before: ReliabilityCurve,
    after: ReliabilityCurve,
    place: int,
    view: str,
    result: MethodResult,
    name: str | None = None,
) -> list[Picture]:
    """Return the diagram before, whose marks are on the page once and reused, and the one after."""
    inner = figures.reliability(after, is_class=name is not None)
    if place == 0:
        marks = Markup('<g id="before-{}">{}</g>').format(view, inner)
        return [_picture(marks, before, "before calibration", name)]
    marks = Markup('<use href="#before-{}"/>').format(view)
    return [
        _picture(marks, before, "before calibration", name),
        _picture(inner, after, f"after {clean(result.method)}", name),
    ]


def _picture(marks: Markup, curve: ReliabilityCurve, head: str, name: str | None) -> Picture:
    who = head if name is None else f"class {name}, {head}"
    error = f"conf-ECE {percent(curve.ece, 2)}"
    if name is not None:
        error = f"ECE {percent(curve.ece, 2)} in {curve.n_bins} bins"
    chance = p_words(curve.p_value)
    return {
        "svg": wrap(marks, figures.WIDTH, figures.HEIGHT, figures.describe_curve(curve, who)),
        "head": head.capitalize() if head.islower() else head[0].upper() + head[1:],
        "class_name": name,
        "words": f"{error}, {chance}" if chance else error,
    }


def _extras(first: MethodResult, result: MethodResult) -> list[Picture]:
    """Return the map, its effect and, of more than two classes, the top-r curves."""
    who = clean(result.method)
    found: list[Picture] = []

    def add(svg: Markup, head: str, words: str, legend: Sequence[str] = ()) -> None:
        found.append({"svg": svg, "head": head, "words": words, "legend": legend})

    if result.map is not None:
        keys = [curve.name for curve in result.map.curves if curve.is_line]
        add(figures.map_figure(result.map, who), "Calibration map", result.map.note, keys)
    if result.effect is not None:
        words = "Median of the rows, and the middle nine tenths of them as a band."
        add(figures.effect_figure(result.effect, who), "What becomes of the confidence", words)
    if first.top_r is None or result.top_r is None:
        return found
    words = (
        "How much more the r most probable classes claim than they hold; the band is where a "
        "calibrated classifier would be."
    )
    svg = figures.top_r_figure(first.top_r, result.top_r, who)
    add(svg, "Top r", words, ("after", "before"))
    return found


def _notes(result: MethodResult) -> list[str]:
    notes = list(result.warnings)
    solver = None if result.calibrator is None else vars(result.calibrator).get("solver_report_")
    if solver is not None:
        state = "converged" if solver.converged else "NOT converged"
        notes.append(
            f"Fitted in {result.fit_seconds:.2f} s ({solver.solver}, {solver.rounds} "
            f"rounds, {state}: optimality violated by {solver.violation:.1e} at most), applied in "
            f"{result.predict_seconds:.2f} s."
        )
        notes += solver.notes
    return notes
