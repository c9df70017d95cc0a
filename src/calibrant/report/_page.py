"""``build_report`` and ``write_report``: a comparison as one self-contained HTML page."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

import calibrant
from calibrant import _drawing as style
from calibrant._atomic_file import replace_file
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._pages.shell import Markup, render_page
from calibrant._predictions import usual_column
from calibrant._text import clean, p_words, percent
from calibrant.errors import in_words
from calibrant.metrics import SIGNIFICANT, headline
from calibrant.plots import compute_map, draw_map, draw_reliability, find_lower_end
from calibrant.report import _tables as tables

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from calibrant.report._results import Comparison, MethodResult

SIZE = (3.7, 3.6)
"""Size of diagrams, in inches; the style sheet scales them."""


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
        Command lines that apply the method of the verdict, to be shown beside those of Python.

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
    verdict = comparison.verdict
    listed, others = tables.method_tables(comparison)
    in_view = [comparison.result(method) for method in verdict.in_view]
    by_group = None if comparison.by_group is None else comparison.by_group[verdict.applied]
    smallest = lower_end(comparison)
    sections = {
        "verdict": "Verdict",
        "methods": "Methods",
        "maps": "Calibration maps" if len(in_view) > 1 else "",
        "classes": "Classes" if comparison.n_classes > 2 else "",
        "segments": "Segments" if comparison.segments else "",
        "groups": "Groups" if by_group is not None else "",
        "worth": "What it is worth" if comparison.decisions is not None else "",
        "apply": "How to apply it",
        "run": "What was run",
    }
    return render_page(
        "calibrant.report",
        title=title,
        sections=[{"id": name, "title": words} for name, words in sections.items() if words],
        comparison=comparison,
        settings=comparison.settings,
        verdict=verdict,
        level=f"{100 * comparison.settings['confidence_level']:g} %",
        is_log=smallest > 0.0,
        headline=headline(comparison.n_classes).title,
        pictures=[reliability_picture(comparison, result, smallest) for result in in_view],
        methods=listed,
        others=others,
        maps=[map_picture(result, smallest) for result in in_view if result.calibrator is not None],
        warnings=[(result.method, text) for result in in_view for text in result.warnings],
        classes=tables.class_table(comparison),
        segments=[
            (method, tables.segment_table(segments), segments.describe())
            for method, segments in (comparison.segments or {}).items()
        ],
        groups=tables.group_table(comparison),
        is_chance=by_group is not None and not by_group.rows[0].adjusted_p_value <= SIGNIFICANT,
        worth=tables.decision_table(comparison.decisions),
        python=python_lines(comparison, verdict.applied),
        commands=None if commands is None else "\n".join(commands),
        facts=_run_facts(comparison),
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
    comparison, title, commands
        As in :func:`build_report`.

    Examples
    --------
    >>> from calibrant.report import write_report
    >>> write_report("report.html", comparison)  # doctest: +SKIP
    """
    page = build_report(comparison, title=title, commands=commands).encode("utf-8")
    with replace_file(path) as file:
        file.write(page)


def python_lines(comparison: Comparison, applied: str) -> str:
    """Lines of Python that fit and apply a method."""
    calibrator = comparison.result(applied).calibrator
    if calibrator is None:
        calibrator = calibrant.TemperatureScaling(scores=comparison.settings["scores"])
    fresh = clone(calibrator).set_params(classes=None)
    module = type(fresh).__module__
    if module.startswith("calibrant."):
        module = module.partition("._")[0]  # the public module above it
    name, code = type(fresh).__name__, repr(fresh)
    parts = set(re.findall(r"\b[A-Z]\w*(?=\()", code)) & set(calibrant.__all__)
    names = ", ".join([name, *sorted(parts - {name})])
    numpy = "import numpy as np\n" if "np." in code else ""
    weights = ", sample_weight" if comparison.settings["weights"] else ""
    known, new = "", ""
    if isinstance(fresh, GroupedCalibrator):
        known, new = ", groups=groups", ", groups=new_groups"
    if isinstance(fresh, FeatureCalibrator):
        known, new = ", features=features", ", features=new_features"
    return (
        f"{numpy}from {module} import {names}\n\n"
        f"calibrator = {code}\n"
        f"calibrator.fit(scores, y{weights}{known})  # the calibration part\n"
        f"probabilities = calibrator.predict_proba(new_scores{new})"
    )


def _run_facts(comparison: Comparison) -> list[tuple[str, str]]:
    """Sizes, seeds, names and versions."""
    settings = comparison.settings
    seed = in_words(settings["random_state"])
    return [
        *comparison.sources.items(),
        ("rows", f"{settings['n_val']:,} for calibration, {settings['n_test']:,} for the test"),
        ("scores", settings["scores"] + (", weighted rows" if settings["weights"] else "")),
        ("bins", str(settings["n_bins"])),
        ("resamples", f"{settings['n_resamples']} for tests and intervals, seed {seed}"),
        ("time", f"{comparison.seconds:.1f} s in all"),
        ("versions", ", ".join(f"{name} {v}" for name, v in comparison.versions.items())),
    ]


def lower_end(comparison: Comparison) -> float:
    """Return the lower end of logarithmic axes where the positive class is rare, else 0."""
    is_one = comparison.n_classes == 2
    return find_lower_end([result.curve for result in comparison.results]) if is_one else 0.0


def reliability_picture(
    comparison: Comparison, result: MethodResult, smallest: float
) -> dict[str, Any]:
    """Return the diagram of the confidence, or of the positive class of two, and its caption."""
    curve, usual = result.curve, usual_column(comparison.n_classes)
    head = "after " + clean(result.method) if result.calibrator else "before calibration"
    error = f"conf-ECE {percent(curve.ece, 2)}"
    if usual is not None:
        name = clean(comparison.classes[usual])
        head = f"class {name}, {head}"
        error = f"ECE {percent(curve.ece, 2)} in {curve.n_bins} bins"
        curve = replace(curve, kind="the class")  # whose name is in the caption
    chance = p_words(curve.p_value).replace(" ", "\N{NO-BREAK SPACE}")
    words = ", ".join(filter(None, (error, chance)))
    bins = [
        f"{percent(x, 0)} predicted, {percent(y, 0)} observed"
        for x, y, weight in zip(curve.mean_probability, curve.frequency, curve.weight, strict=True)
        if weight > 0
    ]

    def draw(ax: Axes) -> None:
        draw_reliability(curve, ax, notes=None, smallest=smallest)

    label = f"Reliability diagram of {head}: {words}. {'; '.join(bins)}."
    svg = style.to_svg(draw, SIZE, name=f"diagram of {result.method}", label=label)
    return {"svg": Markup(svg), "head": head[0].upper() + head[1:], "words": words}


def map_picture(result: MethodResult, smallest: float) -> dict[str, Any]:
    """Return the calibration map of a method; that of two classes has the axes of its diagrams."""
    calibrator: Any = result.calibrator
    if isinstance(calibrator, GroupedCalibrator):
        calibrator = calibrator.for_group(None)
    if isinstance(calibrator, FeatureCalibrator):
        calibrator = calibrator.calibrator_
    picture = compute_map(calibrator)
    curves = tuple(curve._replace(name=clean(curve.name)) for curve in picture.curves)
    if picture.kind == "two classes":  # the class is named in the caption
        curves = (curves[0]._replace(name="map"),)
        picture = replace(picture, x_label="probability before", y_label="probability after")
    picture = replace(picture, curves=curves)

    def draw(ax: Axes) -> None:
        draw_map(picture, ax, smallest=smallest)

    label = f"Calibration map of {clean(result.method)}. {picture.note}"
    svg = style.to_svg(draw, SIZE, name=f"map of {result.method}", label=label)
    return {"svg": Markup(svg), "head": clean(result.method), "words": picture.note}
