"""``build_report`` and ``write_report``: a comparison as one self-contained HTML page."""

from __future__ import annotations

import math
import re
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

import calibrant
from calibrant._atomic_file import replace_file
from calibrant._calibrators.methods import methods as all_methods
from calibrant._pages.shell import Markup, render_page
from calibrant._pages.text import clean
from calibrant._predictions import usual_column
from calibrant._trial import UNCALIBRATED
from calibrant.errors import in_words
from calibrant.metrics._table import METRICS, headline
from calibrant.plots._style import p_words, percent
from calibrant.report import _figures as figures
from calibrant.report._tables import (
    distinct_rows,
    group_table,
    key_numbers,
    method_table,
    worth_table,
)
from calibrant.report._verdict import applied_method, describe_claim, reach_verdict, short_list

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant.metrics._reliability import ReliabilityCurve
    from calibrant.report._results import Comparison, MethodResult

STATIC_CLASSES = 20
"""Rows of the class table that are there without scripts."""

SECTIONS = {
    "verdict": "Verdict",
    "methods": "Methods",
    "diagrams": "Diagrams",
    "classes": "Classes",
    "groups": "Groups",
    "worth": "What it is worth",
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
    applied = applied_method(comparison, verdict)
    usual = usual_column(comparison.n_classes)
    columns = _class_columns(comparison, applied)
    groups, worth = group_table(comparison, applied), worth_table(comparison.decisions)
    on_demand = {"groups": groups, "worth": worth}
    sections = {name: words for name, words in SECTIONS.items() if on_demand.get(name, words)}
    if worth is not None:
        sections["worth"] = worth["title"]
    return render_page(
        "calibrant.report",
        title=title,
        sections=[{"id": name, "title": words} for name, words in sections.items()],
        groups=groups,
        worth=worth,
        frames=figures.reliability_frames(figures.lower_end(comparison)),
        is_log=figures.lower_end(comparison) > 0.0,
        comparison=comparison,
        settings=comparison.settings,
        verdict=verdict,
        level=f"{100 * comparison.settings['confidence_level']:g} %",
        key_numbers=key_numbers(comparison, applied),
        table=method_table(comparison, verdict.chosen, short_list(comparison, verdict)),
        forest=figures.forest_figure(comparison, verdict.chosen),
        pictures=_first_pictures(comparison, applied),
        panels=_panels(comparison, verdict.chosen),
        positive=None if usual is None else comparison.classes[usual],
        headline=headline(comparison.n_classes).title,
        class_columns=columns,
        worst=comparison.results[0].classwise.order[:STATIC_CLASSES].tolist(),
        applied=applied,
        python=python_lines(comparison, applied),
        commands=command_lines(comparison, applied, commands),
        facts=_run_facts(comparison),
        numbers=_page_numbers(comparison, columns),
    )


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
    comparison : Comparison
        From :func:`calibrant.report.compare`.
    title : str, default="Calibration report"
        Heading of the page.
    commands : sequence of str, optional
        Command lines that apply the method of the verdict, where the ones that are derived from
        ``comparison.sources`` do not suit.

    Examples
    --------
    >>> from calibrant.report import write_report
    >>> write_report("report.html", comparison)  # doctest: +SKIP
    """
    page = build_report(comparison, title=title, commands=commands).encode("utf-8")
    with replace_file(path) as file:
        file.write(page)


def _class_columns(
    comparison: Comparison, applied: str
) -> list[tuple[str, int, NDArray[np.float64]]]:
    """Head, digits and numbers of each column of the class table."""
    before = comparison.results[0].classwise
    name = applied if applied in comparison.methods else UNCALIBRATED
    after = comparison.result(name).classwise
    return [
        ("test rows", 0, comparison.test_counts.astype(np.float64)),
        ("calibration rows", 0, comparison.val_counts.astype(np.float64)),
        ("share, %", 3, 100 * before.frequency),
        ("predicted before, %", 3, 100 * before.mean_probability),
        ("predicted after, %", 3, 100 * after.mean_probability),
        ("ECE before, %", 3, 100 * before.ece),
        ("ECE after, %", 3, 100 * after.ece),
    ]


def _page_numbers(comparison: Comparison, columns: list[Any]) -> dict[str, Any]:
    """Everything that the script of the page needs, and the metrics for whoever reads it."""
    return {
        "methods": {
            result.method: {
                METRICS[name].title: [_number(v) for v in estimate]
                for name, estimate in result.evaluation.estimates().items()
            }
            for result in comparison.results
        },
        "classes": {
            "names": [clean(name) for name in comparison.classes],
            "order": comparison.results[0].classwise.order.tolist(),
            "shown": comparison.shown,
            "columns": [
                {"digits": digits, "values": [_number(round(v, digits + 1)) for v in own.tolist()]}
                for _, digits, own in columns
            ],
        },
    }


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def python_lines(comparison: Comparison, applied: str) -> str:
    """Lines of Python that fit and apply a method."""
    known = applied in comparison.methods
    calibrator = comparison.result(applied).calibrator if known else None
    if calibrator is None:
        calibrator = calibrant.TemperatureScaling(scores=comparison.settings["scores"])
    fresh = clone(calibrator).set_params(classes=None)
    for key, value in fresh.get_params().items():
        if isinstance(value, np.generic):  # which would be written as np.float64(...)
            fresh.set_params(**{key: value.item()})
    name = type(fresh).__name__
    home = "calibrant" if name in calibrant.__all__ else type(fresh).__module__
    inner = set(re.findall(r"\b[A-Z]\w*(?=\()", repr(fresh))) & set(calibrant.__all__)
    names = ", ".join([name, *sorted(inner - {name})])
    weights = ", sample_weight" if comparison.settings["weights"] else ""
    is_grouped = isinstance(fresh, calibrant.GroupedCalibrator)
    groups, new_groups = (", groups=groups", ", groups=new_groups") if is_grouped else ("", "")
    return (
        f"from {home} import {names}\n\n"
        f"calibrator = {fresh!r}\n"
        f"calibrator.fit(scores, y{weights}{groups})  # the calibration part\n"
        f"probabilities = calibrator.predict_proba(new_scores{new_groups})"
    )


def command_lines(comparison: Comparison, applied: str, commands: Sequence[str] | None) -> str:
    """Command lines that fit and apply a method."""
    if commands is not None:
        return "\n".join(commands)
    if applied not in all_methods():
        return "# a calibrator of your own: apply it in Python"
    # The part of a file that holds two; it is what the command reads by default.
    source = comparison.sources.get("calibration", "calibration.npz").removesuffix(" (val)")
    kind = f" --scores {comparison.settings['scores']}".replace(" --scores probabilities", "")
    return (
        f"calibrant fit {shlex.quote(source)} --method {shlex.quote(applied)}{kind} "
        "--output model.calibrant\n"
        "calibrant apply model.calibrant new.npz --output calibrated.npz"
    )


def _run_facts(comparison: Comparison) -> list[tuple[str, str]]:
    """Sizes, seeds, names and versions."""
    settings = comparison.settings
    seed = in_words(settings["random_state"])
    draws = f"{settings['n_resamples']} for tests and intervals, seed {seed}"
    return [
        *comparison.sources.items(),
        ("calibration rows", f"{settings['n_val']:,}"),
        ("test rows", f"{settings['n_test']:,}"),
        ("classes", f"{comparison.n_classes:,}"),
        ("scores", settings["scores"] + (", weighted rows" if settings["weights"] else "")),
        ("bins", str(settings["n_bins"])),
        ("resamples", draws),
        ("time", f"{comparison.seconds:.1f} s in all"),
        ("made", comparison.created),
        ("versions", ", ".join(f"{name} {v}" for name, v in comparison.versions.items())),
    ]


def _panels(comparison: Comparison, chosen: str) -> list[dict[str, Any]]:
    """Return what each tab holds, in the order of the methods."""
    first, *others = comparison.results
    opened = others[0].method if chosen == first.method and others else chosen
    return [
        {
            "method": label,
            "title": result.title,
            "is_open": result.method == opened,
            "summary": _summary(result),
            "pairs": _pairs(comparison, result),
            "extras": [] if result is first else _extras(comparison, result),
            "notes": _notes(result),
        }
        for label, result in distinct_rows(comparison.results).items()
    ]


def _first_pictures(comparison: Comparison, applied: str) -> list[dict[str, Any]]:
    """Return the diagrams that the page begins with: before calibration, and after it if any."""
    result = comparison.result(applied) if applied in comparison.methods else None
    first, usual = comparison.results[0], usual_column(comparison.n_classes)
    name = None if usual is None else clean(comparison.classes[usual])
    before, low = Markup('<use href="#before-all"/>'), figures.lower_end(comparison)
    pictures = [_picture(before, first.curve, "before calibration", name)]
    if result is not None and result is not first:
        marks = figures.reliability(result.curve, is_class=name is not None, low=low)
        pictures.append(_picture(marks, result.curve, f"after {clean(applied)}", name))
    return pictures


def _summary(result: MethodResult) -> str:
    words = f"{describe_claim(result)}; NLL {result.evaluation.negative_log_likelihood.value:.4f}."
    if result.effect is None:
        return words
    changed = percent(result.effect.changed)
    return f"{words} The most probable class changes in {changed} of the rows."


def _pairs(comparison: Comparison, result: MethodResult) -> dict[str, list[dict[str, Any]]]:
    """Diagrams before, whose marks are on the page once, and after, of each view."""
    first, usual = comparison.results[0], usual_column(comparison.n_classes)
    curves = {"all": (usual, first.curve, result.curve)}
    for j in comparison.shown:
        curves[f"c{j}"] = j, first.classwise.curves[j], result.classwise.curves[j]
    found, low = {}, figures.lower_end(comparison)
    for view, (column, before, after) in curves.items():
        name = None if column is None else clean(comparison.classes[column])
        inner = figures.reliability(after, is_class=name is not None, low=low)
        if result is first:
            marks = Markup('<g id="before-{}">{}</g>').format(view, inner)
            found[view] = [_picture(marks, before, "before calibration", name)]
            continue
        marks = Markup('<use href="#before-{}"/>').format(view)
        head = f"after {clean(result.method)}"
        pictures = (marks, before, "before calibration"), (inner, after, head)
        found[view] = [_picture(*one, name) for one in pictures]
    return found


def _picture(marks: Markup, curve: ReliabilityCurve, head: str, name: str | None) -> dict[str, Any]:
    who = head if name is None else f"class {name}, {head}"
    error = f"conf-ECE {percent(curve.ece, 2)}"
    if name is not None:
        error = f"ECE {percent(curve.ece, 2)} in {curve.n_bins} bins"
    label, chance = figures.describe_curve(curve, who), p_words(curve.p_value)
    return {
        "svg": figures.wrap(marks, figures.WIDTH, figures.HEIGHT, label),
        "head": head.capitalize() if head.islower() else head[0].upper() + head[1:],
        "class_name": name,
        "words": f"{error}, {chance}" if chance else error,
    }


def _extras(comparison: Comparison, result: MethodResult) -> list[tuple[Any, ...]]:
    """Head, picture, words and legend of the map, its effect, and the top-r curves if any."""
    first, who, found = comparison.results[0], clean(result.method), []
    if result.map is not None:
        keys = [curve.name for curve in result.map.curves if curve.is_line]
        picture = figures.map_figure(result.map, who, figures.lower_end(comparison))
        found.append(("Calibration map", picture, result.map.note, keys))
    # Of two classes the map says it all: p becomes q.
    if result.effect is not None and comparison.n_classes > 2:
        words = "Median of the rows, and the middle nine tenths of them as a band."
        picture = figures.effect_figure(result.effect, who)
        found.append(("What becomes of the confidence", picture, words, []))
    if first.top_r is not None and result.top_r is not None:
        words = (
            "How much more the r most probable classes claim than they hold; the band is where a "
            "calibrated classifier would be."
        )
        picture = figures.top_r_figure(first.top_r, result.top_r, who)
        found.append(("Top r", picture, words, ["after", "before"]))
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
