"""``build_report`` and ``write_report``: a comparison as one self-contained HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant._atomic_file import replace_file
from calibrant._docstrings import inherit_parameters
from calibrant._pages.shell import Markup, render_page
from calibrant._pages.text import clean
from calibrant.metrics._chunk import usual_column
from calibrant.metrics._table import headline
from calibrant.plots._style import p_words, percent
from calibrant.report import _content as content
from calibrant.report import _figures as figures
from calibrant.report._svg import wrap
from calibrant.report._verdict import describe_claim, reach_verdict

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from calibrant.metrics._reliability import ReliabilityCurve
    from calibrant.report._results import Comparison, MethodResult
    from calibrant.report._verdict import Verdict

STATIC_CLASSES = 20
"""Rows of the class table that are there without scripts."""

SECTIONS = {
    "verdict": "Verdict",
    "methods": "Methods",
    "diagrams": "Diagrams",
    "classes": "Classes",
    "apply": "How to apply it",
    "run": "What was run",
}


def build_report(
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> str:
    """Return the page: no network, no other files, names of classes and files as plain text.

    Parameters
    ----------
    comparison : Comparison
        From :func:`calibrant.report.compare`.
    title : str, default="Calibration report"
        Heading of the page.
    commands : sequence of str, optional
        Command lines that apply the method of the verdict, where the ones that are derived from
        ``comparison.sources`` do not suit.

    Returns
    -------
    page : str
        HTML.

    Examples
    --------
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.report import build_report, compare
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> page = build_report(compare(y, scores, new_y, new_scores, "ts", n_resamples=20))
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'
    """
    verdict = reach_verdict(comparison)
    settings = comparison.settings
    applied = content.applied_method(comparison, verdict)
    columns, rows = content.method_table(comparison, verdict)
    return render_page(
        "calibrant.report",
        title=title,
        sections=[{"id": name, "title": words} for name, words in SECTIONS.items()],
        frames=figures.reliability_frames(),
        baseline=comparison.baseline,
        created=comparison.created,
        n_methods=len(comparison.results),
        n_val=f"{settings['n_val']:,}",
        n_test=f"{settings['n_test']:,}",
        n_classes=comparison.n_classes,
        n_bins=settings["n_bins"],
        level=f"{100 * settings['confidence_level']:g} %",
        has_intervals=settings["n_resamples"] > 0,
        verdict=verdict,
        columns=columns,
        rows=rows,
        failures=comparison.failures,
        forest=figures.forest_figure(comparison, verdict.chosen),
        panels=build_panels(comparison, verdict),
        overall=_overall(comparison),
        headline=headline(comparison.n_classes).title,
        views={f"c{j}": comparison.classes[j] for j in comparison.shown},
        classes=comparison.classes,
        class_columns=content.class_columns(comparison, applied),
        worst=comparison.results[0].classwise.order[:STATIC_CLASSES].tolist(),
        applied=applied,
        python=content.python_lines(comparison, applied),
        commands=content.command_lines(comparison, applied, commands),
        facts=content.run_facts(comparison),
        numbers=content.page_numbers(comparison, applied),
    )


def _overall(comparison: Comparison) -> str:
    """Name what the first diagram of a method is of."""
    usual = usual_column(comparison.n_classes)
    if usual is None:
        return "the confidence, all classes"
    return f"class {clean(comparison.classes[usual])}, the positive one"


@inherit_parameters(build_report)
def write_report(
    path: str | os.PathLike[str],
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> None:
    """Write the page to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        The file to write.

    Examples
    --------
    >>> from calibrant.report import write_report
    >>> write_report("report.html", comparison)  # doctest: +SKIP
    """
    page = build_report(comparison, title=title, commands=commands).encode("utf-8")
    with replace_file(path) as file:
        file.write(page)


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
    words = f"{describe_claim(result)}; NLL {result.evaluation.negative_log_likelihood.value:.4f}."
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
) -> list[dict[str, Any]]:
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


def _picture(marks: Markup, curve: ReliabilityCurve, head: str, name: str | None) -> dict[str, Any]:
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


def _extras(first: MethodResult, result: MethodResult) -> list[dict[str, Any]]:
    """Return the map, its effect and, of more than two classes, the top-r curves."""
    who = clean(result.method)
    found: list[dict[str, Any]] = []

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
